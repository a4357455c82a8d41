#include "model/layers/linear.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/kernels/kernels.h"
#include "model/kernels/launches.h"

static const float one = 1.0f, zero = 0.0f;

/* What is multiplied, and what follows. */
typedef enum product {
    FORWARD,
    FORWARD_FP32,
    FORWARD_BIAS,
    FORWARD_GELU,
    INPUT,
    INPUT_GELU,
    WEIGHT,
    WEIGHT_BIAS
} product_t;

/* One product of one shape, ready to be issued. */
typedef struct plan {
    product_t product;
    linear_t shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    int possible; /* the library has an algorithm for it */
} plan_t;

struct linear_plans {
    cublasLtHandle_t lt;
    plan_t *plans; /* owns [count], room for `room` */
    size_t count, room;
    tensor_t workspace;
};

void linear_open(gpu_t *gpu, size_t workspace_bytes)
{
    gpu->linear = calloc(1, sizeof *gpu->linear);
    if (gpu->linear == NULL)
        fatal("no host memory for the products' plans");
    BLAS(cublasLtCreate(&gpu->linear->lt));
    if (workspace_bytes > 0)
        gpu->linear->workspace =
            tensor_new_permanent(gpu, MEMORY_WORKSPACE, DTYPE_FP32, (workspace_bytes + 255) / 256 * 64);
}

void linear_close(gpu_t *gpu)
{
    struct linear_plans *all = gpu->linear;
    for (size_t i = 0; i < all->count; i++) {
        BLAS(cublasLtMatrixLayoutDestroy(all->plans[i].a));
        BLAS(cublasLtMatrixLayoutDestroy(all->plans[i].b));
        BLAS(cublasLtMatrixLayoutDestroy(all->plans[i].d));
        BLAS(cublasLtMatmulDescDestroy(all->plans[i].operation));
    }
    BLAS(cublasLtDestroy(all->lt));
    tensor_free_permanent(gpu, &all->workspace);
    free(all->plans);
    free(all);
    gpu->linear = NULL;
}

/* ---- plans: BF16 by cuBLASLt ---- */

static void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t bytes)
{
    BLAS(cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes));
}

static cublasLtEpilogue_t epilogue_of(product_t product)
{
    switch (product) {
    case FORWARD_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case FORWARD_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case INPUT_GELU:
        return CUBLASLT_EPILOGUE_DGELU;
    case WEIGHT_BIAS:
        return CUBLASLT_EPILOGUE_BGRADB;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* The pointers that the epilogue takes, for this call. */
static void set_operands(const plan_t *plan, const void *bias, const void *aux)
{
    if (bias != NULL)
        set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (aux != NULL)
        set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
}

static void describe(plan_t *plan)
{
    linear_t s = plan->shape;
    uint64_t in = (uint64_t)s.in, out = (uint64_t)s.out, rows = (uint64_t)s.rows;
    cublasOperation_t yes = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = epilogue_of(plan->product);
    BLAS(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    switch (plan->product) { /* in column-major terms: D[m,n], A, B */
    case FORWARD:
    case FORWARD_FP32:
    case FORWARD_BIAS:
    case FORWARD_GELU:
        set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes);
        BLAS(cublasLtMatrixLayoutCreate(&plan->a, CUDA_R_16BF, in, out, s.in));
        BLAS(cublasLtMatrixLayoutCreate(&plan->b, CUDA_R_16BF, in, rows, s.in));
        BLAS(cublasLtMatrixLayoutCreate(&plan->d, plan->product == FORWARD_FP32 ? CUDA_R_32F : CUDA_R_16BF,
                                        out, rows, s.out));
        break;
    case INPUT:
    case INPUT_GELU:
        BLAS(cublasLtMatrixLayoutCreate(&plan->a, CUDA_R_16BF, in, out, s.in));
        BLAS(cublasLtMatrixLayoutCreate(&plan->b, CUDA_R_16BF, out, rows, s.out));
        BLAS(cublasLtMatrixLayoutCreate(&plan->d, CUDA_R_16BF, in, rows, s.in));
        break;
    case WEIGHT:
    case WEIGHT_BIAS:
        set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &yes, sizeof yes);
        BLAS(cublasLtMatrixLayoutCreate(&plan->a, CUDA_R_16BF, in, rows, s.in));
        BLAS(cublasLtMatrixLayoutCreate(&plan->b, CUDA_R_16BF, out, rows, s.out));
        BLAS(cublasLtMatrixLayoutCreate(&plan->d, CUDA_R_32F, in, out, s.in));
        break;
    }
    int64_t aux = plan->product == FORWARD_GELU ? s.out : s.in;
    if (plan->product == FORWARD_GELU || plan->product == INPUT_GELU)
        set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux, sizeof aux);
}

