/* live_path.c: see live.h. Apart, because `ebb top` needs it without the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/run/stats/live.h"

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
