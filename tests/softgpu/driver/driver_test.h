/* driver_test.h: what the driver's test programs share: a context, the kernels of kernels.cu, checked calls.
 */
#ifndef DRIVER_TEST_H
#define DRIVER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#define CHUNK    ((size_t)2 << 20)
#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext test_context;
static CUmodule test_module;

static inline int driver_setup(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&test_context, 0));
    OK(cuCtxSetCurrent(test_context));
    return cuModuleLoad(&test_module, KERNELS) == CUDA_SUCCESS ? 0 : -1;
}

static inline CUfunction kernel(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, test_module, name));
    return f;
}

static inline unsigned slices(int n)
{
    return (unsigned)((n + 1023) / 1024);
}

static inline void launch_fill(CUstream stream, CUdeviceptr p, float value, int n)
{
    void *args[] = {&p, &value, &n};
    OK(cuLaunchKernel(kernel("_Z4fillPffi"), slices(n), 1, 1, 128, 1, 1, 0, stream, args, NULL));
}

/* About `rounds` nanoseconds. */
static inline void launch_slow_store(CUstream stream, CUdeviceptr p, int value, unsigned rounds)
{
    void *args[] = {&p, &value, &rounds};
    OK(cuLaunchKernel(kernel("_Z10slow_storePiij"), 1, 1, 1, 32, 1, 1, 0, stream, args, NULL));
}

/* What is issued to the stream from here on waits for let_go(). */
static atomic_int gate;
static inline void wait_for_gate(void *data)
{
    (void)data;
    while (!atomic_load(&gate))
        usleep(1000);
}
static inline void hold(CUstream stream)
{
    atomic_store(&gate, 0);
    OK(cuLaunchHostFunc(stream, wait_for_gate, NULL));
}
static inline void let_go(void)
{
    atomic_store(&gate, 1);
}

static inline CUdeviceptr device_alloc(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

static inline int read_int(CUdeviceptr p)
{
    int value;
    OK(cuMemcpyDtoH(&value, p, sizeof value));
    return value;
}

static inline CUmemAllocationProp device_memory(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

#endif
