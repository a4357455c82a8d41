/* element.h: fp32 and its shorter relatives, in software. */
#ifndef EBB_MODEL_FILES_ELEMENT_H
#define EBB_MODEL_FILES_ELEMENT_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* To the nearest, of two the even one; a NaN stays one. */
static inline uint16_t bf16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float float_of_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) { /* zero, or a fraction times 2^-24 */
        float small = (float)fraction * 0x1p-24f;
        return float_of_bits(bits_of_float(small) | sign);
    }
    uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return float_of_bits(sign | wide | fraction << 13);
}

#endif
