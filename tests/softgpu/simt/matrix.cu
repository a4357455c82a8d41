/* matrix.cu: kernels with matrix and asynchronous-copy instructions, for nvcc and softgpu. One warp, unless said. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "softgpu/intrinsics.cuh"

#define KERNEL extern "C" __global__ void

static __device__ __forceinline__ uint32_t two(const uint16_t *p, int step)
{
    return p[0] | (uint32_t)p[step] << 16;
}

static __device__ __forceinline__ void store_tile(float *d, const float (&f)[4])
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    d[g * 8 + 2 * t] = f[0];
    d[g * 8 + 2 * t + 1] = f[1];
    d[(g + 8) * 8 + 2 * t] = f[2];
    d[(g + 8) * 8 + 2 * t + 1] = f[3];
}

static __device__ __forceinline__ void load_tile(float (&f)[4], const float *c)
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    f[0] = c[g * 8 + 2 * t];
    f[1] = c[g * 8 + 2 * t + 1];
    f[2] = c[(g + 8) * 8 + 2 * t];
    f[3] = c[(g + 8) * 8 + 2 * t + 1];
}

/* d[16][8] = a[16][16] b[16][8] + c[16][8]; fragments element by element, as documented. */
KERNEL product_16(float *d, const uint16_t *a, const uint16_t *b, const float *c, int is_bf16)
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    const uint32_t af[4] = {two(a + g * 16 + 2 * t, 1), two(a + (g + 8) * 16 + 2 * t, 1),
                            two(a + g * 16 + 2 * t + 8, 1), two(a + (g + 8) * 16 + 2 * t + 8, 1)};
    const uint32_t bf[2] = {two(b + 2 * t * 8 + g, 8), two(b + (2 * t + 8) * 8 + g, 8)};
    float cf[4], df[4];
    load_tile(cf, c);
    if (is_bf16)
        mma_m16n8k16_bf16(df, af, bf, cf);
    else
        mma_m16n8k16_fp16(df, af, bf, cf);
    store_tile(d, df);
}

/* The same by ldmatrix from shared memory; b is transposed on its way. */
KERNEL product_ldmatrix(float *d, const uint16_t *a, const uint16_t *b, const float *c)
{
    __shared__ __align__(16) uint16_t as[16 * 16], bs[16 * 8];
    const int lane = (int)threadIdx.x;
    for (int i = lane; i < 256; i += 32)
        as[i] = a[i];
    for (int i = lane; i < 128; i += 32)
        bs[i] = b[i];
    __syncwarp();
    uint32_t af[4], bf[2];
    float cf[4];
    ldmatrix_x4(af, as + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix_x2_trans(bf, bs + lane % 16 * 8);
    load_tile(cf, c);
    mma_m16n8k16_bf16(cf, af, bf, cf);
    store_tile(d, cf);
}

/* d[16][8] = a[16][8] b[8][8] + c[16][8], tf32. */
KERNEL product_tf32(float *d, const uint32_t *a, const uint32_t *b, const float *c)
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    const uint32_t af[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]};
    const uint32_t bf[2] = {b[t * 8 + g], b[(t + 4) * 8 + g]};
    float cf[4], df[4];
    load_tile(cf, c);
    mma_m16n8k8_tf32(df, af, bf, cf);
    store_tile(d, df);
}

/* out[32] = pairs of in[64], rounded. */
KERNEL packed(uint32_t *out, const float *in)
{
    out[threadIdx.x] = pack_bf16(in[2 * threadIdx.x], in[2 * threadIdx.x + 1]);
}

/* out[6][32]: what ldmatrix gives of m[8][8], x1, then of two stacked, as it is and transposed. */
KERNEL matrices(uint32_t *out, const uint16_t *m)
{
    __shared__ __align__(16) uint16_t s[16 * 8];
    const int lane = (int)threadIdx.x;
    for (int i = lane; i < 128; i += 32)
        s[i] = m[i];
    __syncwarp();
    uint32_t one[1], pair[2], turned[1];
    ldmatrix_x1(one, s + lane % 8 * 8);
    ldmatrix_x2(pair, s + lane % 16 * 8);
    ldmatrix_x1_trans(turned, s + lane % 8 * 8);
    out[lane] = one[0];
    out[32 + lane] = pair[0];
    out[64 + lane] = pair[1];
    out[96 + lane] = turned[0];
}

