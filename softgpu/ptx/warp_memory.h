/* softgpu/ptx/warp_memory.h: loads, stores and atomic operations of a warp; see warp.h.
 *
 * Addresses are the host's, 64 bits a lane. An access of all lanes to neighbours, or of all to one place, is one access. Nothing
 * is touched for lanes that are not in the mask. An address that is no multiple of the access's size ends the launch. */
#ifndef SG_PTX_WARP_MEMORY_H
#define SG_PTX_WARP_MEMORY_H

SG_INLINE sg_v64 sg_at(sg_v64 base, uint64_t offset)
{
    return sg_add_b64(base, sg_all64(offset));
}
/* An address in the window of shared memory, as registers have it. */
SG_INLINE sg_v64 sg_shared64(const sg_warp_t *w, sg_v64 at)
{
    return sg_add_b64(at, sg_all64((uint64_t)(uintptr_t)w->shared));
}
SG_INLINE sg_v64 sg_shared32(const sg_warp_t *w, sg_v32 at)
{
    return sg_shared64(w, sg_u64_of_u32(at));
}
SG_INLINE uint64_t sg_address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}
/* Memory that each lane has its own of: [32][stride]. */
SG_INLINE sg_v64 sg_own(const void *at, uint64_t stride)
{
    sg_l64 d;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d.u[i] = sg_address(at) + stride * i;
    return d.v;
}

SG_SLOW void sg_misaligned(const sg_warp_t *w, uint64_t at, uint32_t bytes)
{
    char why[96];
    snprintf(why, sizeof why, "an access of %u bytes at 0x%llx", bytes, (unsigned long long)at);
    sg_fail(w, SG_ERROR_MISALIGNED, why);
}

SG_INLINE void sg_aligned_one(const sg_warp_t *w, uint64_t at, uint32_t bytes)
{
    if (__builtin_expect(at & (bytes - 1), 0))
        sg_misaligned(w, at, bytes);
}

SG_INLINE void sg_aligned(const sg_warp_t *w, uint32_t mask, sg_v64 at, uint32_t bytes)
{
    uint32_t wrong = bytes > 1 ? mask & sg_ne_u64(sg_and_b64(at, sg_all64(bytes - 1)), sg_all64(0)) : 0;
    if (__builtin_expect(wrong != 0, 0))
        sg_misaligned(w, sg_lane64(at, sg_first(wrong)), bytes);
}

#ifdef SG_CHECKED
/* Lane by lane: announced and done. */
#define SG_PLAIN(bits, R)                                                                                    \
    SG_SLOW sg_v##R sg_load##bits(const sg_warp_t *w, uint32_t mask, sg_v64 a)                               \
    {                                                                                                        \
        const sg_l64 at = {a};                                                                               \
        sg_l##R d = {sg_all##R(0)};                                                                          \
        SG_FOR_LANES(i, mask)                                                                                \
        {                                                                                                    \
            sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_READ);                                              \
            d.u[i] = *(const uint##bits##_t *)(uintptr_t)at.u[i];                                            \
        }                                                                                                    \
        return d.v;                                                                                          \
    }                                                                                                        \
    SG_SLOW void sg_store##bits(const sg_warp_t *w, uint32_t mask, sg_v64 a, sg_v##R y)                      \
    {                                                                                                        \
        const sg_l64 at = {a};                                                                               \
        const sg_l##R x = {y};                                                                               \
        SG_FOR_LANES(i, mask)                                                                                \
        {                                                                                                    \
            sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_WRITE);                                             \
            *(uint##bits##_t *)(uintptr_t)at.u[i] = (uint##bits##_t)x.u[i];                                  \
        }                                                                                                    \
    }
SG_PLAIN(8, 16)
SG_PLAIN(16, 16)
SG_PLAIN(32, 32)
SG_PLAIN(64, 64)
#else
/* ---- plain loads and stores of one element ----
 * By halves of a warp, because blocks are often 16 wide. The usual cases are inline: the half's first lane is there, and the addresses
 * lie in a row or at one place. All others are functions whose arguments and results are single chunks, which are
 * passed in registers: compilers take very long over structures in memory. */
