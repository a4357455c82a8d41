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

SG_INLINE void sg_aligned_half(const sg_warp_t *w, uint32_t mask, const sg_c64 *at, uint32_t bytes)
{
    SG_FOR_LANES(i, mask)
    sg_aligned_one(w, ((const uint64_t *)at)[i], bytes);
}

/* ---- plain loads and stores of one element ---- */
SG_INLINE uint32_t sg_differ8(sg_c64 a, sg_c64 b)
{
#ifdef __AVX512BW__
    return _mm512_cmp_epu64_mask((__m512i)a, (__m512i)b, 4);
#else
    uint32_t d = 0;
    for (int i = 0; i < 8; i++)
        d |= (uint32_t)(a[i] != b[i]) << i;
    return d;
#endif
}

typedef enum sg_shape { SG_ANY, SG_ROW, SG_ONE } sg_shape_t;

/* How the addresses of 16 lanes lie, which are half a warp because blocks are often 16 wide: in a row (*at: of the first lane), at
 * one place, or anyhow. */
SG_INLINE sg_shape_t sg_shape(uint32_t mask, const sg_c64 *address, uint32_t bytes, uint64_t *at)
{
    const uint32_t lane = sg_first(mask);
    const uint64_t one = lane == 0 ? address[0][0] : ((const uint64_t *)address)[lane];
    const sg_c64 step = {0, 1, 2, 3, 4, 5, 6, 7};
    *at = one - (uint64_t)bytes * lane;
    const sg_c64 low = *at + step * bytes, high = *at + (step + 8) * bytes;
    if (!((sg_differ8(address[0], low) | sg_differ8(address[1], high) << 8) & mask))
        return SG_ROW;
    *at = one;
    const sg_c64 same = (sg_c64){0} + one;
    return (sg_differ8(address[0], same) | sg_differ8(address[1], same) << 8) & mask ? SG_ANY : SG_ONE;
}

