/* softgpu/intrinsics.cuh: matrix, copy and tensor-copy instructions, for kernels that are compiled by nvcc, Clang and, for fast mode, g++.
 *
 * Each function is one instruction of PTX (compute capability 8.0 and later; PTX ISA, "Warp-level Matrix Instructions", "Data Movement and Conversion Instructions:
 * Asynchronous copy"). The names say the instruction:
 *
 *   mma_m16n8k16_bf16(d, a, b, c), mma_m16n8k16_fp16, mma_m16n8k8_tf32
 *       D = A B + C of a warp, fp32 accumulators. Lane l holds with g = l / 4 and t = l % 4:
 *       C and D, 16 x 8:   [0] (g, 2t)      [1] (g, 2t+1)   [2] (g+8, 2t)   [3] (g+8, 2t+1)
 *       A, 16-bit, 16x16:  [0] (g, 2t..)    [1] (g+8, 2t..) [2] (g, 2t+8..) [3] (g+8, 2t+8..)   two elements each, the
 *       B, 16-bit, 16x8:   [0] (2t.., g)    [1] (2t+8.., g)                                     lower one in the low half
 *       A, tf32, 16x8:     [0] (g, t)       [1] (g+8, t)    [2] (g, t+4)    [3] (g+8, t+4)
 *       B, tf32, 8x4:      [0] (t, g)       [1] (t+4, g)
 *   ldmatrix_x1(r, row), _x2, _x4, and _trans of each
 *       8x8 matrices of 16-bit elements from shared memory: lane i gives the address of row i % 8 of matrix i / 8 (16 bytes,
 *       aligned to 16), and gets of each matrix the elements (g, 2t), (g, 2t+1), or of its transpose.
 *   pack_bf16(low, high)
 *       two floats, each rounded to the nearest (ties to even), as the halves of a fragment's word.
 *   cp_async_4(to, from), _8, _16, and cp_async_zfill_4(to, from, from_bytes), ...
 *   cp_async_commit(), cp_async_wait<N>(), cp_async_wait_all()
 *       from global to shared memory. On the software device bytes arrive when the thread that has issued the copy waits for its group.
 *   tensor_load_2d(box, map, x, y, bytes), tensor_store_2d(map, x, y, box), tensor_fence()
 *       the box at element (x, y) of the two-dimensional tensor that a CUtensorMap among the kernel's parameters describes, `bytes` of
 *       it, from global to shared memory (aligned to 128) or back; outside of the tensor it is zero. By one thread, which waits for it.
 *       Threads that have written a box call tensor_fence() before the barrier that precedes its store. Compute capability 9.0
 *       ("Tensor copy"); with nvcc for an earlier one it traps.
 *   grid_sync()
 *       a barrier of a cooperative launch; `arrived` is a counter in global memory, 0 before the launch.
 *   load_acquire, store_release, add_release, add_acq_rel (unsigned, device scope)
 *
 * In fast mode, where a warp is one lane, the matrix instructions end the launch with an error; copies are made at once.
 */
#ifndef SOFTGPU_INTRINSICS_CUH
#define SOFTGPU_INTRINSICS_CUH

#include <stdint.h>

#ifndef __SOFTGPU_FAST__

static __device__ __forceinline__ unsigned softgpu_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

#define SOFTGPU_MMA_16(name, type)                                                                           \
    static __device__ __forceinline__ void name(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2],  \
                                                const float(&c)[4])                                          \
    {                                                                                                        \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                          \
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                             \
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),          \
                       "f"(c[1]), "f"(c[2]), "f"(c[3]));                                                     \
    }
SOFTGPU_MMA_16(mma_m16n8k16_bf16, "bf16")
SOFTGPU_MMA_16(mma_m16n8k16_fp16, "f16")
#undef SOFTGPU_MMA_16

static __device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                        const uint32_t (&b)[2], const float (&c)[4])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
                   "f"(c[2]), "f"(c[3]));
}

static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

