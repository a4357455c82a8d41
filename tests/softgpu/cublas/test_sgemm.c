/* cublasSgemm and its strided-batched form against a reference in double precision. */
#include "cublas_test.h"

#include <math.h>

typedef struct product {
    cublasOperation_t ta, tb;
    int m, n, k;
    int pad; /* added to every leading dimension */
    float alpha, beta;
} product_t;

static size_t columns_a(const product_t *p)
{
    return (size_t)(p->ta == CUBLAS_OP_N ? p->k : p->m);
}
static size_t columns_b(const product_t *p)
{
    return (size_t)(p->tb == CUBLAS_OP_N ? p->n : p->k);
}
static int lda(const product_t *p)
{
    int rows = p->ta == CUBLAS_OP_N ? p->m : p->k;
    return (rows > 1 ? rows : 1) + p->pad;
}
static int ldb(const product_t *p)
{
    int rows = p->tb == CUBLAS_OP_N ? p->k : p->n;
    return (rows > 1 ? rows : 1) + p->pad;
}
static int ldc(const product_t *p)
{
    return p->m + p->pad;
}

/* Element (i,j) of the product, and how large its rounding error may be. */
static double reference(const product_t *p, const float *a, const float *b, double c, int i, int j,
                        double *bound)
{
    const ptrdiff_t wide_a = lda(p), wide_b = ldb(p);
    double sum = 0, magnitude = 0;
    for (int l = 0; l < p->k; l++) {
        double x = (double)(p->ta == CUBLAS_OP_N ? a[i + l * wide_a] : a[l + i * wide_a]);
        double y = (double)(p->tb == CUBLAS_OP_N ? b[l + j * wide_b] : b[j + l * wide_b]);
        sum += x * y;
        magnitude += fabs(x * y);
    }
    const double alpha = (double)p->alpha, old = p->beta == 0 ? 0 : (double)p->beta * c;
    *bound = 1.2e-7 * (8 + sqrt(p->k) * 4) * (fabs(alpha) * magnitude + fabs(old)) + 1e-30;
    return alpha * sum + old;
}

/* Compares result[] with the product of a and b added to before[]; what lies between the columns must be
 * untouched. Of a large product a sample is compared, some elements of every row and column. */
static void check_product(const product_t *p, const float *a, const float *b, const float *before,
                          const float *result)
{
    const int sample = (double)p->m * p->n * p->k > 1e7 ? 23 : 1;
    for (int j = 0; j < p->n; j++) {
        for (int i = 0; i < ldc(p); i++) {
            const size_t at = (size_t)i + (size_t)j * (size_t)ldc(p);
            double bound;
            if (i >= p->m) {
                if (memcmp(&before[at], &result[at], sizeof *result))
                    fail_msg("%d x %d x %d: row %d of column %d is padding and was written", p->m, p->n, p->k,
                             i, j);
                continue;
            }
            if ((i + 7 * j) % sample)
                continue;
            double want = reference(p, a, b, (double)before[at], i, j, &bound);
            if (!(fabs((double)result[at] - want) <= bound))
                fail_msg("%d x %d x %d (%d%d) alpha %g beta %g: [%d,%d] is %.9g, not %.9g", p->m, p->n, p->k,
                         p->ta, p->tb, (double)p->alpha, (double)p->beta, i, j, (double)result[at], want);
        }
    }
}

static void run_product(const product_t *p, cublasPointerMode_t mode, int wide)
{
    const size_t na = columns_a(p) * (size_t)lda(p), nb = columns_b(p) * (size_t)ldb(p),
                 nc = (size_t)p->n * (size_t)ldc(p);
    const float scalars[2] = {p->alpha, p->beta}, nan = NAN;
    operand_t a = operand_new(na, 1, NULL), b = operand_new(nb, 2, NULL),
              c = operand_new(nc, 3, p->beta == 0 ? &nan : NULL); /* must not be read then */
    float *result = malloc(nc * sizeof *result), *ds = to_device(scalars, 2);
    const float *alpha = mode == CUBLAS_POINTER_MODE_DEVICE ? ds : &scalars[0];
    const float *beta = mode == CUBLAS_POINTER_MODE_DEVICE ? ds + 1 : &scalars[1];
    BLAS_OK(cublasSetPointerMode(handle, mode));
    if (wide)
        BLAS_OK(cublasSgemm_64(handle, p->ta, p->tb, p->m, p->n, p->k, alpha, a.device, lda(p), b.device,
                               ldb(p), beta, c.device, ldc(p)));
    else
        BLAS_OK(cublasSgemm(handle, p->ta, p->tb, p->m, p->n, p->k, alpha, a.device, lda(p), b.device, ldb(p),
                            beta, c.device, ldc(p)));
    BLAS_OK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    to_host(result, c.device, nc);
    check_product(p, a.host, b.host, c.host, result);
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
    OK(cudaFree(ds));
    free(result);
}

