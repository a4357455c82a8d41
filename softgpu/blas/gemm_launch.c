/* gemm_launch.c: which kernel computes a product, its arguments, and its tiles. */
#include "softgpu/blas/element.h"
#include "softgpu/blas/gemm.h"

#include <limits.h>
#include <string.h>

int gemm_types_supported(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType c,
                         softgpu_arithmetic_t *arithmetic)
{
    const int is_fp32 = a == CUDA_R_32F && c == CUDA_R_32F,
              is_small = (a == CUDA_R_16BF || a == CUDA_R_16F) && (c == a || c == CUDA_R_32F);
    if (a != b)
        return 0;
    switch (compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
        *arithmetic = a == CUDA_R_16BF ? SOFTGPU_BF16 : a == CUDA_R_16F ? SOFTGPU_FP16 : SOFTGPU_FP32;
        return is_fp32 || is_small;
    case CUBLAS_COMPUTE_32F_FAST_16F:
        *arithmetic = SOFTGPU_FP16;
        return is_fp32;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
        *arithmetic = SOFTGPU_BF16;
        return is_fp32;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        *arithmetic = SOFTGPU_TF32;
        return is_fp32;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        *arithmetic = SOFTGPU_FP64;
        return a == CUDA_R_64F && c == CUDA_R_64F;
    default:
        return 0;
    }
}

static int is_split(const gemm_call_t *call)
{
    return call->splits > 1;
}

/* How a product is cut into tiles, one for each block: by m, n, k and the number of products, and by nothing else.
 *
 * Large tiles are efficient (OpenBLAS packs both operands of every tile anew), several are needed to keep
 * workers busy, and equally so. Chosen by measurement (tests/softgpu/cublas/measure_sgemm.c) on two cores
 * with AVX-512: one thread loses 2-5% against a single call for y and dx of a layer, 5-12% for dW, whose sides
 * are short. Columns of C are long in memory and cheap to cut between: n is divided first. */
enum {
    UNIT = 16,      /* tiles are multiples of OpenBLAS's register tile */
    GOOD_COUNT = 8, /* enough tiles: made if they keep this side and this many multiply-adds */
    GOOD_SIDE = 256,
    GOOD_WORK = 1 << 24,
    FEW = 4, /* the fewest that are acceptable: for them, tiles may be as small as this */
    SMALLEST_SIDE = 64,
    SMALLEST_WORK = 1 << 20
};

static int64_t parts(int64_t length, int64_t step)
{
    return (length + step - 1) / step;
}

/* `length` in `count` nearly equal pieces, multiples of OpenBLAS's register tile. */
static int64_t piece(int64_t length, int64_t count)
{
    return parts(parts(length, count), UNIT) * UNIT;
}

/* Halves n while it is long, then the longer side. 0: the side would be too short, or the tile too little
 * work. */
static int halve(gemm_tiles_t *t, int64_t k, int64_t shortest, int64_t least_work)
{
    int64_t *side = t->n > GOOD_SIDE || t->n >= t->m ? &t->n : &t->m;
    if (*side < 2 * shortest || t->m * t->n / 2 * k < least_work)
        return 0;
    *side = piece(*side, 2);
    return 1;
}

static gemm_tiles_t choose_size(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    gemm_tiles_t t = {.m = piece(m, parts(m, GEMM_LARGEST_M)), .n = piece(n, parts(n, GEMM_LARGEST_N))};
    while (parts(m, t.m) * parts(n, t.n) * batch < GOOD_COUNT && halve(&t, k, GOOD_SIDE, GOOD_WORK))
        ;
    while (parts(m, t.m) * parts(n, t.n) * batch < FEW && halve(&t, k, SMALLEST_SIDE, SMALLEST_WORK))
        ;
    t.down = parts(m, t.m);
    t.across = parts(n, t.n);
    return t;
}

/* For sums of its rows a tile is as wide as D. */
static gemm_tiles_t choose_tiles(const gemm_call_t *call)
{
    gemm_tiles_t tiles = choose_size(call->m, call->n, call->k, call->batch);
    if (call->epilogue & GEMM_BGRAD) {
        tiles.n = call->n;
        tiles.across = 1;
    }
    return tiles;
}

int64_t gemm_tile_count(const gemm_call_t *call)
{
    const gemm_tiles_t tiles = choose_tiles(call);
    return tiles.down * tiles.across * call->batch;
}

