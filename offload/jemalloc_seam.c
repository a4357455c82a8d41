/* jemalloc_seam.c: what jemalloc gets in place of the process's environment; see jemalloc.cmake.
 *
 * The settings make it hand out extents exactly as they came: no caches of its own, no threads, no merging of
 * what is retained. The program's MALLOC_CONF is about the program's malloc, not about this one.
 */
#include <stddef.h>
#include <sys/types.h>

/* jemalloc reads it once, when it starts. Its own declaration has the pointer variable: nothing writes it. */
extern const char *const settings __asm__("malloc_conf");
const char *const settings =
    "narenas:1,tcache:false,background_thread:false,retain:false,"
    "dirty_decay_ms:0,muzzy_decay_ms:0,oversize_threshold:0,lg_extent_max_active_fit:0,"
    "prof:false,abort_conf:false";

char *ebb_jemalloc_secure_getenv(const char *name);
ssize_t ebb_jemalloc_readlink(const char *path, char *out, size_t bytes);
void *ebb_jemalloc_dlsym(void *handle, const char *name);
int ebb_jemalloc_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

char *ebb_jemalloc_secure_getenv(const char *name)
{
    (void)name;
    return NULL;
}

ssize_t ebb_jemalloc_readlink(const char *path, char *out, size_t bytes)
{
    (void)path, (void)out, (void)bytes;
    return -1;
}

/* Asked for pthread_create, for background threads. */
void *ebb_jemalloc_dlsym(void *handle, const char *name)
{
    (void)handle, (void)name;
    return NULL;
}

/* In a forked child ebb does nothing, so its heap need not be fit for use there; and no fork shall wait for a
 * registration. */
int ebb_jemalloc_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}

/* The profiler's; it is off and nothing calls them. */
double ebb_jemalloc_exp(double x);
double ebb_jemalloc_log(double x);
double ebb_jemalloc_round(double x);
int ebb_jemalloc__Unwind_Backtrace(void *visit, void *context);
unsigned long ebb_jemalloc__Unwind_GetIP(void *context);

double ebb_jemalloc_exp(double x)
{
    return x;
}

double ebb_jemalloc_log(double x)
{
    return x;
}

double ebb_jemalloc_round(double x)
{
    return x;
}

int ebb_jemalloc__Unwind_Backtrace(void *visit, void *context)
{
    (void)visit, (void)context;
    return 0;
}

unsigned long ebb_jemalloc__Unwind_GetIP(void *context)
{
    (void)context;
    return 0;
}