#define SOFTGPU_LDMATRIX(suffix, option)                                                                     \
    static __device__ __forceinline__ void ldmatrix_x1##suffix(uint32_t(&r)[1], const void *row)             \
    {                                                                                                        \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" option ".shared.b16 {%0}, [%1];"                        \
                     : "=r"(r[0])                                                                            \
                     : "r"(softgpu_shared_address(row))                                                      \
                     : "memory");                                                                            \
    }                                                                                                        \
    static __device__ __forceinline__ void ldmatrix_x2##suffix(uint32_t(&r)[2], const void *row)             \
    {                                                                                                        \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" option ".shared.b16 {%0,%1}, [%2];"                     \
                     : "=r"(r[0]), "=r"(r[1])                                                                \
                     : "r"(softgpu_shared_address(row))                                                      \
                     : "memory");                                                                            \
    }                                                                                                        \
    static __device__ __forceinline__ void ldmatrix_x4##suffix(uint32_t(&r)[4], const void *row)             \
    {                                                                                                        \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" option ".shared.b16 {%0,%1,%2,%3}, [%4];"               \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                        \
                     : "r"(softgpu_shared_address(row))                                                      \
                     : "memory");                                                                            \
    }
SOFTGPU_LDMATRIX(, "")
SOFTGPU_LDMATRIX(_trans, ".trans")
#undef SOFTGPU_LDMATRIX

#define SOFTGPU_CP_ASYNC(bytes, level)                                                                       \
    static __device__ __forceinline__ void cp_async_##bytes(void *to, const void *from)                      \
    {                                                                                                        \
        asm volatile("cp.async." level ".shared.global [%0], [%1], " #bytes                                  \
                     ";" ::"r"(softgpu_shared_address(to)),                                                  \
                     "l"(from)                                                                               \
                     : "memory");                                                                            \
    }                                                                                                        \
    static __device__ __forceinline__ void cp_async_zfill_##bytes(void *to, const void *from,                \
                                                                  unsigned from_bytes)                       \
    {                                                                                                        \
        asm volatile("cp.async." level ".shared.global [%0], [%1], " #bytes                                  \
                     ", %2;" ::"r"(softgpu_shared_address(to)),                                              \
                     "l"(from), "r"(from_bytes)                                                              \
                     : "memory");                                                                            \
    }
SOFTGPU_CP_ASYNC(4, "ca")
SOFTGPU_CP_ASYNC(8, "ca")
SOFTGPU_CP_ASYNC(16, "cg")
#undef SOFTGPU_CP_ASYNC

