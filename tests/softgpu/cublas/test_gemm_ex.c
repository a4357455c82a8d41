/* cublasGemmEx and its kin, and the batched products, for all types against a reference in double precision. */
#include "typed.h"

typedef enum form { PLAIN, STRIDED, TABLES, FORM_COUNT } form_t;

typedef struct product {
    cublasOperation_t ta, tb;
    int m, n, k, pad, batch;
    double alpha, beta;
    cudaDataType in, out;
    form_t form;
    int on_device; /* alpha and beta */
} product_t;

static int rows_a(const product_t *p)
{
    return p->ta == CUBLAS_OP_N ? p->m : p->k;
}
static int rows_b(const product_t *p)
{
    return p->tb == CUBLAS_OP_N ? p->k : p->n;
}
static int lda(const product_t *p)
{
    return (rows_a(p) > 1 ? rows_a(p) : 1) + p->pad;
}
static int ldb(const product_t *p)
{
    return (rows_b(p) > 1 ? rows_b(p) : 1) + p->pad;
}
static int ldc(const product_t *p)
{
    return p->m + p->pad;
}
/* Elements of one matrix, and how far the next one is. */
static size_t size_a(const product_t *p)
{
    return (size_t)lda(p) * (size_t)(p->ta == CUBLAS_OP_N ? p->k : p->m) + 3;
}
static size_t size_b(const product_t *p)
{
    return (size_t)ldb(p) * (size_t)(p->tb == CUBLAS_OP_N ? p->n : p->k) + 5;
}
static size_t size_c(const product_t *p)
{
    return (size_t)ldc(p) * (size_t)p->n + 7;
}

/* A device table of `count` pointers, `step` elements apart. */
static void **table_of(const array_t *a, size_t step, int count)
{
    void *table, *host[64];
    for (int i = 0; i < count; i++)
        host[i] = (char *)a->device + (size_t)i * step * type_bytes(a->type);
    OK(cudaMalloc(&table, sizeof host));
    OK(cudaMemcpy(table, host, sizeof host, cudaMemcpyHostToDevice));
    return table;
}

