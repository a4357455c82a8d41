/* lt_test.h: what the cuBLASLt test programs share: a product with all that it may have, its descriptors and operands, and
 * its reference in double precision. */
#ifndef LT_TEST_H
#define LT_TEST_H

#include "../cublas/typed.h"

#include <cublasLt.h>

static cublasLtHandle_t lt;

static inline int lt_setup(void **state)
{
    (void)state;
    return cublasLtCreate(&lt) == CUBLAS_STATUS_SUCCESS ? 0 : -1;
}

static inline int lt_teardown(void **state)
{
    (void)state;
    return cublasLtDestroy(lt) == CUBLAS_STATUS_SUCCESS ? 0 : -1;
}

typedef struct product {
    int m, n, k;
    cublasOperation_t ta, tb;
    cudaDataType in, out;
    cublasLtEpilogue_t epilogue; /* 0: the default one */
    float alpha, beta;
    int pad, batch; /* added to leading dimensions; 0: no batch */
    cublasLtOrder_t order_a, order_b, order_d;
    int in_place;  /* C is D */
    int tables;    /* operands stand in tables */
    int on_device; /* alpha and beta */
} product_t;

/* A matrix as the program holds it: rows and columns before any transposition. */
typedef struct matrix {
    cublasLtMatrixLayout_t layout;
    array_t array;
    int rows, columns, ld, is_row_major;
    size_t step; /* elements to the next product's */
    void **table;
} matrix_t;

static inline size_t place(const matrix_t *x, int one, int i, int j)
{
    return (size_t)one * x->step +
           (x->is_row_major ? (size_t)j + (size_t)i * (size_t)x->ld : (size_t)i + (size_t)j * (size_t)x->ld);
}

static inline int batch_of(const product_t *p)
{
    return p->batch ? p->batch : 1;
}

static inline matrix_t matrix_new(const product_t *p, cudaDataType type, int rows, int columns,
                                  cublasLtOrder_t order, uint64_t seed)
{
    matrix_t x = {.rows = rows, .columns = columns, .is_row_major = order == CUBLASLT_ORDER_ROW};
    const int line = x.is_row_major ? columns : rows, lines = x.is_row_major ? rows : columns,
              batch = batch_of(p);
    x.ld = (line > 1 ? line : 1) + p->pad;
    x.step = (size_t)x.ld * (size_t)lines + (size_t)p->pad;
    x.array = array_new(type, x.step * (size_t)batch, seed);
    BLAS_OK(cublasLtMatrixLayoutCreate(&x.layout, type, (uint64_t)rows, (uint64_t)columns, x.ld));
    const int32_t how = (int32_t)order;
    const int64_t step = (int64_t)x.step;
    const uint32_t mode = p->tables ? CUBLASLT_BATCH_MODE_POINTER_ARRAY : CUBLASLT_BATCH_MODE_STRIDED;
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(x.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &how, sizeof how));
    BLAS_OK(
        cublasLtMatrixLayoutSetAttribute(x.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    BLAS_OK(
        cublasLtMatrixLayoutSetAttribute(x.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode, sizeof mode));
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(x.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                             sizeof step));
    return x;
}

/* What the call takes: the matrix, or a table of as many pointers as there are products. */
static inline void *argument(const product_t *p, matrix_t *x)
{
    void *host[16];
    if (!p->tables)
        return x->array.device;
    for (int i = 0; i < batch_of(p); i++)
        host[i] = (char *)x->array.device + (size_t)i * x->step * type_bytes(x->array.type);
    OK(cudaMalloc((void **)&x->table, sizeof host));
    OK(cudaMemcpy(x->table, host, sizeof host, cudaMemcpyHostToDevice));
    return x->table;
}

static inline void matrix_free(matrix_t *x)
{
    BLAS_OK(cublasLtMatrixLayoutDestroy(x->layout));
    OK(cudaFree(x->table));
    array_free(&x->array);
}

