/* disk_faults.c: preloaded before libebb.so, it stands between ebb and its file. DISK_FAULT=CALL@N[+]=WHAT: the N-th such call, with + each from then
 * on. CALL: open, allocate, write, read. WHAT: the number of an error, `short` (half of it is done) or `flip` (a bit of what is read is another).
 * Only files without a name are meant. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum what { NOTHING = 0, SHORT = -1, FLIP = -2 }; /* else an error */

static int fault(const char *call)
{
    static atomic_uint count;
    char name[16] = "", what[16] = "", more = 0;
    unsigned n = 0;
    const char *rule = getenv("DISK_FAULT");
    if (!rule || (sscanf(rule, "%15[a-z]@%u=%15s", name, &n, what) != 3 &&
                  sscanf(rule, "%15[a-z]@%u%c=%15s", name, &n, &more, what) != 4))
        return NOTHING;
    if (strcmp(name, call))
        return NOTHING;
    const unsigned now = ++count;
    if (more ? now < n : now != n)
        return NOTHING;
    return !strcmp(what, "short") ? SHORT : !strcmp(what, "flip") ? FLIP : atoi(what);
}

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static bool is_nameless(int descriptor)
{
    struct stat s;
    return !fstat(descriptor, &s) && !s.st_nlink;
}

static bool fails(int what)
{
    if (what > 0)
        errno = what;
    return what > 0;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if ((flags & O_TMPFILE) == O_TMPFILE && fails(fault("open")))
        return -1;
    return ((int (*)(const char *, int, ...))real("open"))(path, flags, mode);
}

int fallocate(int descriptor, int mode, off_t at, off_t bytes)
{
    if (fails(fault("allocate")))
        return -1;
    return ((int (*)(int, int, off_t, off_t))real("fallocate"))(descriptor, mode, at, bytes);
}

ssize_t pwrite(int descriptor, const void *from, size_t bytes, off_t at)
{
    const int what = is_nameless(descriptor) ? fault("write") : NOTHING;
    if (fails(what))
        return -1;
    if (what == SHORT && bytes > 4096)
        bytes /= 2;
    return ((ssize_t(*)(int, const void *, size_t, off_t))real("pwrite"))(descriptor, from, bytes, at);
}

ssize_t pread(int descriptor, void *to, size_t bytes, off_t at)
{
    const int what = is_nameless(descriptor) ? fault("read") : NOTHING;
    if (fails(what))
        return -1;
    if (what == SHORT && bytes > 4096)
        bytes /= 2;
    const ssize_t n = ((ssize_t(*)(int, void *, size_t, off_t))real("pread"))(descriptor, to, bytes, at);
    if (what == FLIP && n > 0)
        ((unsigned char *)to)[n / 3] ^= 1;
    return n;
}