// clang-format off
#ifdef __AVX512BW__
SG_INLINE void sg_row_load8(uint32_t mask, const void *at, uint16_t *d) { _mm256_storeu_si256((__m256i *)(void *)d, _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8((__mmask16)mask, at))); }
SG_INLINE void sg_row_load16(uint32_t mask, const void *at, uint16_t *d) { _mm256_storeu_si256((__m256i *)(void *)d, _mm256_maskz_loadu_epi16((__mmask16)mask, at)); }
SG_INLINE void sg_row_load32(uint32_t mask, const void *at, uint32_t *d) { _mm512_storeu_si512(d, _mm512_maskz_loadu_epi32((__mmask16)mask, at)); }
SG_INLINE void sg_row_load64(uint32_t mask, const void *at, uint64_t *d)
{ _mm512_storeu_si512(d, _mm512_maskz_loadu_epi64((__mmask8)mask, at)); _mm512_storeu_si512(d + 8, _mm512_maskz_loadu_epi64((__mmask8)(mask >> 8), (const char *)at + 64)); }
SG_INLINE void sg_row_store8(uint32_t mask, void *at, const uint16_t *x) { _mm_mask_storeu_epi8(at, (__mmask16)mask, _mm256_cvtepi16_epi8(_mm256_loadu_si256((const __m256i *)(const void *)x))); }
SG_INLINE void sg_row_store16(uint32_t mask, void *at, const uint16_t *x) { _mm256_mask_storeu_epi16(at, (__mmask16)mask, _mm256_loadu_si256((const __m256i *)(const void *)x)); }
SG_INLINE void sg_row_store32(uint32_t mask, void *at, const uint32_t *x)
{ if (mask == 0xffff) _mm512_storeu_si512(at, _mm512_loadu_si512(x)); else _mm512_mask_storeu_epi32(at, (__mmask16)mask, _mm512_loadu_si512(x)); }
SG_INLINE void sg_row_store64(uint32_t mask, void *at, const uint64_t *x)
{ _mm512_mask_storeu_epi64(at, (__mmask8)mask, _mm512_loadu_si512(x)); _mm512_mask_storeu_epi64((char *)at + 64, (__mmask8)(mask >> 8), _mm512_loadu_si512(x + 8)); }
#else
#define SG_ROW(bits, R) \
    SG_INLINE void sg_row_load##bits(uint32_t mask, const void *at, uint##R##_t *d) \
    { SG_FOR_LANES (i, mask) { uint##bits##_t x; memcpy(&x, (const char *)at + i * sizeof x, sizeof x); d[i] = x; } } \
    SG_INLINE void sg_row_store##bits(uint32_t mask, void *at, const uint##R##_t *a) \
    { SG_FOR_LANES (i, mask) { uint##bits##_t x = (uint##bits##_t)a[i]; memcpy((char *)at + i * sizeof x, &x, sizeof x); } }
SG_ROW(8, 16) SG_ROW(16, 16) SG_ROW(32, 32) SG_ROW(64, 64)
#endif

/* Lanes that are not in the mask get something. */
#define SG_ACCESS(bits, R) \
    SG_INLINE sg_v##R sg_load##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address) \
    { \
        sg_l##R d = {sg_all##R(0)}; \
        for (uint32_t h = 0; h < 2; h++) { \
            const uint32_t half = mask >> 16 * h & 0xffff; \
            const sg_c64 *from = address.c + 2 * h; \
            uint64_t at; \
            if (!half) continue; \
            switch (sg_shape(half, from, bits / 8, &at)) { \
            case SG_ROW: sg_aligned_one(w, at, bits / 8); sg_row_load##bits(half, (const void *)(uintptr_t)at, d.u + 16 * h); break; \
            case SG_ONE: { sg_aligned_one(w, at, bits / 8); const uint##bits##_t x = *(const uint##bits##_t *)(uintptr_t)at; for (int i = 0; i < 16; i++) d.u[16 * h + (uint32_t)i] = x; break; } \
            default: \
                sg_aligned_half(w, half, from, bits / 8); \
                SG_FOR_LANES (i, half) d.u[16 * h + i] = *(const uint##bits##_t *)(uintptr_t)((const uint64_t *)from)[i]; \
            } \
        } \
        return d.v; \
    } \
    SG_INLINE void sg_store##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##R y) \
    { \
        sg_l##R a = {y}; \
        for (uint32_t h = 0; h < 2; h++) { \
            const uint32_t half = mask >> 16 * h & 0xffff; \
            const sg_c64 *to = address.c + 2 * h; \
            uint64_t at; \
            if (!half) continue; \
            if (sg_shape(half, to, bits / 8, &at) == SG_ROW) { \
                sg_aligned_one(w, at, bits / 8); \
                sg_row_store##bits(half, (void *)(uintptr_t)at, a.u + 16 * h); \
            } else { \
                sg_aligned_half(w, half, to, bits / 8); \
                SG_FOR_LANES (i, half) *(uint##bits##_t *)(uintptr_t)((const uint64_t *)to)[i] = (uint##bits##_t)a.u[16 * h + i]; \
            } \
        } \
    } \
    /* Volatile and with semantics: one by one, in the order of the lanes. */ \
    SG_SLOW sg_v##R sg_load_atomic##bits(sg_warp_t *w, uint32_t mask, sg_v64 address) \
    { \
        sg_l64 at = {address}; sg_l##R d = {sg_all##R(0)}; \
        sg_aligned(w, mask, address, bits / 8); w->waits++; \
        SG_FOR_LANES (i, mask) d.u[i] = __atomic_load_n((const uint##bits##_t *)(uintptr_t)at.u[i], __ATOMIC_ACQUIRE); \
        return d.v; \
    } \
    SG_SLOW void sg_store_atomic##bits(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v##R y) \
    { \
        sg_l64 at = {address}; sg_l##R a = {y}; \
        sg_aligned(w, mask, address, bits / 8); \
        SG_FOR_LANES (i, mask) __atomic_store_n((uint##bits##_t *)(uintptr_t)at.u[i], (uint##bits##_t)a.u[i], __ATOMIC_RELEASE); \
    }
SG_ACCESS(8, 16) SG_ACCESS(16, 16) SG_ACCESS(32, 32) SG_ACCESS(64, 64)

/* ---- vectors: `count` elements of a lane lie together ---- */
#define SG_VECTORS(bits, R) \
    SG_SLOW void sg_load_vector##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address, uint32_t count, sg_v##R *out) \
    { \
        sg_l64 at = {address}; sg_l##R *d = (sg_l##R *)(void *)out; \
        sg_aligned(w, mask, address, count * bits / 8); \
        SG_FOR_LANES (i, mask) { const uint##bits##_t *from = (const uint##bits##_t *)(uintptr_t)at.u[i]; for (uint32_t k = 0; k < count; k++) d[k].u[i] = from[k]; } \
    } \
    SG_SLOW void sg_store_vector##bits(const sg_warp_t *w, uint32_t mask, sg_v64 address, uint32_t count, const sg_v##R *in) \
    { \
        sg_l64 at = {address}; const sg_l##R *a = (const sg_l##R *)(const void *)in; \
        sg_aligned(w, mask, address, count * bits / 8); \
        SG_FOR_LANES (i, mask) { uint##bits##_t *to = (uint##bits##_t *)(uintptr_t)at.u[i]; for (uint32_t k = 0; k < count; k++) to[k] = (uint##bits##_t)a[k].u[i]; } \
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
        SG_FOR_LANES (i, mask) d.u[i] = builtin((uint##bits##_t *)(uintptr_t)at.u[i], a.u[i], __ATOMIC_ACQ_REL); \
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
        SG_FOR_LANES (i, mask) __atomic_compare_exchange_n((uint##bits##_t *)(uintptr_t)at.u[i], &d.u[i], a.u[i], false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
        return d.v; \
    }
SG_CAS(16) SG_CAS(32) SG_CAS(64)
    // clang-format on

    /* ---- which memory an address is in ---- */
    SG_INLINE uint32_t sg_between(sg_v64 at, uint64_t begin, uint64_t bytes)
{
    return sg_lt_u64(sg_sub_b64(at, sg_all64(begin)), sg_all64(bytes));
}
#define SG_STACK_BYTES ((uint64_t)256 << 10) /* of a fiber of the driver */
SG_INLINE uint32_t sg_is_local(const sg_warp_t *w, sg_v64 at)
{
    return sg_between(at, sg_address(w->stack) - SG_STACK_BYTES, SG_STACK_BYTES);
}

#endif