/* A product with everything allocated. */
typedef struct problem {
    product_t p;
    cublasLtMatmulDesc_t operation;
    matrix_t a, b, c, d; /* in place, c keeps what was there before */
    array_t bias;        /* read or written; [batch][bias_step] */
    array_t aux;         /* fp types: [batch][aux_step]; masks are in its bytes */
    int bias_length, aux_ld;
    size_t bias_step, aux_step;
    array_t scalars; /* alpha, beta */
} problem_t;

static inline int has(const product_t *p, int bits)
{
    return ((int)p->epilogue & bits) != 0;
}
enum {
    RELU = 2,
    BIAS = 4,
    DRELU = 8,
    BGRAD = 16,
    GELU = 32,
    DGELU = 64,
    AUX = 128,
    BGRADA = 256,
    BGRADB = 512
};

static inline int is_mask(const product_t *p)
{
    return has(p, RELU | DRELU);
}

static inline void set_operation(cublasLtMatmulDesc_t o, cublasLtMatmulDescAttributes_t what,
                                 const void *value, size_t bytes)
{
    BLAS_OK(cublasLtMatmulDescSetAttribute(o, what, value, bytes));
}
#define SET(o, what, value) set_operation(o, CUBLASLT_MATMUL_DESC_##what, &(value), sizeof(value))

static inline void make_epilogue(problem_t *q)
{
    const product_t *p = &q->p;
    const int lines = p->order_d == CUBLASLT_ORDER_ROW ? p->n : p->m,
              columns = p->order_d == CUBLASLT_ORDER_ROW ? p->m : p->n, unit = is_mask(p) ? 128 : 8;
    const uint32_t epilogue = p->epilogue ? (uint32_t)p->epilogue : CUBLASLT_EPILOGUE_DEFAULT;
    q->bias_length = has(p, BGRADB) ? p->n : p->m;
    q->bias_step = (size_t)q->bias_length + 2;
    q->aux_ld = (lines + unit - 1) / unit * unit;
    q->aux_step = (size_t)q->aux_ld * (size_t)columns;
    q->bias = array_new(p->out, q->bias_step * (size_t)batch_of(p), has(p, BIAS) ? 5 : 0);
    q->aux = array_new(p->out, q->aux_step * (size_t)batch_of(p), 6);
    const int64_t bias_step = (int64_t)q->bias_step, aux_step = (int64_t)q->aux_step, aux_ld = q->aux_ld;
    SET(q->operation, EPILOGUE, epilogue);
    if (has(p, BIAS | BGRAD | BGRADA | BGRADB)) {
        SET(q->operation, BIAS_POINTER, q->bias.device);
        SET(q->operation, BIAS_BATCH_STRIDE, bias_step);
    }
    if (has(p, AUX)) {
        SET(q->operation, EPILOGUE_AUX_POINTER, q->aux.device);
        SET(q->operation, EPILOGUE_AUX_LD, aux_ld);
        SET(q->operation, EPILOGUE_AUX_BATCH_STRIDE, aux_step);
    }
}

