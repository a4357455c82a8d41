/* runtime_test.h: what the runtime's test programs share. */
#ifndef RUNTIME_TEST_H
#define RUNTIME_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define OK(call) assert_int_equal((call), cudaSuccess)

static inline void *device_alloc(size_t bytes)
{
    void *p;
    OK(cudaMalloc(&p, bytes));
    return p;
}

/* Fails unless all of host[n] is `value`. */
static inline void assert_floats(const float *host, int n, float value)
{
    for (int i = 0; i < n; i++)
        if (host[i] != value)
            fail_msg("element %d is %g, not %g", i, (double)host[i], (double)value);
}

#endif