static void choose(gpu_t *gpu, plan_t *plan)
{
    plan->possible = rehearsing;
    if (rehearsing)
        return;
    size_t bytes = gpu->linear->workspace.bytes;
    uint32_t alignment = 16; /* of tensors inside a group, and of rows */
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreference_t preference;
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                              sizeof bytes));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        BLAS(cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment, sizeof alignment));
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(gpu->linear->lt, plan->operation, plan->a, plan->b,
                                                           plan->d, plan->d, preference, 1, &result, &found);
    plan->possible = status == CUBLAS_STATUS_SUCCESS && found > 0;
    if (plan->possible)
        plan->algorithm = result.algo;
    BLAS(cublasLtMatmulPreferenceDestroy(preference));
}

/* The kept plan, or a new one. bias and aux are this call's. */
static const plan_t *find_plan(gpu_t *gpu, product_t product, linear_t shape, const void *bias,
                               const void *aux)
{
    struct linear_plans *all = gpu->linear;
    for (size_t i = 0; i < all->count; i++) {
        const plan_t *plan = &all->plans[i];
        if (plan->product == product && plan->shape.rows == shape.rows && plan->shape.in == shape.in &&
            plan->shape.out == shape.out) {
            set_operands(plan, bias, aux);
            return plan;
        }
    }
    if (all->count == all->room) {
        all->room = all->room > 0 ? 2 * all->room : 32;
        all->plans = realloc(all->plans, all->room * sizeof *all->plans);
        if (all->plans == NULL)
            fatal("no host memory for %zu plans of products", all->room);
    }
    plan_t *plan = &all->plans[all->count++];
    *plan = (plan_t){.product = product, .shape = shape};
    describe(plan);
    set_operands(plan, bias, aux);
    choose(gpu, plan);
    return plan;
}

static void run(gpu_t *gpu, const plan_t *plan, void *d, const void *a, const void *b, int accumulate)
{
    const tensor_t *workspace = &gpu->linear->workspace;
    if (!plan->possible)
        fatal("cuBLASLt has no way to multiply %d rows by a bf16 matrix [%d,%d] (kind %d); use --dtype fp32",
              plan->shape.rows, plan->shape.out, plan->shape.in, (int)plan->product);
    launched();
    BLAS(cublasLtMatmul(gpu->linear->lt, plan->operation, &one, a, plan->a, b, plan->b,
                        accumulate ? &one : &zero, d, plan->d, d, plan->d, &plan->algorithm, workspace->data,
                        workspace->bytes, gpu->stream));
}

/* ---- products ---- */

/* In column-major terms: c[m,n] = op(a) op(b), of m rows, whose leading dimension is c's, too. */
typedef struct sgemm {
    cublasOperation_t op_a, op_b;
    int m, n, k;
} sgemm_t;

static void sgemm(gpu_t *gpu, sgemm_t s, float *c, const float *a, int leading_a, const float *b,
                  int leading_b, int accumulate)
{
    launched();
    BLAS(cublasSgemm(gpu->blas, s.op_a, s.op_b, s.m, s.n, s.k, &one, a, leading_a, b, leading_b,
                     accumulate ? &one : &zero, c, s.m));
}

void linear_forward(gpu_t *gpu, dtype_t dtype, linear_t s, void *y, const void *x, const void *w,
                    const void *bias)
{
    if (dtype == DTYPE_BF16) {
        run(gpu, find_plan(gpu, bias != NULL ? FORWARD_BIAS : FORWARD, s, bias, NULL), y, w, x, 0);
        return;
    }
    linear_forward_fp32(gpu, dtype, s, y, x, w);
    if (bias != NULL)
        CUDA(bias_forward(dtype, y, bias, s.rows, s.out, gpu->stream));
}