int gemm_may_split(const gemm_call_t *call)
{
    return !(call->epilogue & (GEMM_BGRAD | GEMM_BGRADA | GEMM_BGRADB)) && call->d.type != CUDA_R_64F &&
           gemm_tile_count(call) <= BLAS_COUNTERS;
}

/* The workspace begins with room for one counter a tile, whether they are kept there or not. */
static size_t counter_bytes(const gemm_call_t *call)
{
    return ((size_t)gemm_tile_count(call) * sizeof(uint32_t) + 255) / 256 * 256;
}

size_t gemm_workspace_bytes(const gemm_call_t *call)
{
    if (!is_split(call))
        return 0;
    const gemm_tiles_t tiles = choose_tiles(call);
    const size_t parts = (size_t)gemm_tile_count(call) * (size_t)call->splits;
    return counter_bytes(call) + parts * (size_t)(tiles.m * tiles.n) * sizeof(float);
}

/* A tile is one call of OpenBLAS with 32-bit sizes. */
static int fits_openblas(const gemm_call_t *call)
{
    return call->k <= INT_MAX && call->a.ld <= INT_MAX && call->b.ld <= INT_MAX && call->d.ld <= INT_MAX;
}

static int is_direct(const gemm_call_t *call)
{
    const cudaDataType type = call->d.type;
    const int in_place = call->c.data == call->d.data && call->c.ld == call->d.ld &&
                         (call->batch == 1 || call->c.stride == call->d.stride);
    return (type == CUDA_R_32F || type == CUDA_R_64F) && call->a.type == type && !call->epilogue &&
           !is_split(call) && (in_place || (call->beta == 0 && !call->device_beta));
}

static cublasStatus_t launch_direct(blas_context_t *context, CUstream stream, const gemm_call_t *call)
{
    if (!call->device_alpha && call->beta == 1 && (call->alpha == 0 || call->k == 0))
        return CUBLAS_STATUS_SUCCESS; /* C stays as it is */
    gemm_direct_t p = {
        .a = call->a.data,
        .b = call->b.data,
        .c = (void *)(uintptr_t)call->d.data,
        .device_alpha = call->device_alpha,
        .device_beta = call->device_beta,
        .shape = {.m = call->m,
                  .n = call->n,
                  .k = call->k,
                  .batch = call->batch,
                  .lda = call->a.ld,
                  .ldb = call->b.ld,
                  .ldc = call->d.ld,
                  .stride_a = call->a.stride,
                  .stride_b = call->b.stride,
                  .stride_c = call->d.stride,
                  .tiles = choose_tiles(call),
                  .alpha = call->alpha,
                  .beta = call->beta,
                  .transpose_a = call->transpose_a,
                  .transpose_b = call->transpose_b,
                  .arithmetic = (int32_t)call->arithmetic},
    };
    void *arguments[] = {&p.a, &p.b, &p.c, &p.device_alpha, &p.device_beta, &p.shape};
    const blas_kernel_t kernel = call->d.type == CUDA_R_64F ? BLAS_DGEMM : BLAS_SGEMM;
    return blas_launch(context, stream, call->tables ? kernel + 1 : kernel, gemm_tile_count(call), arguments);
}

static gemm_mixed_t mixed_arguments(const gemm_call_t *call)
{
    return (gemm_mixed_t){
        .a = call->a.data,
        .b = call->b.data,
        .c = call->beta == 0 && !call->device_beta ? NULL : call->c.data,
        .d = (void *)(uintptr_t)call->d.data,
        .bias = call->bias,
        .aux = call->aux,
        .device_alpha = call->device_alpha,
        .device_beta = call->device_beta,
        .shape = {.m = call->m,
                  .n = call->n,
                  .k = call->k,
                  .batch = call->batch,
                  .lda = call->a.ld,
                  .ldb = call->b.ld,
                  .ldc = call->c.ld,
                  .ldd = call->d.ld,
                  .stride_a = call->a.stride,
                  .stride_b = call->b.stride,
                  .stride_c = call->c.stride,
                  .stride_d = call->d.stride,
                  .bias_stride = call->bias_stride,
                  .aux_ld = call->aux_ld,
                  .aux_stride = call->aux_stride,
                  .tiles = choose_tiles(call),
                  .alpha = (float)call->alpha,
                  .beta = (float)call->beta,
                  .transpose_a = call->transpose_a,
                  .transpose_b = call->transpose_b,
                  .bias_by_column = call->bias_by_column,
                  .splits = is_split(call) ? call->splits : 1,
                  .type_ab = (int32_t)call->a.type,
                  .type_d = (int32_t)call->d.type,
                  .epilogue = (int32_t)call->epilogue,
                  .arithmetic = (int32_t)call->arithmetic},
    };
}

