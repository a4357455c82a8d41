/* Routines on vectors, and cublasSgeam, against references in double precision. */
#include "typed.h"

static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
static const cudaDataType F32 = CUDA_R_32F;
enum { LONGEST = 200000 };
static const int lengths[] = {0, 1, 2, 15, 16, 17, 2048, 2049, 5000, LONGEST};
static const int increments[][2] = {{1, 1}, {2, 1}, {1, 3}, {-1, 1}, {1, -2}, {-2, -2}};
#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

/* Where BLAS finds element i of a vector of n. */
static size_t place(int n, int inc, int i)
{
    return (size_t)(inc < 0 ? (i - (n - 1)) * inc : i * inc);
}

static size_t room(int n, int inc)
{
    return (size_t)(n > 0 ? (n - 1) * abs(inc) + 1 : 1);
}

/* Both vectors of a call. */
typedef struct pair {
    array_t x, y;
} pair_t;

static pair_t pair_new(cudaDataType type, int n, int incx, int incy)
{
    return (pair_t){array_new(type, room(n, incx), 1), array_new(type, room(n, incy), 2)};
}

static void pair_free(pair_t *p)
{
    array_free(&p->x);
    array_free(&p->y);
}

/* Calls `check` for all types, lengths and increments. */
static void for_all(void (*check)(cudaDataType type, int n, int incx, int incy))
{
    for (int t = 0; t < COUNT(types); t++)
        for (int l = 0; l < COUNT(lengths); l++)
            for (int i = 0; i < COUNT(increments); i++)
                check(types[t], lengths[l], increments[i][0], increments[i][1]);
}

static void check_axpy(cudaDataType type, int n, int incx, int incy)
{
    const float alpha = -0.375f;
    pair_t p = pair_new(type, n, incx, incy);
    array_t before = array_copy(&p.y);
    if (type == F32 && n % 2)
        BLAS_OK(cublasSaxpy(handle, n, &alpha, p.x.device, incx, p.y.device, incy));
    else
        BLAS_OK(cublasAxpyEx(handle, n, &alpha, F32, p.x.device, type, incx, p.y.device, type, incy, F32));
    download(&p.y);
    for (int i = 0; i < n; i++) {
        const double old = get(&before, place(n, incy, i)), x = get(&p.x, place(n, incx, i)),
                     want = (double)alpha * x + old, got = get(&p.y, place(n, incy, i));
        if (fabs(got - want) > 1.01 * type_epsilon(type) * fabs(want) + 1e-7)
            fail_msg("type %d n %d inc %d %d: [%d] is %g, not %g", type, n, incx, incy, i, got, want);
        set(&before, place(n, incy, i), got);
    }
    assert_memory_equal(before.host, p.y.host, before.count * type_bytes(type)); /* nothing between */
    array_free(&before);
    pair_free(&p);
}

static void check_copy_and_scal(cudaDataType type, int n, int incx, int incy)
{
    const float alpha = 2; /* exact in every type */
    pair_t p = pair_new(type, n, incx, incy);
    BLAS_OK(cublasCopyEx(handle, n, p.x.device, type, incx, p.y.device, type, incy));
    if (incy > 0)
        BLAS_OK(cublasScalEx(handle, n, &alpha, F32, p.y.device, type, incy, F32));
    download(&p.y);
    for (int i = 0; i < n; i++)
        if (get(&p.y, place(n, incy, i)) != get(&p.x, place(n, incx, i)) * (incy > 0 ? 2 : 1))
            fail_msg("type %d n %d inc %d %d: [%d] differs", type, n, incx, incy, i);
    pair_free(&p);
}

static void check_dot(cudaDataType type, int n, int incx, int incy)
{
    pair_t p = pair_new(type, n, incx, incy);
    array_t result = array_new(type, 1, 0);
    double want = 0, magnitude = 0;
    for (int i = 0; i < n; i++) {
        const double product = get(&p.x, place(n, incx, i)) * get(&p.y, place(n, incy, i));
        want += product;
        magnitude += fabs(product);
    }
    if (type == F32 && n % 2)
        BLAS_OK(cublasSdot(handle, n, p.x.device, incx, p.y.device, incy, result.host));
    else
        BLAS_OK(
            cublasDotEx(handle, n, p.x.device, type, incx, p.y.device, type, incy, result.host, type, F32));
    if (!(fabs(get(&result, 0) - want) <= tolerance(type, want, magnitude, (size_t)n)))
        fail_msg("type %d n %d inc %d %d: %g, not %g", type, n, incx, incy, get(&result, 0), want);
    array_free(&result);
    pair_free(&p);
}

