#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/base/thread.h"

void ebb_log(ebb_log_level_t level, const char *format, ...)
{
    if (level > ebb_options.log_level)
        return;
    char line[1024];
    const ebb_process_rank_t rank = ebb_options.rank;
    int n = rank.count > 1 ? snprintf(line, sizeof line, "ebb (rank %d of %d): ", rank.number, rank.count)
                           : snprintf(line, sizeof line, "ebb: ");
    if (ebb_this_thread.device)
        n += snprintf(line + n, sizeof line - (size_t)n, "device %d: ", ebb_this_thread.device - 1);
    va_list args;
    va_start(args, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    size_t length = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    /* One write: lines of several threads and of the program do not mix. */
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}