static cublasStatus_t call(const product_t *p, const void *alpha, const void *beta, const array_t *a,
                           const array_t *b, const array_t *c)
{
    const cublasComputeType_t compute = p->out == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    if (p->form == PLAIN)
        return cublasGemmEx(handle, p->ta, p->tb, p->m, p->n, p->k, alpha, a->device, p->in, lda(p),
                            b->device, p->in, ldb(p), beta, c->device, p->out, ldc(p), compute,
                            CUBLAS_GEMM_DEFAULT);
    if (p->form == STRIDED)
        return cublasGemmStridedBatchedEx(
            handle, p->ta, p->tb, p->m, p->n, p->k, alpha, a->device, p->in, lda(p), (long long)size_a(p),
            b->device, p->in, ldb(p), (long long)size_b(p), beta, c->device, p->out, ldc(p),
            (long long)size_c(p), p->batch, compute, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
    void **ta = table_of(a, size_a(p), p->batch), **tb = table_of(b, size_b(p), p->batch),
         **tc = table_of(c, size_c(p), p->batch);
    cublasStatus_t status =
        cublasGemmBatchedEx(handle, p->ta, p->tb, p->m, p->n, p->k, alpha, (const void *const *)ta, p->in,
                            lda(p), (const void *const *)tb, p->in, ldb(p), beta, tc, p->out, ldc(p),
                            p->batch, compute, CUBLAS_GEMM_DEFAULT);
    OK(cudaFree(ta)); /* waits for the kernel that reads them */
    OK(cudaFree(tb));
    OK(cudaFree(tc));
    return status;
}

/* Every element between the columns and matrices is as before, every other one is right. Of a large product a sample. */
static void check(const product_t *p, const array_t *a, const array_t *b, const array_t *before,
                  const array_t *result)
{
    const size_t sample = (double)p->m * p->n * p->k > 1e6 ? 37 : 1, bytes = type_bytes(p->out);
    for (size_t index = 0; index < result->count; index++) {
        const size_t one = index / size_c(p), in_one = index % size_c(p), i = in_one % (size_t)ldc(p),
                     j = in_one / (size_t)ldc(p);
        if (i >= (size_t)p->m || j >= (size_t)p->n) {
            if (memcmp((const char *)before->host + index * bytes, (const char *)result->host + index * bytes,
                       bytes))
                fail_msg("%d x %d x %d: element %zu is padding and was written", p->m, p->n, p->k, index);
            continue;
        }
        if ((i + 7 * j) % sample)
            continue;
        const view_t va = {a, one * size_a(p), (size_t)lda(p), p->ta != CUBLAS_OP_N},
                     vb = {b, one * size_b(p), (size_t)ldb(p), p->tb != CUBLAS_OP_N};
        double magnitude, old = p->beta == 0 ? 0 : p->beta * get(before, index);
        const double want = p->alpha * dot_product(&va, &vb, i, j, (size_t)p->k, &magnitude) + old;
        const double bound = tolerance(p->out, want, fabs(p->alpha) * magnitude + fabs(old), (size_t)p->k);
        if (!(fabs(get(result, index) - want) <= bound))
            fail_msg("%d x %d x %d ops %d%d types %d %d form %d alpha %g beta %g: product %zu [%zu,%zu] is "
                     "%.9g, not %.9g",
                     p->m, p->n, p->k, p->ta, p->tb, p->in, p->out, p->form, p->alpha, p->beta, one, i, j,
                     get(result, index), want);
    }
}

static void run(const product_t *p)
{
    const double doubles[2] = {p->alpha, p->beta};
    const float floats[2] = {(float)p->alpha, (float)p->beta};
    const size_t batch = (size_t)p->batch;
    const char *scalars = p->out == CUDA_R_64F ? (const char *)doubles : (const char *)floats;
    const size_t step = p->out == CUDA_R_64F ? sizeof *doubles : sizeof *floats;
    void *ds;
    OK(cudaMalloc(&ds, sizeof doubles));
    OK(cudaMemcpy(ds, scalars, 2 * step, cudaMemcpyHostToDevice));
    if (p->on_device)
        scalars = ds;
    array_t a = array_new(p->in, batch * size_a(p), 1), b = array_new(p->in, batch * size_b(p), 2),
            c = array_new(p->out, batch * size_c(p), p->beta == 0 ? 0 : 3); /* NaN must not be read then */
    array_t result = array_copy(&c);
    BLAS_OK(
        cublasSetPointerMode(handle, p->on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
    BLAS_OK(call(p, scalars, scalars + step, &a, &b, &result));
    BLAS_OK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    download(&result);
    check(p, &a, &b, &c, &result);
    array_free(&a);
    array_free(&b);
    array_free(&c);
    array_free(&result);
    OK(cudaFree(ds));
}

static const cudaDataType types[][2] = {{CUDA_R_32F, CUDA_R_32F},  {CUDA_R_16BF, CUDA_R_16BF},
                                        {CUDA_R_16BF, CUDA_R_32F}, {CUDA_R_16F, CUDA_R_16F},
                                        {CUDA_R_16F, CUDA_R_32F},  {CUDA_R_64F, CUDA_R_64F}};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static void every_type_form_and_transpose_matches_the_reference(void **state)
{
    (void)state;
    const int sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {64, 32, 48}, {33, 17, 65}, {40, 70, 600}};
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < TYPE_COUNT; t++)
            for (int ops = 0; ops < 4; ops++)
                for (form_t form = PLAIN; form < FORM_COUNT; form++)
                    run(&(product_t){ops & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, ops & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                     sizes[s][0], sizes[s][1], sizes[s][2], (s + t + ops) % 2 ? 3 : 0,
                                     form == PLAIN ? 1 : 3, 1, 0, types[t][0], types[t][1], form, 0});
}

static void alpha_and_beta_scale_in_both_pointer_modes(void **state)
{
    (void)state;
    const double scalars[][2] = {{1, 1}, {0.5, 0}, {-2, 0.25}, {0, 0}, {0, 3}};
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < TYPE_COUNT; t++)
            for (int on_device = 0; on_device < 2; on_device++)
                run(&(product_t){CUBLAS_OP_T, CUBLAS_OP_N, 31, 45, 64, 2, 2, scalars[s][0], scalars[s][1],
                                 types[t][0], types[t][1], s % 2 ? TABLES : STRIDED, on_device});
}

/* Several tiles each way, and several pieces of k. */
static void large_products_match_the_reference(void **state)
{
    (void)state;
    for (int t = 1; t < 5; t++)
        run(&(product_t){t % 2 ? CUBLAS_OP_T : CUBLAS_OP_N, t / 2 % 2 ? CUBLAS_OP_T : CUBLAS_OP_N, 1100, 530,
                         1300, 0, 1, 1, 1, types[t][0], types[t][1], PLAIN, 0});
}

static void empty_inner_dimension_scales_only(void **state)
{
    (void)state;
    for (int t = 0; t < TYPE_COUNT; t++)
        run(&(product_t){CUBLAS_OP_N, CUBLAS_OP_N, 20, 30, 0, 1, 1, 1, -2, types[t][0], types[t][1], PLAIN,
                         0});
}

