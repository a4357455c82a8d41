/* gemm.h: one matrix product, as it goes from the interfaces (gemm.c, gemm_ex.c, cublaslt/) to the kernels.
 * Column-major, as BLAS:
 *
 *   D[m,n] = epilogue(alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n])
 *
 * for `batch` products, whose operands lie strides apart or stand in tables of pointers. The kernels' bits
 * depend on shape and operands only: not on who computes a tile, on addresses, or on what else runs.
 *
 * Two ways lead to the numbers. Direct (gemm_direct.c): one type throughout, no epilogue, C = D; a tile is one
 * OpenBLAS call on the operands themselves. Mixed (kernels/gemm_mixed.c): all else; products are summed in fp32,
 * scaled, finished (kernels/finish.c) and rounded to D's type once. Where the device has tensor maps (compute capability 9.0)
 * these kernels take A, B and D by them if their alignment allows it, as cuBLAS does: no argument shows an address.
 */
#ifndef SOFTGPU_CUBLAS_GEMM_H
#define SOFTGPU_CUBLAS_GEMM_H

#include "softgpu/blas/device.h"
#include "softgpu/kernel_abi.h"

/* What follows the product, in this order. The numbers are those of cublasLtEpilogue_t. */
enum {
    GEMM_BIAS = 4, /* adds bias[i] to row i */
    GEMM_AUX =
        128, /* with RELU, GELU: stores what they are applied to (RELU: its sign); with DRELU, DGELU: reads that */
    GEMM_RELU = 2,     /* max(x, 0) */
    GEMM_GELU = 32,    /* in its tanh form */
    GEMM_DRELU = 8,    /* multiplies by RELU's derivative at aux */
    GEMM_DGELU = 64,   /* the same for GELU */
    GEMM_BGRAD = 16,   /* bias[i] becomes the sum of row i of the result, before it is rounded */
    GEMM_BGRADA = 256, /* bias[i] becomes the sum of row i of op(A) */
    GEMM_BGRADB = 512  /* bias[j] becomes the sum of column j of op(B) */
};

/* Those of a backward pass: they write bias and read aux, the others the other way round. */
enum { GEMM_GRAD = GEMM_DRELU | GEMM_DGELU | GEMM_BGRAD | GEMM_BGRADA | GEMM_BGRADB };

/* One operand. A table (gemm_call_t.tables) holds `batch` pointers and lies on the device. */
typedef struct gemm_matrix {
    const void *data;
    int64_t ld, stride; /* elements */
    cudaDataType type;
} gemm_matrix_t;

typedef struct gemm_call {
    int64_t m, n, k, batch;
    int transpose_a, transpose_b;
    gemm_matrix_t a, b, c, d;
    int tables;
    double alpha, beta;
    const void *device_alpha, *device_beta; /* instead, if not NULL: fp32, or fp64 for products in fp64 */
    unsigned epilogue;
    void *bias; /* of D's type */
    int64_t bias_stride;
    int bias_by_column; /* bias[j] is for column j: D is row-major to its owner */
    void *aux;          /* of D's type, or bits (RELU, DRELU) */
    int64_t aux_ld, aux_stride;
    int splits;       /* the sum over k in so many parts, if more than 1 */
    int reduce_apart; /* the parts are added up by a second kernel, not by the last block of a tile */
    void *workspace;  /* gemm_workspace_bytes of them */
    softgpu_arithmetic_t arithmetic; /* what a GPU would compute with; the cost depends on it, no bits do */
} gemm_call_t;

/* gemm_launch.c. Nothing is checked there but what a kernel cannot do: NOT_SUPPORTED. */
cublasStatus_t gemm_launch(blas_context_t *context, CUstream stream, const gemm_call_t *call);
size_t gemm_workspace_bytes(const gemm_call_t *call); /* 0 unless the sum is split */
int64_t gemm_tile_count(const gemm_call_t *call);     /* in all products together */
/* Can the sum be split? Not with sums of rows or columns in the epilogue, nor with too many tiles. */
int gemm_may_split(const gemm_call_t *call);
/* Whether cuBLAS and cuBLASLt multiply these types with fp32 or fp64 sums, and with which arithmetic. */
int gemm_types_supported(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType c,
                         softgpu_arithmetic_t *arithmetic);

