/* failing_malloc.c: a library to be preloaded before libebb.so, under which one of libebb's allocations of host memory fails.
 *
 *   FAILING_MALLOC=N    the N-th of them (from 1), which is said in a line on stderr
 *   FAILING_MALLOC=0    none; each says "malloc()" on stderr instead, in a line like the software device's trace
 *
 * Others than libebb's are not counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);

static uintptr_t first, last; /* of libebb's code; 0: not known yet */

static int find_code(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!strstr(info->dlpi_name, "/libebb.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            last = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        }
    return 1;
}

/* Before anything runs on a second thread. */
static __attribute__((constructor)) void set_up(void)
{
    dl_iterate_phdr(find_code, NULL);
}

static bool fails(const void *caller)
{
    static atomic_ulong count;
    static const char line[] = "0 malloc() = 0\n";
    const char *wanted = getenv("FAILING_MALLOC");
    if ((uintptr_t)caller < first || (uintptr_t)caller >= last || !wanted)
        return false;
    const unsigned long nth = strtoul(wanted, NULL, 10), here = atomic_fetch_add(&count, 1) + 1;
    if (!nth && write(STDERR_FILENO, line, sizeof line - 1) < 0)
        return false;
    if (here != nth)
        return false;
    static const char failed[] = "malloc fails as FAILING_MALLOC wants\n";
    (void)!write(STDERR_FILENO, failed, sizeof failed - 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, bytes);
}