/* Every value of 16 bits passes through a product with the identity; NaN stays NaN. */
static void all_16_bit_values_survive(void **state)
{
    (void)state;
    enum { N = 256 };
    const float one = 1, zero = 0;
    const cudaDataType small[] = {CUDA_R_16F, CUDA_R_16BF};
    for (int t = 0; t < 2; t++) {
        array_t a = array_new(small[t], N * N, 1), identity = array_new(small[t], 1, 1),
                c = array_new(small[t], N * N, 0);
        for (int i = 0; i < N * N; i++)
            ((uint16_t *)a.host)[i] = (uint16_t)i;
        set(&identity, 0, 1);
        upload(&a);
        upload(&identity);
        /* One column of all values times a 1 x 1 matrix: no other product can disturb an infinity. */
        BLAS_OK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N * N, 1, 1, &one, a.device, small[t], N * N,
                             identity.device, small[t], 1, &zero, c.device, small[t], N * N,
                             CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        download(&c);
        for (int i = 0; i < N * N; i++) {
            const double x = get(&a, (size_t)i), y = get(&c, (size_t)i);
            if (isnan(x) ? !isnan(y) : !(x == y))
                fail_msg("type %d: %04x came out as %04x", small[t], i, ((uint16_t *)c.host)[i]);
        }
        array_free(&a);
        array_free(&identity);
        array_free(&c);
    }
}

/* fp32 results to 16 bits: ties to even, overflow to infinity, down through the subnormal numbers. With a factor of 1.5 every
 * second result of odd mantissa is a tie. */
static void results_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    const float zero = 0, scales[] = {1, 1.0f / 3, 1.5f, 0.75f, 0x1.804p-3f, 0x1p-10f, 65504.0f};
    const cudaDataType small[] = {CUDA_R_16F, CUDA_R_16BF};
    for (int t = 0; t < 2; t++) {
        array_t one = array_new(small[t], 1, 1), a = array_new(small[t], COUNT, 1),
                c = array_new(small[t], COUNT, 0), want = array_new(small[t], 1, 0);
        for (int i = 0; i < COUNT; i++) /* all mantissas, several exponents */
            set(&a, (size_t)i,
                t ? ldexp(128 + i % 128, i / 128 * 5 - 60) : ldexp(1024 + i % 1024, i / 1024 * 5 - 28));
        set(&one, 0, 1);
        upload(&a);
        upload(&one);
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
            BLAS_OK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, COUNT, 1, 1, &scales[s], a.device,
                                 small[t], COUNT, one.device, small[t], 1, &zero, c.device, small[t], COUNT,
                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
            download(&c);
            for (int i = 0; i < COUNT; i++) {
                const float exact = scales[s] * (float)get(&a, (size_t)i); /* as the kernel has it, in fp32 */
                set(&want, 0, (double)exact);
                if (memcmp(want.host, (const char *)c.host + 2 * i, 2))
                    fail_msg("type %d scale %zu: %.9g became %.9g, not %.9g", small[t], s, (double)exact,
                             get(&c, (size_t)i), get(&want, 0));
            }
        }
        array_free(&one);
        array_free(&a);
        array_free(&c);
        array_free(&want);
    }
}

/* The tables are read by the kernel, in stream order: they may be written after the call, by work before it. */
static void tables_are_read_in_stream_order(void **state)
{
    (void)state;
    enum { N = 8, BATCH = 3 };
    const float one = 1, zero = 0;
    cudaStream_t stream;
    void *tables, *host[3 * BATCH];
    array_t a = array_new(CUDA_R_32F, BATCH * N * N, 1), b = array_new(CUDA_R_32F, BATCH * N * N, 2),
            c = array_new(CUDA_R_32F, BATCH * N * N, 0);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BLAS_OK(cublasSetStream(handle, stream));
    for (int i = 0; i < BATCH; i++) {
        host[i] = (float *)a.device + i * N * N;
        host[BATCH + i] = (float *)b.device + i * N * N;
        host[2 * BATCH + i] = (float *)c.device + (BATCH - 1 - i) * N * N; /* not in order */
    }
    OK(cudaMallocAsync(&tables, sizeof host, stream));
    OK(cudaMemcpyAsync(tables, host, sizeof host, cudaMemcpyHostToDevice, stream));
    float **t = tables;
    BLAS_OK(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, (const float *const *)t, N,
                               (const float *const *)(t + BATCH), N, &zero, t + 2 * BATCH, N, BATCH));
    OK(cudaFreeAsync(tables, stream));
    OK(cudaStreamSynchronize(stream));
    download(&c);
    for (size_t p = 0; p < BATCH; p++)
        for (size_t i = 0; i < N * N; i++) {
            const view_t va = {&a, p * N * N, N, 0}, vb = {&b, p * N * N, N, 0};
            double magnitude;
            const double want = dot_product(&va, &vb, i % N, i / N, N, &magnitude);
            assert_true(fabs(get(&c, (BATCH - 1 - p) * N * N + i) - want) < 1e-5);
        }
    BLAS_OK(cublasSetStream(handle, NULL));
    OK(cudaStreamDestroy(stream));
    array_free(&a);
    array_free(&b);
    array_free(&c);
}