static const int sizes[][3] = {{1, 1, 1},     {7, 5, 3},      {64, 64, 64},  {17, 33, 65},  {128, 96, 200},
                               {513, 257, 9}, {100, 1030, 7}, {1, 300, 300}, {300, 1, 300}, {520, 520, 130}};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static void every_transpose_and_size_matches_the_reference(void **state)
{
    (void)state;
    const cublasOperation_t op[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
    for (int s = 0; s < SIZE_COUNT; s++)
        for (int t = 0; t < 9; t++) {
            product_t p = {op[t % 3],   op[t / 3],           sizes[s][0], sizes[s][1],
                           sizes[s][2], (s + t) % 2 ? 3 : 0, 1.0f,        0.0f};
            run_product(&p, CUBLAS_POINTER_MODE_HOST, t % 2);
        }
}

static void alpha_and_beta_scale_in_both_pointer_modes(void **state)
{
    (void)state;
    const float scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 2}, {0, 0}, {0, 1}, {0, -3}, {2.5f, -1}};
    for (int s = 0; s < SIZE_COUNT; s += 2)
        for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
            for (int mode = 0; mode < 2; mode++) {
                product_t p = {CUBLAS_OP_T, CUBLAS_OP_N, sizes[s][0],   sizes[s][1],
                               sizes[s][2], 2,           scalars[i][0], scalars[i][1]};
                run_product(&p, mode ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST, 0);
            }
}

/* The trainer's shapes, once each, so that every tile rule is used. */
static void the_trainers_shapes_match(void **state)
{
    (void)state;
    const int shapes[][3] = {
        {768, 1024, 64}, {256, 256, 1024}, {256, 1024, 512}, {1024, 256, 512}, {128, 384, 1024}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        product_t p = {i % 2 ? CUBLAS_OP_N : CUBLAS_OP_T,
                       i % 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                       shapes[i][0],
                       shapes[i][1],
                       shapes[i][2],
                       0,
                       1.0f,
                       i % 3 ? 1.0f : 0.0f};
        run_product(&p, CUBLAS_POINTER_MODE_HOST, 0);
    }
}

static void empty_inner_dimension_scales_only(void **state)
{
    (void)state;
    const float betas[] = {0, 1, -2};
    for (int i = 0; i < 3; i++) {
        product_t p = {CUBLAS_OP_N, CUBLAS_OP_N, 40, 30, 0, 1, 1.0f, betas[i]};
        run_product(&p, CUBLAS_POINTER_MODE_HOST, 0);
    }
}

/* NaN in A and B does not reach C if alpha is 0. */
static void alpha_zero_does_not_read_the_factors(void **state)
{
    (void)state;
    enum { N = 200 };
    const float alpha = 0, beta = 2, nan = NAN;
    float *result = malloc(N * N * sizeof *result);
    operand_t a = operand_new(N * N, 0, &nan), c = operand_new(N * N, 4, NULL);
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, a.device, N, a.device, N, &beta,
                        c.device, N));
    to_host(result, c.device, N * N);
    for (int i = 0; i < N * N; i++)
        if (result[i] != 2 * c.host[i])
            fail_msg("element %d is %g, not %g", i, (double)result[i], 2 * (double)c.host[i]);
    operand_free(&a);
    operand_free(&c);
    free(result);
}

/* Host scalars are read when the call is made, not when the kernel runs. */
static void host_scalars_may_change_after_the_call(void **state)
{
    (void)state;
    enum { N = 64 };
    float *first = malloc(N * N * sizeof *first), *second = malloc(N * N * sizeof *second);
    operand_t a = operand_new(N * N, 5, NULL), c = operand_new(N * N, 6, NULL);
    float alpha = 1, beta = 0;
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &alpha, a.device, N, a.device, N, &beta,
                        c.device, N));
    to_host(first, c.device, N * N);
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &alpha, a.device, N, a.device, N, &beta,
                        c.device, N));
    alpha = NAN;
    beta = NAN;
    to_host(second, c.device, N * N);
    assert_memory_equal(first, second, N * N * sizeof *first);
    operand_free(&a);
    operand_free(&c);
    free(first);
    free(second);
}

/* Batches with strides, one of them 0: the same matrix for all. */
static void strided_batches_match_the_reference(void **state)
{
    (void)state;
    enum { BATCH = 13 };
    const product_t p = {CUBLAS_OP_T, CUBLAS_OP_N, 50, 37, 81, 2, 0.5f, 1.0f};
    const size_t na = columns_a(&p) * (size_t)lda(&p) + 5, nb = columns_b(&p) * (size_t)ldb(&p),
                 nc = (size_t)p.n * (size_t)ldc(&p) + 9;
    float *result = malloc(BATCH * nc * sizeof *result);
    operand_t a = operand_new(BATCH * na, 7, NULL), b = operand_new(nb, 8, NULL),
              c = operand_new(BATCH * nc, 9, NULL);
    BLAS_OK(cublasSgemmStridedBatched(handle, p.ta, p.tb, p.m, p.n, p.k, &p.alpha, a.device, lda(&p),
                                      (long long)na, b.device, ldb(&p), 0, &p.beta, c.device, ldc(&p),
                                      (long long)nc, BATCH));
    to_host(result, c.device, BATCH * nc);
    for (size_t i = 0; i < BATCH; i++)
        check_product(&p, a.host + i * na, b.host, c.host + i * nc, result + i * nc);
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
    free(result);
}