/* ---- the kernels' arguments ---- */

/* The part of C that a block computes. */
typedef struct gemm_tiles {
    int64_t m, n;         /* size of a tile */
    int64_t down, across; /* how many */
} gemm_tiles_t;

enum { GEMM_LARGEST_M = 1024, GEMM_LARGEST_N = 512 };

/* BLAS_SGEMM, BLAS_DGEMM; C is D. In _BATCHED, a, b and c are tables. */
typedef struct gemm_direct {
    const void *a, *b;
    void *c;
    const void *device_alpha, *device_beta;
    struct gemm_direct_shape {
        int64_t m, n, k, batch;
        int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
        gemm_tiles_t tiles;
        double alpha, beta;
        int32_t transpose_a, transpose_b, arithmetic, reserved;
    } shape;
} gemm_direct_t;

/* GEMM_MAPS_IN_PLACE: c is NULL as well, and d. */
enum { GEMM_POINTERS, GEMM_MAPS, GEMM_MAPS_IN_PLACE };

/* A CUtensorMap each. */
typedef struct gemm_maps {
    cuuint64_t a[16], b[16], d[16];
} gemm_maps_t;

/* BLAS_GEMM, BLAS_GEMM_SPLITK, BLAS_SPLITK_REDUCE. In _BATCHED, a, b, c and d are tables. */
typedef struct gemm_mixed {
    gemm_maps_t maps; /* unless shape.mapped is GEMM_POINTERS: a, b and d are NULL */
    const void *a, *b, *c;
    void *d, *bias, *aux;
    const float *device_alpha, *device_beta;
    void *workspace;    /* [tile][split][tiles.m * tiles.n] fp32 */
    uint32_t *counters; /* [tile]: splits that have arrived; NULL: a second kernel adds up */
    struct gemm_mixed_shape {
        int64_t m, n, k, batch;
        int64_t lda, ldb, ldc, ldd, stride_a, stride_b, stride_c, stride_d;
        int64_t bias_stride, aux_ld, aux_stride;
        gemm_tiles_t tiles;
        float alpha, beta;
        int32_t transpose_a, transpose_b, bias_by_column, splits;
        int32_t type_ab, type_d; /* cudaDataType */
        int32_t epilogue, arithmetic;
        int32_t mapped, reserved;
    } shape;
} gemm_mixed_t;

void gemm_run_direct_f32(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void gemm_run_direct_f32_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void gemm_run_direct_f64(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void gemm_run_direct_f64_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
softgpu_cost_t gemm_cost_direct(const softgpu_launch_t *launch);
void gemm_run_mixed(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void gemm_run_mixed_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
softgpu_cost_t gemm_cost_mixed(const softgpu_launch_t *launch);
void gemm_run_reduce(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void gemm_run_reduce_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
softgpu_cost_t gemm_cost_reduce(const softgpu_launch_t *launch);

/* ---- between the kernels' files ---- */

/* Called by a worker before it calls OpenBLAS (openblas.c). */
void blas_prepare_thread(void);

/* One tile of one product. */
typedef struct gemm_tile {
    int64_t batch, i, j, rows, columns; /* its first row and column */
    int64_t index;                      /* among all tiles of all products */
} gemm_tile_t;

/* The operands of one product, found from strides or tables. */
typedef struct gemm_operands {
    const char *a, *b, *c;
    char *d;
} gemm_operands_t;

/* kernels/finish.c: x[rows,columns], `rows` apart, holds the finished sums of a tile and is used up: scales, applies the epilogue and
 * stores. With GEMM_BGRAD, row_sums[rows] grow by the sums of the result's rows. */
void gemm_finish(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile, float *x,
                 double *row_sums);
/* bias[] of GEMM_BGRAD for the rows of a tile. */
void gemm_store_row_sums(const gemm_mixed_t *p, const gemm_tile_t *tile, const double *row_sums);
/* GEMM_BGRADA and GEMM_BGRADB, for the rows or columns of a tile that is the first to have them. */
void gemm_sum_factor(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile);

#endif