void linear_forward_fp32(gpu_t *gpu, dtype_t dtype, linear_t s, float *y, const void *x, const void *w)
{
    if (dtype == DTYPE_BF16)
        run(gpu, find_plan(gpu, FORWARD_FP32, s, NULL, NULL), y, w, x, 0);
    else
        sgemm(gpu, (sgemm_t){CUBLAS_OP_T, CUBLAS_OP_N, s.out, s.rows, s.in}, y, w, s.in, x, s.in, 0);
}

void linear_backward_input(gpu_t *gpu, dtype_t dtype, linear_t s, void *dx, const void *dy, const void *w)
{
    if (dtype == DTYPE_BF16)
        run(gpu, find_plan(gpu, INPUT, s, NULL, NULL), dx, w, dy, 0);
    else
        sgemm(gpu, (sgemm_t){CUBLAS_OP_N, CUBLAS_OP_N, s.in, s.rows, s.out}, dx, w, s.in, dy, s.out, 0);
}

/* The bias's gradient by a pass of its own. */
static void sum_columns(gpu_t *gpu, dtype_t dtype, linear_t s, float *dbias, const void *dy, int accumulate)
{
    size_t bytes = column_sum_scratch(s.rows, s.out);
    tensor_t scratch = tensor_new_of(gpu, MEMORY_WORKSPACE, DTYPE_FP32, bytes / sizeof(float));
    CUDA(column_sum(dtype, dbias, dy, s.rows, s.out, accumulate, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
}

void linear_backward_weight(gpu_t *gpu, dtype_t dtype, linear_t s, float *dw, float *dbias, const void *dy,
                            const void *x, int accumulate)
{
    if (dw == NULL)
        return;
    if (dtype == DTYPE_BF16) {
        /* The epilogue overwrites, and not every device has it. */
        const plan_t *plan =
            dbias != NULL && !accumulate ? find_plan(gpu, WEIGHT_BIAS, s, dbias, NULL) : NULL;
        if (plan != NULL && plan->possible) {
            run(gpu, plan, dw, x, dy, accumulate);
            return;
        }
        run(gpu, find_plan(gpu, WEIGHT, s, NULL, NULL), dw, x, dy, accumulate);
    } else {
        sgemm(gpu, (sgemm_t){CUBLAS_OP_N, CUBLAS_OP_T, s.in, s.out, s.rows}, dw, x, s.in, dy, s.out,
              accumulate);
    }
    if (dbias != NULL)
        sum_columns(gpu, dtype, s, dbias, dy, accumulate);
}

void linear_gelu_forward(gpu_t *gpu, linear_t s, void *act, void *up, const void *x, const void *w,
                         const void *bias)
{
    run(gpu, find_plan(gpu, FORWARD_GELU, s, bias, up), act, w, x, 0);
}

void linear_gelu_backward_input(gpu_t *gpu, linear_t s, void *dup, const void *dy, const void *w,
                                const void *up)
{
    run(gpu, find_plan(gpu, INPUT_GELU, s, NULL, up), dup, w, dy, 0);
}

void batched_matmul(gpu_t *gpu, dtype_t dtype, dtype_t result, batched_t s, void *c, const void *a,
                    const void *b)
{
    int leading_a = s.leading_a > 0 ? s.leading_a : s.transpose_a ? s.M : s.K;
    int leading_b = s.leading_b > 0 ? s.leading_b : s.transpose_b ? s.K : s.N;
    int leading_c = s.leading_c > 0 ? s.leading_c : s.N;
    const float *beta = s.accumulate ? &one : &zero;
    long long stride_a = (long long)s.M * s.K, stride_b = (long long)s.K * s.N,
              stride_c = (long long)s.M * s.N;
    cublasOperation_t op_a = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    launched();
    if (dtype == DTYPE_BF16)
        BLAS(cublasGemmStridedBatchedEx(gpu->blas, op_b, op_a, s.N, s.M, s.K, &s.scale, b, CUDA_R_16BF,
                                        leading_b, stride_b, a, CUDA_R_16BF, leading_a, stride_a, beta, c,
                                        result == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F, leading_c, stride_c,
                                        s.batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    else
        BLAS(cublasSgemmStridedBatched(gpu->blas, op_b, op_a, s.N, s.M, s.K, &s.scale, b, leading_b, stride_b,
                                       a, leading_a, stride_a, beta, c, leading_c, stride_c, s.batch));
}
