/* asks.c: the least program of NVIDIA's runtime, linked against the static and against the shared one. With
 * arguments, NAME VERSION FLAGS ..., it asks for those itself and prints who answers for each. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int answer(int count, char **list)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    PFN_cuGetProcAddress_v12000 get =
        driver ? (PFN_cuGetProcAddress_v12000)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    for (int i = 0; get && i + 2 < count; i += 3) {
        CUdriverProcAddressQueryResult status;
        void *p = NULL;
        Dl_info info = {0};
        if (get(list[i], &p, atoi(list[i + 1]), strtoull(list[i + 2], NULL, 10), &status) ||
            !dladdr(p, &info))
            return 2;
        puts(strrchr(info.dli_fname, '/') + 1);
    }
    return !get;
}

int main(int argc, char **argv)
{
    int count;
    if (argc > 1)
        return answer(argc - 1, argv + 1);
    return cudaGetDeviceCount(&count) == cudaSuccess; /* the driver is none */
}