static void work_is_ordered_on_the_handles_stream(void **state)
{
    (void)state;
    enum { N = 256 };
    cudaStream_t stream, asked;
    float *a = random_matrix(N * N, 10), *result = malloc(N * N * sizeof *a), *da = to_device(a, N * N), *dc;
    const float one = 1, zero = 0;
    const product_t p = {CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, 0, 1, 0};
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BLAS_OK(cublasSetStream(handle, stream));
    BLAS_OK(cublasGetStream(handle, &asked));
    assert_ptr_equal(stream, asked);
    OK(cudaMallocAsync((void **)&dc, N * N * sizeof *a, stream));
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, da, N, da, N, &zero, dc, N));
    OK(cudaMemcpyAsync(result, dc, N * N * sizeof *a, cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(dc, stream));
    OK(cudaStreamSynchronize(stream));
    check_product(&p, a, a, result, result);
    BLAS_OK(cublasSetStream(handle, NULL));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(da));
    free(a);
    free(result);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const float one = 1;
    void *memory;
    OK(cudaMalloc(&memory, 4096));
    float *d = memory;
#define CALL(h, ta, tb, m, n, k, alpha, a, la, b, lb, beta, c, lc)                                           \
    cublasSgemm(h, ta, tb, m, n, k, alpha, a, la, b, lb, beta, c, lc)
    const cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
    assert_int_equal(CALL(NULL, N, N, 4, 4, 4, &one, d, 4, d, 4, &one, d, 4), CUBLAS_STATUS_NOT_INITIALIZED);
    const struct {
        cublasOperation_t ta, tb;
        int m, n, k, lda, ldb, ldc;
    } wrong[] = {
        {N, N, -1, 4, 4, 4, 4, 4}, {N, N, 4, -1, 4, 4, 4, 4}, {N, N, 4, 4, -1, 4, 4, 4},
        {N, N, 4, 4, 4, 3, 4, 4},  {N, N, 4, 4, 4, 4, 3, 4},  {N, N, 4, 4, 4, 4, 4, 3},
        {T, N, 8, 4, 4, 3, 4, 8},  {N, T, 4, 8, 4, 4, 7, 4},  {(cublasOperation_t)9, N, 4, 4, 4, 4, 4, 4},
        {N, N, 4, 4, 4, 0, 4, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (CALL(handle, wrong[i].ta, wrong[i].tb, wrong[i].m, wrong[i].n, wrong[i].k, &one, d, wrong[i].lda,
                 d, wrong[i].ldb, &one, d, wrong[i].ldc) != CUBLAS_STATUS_INVALID_VALUE)
            fail_msg("case %zu was not refused", i);
    assert_int_equal(CALL(handle, N, N, 4, 4, 4, NULL, d, 4, d, 4, &one, d, 4), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, N, N, 4, 4, 4, &one, d, 4, d, 4, NULL, d, 4), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, N, N, 4, 4, 4, &one, d, 4, d, 4, &one, NULL, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasSgemmStridedBatched(handle, N, N, 4, 4, 4, &one, d, 4, 16, d, 4, 16, &one, d, 4, 16, -1),
        CUBLAS_STATUS_INVALID_VALUE);
    /* Nothing to do is no error. */
    BLAS_OK(CALL(handle, N, N, 0, 4, 4, &one, d, 4, d, 4, &one, d, 4));
    BLAS_OK(CALL(handle, N, N, 4, 0, 4, &one, d, 4, d, 4, &one, d, 4));
    BLAS_OK(cublasSgemmStridedBatched(handle, N, N, 4, 4, 4, &one, d, 4, 16, d, 4, 16, &one, d, 4, 16, 0));
#undef CALL
    OK(cudaFree(memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transpose_and_size_matches_the_reference),
        cmocka_unit_test(alpha_and_beta_scale_in_both_pointer_modes),
        cmocka_unit_test(the_trainers_shapes_match),
        cmocka_unit_test(empty_inner_dimension_scales_only),
        cmocka_unit_test(alpha_zero_does_not_read_the_factors),
        cmocka_unit_test(host_scalars_may_change_after_the_call),
        cmocka_unit_test(strided_batches_match_the_reference),
        cmocka_unit_test(work_is_ordered_on_the_handles_stream),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, blas_setup, blas_teardown);
}
