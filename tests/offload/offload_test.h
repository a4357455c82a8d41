/* offload_test.h: what the tests of offload/ share: the driver's table filled from libcuda.so.1, and a
 * current context. */
#ifndef OFFLOAD_TEST_H
#define OFFLOAD_TEST_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/base/driver.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static inline void *driver_function(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    OK(ebb_driver.cuGetProcAddress_v2(name, &function, 12000, 0, &found));
    assert_non_null(function);
    return function;
}

static inline int driver_setup(void **state)
{
    (void)state;
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        exit(77);
    OK(ebb_driver_fill((PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2")));
    OK(((PFN_cuInit_v2000)driver_function("cuInit"))(0));
    OK(((PFN_cuDevicePrimaryCtxRetain_v7000)driver_function("cuDevicePrimaryCtxRetain"))(&context, 0));
    OK(((PFN_cuCtxSetCurrent_v4000)driver_function("cuCtxSetCurrent"))(context));
    return 0;
}

#endif