static void check_norms(cudaDataType type, int n, int incx, int incy)
{
    (void)incy;
    array_t x = array_new(type, room(n, incx), 4), result = array_new(type, 2, 0);
    double squares = 0, sum = 0;
    for (int i = 0; i < n && incx > 0; i++) {
        squares += get(&x, place(n, incx, i)) * get(&x, place(n, incx, i));
        sum += fabs(get(&x, place(n, incx, i)));
    }
    BLAS_OK(cublasNrm2Ex(handle, n, x.device, type, incx, result.host, type, F32));
    BLAS_OK(cublasAsumEx(handle, n, x.device, type, incx, (char *)result.host + type_bytes(type), type, F32));
    const double largest = type == CUDA_R_16F ? 65504 : INFINITY; /* beyond it the sum is infinite */
    if (!(fabs(get(&result, 0) - sqrt(squares)) <= tolerance(type, sqrt(squares), sqrt(squares), 1)))
        fail_msg("nrm2: type %d n %d inc %d: %g, not %g", type, n, incx, get(&result, 0), sqrt(squares));
    if (sum < largest && !(fabs(get(&result, 1) - sum) <= tolerance(type, sum, sum, 1)))
        fail_msg("asum: type %d n %d inc %d: %g, not %g", type, n, incx, get(&result, 1), sum);
    array_free(&x);
    array_free(&result);
}

static void axpy_matches_the_reference(void **state)
{
    (void)state;
    for_all(check_axpy);
}

static void copy_and_scal_match_the_reference(void **state)
{
    (void)state;
    for_all(check_copy_and_scal);
}

static void dot_matches_the_reference(void **state)
{
    (void)state;
    for_all(check_dot);
}

static void nrm2_and_asum_match_the_reference(void **state)
{
    (void)state;
    for_all(check_norms);
}

/* Squares of these overflow or vanish in fp32. */
static void nrm2_neither_overflows_nor_vanishes(void **state)
{
    (void)state;
    const float scales[] = {1e30f, 1e-30f};
    for (int s = 0; s < 2; s++) {
        float v[2] = {3 * scales[s], 4 * scales[s]}, norm = 0, *d = to_device(v, 2);
        BLAS_OK(cublasSnrm2(handle, 2, d, 1, &norm));
        assert_true(fabsf(norm / scales[s] - 5) < 1e-5f);
        OK(cudaFree(d));
    }
}

static void extremes_are_the_first_and_counted_from_1(void **state)
{
    (void)state;
    float v[] = {2, -7, 1, 7, -1, 3};
    float *d = to_device(v, 6);
    int index = 0;
    int64_t wide = 0;
    BLAS_OK(cublasIsamax(handle, 6, d, 1, &index));
    assert_int_equal(index, 2);
    BLAS_OK(cublasIsamin(handle, 6, d, 1, &index));
    assert_int_equal(index, 3);
    BLAS_OK(cublasIsamax_64(handle, 3, d + 1, 2, &wide)); /* -7, 7, 3 */
    assert_int_equal(wide, 1);
    BLAS_OK(cublasIsamax(handle, 0, d, 1, &index));
    assert_int_equal(index, 0);
    OK(cudaFree(d));
}

/* A result for the host is there when the call returns, and work before it in the stream is in it. One for the device
 * takes its turn in the stream. */
static void results_go_where_the_pointer_mode_says(void **state)
{
    (void)state;
    cudaStream_t stream;
    float ones[100], got = 0, two = 2;
    for (int i = 0; i < 100; i++)
        ones[i] = 1;
    float *d = to_device(ones, 100), *result = to_device(ones, 1);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BLAS_OK(cublasSetStream(handle, stream));
    BLAS_OK(cublasSscal(handle, 100, &two, d, 1));
    BLAS_OK(cublasSdot(handle, 100, d, 1, d, 1, &got));
    assert_true(got == 400);
    BLAS_OK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    BLAS_OK(cublasSnrm2(handle, 100, d, 1, result)); /* 20 */
    BLAS_OK(cublasSscal(handle, 100, result, d, 1)); /* alpha on the device: 2 * 20 */
    BLAS_OK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    BLAS_OK(cublasSasum(handle, 100, d, 1, &got));
    assert_true(got == 4000);
    BLAS_OK(cublasSetStream(handle, NULL));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(d));
    OK(cudaFree(result));
}