/* The same shape gives the same bits in all forms, at any address, every time; GemmEx in fp32 is Sgemm. */
static void forms_agree_to_the_bit(void **state)
{
    (void)state;
    enum { M = 96, N = 80, K = 700 };
    const float one = 1, zero = 0;
    const size_t bytes = M * N * sizeof(float);
    for (int t = 0; t < 5; t++) {
        array_t a = array_new(types[t][0], M * K + 1, 1), b = array_new(types[t][0], K * N, 2),
                c = array_new(types[t][1], M * N, 0), d = array_new(types[t][1], M * N, 0);
        product_t p = {CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, 0, 1, 1, 0, types[t][0], types[t][1], PLAIN, 0};
        BLAS_OK(call(&p, &one, &zero, &a, &b, &c));
        download(&c);
        for (form_t form = STRIDED; form < FORM_COUNT; form++) {
            p.form = form;
            BLAS_OK(call(&p, &one, &zero, &a, &b, &d));
            download(&d);
            assert_memory_equal(c.host, d.host, M * N * type_bytes(types[t][1]));
        }
        /* One element further. */
        const size_t step = type_bytes(types[t][0]);
        OK(cudaMemcpy((char *)a.device + step, a.host, M * K * step, cudaMemcpyHostToDevice));
        array_t moved = a;
        moved.device = (char *)a.device + step;
        p.form = PLAIN;
        BLAS_OK(call(&p, &one, &zero, &moved, &b, &d));
        download(&d);
        assert_memory_equal(c.host, d.host, M * N * type_bytes(types[t][1]));
        if (t == 0) {
            BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, moved.device, M, b.device, K,
                                &zero, d.device, M));
            download(&d);
            assert_memory_equal(c.host, d.host, bytes);
        }
        array_free(&a);
        array_free(&b);
        array_free(&c);
        array_free(&d);
    }
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    const float one = 1;
    void *d;
    OK(cudaMalloc(&d, 4096));
#define CALL(h, m, lda, a, at, ct, compute, algo)                                                            \
    cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, m, 4, 4, &one, a, at, lda, d, at, 4, &one, d, ct, 4, compute,  \
                 algo)
    const cudaDataType f = CUDA_R_32F, h = CUDA_R_16F, b = CUDA_R_16BF;
    const cublasComputeType_t c32 = CUBLAS_COMPUTE_32F;
    assert_int_equal(CALL(NULL, 4, 4, d, f, f, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(CALL(handle, -1, 4, d, f, f, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, 4, 3, d, f, f, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, 4, 4, NULL, f, f, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, 4, 4, d, f, f, c32, (cublasGemmAlgo_t)55), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(handle, 4, 4, d, f, h, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(CALL(handle, 4, 4, d, h, b, c32, CUBLAS_GEMM_DEFAULT), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(CALL(handle, 4, 4, d, CUDA_R_8I, f, c32, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(CALL(handle, 4, 4, d, h, h, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(CALL(handle, 4, 4, d, f, f, CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    BLAS_OK(CALL(handle, 4, 4, d, f, f, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT));
    BLAS_OK(CALL(handle, 4, 4, d, f, f, CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_GEMM_ALGO3_TENSOR_OP));
    BLAS_OK(CALL(handle, 4, 4, d, h, h, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT));
    BLAS_OK(CALL(handle, 0, 4, d, f, f, c32, CUBLAS_GEMM_DEFAULT)); /* nothing to do */
#undef CALL
    OK(cudaFree(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_form_and_transpose_matches_the_reference),
        cmocka_unit_test(alpha_and_beta_scale_in_both_pointer_modes),
        cmocka_unit_test(large_products_match_the_reference),
        cmocka_unit_test(empty_inner_dimension_scales_only),
        cmocka_unit_test(all_16_bit_values_survive),
        cmocka_unit_test(results_are_rounded_to_nearest_even),
        cmocka_unit_test(tables_are_read_in_stream_order),
        cmocka_unit_test(forms_agree_to_the_bit),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, blas_setup, blas_teardown);
}