static int map_type(cudaDataType type, CUtensorMapDataType *out)
{
    *out = type == CUDA_R_16BF  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
           : type == CUDA_R_16F ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return type == CUDA_R_16BF || type == CUDA_R_16F || type == CUDA_R_32F;
}

/* 0: the device has no maps, or none for such a matrix. */
static int map_matrix(cuuint64_t out[16], const gemm_matrix_t *x, int64_t rows, int64_t columns,
                      int64_t batch)
{
    enum { BOX_BYTES = 64 };
    const cuuint32_t bytes = (cuuint32_t)element_bytes((int32_t)x->type);
    const cuuint64_t size[] = {(cuuint64_t)rows, (cuuint64_t)columns, (cuuint64_t)batch},
                     stride[] = {(cuuint64_t)x->ld * bytes, (cuuint64_t)x->stride * bytes};
    const cuuint32_t box[] = {BOX_BYTES / bytes, 1, 1}, step[] = {1, 1, 1};
    CUtensorMapDataType type;
    CUtensorMap map;
    if (!map_type(x->type, &type) || (batch > 1 && x->stride <= 0) ||
        blas_driver.cuTensorMapEncodeTiled(&map, type, batch > 1 ? 3 : 2, (void *)(uintptr_t)x->data, size,
                                           stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
        return 0;
    memcpy(out, map.opaque, sizeof map.opaque);
    return 1;
}

static void use_maps(gemm_mixed_t *p, const gemm_call_t *call)
{
    const int64_t rows_a = call->transpose_a ? call->k : call->m,
                  rows_b = call->transpose_b ? call->n : call->k;
    if (call->tables || !map_matrix(p->maps.a, &call->a, rows_a, call->m + call->k - rows_a, call->batch) ||
        !map_matrix(p->maps.b, &call->b, rows_b, call->n + call->k - rows_b, call->batch) ||
        !map_matrix(p->maps.d, &call->d, call->m, call->n, call->batch))
        return;
    p->shape.mapped = p->c == p->d ? GEMM_MAPS_IN_PLACE : GEMM_MAPS;
    if (p->c == p->d)
        p->c = NULL;
    p->a = p->b = p->d = NULL;
}

/* `kernel` or the one like it, as the call asks. */
static blas_kernel_t mixed_kernel(blas_kernel_t kernel, const gemm_call_t *call)
{
    const unsigned grad = call->epilogue & GEMM_GRAD ? BLAS_GEMM_GRAD - BLAS_GEMM : 0;
    return kernel + grad + (call->tables ? 1u : 0u);
}

static cublasStatus_t launch_mixed(blas_context_t *context, CUstream stream, const gemm_call_t *call)
{
    gemm_mixed_t p = mixed_arguments(call);
    use_maps(&p, call);
    const int64_t tiles = gemm_tile_count(call);
    CUdeviceptr counters = 0;
    if (is_split(call)) {
        p.workspace = (char *)call->workspace + counter_bytes(call);
        if (!call->reduce_apart) {
            CUresult result = blas_counters(context, stream, (CUdeviceptr)(uintptr_t)call->workspace,
                                            (unsigned)tiles, &counters);
            if (result != CUDA_SUCCESS)
                return blas_status(result);
            p.counters = (void *)(uintptr_t)counters;
        }
    }
    void *arguments[] = {&p.maps,         &p.a,           &p.b,         &p.c,        &p.d,    &p.bias, &p.aux,
                         &p.device_alpha, &p.device_beta, &p.workspace, &p.counters, &p.shape};
    const blas_kernel_t kernel = mixed_kernel(is_split(call) ? BLAS_GEMM_SPLITK : BLAS_GEMM, call);
    cublasStatus_t status = blas_launch(context, stream, kernel, tiles * p.shape.splits, arguments);
    if (status != CUBLAS_STATUS_SUCCESS || !is_split(call) || counters)
        return status;
    return blas_launch(context, stream, mixed_kernel(BLAS_SPLITK_REDUCE, call), tiles, arguments);
}

cublasStatus_t gemm_launch(blas_context_t *context, CUstream stream, const gemm_call_t *call)
{
    if (!fits_openblas(call))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (call->m == 0 || call->n == 0 || call->batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (is_direct(call))
        return launch_direct(context, stream, call);
    if (!element_is_small_float((int32_t)call->d.type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return launch_mixed(context, stream, call);
}
