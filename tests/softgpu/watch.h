/* watch.h: for test programs that have a dlsym of their own, as a preloaded layer would, and watch who asks
 * it. Wants _GNU_SOURCE. */
#ifndef SOFTGPU_TEST_WATCH_H
#define SOFTGPU_TEST_WATCH_H

#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

/* cuGetProcAddress_v2 */
typedef CUresult (*lookup_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* What the C library's dlsym finds, which the program's own hides. */
static inline void *libc_dlsym(void *object, const char *name)
{
    static void *(*found)(void *, const char *);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && !found; i++) {
        void *symbol = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&found, &symbol, sizeof found);
    }
    return found(object, name);
}

/* Does an address of code, such as who called, lie in a library of this name? */
static inline int address_is_in(const void *address, const char *library)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, library) != NULL;
}

#endif
