/* tensor.cuh: products of tiles by matrix instructions, for attention (softgpu/intrinsics.cuh tells which lane holds what).
 *
 * A block has four warps. A tile lies in shared memory: rows of D elements of bf16, in pieces of 8 (16 bytes), which are
 * permuted within their row, so that the same piece of 8 rows that follow one another lies in different banks. Of a product
 * a warp makes 16 rows: in registers, C[columns / 8][4], as the instruction has them. With g = lane / 4 and t = lane % 4,
 * element [n][i] is in row g + 8 (i / 2), column 8 n + 2 t + i % 2.
 *
 * The code is the same in softgpu's SIMT and checked mode. In fast mode, where a warp is one lane, it cannot run; below
 * compute capability 8.0 there are no such instructions, and kernels are empty (matrix_instructions_usable()). */
#ifndef EBB_MODEL_TENSOR_CUH
#define EBB_MODEL_TENSOR_CUH

#include "dropout.cuh"
#include "element.cuh"
#include "softgpu/intrinsics.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define MATRIX_INSTRUCTIONS 1
#else
#define MATRIX_INSTRUCTIONS 0
#endif

enum { TENSOR_THREADS = 128, WARP_ROWS = 16, TENSOR_ROWS = 64 /* of a block */ };

static __device__ __forceinline__ int lane_group(void)
{
    return block_lane() / 4;
}

static __device__ __forceinline__ int lane_pair(void)
{
    return block_lane() % 4 * 2;
}

#if MATRIX_INSTRUCTIONS

template <int D> static __device__ __forceinline__ bf16 *tile_piece(bf16 *tile, int row, int piece)
{
    return tile + row * D + ((piece ^ (row & 7)) * 8);
}

/* Asks for rows of a tensor, `stride` apart, whose elements are aligned to 16 bytes; rows from `rows` on become zeros. By all
 * threads of a block, in the group of copies that is committed next. */
template <int ROWS, int D>
static __device__ __forceinline__ void tile_fetch(bf16 *tile, const bf16 *from, size_t stride, int rows)
{
    constexpr int PIECES = D / 8, STEP = TENSOR_THREADS / PIECES; /* STEP is a multiple of 8 */
    const int first = block_thread() / PIECES, piece = block_thread() % PIECES;
    bf16 *const to = tile_piece<D>(tile, first, piece);
    from += piece * 8;
    UNROLL
    for (int row = 0; row < ROWS; row += STEP) {
        const bool there = first + row < rows;
        cp_async_zfill_16(to + row * D, from + (there ? (size_t)(first + row) : 0) * stride, there ? 16 : 0);
    }
}

/* Piece 2 * pair (+ 1 where `odd`) of row first + row, first a multiple of 8 and the same for the whole block, row and odd the
 * lane's: what depends on the lane is in two registers, whatever the pair. */
template <int D>
static __device__ __forceinline__ const bf16 *lane_piece(const bf16 *tile, int first, int row, int odd,
                                                         int pair)
{
    return tile + first * D + (row * D + (16 * pair ^ (odd ^ (row & 7)) * 8));
}

/* a = rows first ... first + 15, columns 16 k ... 16 k + 15, as the left factor. */
template <int D>
static __device__ __forceinline__ void left_factor(uint32_t (&a)[4], const bf16 *tile, int first, int k)
{
    ldmatrix_x4(a, lane_piece<D>(tile, first, block_lane() % 16, block_lane() / 16, k));
}

template <int D>
static __device__ __forceinline__ void left_factors(uint32_t (&a)[D / 16][4], const bf16 *tile, int first)
{
    UNROLL
    for (int k = 0; k < D / 16; k++)
        left_factor<D>(a[k], tile, first, k);
}

/* c[.. 2n, 2n + 1] += a times 16 columns, whose factors are b[0], b[1] and b[2], b[3]. */
static __device__ __forceinline__ void multiply_pair(float (&c0)[4], float (&c1)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[4])
{
    const uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
    mma_m16n8k16_bf16(c0, a, b0, c0);
    mma_m16n8k16_bf16(c1, a, b1, c1);
}

/* c[16,ROWS] += a[16,16] tile[ROWS,16 columns from 16 k]^T */
template <int D, int ROWS>
static __device__ __forceinline__ void add_product_by_rows(float (&c)[ROWS / 8][4], const uint32_t (&a)[4],
                                                           const bf16 *tile, int k)
{
    const int lane = block_lane(), row = lane / 16 * 8 + lane % 8, odd = lane / 8 % 2;
    UNROLL
    for (int n = 0; n < ROWS / 16; n++) {
        uint32_t b[4];
        ldmatrix_x4(b, lane_piece<D>(tile, 16 * n, row, odd, k));
        multiply_pair(c[2 * n], c[2 * n + 1], a, b);
    }
}

