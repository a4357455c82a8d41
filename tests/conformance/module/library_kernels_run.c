/* behaviour: a library belongs to no context: its kernels are launched in the current one, also cast to a function, and have
 * parameters and names.
 * rules: none
 * source: CUDA driver API, Library Management
 */
#include "conformance.h"

CONFORMANCE
{
    CUlibrary library;
    OK(cuLibraryLoadFromFile(&library, conformance_kernels(), NULL, NULL, 0, NULL, NULL, 0));
    CUkernel k;
    OK(cuLibraryGetKernel(&k, library, "fill"));
    const char *name = NULL;
    OK(cuKernelGetName(&name, k));
    CHECK(name && !strcmp(name, "fill"));
    size_t offset, size;
    OK(cuKernelGetParamInfo(k, 0, &offset, &size));
    CHECK(offset == 0 && size == 8);
    CUfunction f;
    OK(cuKernelGetFunction(&f, k));
    CUdeviceptr p = device_alloc(64);
    int value = 2, n = 1;
    void *a[] = {&p, &value, &n};
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, a, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 2);
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, device));
    CUdeviceptr q = device_alloc(64);
    void *b[] = {&q, &value, &n};
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, b, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(q) == 2);
    OK(cuCtxDestroy(other));
    unsigned count = 0;
    OK(cuLibraryGetKernelCount(&count, library));
    CHECK(count >= 3);
    CUkernel first;
    OK(cuLibraryEnumerateKernels(&first, 1, library));
    OK(cuLibraryUnload(library));
}
