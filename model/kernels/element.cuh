/* element.cuh: elements of either type (dtype.h), computed with as floats.
 *
 * Kernels are templates over the element, and read and write it by load_f and store_f alone. Rounding to bf16 is to the
 * nearest, ties to even, in integer arithmetic, which vectorises on a CPU; NaN stays NaN. */
#ifndef EBB_MODEL_ELEMENT_CUH
#define EBB_MODEL_ELEMENT_CUH

#include "block.cuh"
#include "dtype.h"

typedef struct bf16 {
    uint16_t bits;
} bf16;

static __device__ __forceinline__ float load_f(float x)
{
    return x;
}

static __device__ __forceinline__ float load_f(bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

static __device__ __forceinline__ void store_f(float *to, float x)
{
    *to = x;
}

static __device__ __forceinline__ void store_f(bf16 *to, float x)
{
    const uint32_t bits = __float_as_uint(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const uint32_t quiet = bits | 0x400000u;
    to->bits = (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

/* KERNEL_COST's unit: how many floats n elements are as large as. */
template <typename E> static inline double as_floats(double n)
{
    return n * (double)sizeof(E) / 4.0;
}

/* INSTANCE(E) for each type of elements; INSTANCE(flag, E) for each flag as well; INSTANCE(flag, flag, E). */
#define FOR_TYPES(INSTANCE)                                                                                  \
    INSTANCE(float);                                                                                         \
    INSTANCE(bf16)
#define FOR_FLAGS(INSTANCE)                                                                                  \
    INSTANCE(false, float);                                                                                  \
    INSTANCE(true, float);                                                                                   \
    INSTANCE(false, bf16);                                                                                   \
    INSTANCE(true, bf16)
#define FOR_TWO_FLAGS(INSTANCE)                                                                              \
    INSTANCE(false, false, float);                                                                           \
    INSTANCE(false, true, float);                                                                            \
    INSTANCE(true, false, float);                                                                            \
    INSTANCE(true, true, float);                                                                             \
    INSTANCE(false, false, bf16);                                                                            \
    INSTANCE(false, true, bf16);                                                                             \
    INSTANCE(true, false, bf16);                                                                             \
    INSTANCE(true, true, bf16)

/* Calls FUNCTION<float>(...) or FUNCTION<bf16>(...). */
#define FOR_DTYPE(type, FUNCTION, ...)                                                                       \
    do {                                                                                                     \
        if ((type) == DTYPE_BF16)                                                                            \
            FUNCTION<bf16>(__VA_ARGS__);                                                                     \
        else                                                                                                 \
            FUNCTION<float>(__VA_ARGS__);                                                                    \
    } while (0)

#endif