static void wrong_vector_calls_are_refused(void **state)
{
    (void)state;
    float value = 1, *d = to_device(&value, 1);
    assert_int_equal(cublasSdot(NULL, 1, d, 1, d, 1, &value), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(cublasSdot(handle, 1, d, 1, d, 1, NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSaxpy(handle, 1, NULL, d, 1, d, 1), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasDotEx(handle, 1, d, CUDA_R_16F, 1, d, CUDA_R_32F, 1, &value, CUDA_R_16F, CUDA_R_32F),
        CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasNrm2Ex(handle, 1, d, CUDA_R_16F, 1, &value, CUDA_R_16F, CUDA_R_16F),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    OK(cudaFree(d));
}

/* ---- geam ---- */

typedef struct sum {
    int m, n, pad;
    cublasOperation_t ta, tb;
    float alpha, beta;
} sum_t;

static void run_geam(const sum_t *s)
{
    const size_t m = (size_t)s->m, n = (size_t)s->n, pad = (size_t)s->pad;
    const size_t lda = (s->ta ? n : m) + pad, ldb = (s->tb ? n : m) + pad, ldc = m + pad;
    /* With a factor of 0 the matrix is NaN, which must not be read. */
    array_t a = array_new(F32, lda * (s->ta ? m : n), s->alpha == 0 ? 0 : 1),
            b = array_new(F32, ldb * (s->tb ? m : n), s->beta == 0 ? 0 : 2), c = array_new(F32, ldc * n, 3),
            before = array_copy(&c);
    BLAS_OK(cublasSgeam(handle, s->ta, s->tb, s->m, s->n, &s->alpha, a.device, (int)lda, &s->beta, b.device,
                        (int)ldb, c.device, (int)ldc));
    download(&c);
    const view_t va = {&a, 0, lda, s->ta != CUBLAS_OP_N}, vb = {&b, 0, ldb, s->tb != CUBLAS_OP_N};
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < ldc; i++) {
            double want = get(&before, i + j * ldc);
            if (i < m)
                want = (s->alpha == 0 ? 0 : (double)s->alpha * at(&va, i, j)) +
                       (s->beta == 0 ? 0 : (double)s->beta * at(&vb, i, j));
            if (!(fabs(get(&c, i + j * ldc) - want) <= 3e-7))
                fail_msg("%d x %d ops %d%d: [%zu,%zu] is %g, not %g", s->m, s->n, s->ta, s->tb, i, j,
                         get(&c, i + j * ldc), want);
        }
    array_free(&a);
    array_free(&b);
    array_free(&c);
    array_free(&before);
}

static void geam_matches_the_reference(void **state)
{
    (void)state;
    const int sizes[][2] = {{1, 1}, {5, 9}, {128, 128}, {300, 129}, {1, 400}};
    const float scalars[][2] = {{1, 0}, {0, 1}, {2, -0.5f}, {0, 0}};
    for (int s = 0; s < COUNT(sizes); s++)
        for (int ops = 0; ops < 4; ops++)
            for (int f = 0; f < COUNT(scalars); f++)
                run_geam(&(sum_t){sizes[s][0], sizes[s][1], (s + ops) % 2 ? 5 : 0,
                                  ops & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, ops & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                  scalars[f][0], scalars[f][1]});
}

static void geam_works_in_place_where_it_may(void **state)
{
    (void)state;
    enum { N = 140 };
    const float one = 1, two = 2;
    array_t a = array_new(F32, N * N, 1), b = array_new(F32, N * N, 2), before = array_copy(&a);
    BLAS_OK(cublasSgeam(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, &two, a.device, N, &one, b.device, N,
                        a.device, N));
    download(&a);
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(get(&a, i + j * N) - 2 * get(&before, i + j * N) - get(&b, j + i * N)) < 1e-6);
    assert_int_equal(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, N, &two, a.device, N, &one, b.device, N,
                                 a.device, N),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSgeam(handle, CUBLAS_OP_N, CUBLAS_OP_N, N / 2, N / 2, &two, a.device, N, &one,
                                 b.device, N, a.device, N / 2),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSgeam(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, &two, a.device, N - 1, &one,
                                 b.device, N, b.device, N),
                     CUBLAS_STATUS_INVALID_VALUE);
    array_free(&a);
    array_free(&b);
    array_free(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axpy_matches_the_reference),
        cmocka_unit_test(copy_and_scal_match_the_reference),
        cmocka_unit_test(dot_matches_the_reference),
        cmocka_unit_test(nrm2_and_asum_match_the_reference),
        cmocka_unit_test(nrm2_neither_overflows_nor_vanishes),
        cmocka_unit_test(extremes_are_the_first_and_counted_from_1),
        cmocka_unit_test(results_go_where_the_pointer_mode_says),
        cmocka_unit_test(wrong_vector_calls_are_refused),
        cmocka_unit_test(geam_matches_the_reference),
        cmocka_unit_test(geam_works_in_place_where_it_may),
    };
    return cmocka_run_group_tests(tests, blas_setup, blas_teardown);
}