static inline problem_t problem_new(const product_t *product)
{
    problem_t q = {.p = *product};
    const product_t *p = &q.p;
    const int32_t ta = (int32_t)p->ta, tb = (int32_t)p->tb,
                  mode = p->on_device ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
    const int na = p->ta == CUBLAS_OP_N, nb = p->tb == CUBLAS_OP_N;
    BLAS_OK(cublasLtMatmulDescCreate(&q.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SET(q.operation, TRANSA, ta);
    SET(q.operation, TRANSB, tb);
    SET(q.operation, POINTER_MODE, mode);
    q.a = matrix_new(p, p->in, na ? p->m : p->k, na ? p->k : p->m, p->order_a, 1);
    q.b = matrix_new(p, p->in, nb ? p->k : p->n, nb ? p->n : p->k, p->order_b, 2);
    q.c = matrix_new(p, p->out, p->m, p->n, p->order_d, p->beta == 0 ? 0 : 3); /* NaN must not be read then */
    q.d = matrix_new(p, p->out, p->m, p->n, p->order_d, p->in_place && p->beta != 0 ? 3 : 0);
    make_epilogue(&q);
    q.scalars = array_new(CUDA_R_32F, 2, 1);
    set(&q.scalars, 0, (double)p->alpha);
    set(&q.scalars, 1, (double)p->beta);
    upload(&q.scalars);
    return q;
}

static inline void problem_free(problem_t *q)
{
    BLAS_OK(cublasLtMatmulDescDestroy(q->operation));
    matrix_free(&q->a);
    matrix_free(&q->b);
    matrix_free(&q->c);
    matrix_free(&q->d);
    array_free(&q->bias);
    array_free(&q->aux);
    array_free(&q->scalars);
}

static inline cublasStatus_t matmul(problem_t *q, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                    size_t bytes, cudaStream_t stream)
{
    const float *scalars = q->p.on_device ? q->scalars.device : q->scalars.host;
    void *d = argument(&q->p, &q->d), *c = q->p.in_place ? d : argument(&q->p, &q->c);
    return cublasLtMatmul(lt, q->operation, scalars, argument(&q->p, &q->a), q->a.layout,
                          argument(&q->p, &q->b), q->b.layout, scalars + 1, c, q->c.layout, d, q->d.layout,
                          algorithm, workspace, bytes, stream);
}

/* ---- the reference ---- */

static inline double op_at(const matrix_t *x, cublasOperation_t op, int one, int i, int j)
{
    return get(&x->array, op == CUBLAS_OP_N ? place(x, one, i, j) : place(x, one, j, i));
}

static inline double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static inline double gelu_slope(double x)
{
    const double h = 1e-5; /* central difference: its error is far below a float's */
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

static inline size_t aux_place(const problem_t *q, int one, int i, int j)
{
    const int is_row_major = q->d.is_row_major;
    return (size_t)one * q->aux_step + (size_t)(is_row_major ? j : i) +
           (size_t)(is_row_major ? i : j) * (size_t)q->aux_ld;
}

static inline int mask_at(const array_t *aux, size_t at)
{
    return ((const unsigned char *)aux->host)[at / 8] >> (at % 8) & 1;
}

/* Element (i,j) of D, what went into the activation, and the tolerance of both. `aux` is what was there before. */
static inline double result_at(const problem_t *q, const array_t *aux, int one, int i, int j, double *before,
                               double *bound)
{
    const product_t *p = &q->p;
    double sum = 0, magnitude = 0;
    for (int l = 0; l < p->k; l++) {
        const double x = op_at(&q->a, p->ta, one, i, l) * op_at(&q->b, p->tb, one, l, j);
        sum += x;
        magnitude += fabs(x);
    }
    double v = (double)p->alpha * sum +
               (p->beta == 0 ? 0 : (double)p->beta * get(&q->c.array, place(&q->c, one, i, j)));
    if (has(p, BIAS))
        v += get(&q->bias, (size_t)one * q->bias_step + (size_t)i);
    *before = v;
    if (has(p, DRELU))
        v = mask_at(aux, aux_place(q, one, i, j)) ? v : 0;
    else if (has(p, DGELU))
        v *= gelu_slope(get(aux, aux_place(q, one, i, j)));
    else if (has(p, RELU))
        v = v > 0 ? v : 0;
    else if (has(p, GELU))
        v = gelu(v);
    *bound = 1.2 * tolerance(p->out, v, fabs((double)p->alpha) * magnitude + fabs(*before) + 1, (size_t)p->k);
    return v;
}

static inline void check_aux(const problem_t *q, int one, int i, int j, double before, double bound)
{
    const size_t at = aux_place(q, one, i, j);
    if (is_mask(&q->p)) {
        if (fabs(before) > bound && mask_at(&q->aux, at) != (before > 0))
            fail_msg("mask [%d,%d] is not the sign of %g", i, j, before);
        return;
    }
    if (!(fabs(get(&q->aux, at) - before) <= bound + type_epsilon(q->p.out) * fabs(before) * 1.01))
        fail_msg("auxiliary [%d,%d] is %g, not %g", i, j, get(&q->aux, at), before);
}

/* Sums of rows of the result, or of lines of A or B. */
static inline void check_bias_gradient(const problem_t *q, const array_t *aux, int one, int i)
{
    const product_t *p = &q->p;
    double sum = 0, bound = 0, one_bound, before;
    if (has(p, BGRAD))
        for (int j = 0; j < p->n; j++) {
            sum += result_at(q, aux, one, i, j, &before, &one_bound);
            bound += one_bound;
        }
    else
        for (int l = 0; l < p->k; l++) {
            const double x = has(p, BGRADA) ? op_at(&q->a, p->ta, one, i, l) : op_at(&q->b, p->tb, one, l, i);
            sum += x;
            bound += 1e-7 * fabs(x);
        }
    const double got = get(&q->bias, (size_t)one * q->bias_step + (size_t)i);
    if (!(fabs(got - sum) <= bound + type_epsilon(p->out) * fabs(sum) * 1.01))
        fail_msg("bias gradient [%d] of product %d is %g, not %g", i, one, got, sum);
}

/* Compares all that a product has written; of a large one a sample. The arrays' host sides are overwritten. */
static inline void check_result(problem_t *q)
{
    const product_t *p = &q->p;
    const int sample = (double)p->m * p->n * p->k > 1e6 ? 41 : 1;
    array_t aux = array_copy(&q->aux);
    download(&q->d.array);
    download(&q->aux);
    download(&q->bias);
    for (int one = 0; one < batch_of(p); one++) {
        for (int j = 0; j < p->n; j++)
            for (int i = 0; i < p->m; i++) {
                double before, bound;
                if ((i + 7 * j) % sample)
                    continue;
                const double want = result_at(q, &aux, one, i, j, &before, &bound),
                             got = get(&q->d.array, place(&q->d, one, i, j));
                if (!(fabs(got - want) <= bound))
                    fail_msg("%d x %d x %d ops %d%d types %d %d orders %d%d%d epilogue %d: product %d "
                             "[%d,%d] is %.9g, "
                             "not %.9g",
                             p->m, p->n, p->k, p->ta, p->tb, p->in, p->out, p->order_a, p->order_b,
                             p->order_d, p->epilogue, one, i, j, got, want);
                if (has(p, AUX) && !has(p, DRELU | DGELU))
                    check_aux(q, one, i, j, before, bound);
            }
        for (int i = 0; has(p, BGRAD | BGRADA | BGRADB) && i < q->bias_length; i += sample)
            check_bias_gradient(q, &aux, one, i);
    }
    array_free(&aux);
}

/* The product by this algorithm (NULL: the library's choice) against the reference. */
static inline void run_product(const product_t *p, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                               size_t bytes)
{
    problem_t q = problem_new(p);
    BLAS_OK(matmul(&q, algorithm, workspace, bytes, NULL));
    check_result(&q);
    problem_free(&q);
}

/* The proposals for a product with this workspace. */
static inline int propose(problem_t *q, size_t workspace_bytes, int most,
                          cublasLtMatmulHeuristicResult_t *results)
{
    cublasLtMatmulPreference_t preference;
    const uint64_t bytes = workspace_bytes;
    int count = 0;
    BLAS_OK(cublasLtMatmulPreferenceCreate(&preference));
    BLAS_OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 sizeof bytes));
    BLAS_OK(cublasLtMatmulAlgoGetHeuristic(lt, q->operation, q->a.layout, q->b.layout, q->c.layout,
                                           q->d.layout, preference, most, results, &count));
    BLAS_OK(cublasLtMatmulPreferenceDestroy(preference));
    return count;
}

#endif
