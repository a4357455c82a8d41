/* shared.c: what the command (`ebb top`) needs as well, apart so that it links nothing else of libebb.so. See live.h, stats.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/run/stats/live.h"
#include "ckpt/run/stats/stats.h"

bool ebb_live_path(pid_t process, char *out, size_t room)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat s;
    int n;
    if (runtime && *runtime == '/' && !stat(runtime, &s) && s.st_uid == geteuid())
        n = snprintf(out, room, "%s/ebb-%d", runtime, (int)process);
    else
        n = snprintf(out, room, "/dev/shm/ebb-%u-%d", (unsigned)geteuid(), (int)process);
    return n > 0 && (size_t)n < room;
}

void ebb_devices_print(const ebb_device_list_t *list, FILE *out)
{
    fputs(", \"devices\": [", out);
    for (uint32_t i = 0; i < list->count; i++) {
        const char *between = i ? ", {" : "{";
#define X(key, meaning)                                                                                      \
    fprintf(out, "%s\"" #key "\": %" PRIu64, between, list->device[i].key);                                  \
    between = ", ";
        EBB_DEVICE_STATISTICS(X)
#undef X
        fputs("}", out);
    }
    fputs("]", out);
}