/* out[i] = in[i] by way of asynchronous copies of 4, 8 or 16 bytes, in two groups; of a word beyond `n` 0. 64 threads. */
template <int BYTES> static __device__ __forceinline__ void copy(int *to, const int *from, int n, int i)
{
    const int left = (n - i) * 4, bytes = left < 0 ? 0 : left < BYTES ? left : BYTES;
    if (BYTES == 4)
        cp_async_zfill_4(to + i, from + i, (unsigned)bytes);
    else if (BYTES == 8)
        cp_async_zfill_8(to + i, from + i, (unsigned)bytes);
    else
        cp_async_zfill_16(to + i, from + i, (unsigned)bytes);
}
template <int BYTES> static __device__ __forceinline__ void copy_all(int *out, const int *in, int n)
{
    __shared__ __align__(16) int s[2][64 * 4];
    constexpr int WORDS = BYTES / 4;
    copy<BYTES>(s[0], in, n, (int)threadIdx.x * WORDS);
    cp_async_commit();
    copy<BYTES>(s[1], in, n - 64 * WORDS < 0 ? 0 : n, (int)threadIdx.x * WORDS);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 64 * WORDS; i += 64)
        out[i] = s[0][i];
    cp_async_wait<0>();
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 64 * WORDS; i += 64)
        out[64 * WORDS + i] = s[1][i];
}
KERNEL copies(int *out, const int *in, int n, int bytes)
{
    if (bytes == 4)
        copy_all<4>(out, in, n);
    else if (bytes == 8)
        copy_all<8>(out, in, n);
    else
        copy_all<16>(out, in, n);
}

/* The wait is missing. */
KERNEL copy_without_wait(int *out, const int *in)
{
    __shared__ int s[64];
    s[threadIdx.x] = -1;
    cp_async_4(s + threadIdx.x, in + threadIdx.x);
    cp_async_commit();
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

/* Boxes of 8 x 4 numbers at (x, y) of a tensor: each number doubled. 32 threads. */
KERNEL double_box(const __grid_constant__ CUtensorMap map, int *out, int x, int y)
{
    __shared__ __align__(128) int box[4][8];
    if (threadIdx.x == 0)
        tensor_load_2d(box, &map, x, y, sizeof box);
    __syncthreads();
    out[threadIdx.x] = box[threadIdx.x / 8][threadIdx.x % 8];
    box[threadIdx.x / 8][threadIdx.x % 8] *= 2;
    tensor_fence();
    __syncthreads();
    if (threadIdx.x == 0)
        tensor_store_2d(&map, x, y, box);
}

KERNEL partial_warp(float *d)
{
    const uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    float c[4] = {0, 0, 0, 0};
    if (threadIdx.x == 7)
        return;
    mma_m16n8k16_bf16(c, a, b, c);
    d[threadIdx.x] = c[0];
}

/* Blocks add to one number, one after the other: block b waits for b - 1. */
KERNEL in_turn(int *sum, unsigned *turn)
{
    if (threadIdx.x == 0) {
        while (load_acquire(turn) != blockIdx.x) {
        }
        *sum = *sum * 3 + (int)blockIdx.x;
        store_release(turn, blockIdx.x + 1);
    }
}

/* Cooperative: every block adds up what all have left before the barrier, twice. */
KERNEL across_the_grid(int *out, int *part, unsigned *arrived)
{
    __shared__ int mine;
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            mine = (int)blockIdx.x + 1 + round;
            part[blockIdx.x] = mine;
        }
        grid_sync(arrived);
        int total = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            total += ((volatile int *)part)[b];
        grid_sync(arrived);
        if (threadIdx.x == 0)
            out[(unsigned)round * gridDim.x + blockIdx.x] = total * 100 + mine;
    }
}