SG_INLINE uint32_t sg_differ(sg_c64 a, sg_c64 b)
{
#ifdef __AVX512BW__
    return sg_bits8(_mm512_cmp_epu64_mask((__m512i)a, (__m512i)b, SG_NE));
#else
    uint32_t d = 0;
    for (int i = 0; i < 8; i++)
        d |= (uint32_t)(a[i] != b[i]) << i;
    return d;
#endif
}
SG_INLINE bool sg_in_row(uint32_t half, sg_c64 low, sg_c64 high, uint32_t bytes)
{
    const sg_c64 step = {0, 1, 2, 3, 4, 5, 6, 7};
    return !((sg_differ(low, low[0] + step * bytes) | sg_differ(high, low[0] + (step + 8) * bytes) << 8) &
             half);
}
SG_INLINE bool sg_at_one(uint32_t half, sg_c64 low, sg_c64 high)
{
    return !((sg_differ(low, (sg_c64){0} + low[0]) | sg_differ(high, (sg_c64){0} + low[0]) << 8) & half);
}

// clang-format off
/* Lanes that are not in the mask get 0. */
#define SG_ONE_BY_ONE(bits, C, lanes) \
    SG_SLOW sg_c##C sg_gather##bits(const sg_warp_t *w, uint32_t mask, sg_c64 low, sg_c64 high, sg_c64 third, sg_c64 fourth) \
    { \
        const sg_l64 at = {{{low, high, third, fourth}}}; union { sg_c##C v; uint##C##_t u[lanes]; } d = {{0}}; \
        SG_FOR_LANES (i, mask) { sg_aligned_one(w, at.u[i], bits / 8); d.u[i] = *(const uint##bits##_t *)(uintptr_t)at.u[i]; } \
        return d.v; \
    } \
    SG_SLOW void sg_scatter##bits(const sg_warp_t *w, uint32_t mask, sg_c64 low, sg_c64 high, sg_c64 third, sg_c64 fourth, sg_c##C x) \
    { \
        const sg_l64 at = {{{low, high, third, fourth}}}; const union { sg_c##C v; uint##C##_t u[lanes]; } a = {x}; \
        SG_FOR_LANES (i, mask) { sg_aligned_one(w, at.u[i], bits / 8); *(uint##bits##_t *)(uintptr_t)at.u[i] = (uint##bits##_t)a.u[i]; } \
    }
SG_ONE_BY_ONE(8, 16, 32) SG_ONE_BY_ONE(16, 16, 32) SG_ONE_BY_ONE(32, 32, 16) SG_ONE_BY_ONE(64, 64, 8)

#ifdef __AVX512BW__
SG_INLINE sg_c32 sg_row_load32(uint32_t half, uint64_t at) { return (sg_c32)_mm512_maskz_loadu_epi32((__mmask16)half, (const void *)(uintptr_t)at); }
SG_INLINE sg_c64 sg_row_load64(uint32_t mask, uint64_t at) { return (sg_c64)_mm512_maskz_loadu_epi64((__mmask8)mask, (const void *)(uintptr_t)at); }
SG_INLINE void sg_row_store32(uint32_t half, uint64_t at, sg_c32 x) { _mm512_mask_storeu_epi32((void *)(uintptr_t)at, (__mmask16)half, (__m512i)x); }
SG_INLINE void sg_row_store64(uint32_t mask, uint64_t at, sg_c64 x) { _mm512_mask_storeu_epi64((void *)(uintptr_t)at, (__mmask8)mask, (__m512i)x); }
SG_INLINE sg_c16 sg_row_load16(uint32_t mask, uint64_t at) { return (sg_c16)_mm512_maskz_loadu_epi16(mask, (const void *)(uintptr_t)at); }
SG_INLINE sg_c16 sg_row_load8(uint32_t mask, uint64_t at) { return (sg_c16)_mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, (const void *)(uintptr_t)at)); }
SG_INLINE void sg_row_store16(uint32_t mask, uint64_t at, sg_c16 x) { _mm512_mask_storeu_epi16((void *)(uintptr_t)at, mask, (__m512i)x); }
SG_INLINE void sg_row_store8(uint32_t mask, uint64_t at, sg_c16 x) { _mm256_mask_storeu_epi8((void *)(uintptr_t)at, mask, _mm512_cvtepi16_epi8((__m512i)x)); }
#else
#define SG_ROW(bits, C) \
    SG_INLINE sg_c##C sg_row_load##bits(uint32_t mask, uint64_t at) \
    { sg_c##C d = {0}; SG_FOR_LANES (i, mask) d[i] = ((const uint##bits##_t *)(uintptr_t)at)[i]; return d; } \
    SG_INLINE void sg_row_store##bits(uint32_t mask, uint64_t at, sg_c##C x) \
    { SG_FOR_LANES (i, mask) ((uint##bits##_t *)(uintptr_t)at)[i] = (uint##bits##_t)x[i]; }
SG_ROW(8, 16) SG_ROW(16, 16) SG_ROW(32, 32) SG_ROW(64, 64)
#endif

SG_INLINE sg_c32 sg_load_half32(const sg_warp_t *w, uint32_t half, sg_c64 low, sg_c64 high)
{
    if (half & 1 && !(low[0] & 3)) {
        if (sg_in_row(half, low, high, 4)) return sg_row_load32(half, low[0]);
        if (sg_at_one(half, low, high)) return (sg_c32){0} + *(const uint32_t *)(uintptr_t)low[0];
    }
    return half ? sg_gather32(w, half, low, high, low, high) : (sg_c32){0};
}
SG_INLINE sg_v32 sg_load32(const sg_warp_t *w, uint32_t mask, sg_v64 a)
{ return (sg_v32){{sg_load_half32(w, mask & 0xffff, a.c[0], a.c[1]), sg_load_half32(w, mask >> 16, a.c[2], a.c[3])}}; }
SG_INLINE void sg_store_half32(const sg_warp_t *w, uint32_t half, sg_c64 low, sg_c64 high, sg_c32 x)
{
    if (half & 1 && !(low[0] & 3) && sg_in_row(half, low, high, 4)) sg_row_store32(half, low[0], x);
    else if (half) sg_scatter32(w, half, low, high, low, high, x);
}
SG_INLINE void sg_store32(const sg_warp_t *w, uint32_t mask, sg_v64 a, sg_v32 x)
{ sg_store_half32(w, mask & 0xffff, a.c[0], a.c[1], x.c[0]); sg_store_half32(w, mask >> 16, a.c[2], a.c[3], x.c[1]); }
/* Of 64 bits, by quarters; of 16 and 8 the whole warp. */
SG_INLINE sg_c64 sg_load_quarter64(const sg_warp_t *w, uint32_t quarter, sg_c64 at)
{
    if (quarter & 1 && !(at[0] & 7)) {
        if (sg_in_row(quarter, at, at, 8)) return sg_row_load64(quarter, at[0]);
        if (sg_at_one(quarter, at, at)) return (sg_c64){0} + *(const uint64_t *)(uintptr_t)at[0];
    }
    return quarter ? sg_gather64(w, quarter, at, at, at, at) : (sg_c64){0};
}
SG_INLINE sg_v64 sg_load64(const sg_warp_t *w, uint32_t mask, sg_v64 a)
{
    return (sg_v64){{sg_load_quarter64(w, mask & 255, a.c[0]), sg_load_quarter64(w, mask >> 8 & 255, a.c[1]), sg_load_quarter64(w, mask >> 16 & 255, a.c[2]),
                     sg_load_quarter64(w, mask >> 24, a.c[3])}};
}
SG_INLINE void sg_store_quarter64(const sg_warp_t *w, uint32_t quarter, sg_c64 at, sg_c64 x)
{
    if (quarter & 1 && !(at[0] & 7) && sg_in_row(quarter, at, at, 8)) sg_row_store64(quarter, at[0], x);
    else if (quarter) sg_scatter64(w, quarter, at, at, at, at, x);
}
SG_INLINE void sg_store64(const sg_warp_t *w, uint32_t mask, sg_v64 a, sg_v64 x)
{
    sg_store_quarter64(w, mask & 255, a.c[0], x.c[0]); sg_store_quarter64(w, mask >> 8 & 255, a.c[1], x.c[1]);
    sg_store_quarter64(w, mask >> 16 & 255, a.c[2], x.c[2]); sg_store_quarter64(w, mask >> 24, a.c[3], x.c[3]);
}
#define SG_WHOLE_ROW(mask, a, bytes) (mask & 1 && !(a.c[0][0] & (bytes - 1)) && sg_in_row(mask & 0xffff, a.c[0], a.c[1], bytes) && \
    !((sg_differ(a.c[2], a.c[0][0] + (sg_c64){16, 17, 18, 19, 20, 21, 22, 23} * bytes) | sg_differ(a.c[3], a.c[0][0] + (sg_c64){24, 25, 26, 27, 28, 29, 30, 31} * bytes) << 8) & mask >> 16))
#define SG_WHOLE(bits) \
    SG_INLINE sg_v16 sg_load##bits(const sg_warp_t *w, uint32_t mask, sg_v64 a) \
    { if (SG_WHOLE_ROW(mask, a, bits / 8)) return (sg_v16){{sg_row_load##bits(mask, a.c[0][0])}}; return (sg_v16){{sg_gather##bits(w, mask, a.c[0], a.c[1], a.c[2], a.c[3])}}; } \
    SG_INLINE void sg_store##bits(const sg_warp_t *w, uint32_t mask, sg_v64 a, sg_v16 x) \
    { if (SG_WHOLE_ROW(mask, a, bits / 8)) sg_row_store##bits(mask, a.c[0][0], x.c[0]); else sg_scatter##bits(w, mask, a.c[0], a.c[1], a.c[2], a.c[3], x.c[0]); }
SG_WHOLE(8) SG_WHOLE(16)

// clang-format on
#endif

// clang-format off
/* Volatile and with semantics: one by one, in the order of the lanes. */
#define SG_ORDERED(bits, R) \
    SG_SLOW sg_v##R sg_load_atomic##bits(sg_warp_t *w, uint32_t mask, sg_v64 address) \
    { \
        sg_l64 at = {address}; sg_l##R d = {sg_all##R(0)}; \
        sg_aligned(w, mask, address, bits / 8); w->waits++; \
        SG_FOR_LANES (i, mask) { sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_VOLATILE_READ); d.u[i] = __atomic_load_n((const uint##bits##_t *)(uintptr_t)at.u[i], __ATOMIC_ACQUIRE); } \
        return d.v; \
    } \
    SG_SLOW void sg_store_atomic##bits(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##R y) \
    { \
        sg_l64 at = {address}; sg_l##R a = {y}; \
        sg_aligned(w, mask, address, bits / 8); \
        SG_FOR_LANES (i, mask) { sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_VOLATILE_WRITE); __atomic_store_n((uint##bits##_t *)(uintptr_t)at.u[i], (uint##bits##_t)a.u[i], __ATOMIC_RELEASE); } \
    }
SG_ORDERED(8, 16) SG_ORDERED(16, 16) SG_ORDERED(32, 32) SG_ORDERED(64, 64)

/* ---- vectors: `count` elements of a lane lie together ---- */
#define SG_VECTORS(bits, R) \
    SG_SLOW void sg_load_vector##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address, uint32_t count, sg_v##R *out) \
    { \
        sg_l64 at = {address}; sg_l##R *d = (sg_l##R *)(void *)out; \
        sg_aligned(w, mask, address, count * bits / 8); \
        SG_FOR_LANES (i, mask) { const uint##bits##_t *from = (const uint##bits##_t *)(uintptr_t)at.u[i]; for (uint32_t k = 0; k < count; k++) { sg_announce(w, i, at.u[i] + k * bits / 8, bits / 8, SOFTGPU_READ); d[k].u[i] = from[k]; } } \
    } \
    SG_SLOW void sg_store_vector##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address, uint32_t count, const sg_v##R *in) \
    { \
        sg_l64 at = {address}; const sg_l##R *a = (const sg_l##R *)(const void *)in; \
        sg_aligned(w, mask, address, count * bits / 8); \
        SG_FOR_LANES (i, mask) { uint##bits##_t *to = (uint##bits##_t *)(uintptr_t)at.u[i]; for (uint32_t k = 0; k < count; k++) { sg_announce(w, i, at.u[i] + k * bits / 8, bits / 8, SOFTGPU_WRITE); to[k] = (uint##bits##_t)a[k].u[i]; } } \
    }
SG_VECTORS(8, 16) SG_VECTORS(16, 16) SG_VECTORS(32, 32) SG_VECTORS(64, 64)

/* ---- a kernel's parameters: the same for all lanes ---- */
#define SG_PARAM(bits, R) \
    SG_INLINE sg_v##R sg_param##bits(const sg_warp_t *w, uint64_t offset) { uint##bits##_t x; memcpy(&x, w->params + offset, sizeof x); return sg_all##R(x); }
SG_PARAM(8, 16) SG_PARAM(16, 16) SG_PARAM(32, 32) SG_PARAM(64, 64)

/* ---- memory of each lane at an address that all know: parameters of calls ---- */
#define SG_PRIVATE(bits, R) \
    SG_INLINE sg_v##R sg_own_load##bits(const uint8_t *at, uint32_t stride) \
    { sg_l##R d; for (uint32_t i = 0; i < SG_WARP; i++) { uint##bits##_t x; memcpy(&x, at + i * stride, sizeof x); d.u[i] = x; } return d.v; } \
    SG_INLINE void sg_own_store##bits(uint32_t mask, uint8_t *at, uint32_t stride, sg_v##R y) \
    { sg_l##R a = {y}; SG_FOR_LANES (i, mask) { uint##bits##_t x = (uint##bits##_t)a.u[i]; memcpy(at + i * stride, &x, sizeof x); } }
SG_PRIVATE(8, 16) SG_PRIVATE(16, 16) SG_PRIVATE(32, 32) SG_PRIVATE(64, 64)

/* ---- atomic operations: lane by lane; `old` is what was there ---- */
#define SG_ATOMIC_LOOP(bits, name, expression) \
    SG_SLOW sg_v##bits sg_atom_##name(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##bits y) \
    { \
        sg_l64 at = {address}; sg_l##bits a = {y}, d = {sg_all##bits(0)}; \
        sg_aligned(w, mask, address, bits / 8); w->waits++; \
        SG_FOR_LANES (i, mask) { \
            sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_ATOMIC); \
            uint##bits##_t *p = (uint##bits##_t *)(uintptr_t)at.u[i], x = a.u[i], old = __atomic_load_n(p, __ATOMIC_RELAXED); \
            while (!__atomic_compare_exchange_n(p, &old, (uint##bits##_t)(expression), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {} \
            d.u[i] = old; \
        } \
        return d.v; \
    }
#define SG_ATOMIC(bits, name, builtin) \
    SG_SLOW sg_v##bits sg_atom_##name(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##bits y) \
    { \
        sg_l64 at = {address}; sg_l##bits a = {y}, d = {sg_all##bits(0)}; \
        sg_aligned(w, mask, address, bits / 8); w->waits++; \
        SG_FOR_LANES (i, mask) { sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_ATOMIC); d.u[i] = builtin((uint##bits##_t *)(uintptr_t)at.u[i], a.u[i], __ATOMIC_ACQ_REL); } \
        return d.v; \
    }
#define SG_ATOMICS(bits) \
    SG_ATOMIC(bits, add_b##bits, __atomic_fetch_add) SG_ATOMIC(bits, and_b##bits, __atomic_fetch_and) SG_ATOMIC(bits, or_b##bits, __atomic_fetch_or) \
    SG_ATOMIC(bits, xor_b##bits, __atomic_fetch_xor) SG_ATOMIC(bits, exch_b##bits, __atomic_exchange_n) \
    SG_ATOMIC_LOOP(bits, min_u##bits, x < old ? x : old) SG_ATOMIC_LOOP(bits, max_u##bits, x > old ? x : old) \
    SG_ATOMIC_LOOP(bits, min_s##bits, (int##bits##_t)x < (int##bits##_t)old ? x : old) SG_ATOMIC_LOOP(bits, max_s##bits, (int##bits##_t)x > (int##bits##_t)old ? x : old)
SG_ATOMICS(32) SG_ATOMICS(64)
SG_ATOMIC_LOOP(32, inc_u32, old >= x ? 0 : old + 1)
SG_ATOMIC_LOOP(32, dec_u32, old == 0 || old > x ? x : old - 1)
SG_INLINE uint32_t sg_add_halves(uint32_t a, uint32_t b, uint32_t (*add)(uint32_t, uint32_t)) { return add(a & 0xffff, b & 0xffff) | add(a >> 16, b >> 16) << 16; }
SG_ATOMIC_LOOP(32, add_f32, sg_bits_of(sg_float(old) + sg_float(x)))
SG_ATOMIC_LOOP(64, add_f64, sg_bits_of64(sg_double(old) + sg_double(x)))
SG_ATOMIC_LOOP(16, add_f16, sg_add_one_f16(old, x))
SG_ATOMIC_LOOP(16, add_bf16, sg_add_one_bf16(old, x))
SG_ATOMIC_LOOP(32, add_f16x2, sg_add_halves(old, x, sg_add_one_f16))
SG_ATOMIC_LOOP(32, add_bf16x2, sg_add_halves(old, x, sg_add_one_bf16))
#define SG_CAS(bits) \
    SG_SLOW sg_v##bits sg_atom_cas_b##bits(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##bits compare, sg_v##bits y) \
    { \
        sg_l64 at = {address}; sg_l##bits a = {y}, d = {compare}; \
        sg_aligned(w, mask, address, bits / 8); w->waits++; \
        SG_FOR_LANES (i, mask) { sg_announce(w, i, at.u[i], bits / 8, SOFTGPU_ATOMIC); __atomic_compare_exchange_n((uint##bits##_t *)(uintptr_t)at.u[i], &d.u[i], a.u[i], false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); } \
        return d.v; \
    }
SG_CAS(16) SG_CAS(32) SG_CAS(64)
    // clang-format on

    /* ---- which memory an address is in ---- */
    SG_INLINE uint32_t sg_between(sg_v64 at, uint64_t begin, uint64_t bytes)
{
    return sg_lt_u64(sg_sub_b64(at, sg_all64(begin)), sg_all64(bytes));
}
SG_SLOW uint32_t sg_is_local(const sg_warp_t *w, sg_v64 address)
{
    const sg_l64 at = {address};
    uint32_t d = 0;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d |= (uint32_t)w->services->is_stack((const void *)(uintptr_t)at.u[i]) << i;
    return d;
}

#endif