static __device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING> static __device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
static __device__ __forceinline__ void cp_async_wait_all(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static __device__ __forceinline__ void tensor_load_2d(void *box, const void *map, int x, int y, unsigned bytes)
{
    __shared__ uint64_t arrived;
    const unsigned barrier = softgpu_shared_address(&arrived);
    asm volatile("{ .reg .pred done;\n"
                 "mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.proxy.async.shared::cta;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %5;\n"
                 "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2, {%3, %4}], [%0];\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n"
                 "mbarrier.inval.shared::cta.b64 [%0]; }" ::"r"(barrier),
                 "r"(softgpu_shared_address(box)), "l"(map), "r"(x), "r"(y), "r"(bytes)
                 : "memory");
}
static __device__ __forceinline__ void tensor_store_2d(const void *map, int x, int y, const void *box)
{
    asm volatile("fence.proxy.async.shared::cta;\n"
                 "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;" ::"l"(map),
                 "r"(x), "r"(y), "r"(softgpu_shared_address(box))
                 : "memory");
}
static __device__ __forceinline__ void tensor_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#else
static __device__ __forceinline__ void tensor_load_2d(void *, const void *, int, int, unsigned)
{
    __trap();
}
static __device__ __forceinline__ void tensor_store_2d(const void *, int, int, const void *)
{
    __trap();
}
static __device__ __forceinline__ void tensor_fence(void)
{
}
#endif

static __device__ __forceinline__ unsigned load_acquire(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
static __device__ __forceinline__ void store_release(unsigned *p, unsigned v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
static __device__ __forceinline__ void add_release(unsigned *p, unsigned v)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
static __device__ __forceinline__ unsigned add_acq_rel(unsigned *p, unsigned v)
{
    unsigned old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

/* A counter that grows by the number of blocks at each barrier. */
static __device__ __forceinline__ void grid_sync(unsigned *arrived)
{
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned mine = add_acq_rel(arrived, 1), all = (mine / blocks + 1) * blocks;
        while ((int)(load_acquire(arrived) - all) < 0) {
        }
    }
    __syncthreads();
}

#else /* ---- fast mode: one lane ---- */

namespace softgpu
{
static inline uint32_t bf16_bits(float x)
{
    const uint32_t bits = (uint32_t)float_bits(x), up = 0x7fffu + (bits >> 16 & 1u);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (bits + up) >> 16; /* NaN: the canonical one */
}

static inline void copy_bytes(void *to, const void *from, uint32_t bytes, uint32_t from_bytes)
{
    __builtin_memcpy(to, from, from_bytes);
    __builtin_memset((char *)to + from_bytes, 0, bytes - from_bytes);
}

/* bytes: what the program waits for; 0: a store. */
static inline void tensor_copy_2d(const void *map, int x, int y, char *box, unsigned bytes, bool store,
                                  softgpu_place_t place)
{
    softgpu_tensor_t t;
    const int found = services->read_tensor_map(map, &t);
    if (!found || t.rank != 2 || (uintptr_t)box % 128 ||
        (!store && bytes != t.box[0] * t.box[1] * t.element_bytes)) {
        services->fail(715 /* CUDA_ERROR_ILLEGAL_INSTRUCTION */,
                       found ? "a box of another size or alignment than its tensor map says"
                             : "a tensor copy by something that is no tensor map",
                       place);
        return;
    }
    const int64_t width = (int64_t)t.size[0], row_bytes = (int64_t)(t.box[0] * t.element_bytes);
    const int64_t first = x < 0 ? -(int64_t)x : 0,
                  end = x + (int64_t)t.box[0] > width ? width - x : (int64_t)t.box[0];
    for (int64_t row = 0; row < (int64_t)t.box[1]; row++) {
        char *to = box + row * row_bytes;
        if (!store)
            __builtin_memset(to, 0, (size_t)row_bytes);
        if (y + row < 0 || y + row >= (int64_t)t.size[1] || first >= end)
            continue;
        const size_t part = (size_t)(end - first) * t.element_bytes;
        char *at = t.at + (uint64_t)(y + row) * t.stride[1] + (x + first) * (int64_t)t.element_bytes;
        to += first * (int64_t)t.element_bytes;
        __builtin_memcpy(store ? at : to, store ? to : at, part);
    }
}
} // namespace softgpu

static inline void tensor_load_2d(void *box, const void *map, int x, int y, unsigned bytes,
                                  softgpu_place_t place = softgpu::here())
{
    softgpu::tensor_copy_2d(map, x, y, (char *)box, bytes, false, place);
}
static inline void tensor_store_2d(const void *map, int x, int y, const void *box,
                                   softgpu_place_t place = softgpu::here())
{
    softgpu::tensor_copy_2d(map, x, y, (char *)(uintptr_t)box, 0, true, place);
}
static inline void tensor_fence(void)
{
}

#define SOFTGPU_MMA(name)                                                                                    \
    static inline void name(float(&)[4], const uint32_t(&)[4], const uint32_t(&)[2], const float(&)[4],      \
                            softgpu_place_t place = softgpu::here())                                         \
    {                                                                                                        \
        softgpu::needs_threads(#name, place);                                                                \
    }
SOFTGPU_MMA(mma_m16n8k16_bf16)
SOFTGPU_MMA(mma_m16n8k16_fp16)
SOFTGPU_MMA(mma_m16n8k8_tf32)
#undef SOFTGPU_MMA

static inline uint32_t pack_bf16(float low, float high)
{
    return softgpu::bf16_bits(low) | softgpu::bf16_bits(high) << 16;
}

#define SOFTGPU_LDMATRIX(name, count)                                                                        \
    static inline void name(uint32_t(&)[count], const void *, softgpu_place_t place = softgpu::here())       \
    {                                                                                                        \
        softgpu::needs_threads("ldmatrix", place);                                                           \
    }
SOFTGPU_LDMATRIX(ldmatrix_x1, 1)
SOFTGPU_LDMATRIX(ldmatrix_x2, 2)
SOFTGPU_LDMATRIX(ldmatrix_x4, 4)
SOFTGPU_LDMATRIX(ldmatrix_x1_trans, 1)
SOFTGPU_LDMATRIX(ldmatrix_x2_trans, 2)
SOFTGPU_LDMATRIX(ldmatrix_x4_trans, 4)
#undef SOFTGPU_LDMATRIX

#define SOFTGPU_CP_ASYNC(bytes)                                                                              \
    static inline void cp_async_##bytes(void *to, const void *from)                                          \
    {                                                                                                        \
        softgpu::copy_bytes(to, from, bytes, bytes);                                                         \
    }                                                                                                        \
    static inline void cp_async_zfill_##bytes(void *to, const void *from, unsigned from_bytes)               \
    {                                                                                                        \
        softgpu::copy_bytes(to, from, bytes, from_bytes);                                                    \
    }
SOFTGPU_CP_ASYNC(4)
SOFTGPU_CP_ASYNC(8)
SOFTGPU_CP_ASYNC(16)
#undef SOFTGPU_CP_ASYNC

static inline void cp_async_commit(void)
{
}
template <int PENDING> static inline void cp_async_wait(void)
{
}
static inline void cp_async_wait_all(void)
{
}

static inline unsigned load_acquire(const unsigned *p)
{
    return softgpu::fetch_add((unsigned *)p, 0u);
}
static inline void store_release(unsigned *p, unsigned v)
{
    softgpu::exchange(p, v);
}
static inline void add_release(unsigned *p, unsigned v)
{
    softgpu::fetch_add(p, v);
}
static inline unsigned add_acq_rel(unsigned *p, unsigned v)
{
    return softgpu::fetch_add(p, v);
}

static inline void grid_sync(unsigned *, softgpu_place_t place = softgpu::here())
{
    __grid_sync(place);
}

#endif
#endif
