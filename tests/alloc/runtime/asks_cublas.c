/* asks_cublas.c: the least program of NVIDIA's cuBLAS, which brings a runtime of its own. 77: there is none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    void *handle = NULL, *library = dlopen("libcublas.so.13", RTLD_NOW);
    int (*create)(void **) = library ? (int (*)(void **))dlsym(library, "cublasCreate_v2") : NULL;
    if (!create) {
        puts(dlerror());
        return 77;
    }
    return create(&handle) == 0; /* the driver is none */
}