/* c[16,ROWS] = a[16,D] tile[ROWS,D]^T */
template <int D, int ROWS>
static __device__ __forceinline__ void product_by_rows(float (&c)[ROWS / 8][4],
                                                       const uint32_t (&a)[D / 16][4], const bf16 *tile)
{
    UNROLL
    for (int n = 0; n < ROWS / 8; n++)
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
    UNROLL
    for (int k = 0; k < D / 16; k++)
        add_product_by_rows<D, ROWS>(c, a[k], tile, k);
}

/* The same, a being rows first ... first + 15 of a tile. */
template <int D, int ROWS>
static __device__ __forceinline__ void product_by_rows(float (&c)[ROWS / 8][4], const bf16 *left, int first,
                                                       const bf16 *tile)
{
    UNROLL
    for (int n = 0; n < ROWS / 8; n++)
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
    UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4];
        left_factor<D>(a, left, first, k);
        add_product_by_rows<D, ROWS>(c, a, tile, k);
    }
}

/* c[16,D] += a[16,ROWS] tile[ROWS,D] */
template <int D, int ROWS>
static __device__ __forceinline__ void
add_product_by_columns(float (&c)[D / 8][4], const uint32_t (&a)[ROWS / 16][4], const bf16 *tile)
{
    UNROLL
    for (int k = 0; k < ROWS / 16; k++) {
        UNROLL
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, lane_piece<D>(tile, 16 * k, block_lane() % 16, block_lane() / 16, n));
            multiply_pair(c[2 * n], c[2 * n + 1], a[k], b);
        }
    }
}

/* A product becomes a left factor, rounded. */
template <int COLUMNS>
static __device__ __forceinline__ void round_product(uint32_t (&a)[COLUMNS / 16][4],
                                                     const float (&c)[COLUMNS / 8][4])
{
    UNROLL
    for (int k = 0; k < COLUMNS / 16; k++) {
        a[k][0] = pack_bf16(c[2 * k][0], c[2 * k][1]);
        a[k][1] = pack_bf16(c[2 * k][2], c[2 * k][3]);
        a[k][2] = pack_bf16(c[2 * k + 1][0], c[2 * k + 1][1]);
        a[k][3] = pack_bf16(c[2 * k + 1][2], c[2 * k + 1][3]);
    }
}

/* Rows of a tensor, `stride` apart, = factor[half] * c; only the first `rows` of the warp's 16 exist. */
template <int D>
static __device__ __forceinline__ void store_product(bf16 *to, size_t stride, const float (&c)[D / 8][4],
                                                     const float (&factor)[2], int rows)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = lane_group() + 8 * half;
        if (row < rows) {
            uint32_t *const words = (uint32_t *)(to + (size_t)row * stride + lane_pair());
            UNROLL
            for (int n = 0; n < D / 8; n++)
                words[4 * n] = pack_bf16(c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]);
        }
    }
}

/* Over the four lanes that share a row. */
static __device__ __forceinline__ float row_max(float x)
{
    x = larger(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return larger(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Which probabilities of a tile of queries q0 ... and keys k0 ... dropout keeps (those of kernels.h): bit j of
 * kept[query][i] is of key 4 i + j. By all threads of a block, no barrier. */
template <int QUERIES, int KEYS>
static __device__ __forceinline__ void fill_kept(uint8_t *kept, size_t bh, int T, int q0, int k0,
                                                 const mask_t &mask)
{
    _Pragma("unroll 1") /* registers are scarce */
        for (int first = 0; first < QUERIES * KEYS / 4; first += TENSOR_THREADS)
    {
        const int i = first + block_thread(), q = q0 + i / (KEYS / 4), k = k0 + i % (KEYS / 4) * 4;
        const uint64_t element = ((uint64_t)bh * (uint64_t)T + (uint64_t)q) * (uint64_t)T + (uint64_t)k;
        const uint64_t counter = mask_start(mask) + element / 4;
        const uint32_t shift = (uint32_t)element % 4, threshold = mask.threshold;
        const words_t w = philox((uint32_t)counter, (uint32_t)(counter >> 32), mask.seed);
        uint32_t bits = (uint32_t)(w.w0 >= threshold) | (uint32_t)(w.w1 >= threshold) << 1 |
                        (uint32_t)(w.w2 >= threshold) << 2 | (uint32_t)(w.w3 >= threshold) << 3;
        if (shift) {
            const words_t v = philox((uint32_t)(counter + 1), (uint32_t)((counter + 1) >> 32), mask.seed);
            bits |= (uint32_t)(v.w0 >= threshold) << 4 | (uint32_t)(v.w1 >= threshold) << 5 |
                    (uint32_t)(v.w2 >= threshold) << 6;
        }
        kept[i] = (uint8_t)(bits >> shift & 15u);
    }
}

#endif
#endif
