/* recording_driver.c: a libcuda.so.1 that writes down who looks up what (to the file RECORD_TO), finds every name,
 * and fails when it comes to work. NVIDIA's runtime does not start on it, but it looks everything up first.
 *
 * A line per look-up: name, version, flags, and the object that asked.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static CUresult fine(void)
{
    return CUDA_SUCCESS;
}

static CUresult refuse(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult get_version(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static void record(const char *name, int version, unsigned long long flags, void *caller)
{
    const char *path = getenv("RECORD_TO");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    Dl_info info = {0};
    char line[512];
    if (fd < 0)
        return;
    dladdr(caller, &info);
    const char *base = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    int n = snprintf(line, sizeof line, "%s %d %llu %s\n", *name ? name : "-", version, flags,
                     base             ? base + 1
                     : info.dli_fname ? info.dli_fname
                                      : "?");
    if (write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status);

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    record(name, version, flags, __builtin_return_address(0));
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (!strcmp(name, "cuGetProcAddress"))
        *out = (void *)cuGetProcAddress_v2;
    else if (!strcmp(name, "cuDriverGetVersion"))
        *out = (void *)get_version;
    else
        *out = !strcmp(name, "cuInit") ? (void *)fine : (void *)refuse;
    return CUDA_SUCCESS;
}
