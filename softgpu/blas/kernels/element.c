/* element.c: between fp32 and the types that are stored. Without branches, so that the loops vectorise; and never
 * through a subnormal operand, which a process with flush-to-zero would lose.
 *
 * bf16 is the upper half of fp32. fp16 has 5 exponent bits, bias 15, and 10 of mantissa (IEEE 754-2019, binary16).
 */
#include "softgpu/blas/element.h"

#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float from_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float x)
{
    const uint32_t u = bits_of(x), rounded = u + 0x7fff + (u >> 16 & 1);
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u | 0x400000) >> 16 : rounded >> 16);
}

static inline float from_f16(uint16_t h)
{
    const uint32_t magnitude = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
    /* Normal numbers get the other bias; infinity and NaN the largest exponent. */
    const uint32_t normal = (magnitude << 13) + ((magnitude >= 0x7c00 ? 224u : 112u) << 23);
    /* Subnormal ones are integers in units of 2^-24. */
    const uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    return float_of(sign | (magnitude < 0x400 ? subnormal : normal));
}

static inline uint16_t to_f16(float x)
{
    const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    /* Normal: the mantissa is cut to 10 bits; a carry moves into the exponent, up to infinity. */
    const uint32_t moved = magnitude - (112u << 23), normal = (moved + 0xfff + (moved >> 13 & 1)) >> 13;
    /* Below 2^-14: 0.5 has its last place at 2^-24, so that the addition rounds to it. */
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    uint32_t h = magnitude < (113u << 23) ? subnormal : normal;
    h = magnitude >= 0x47800000 ? 0x7c00 : h; /* 2^16 and more */
    h = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x1ff) : h;
    return (uint16_t)(sign | h);
}

#define LOAD(type, convert)                                                                                  \
    {                                                                                                        \
        const type *p = from;                                                                                \
        if (stride == 1)                                                                                     \
            for (int64_t i = 0; i < count; i++)                                                              \
                to[i] = convert(p[i]);                                                                       \
        else                                                                                                 \
            for (int64_t i = 0; i < count; i++)                                                              \
                to[i] = convert(p[i * stride]);                                                              \
    }

#define STORE(type, convert)                                                                                 \
    {                                                                                                        \
        type *p = to;                                                                                        \
        if (stride == 1)                                                                                     \
            for (int64_t i = 0; i < count; i++)                                                              \
                p[i] = convert(from[i]);                                                                     \
        else                                                                                                 \
            for (int64_t i = 0; i < count; i++)                                                              \
                p[i * stride] = convert(from[i]);                                                            \
    }

void element_load(float *restrict to, const void *restrict from, int64_t count, int64_t stride, int32_t type)
{
    if (type == CUDA_R_16BF)
        LOAD(uint16_t, from_bf16)
    else if (type == CUDA_R_16F)
        LOAD(uint16_t, from_f16)
    else
        LOAD(float, )
}

void element_store(void *restrict to, const float *restrict from, int64_t count, int64_t stride, int32_t type)
{
    if (type == CUDA_R_16BF)
        STORE(uint16_t, to_bf16)
    else if (type == CUDA_R_16F)
        STORE(uint16_t, to_f16)
    else
        STORE(float, )
}
