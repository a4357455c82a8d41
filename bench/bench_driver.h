/* bench_driver.h: what the benchmarks of the layer share: a context, a clock, checked calls. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define OK(call)                                                                                             \
    do {                                                                                                     \
        CUresult ok_ = (call);                                                                               \
        if (ok_) {                                                                                           \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)ok_);                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static inline void open_device(void)
{
    CUcontext context;
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

/* Of this thread: what else runs on the machine counts as little as can be. */
static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* xorshift64* (Vigna 2016): the same numbers everywhere. */
static inline uint64_t random64(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

#endif
