/* cublasLtMatmul against a reference in double precision: types, transpositions, orders, epilogues, batches. */
#include "lt_test.h"

static const cudaDataType types[][2] = {{CUDA_R_32F, CUDA_R_32F},
                                        {CUDA_R_16BF, CUDA_R_16BF},
                                        {CUDA_R_16BF, CUDA_R_32F},
                                        {CUDA_R_16F, CUDA_R_16F},
                                        {CUDA_R_16F, CUDA_R_32F}};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static cublasOperation_t op(int transposed)
{
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static void every_type_and_transpose_matches_the_reference(void **state)
{
    (void)state;
    const int sizes[][3] = {{1, 1, 1}, {33, 17, 65}, {64, 48, 520}, {130, 70, 20}};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < TYPE_COUNT; t++)
            for (int ops = 0; ops < 4; ops++)
                run_product(&(product_t){.m = sizes[s][0],
                                         .n = sizes[s][1],
                                         .k = sizes[s][2],
                                         .ta = op(ops & 1),
                                         .tb = op(ops & 2),
                                         .in = types[t][0],
                                         .out = types[t][1],
                                         .alpha = ops == 3 ? -0.5f : 1,
                                         .beta = (s + t) % 2 ? 0.25f : 0,
                                         .pad = (s + ops) % 2 ? 3 : 0,
                                         .in_place = t % 2,
                                         .on_device = ops == 2},
                            NULL, NULL, 0);
}

static void every_order_matches_the_reference(void **state)
{
    (void)state;
    const cublasLtOrder_t order[] = {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW};
    for (int orders = 0; orders < 8; orders++)
        for (int ops = 0; ops < 4; ops++)
            for (int t = 0; t < 2; t++)
                run_product(&(product_t){.m = 37,
                                         .n = 29,
                                         .k = 43,
                                         .ta = op(ops & 1),
                                         .tb = op(ops & 2),
                                         .in = types[t][0],
                                         .out = types[t][1],
                                         .alpha = 1,
                                         .beta = 1,
                                         .pad = 2,
                                         .batch = 2,
                                         .order_a = order[orders & 1],
                                         .order_b = order[orders >> 1 & 1],
                                         .order_d = order[orders >> 2]},
                            NULL, NULL, 0);
}

static const cublasLtEpilogue_t epilogues[] = {
    CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,      CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU,
    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_AUX,
    CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB};
enum { EPILOGUE_COUNT = sizeof epilogues / sizeof epilogues[0] };

static void every_epilogue_matches_the_reference(void **state)
{
    (void)state;
    const int sizes[][3] = {{1, 1, 1}, {37, 29, 50}, {140, 20, 90}};
    for (int e = 0; e < EPILOGUE_COUNT; e++)
        for (int t = 0; t < TYPE_COUNT; t++)
            for (int s = 0; s < 3; s++)
                for (int ops = s == 2 ? e % 4 : 0; ops < 4; ops += s == 2 ? 4 : 1)
                    run_product(&(product_t){.m = sizes[s][0],
                                             .n = sizes[s][1],
                                             .k = sizes[s][2],
                                             .ta = op(ops & 1),
                                             .tb = op(ops & 2),
                                             .in = types[t][0],
                                             .out = types[t][1],
                                             .epilogue = epilogues[e],
                                             .alpha = 0.5f,
                                             .beta = ops % 2 ? 1.0f : 0.0f,
                                             .pad = s},
                                NULL, NULL, 0);
}

/* Several tiles each way. */
static void epilogues_of_large_products_match_the_reference(void **state)
{
    (void)state;
    for (int e = 0; e < EPILOGUE_COUNT; e++)
        run_product(&(product_t){.m = 530,
                                 .n = 1100,
                                 .k = 40,
                                 .ta = op(e & 1),
                                 .in = CUDA_R_16BF,
                                 .out = e % 2 ? CUDA_R_32F : CUDA_R_16BF,
                                 .epilogue = epilogues[e],
                                 .alpha = 1},
                    NULL, NULL, 0);
}

static void epilogues_take_batches_and_tables(void **state)
{
    (void)state;
    for (int e = 0; e < EPILOGUE_COUNT; e++)
        for (int tables = 0; tables < 2; tables++)
            run_product(&(product_t){.m = 40,
                                     .n = 24,
                                     .k = 33,
                                     .in = CUDA_R_32F,
                                     .out = CUDA_R_32F,
                                     .epilogue = epilogues[e],
                                     .alpha = 1,
                                     .beta = 0.5f,
                                     .pad = 1,
                                     .batch = 3,
                                     .tables = tables},
                        NULL, NULL, 0);
}

static void epilogues_follow_a_row_major_result(void **state)
{
    (void)state;
    for (int e = 0; e < EPILOGUE_COUNT; e++) {
        product_t p = {.m = 40,
                       .n = 24,
                       .k = 33,
                       .in = CUDA_R_16F,
                       .out = CUDA_R_32F,
                       .epilogue = epilogues[e],
                       .alpha = 1,
                       .order_a = CUBLASLT_ORDER_ROW,
                       .order_d = CUBLASLT_ORDER_ROW};
        problem_t q = problem_new(&p);
        cublasStatus_t status = matmul(&q, NULL, NULL, 0, NULL);
        assert_int_equal(status, has(&p, BGRAD) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS);
        if (status == CUBLAS_STATUS_SUCCESS)
            check_result(&q);
        problem_free(&q);
    }
}

/* One product each, so that nothing but the function is measured: its tanh form, to a few units in the last place. */
static void gelu_and_its_slope_are_those_of_the_tanh_form(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    for (int backward = 0; backward < 2; backward++) {
        product_t p = {.m = COUNT,
                       .n = 1,
                       .k = 1,
                       .in = CUDA_R_32F,
                       .out = CUDA_R_32F,
                       .epilogue = backward ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_GELU,
                       .alpha = 1};
        problem_t q = problem_new(&p);
        array_t *x = backward ? &q.aux : &q.a.array;
        for (size_t i = 0; i < COUNT; i++) {
            set(&q.a.array, i, 1);
            set(x, i, ((double)i - COUNT / 2) * (12.0 / COUNT));
        }
        set(&q.b.array, 0, 1);
        upload(&q.a.array);
        upload(&q.b.array);
        upload(&q.aux);
        BLAS_OK(matmul(&q, NULL, NULL, 0, NULL));
        download(&q.d.array);
        for (size_t i = 0; i < COUNT; i++) {
            const double want = backward ? gelu_slope(get(x, i)) : gelu(get(x, i)), got = get(&q.d.array, i);
            if (!(fabs(got - want) <= (backward ? 1.5e-6 : 6e-7) * (1 + fabs(want))))
                fail_msg("%s(%g) is %.9g, not %.9g", backward ? "slope" : "gelu", get(x, i), got, want);
        }
        problem_free(&q);
    }
}

static void alpha_zero_does_not_read_the_factors(void **state)
{
    (void)state;
    product_t p = {.m = 30,
                   .n = 20,
                   .k = 10,
                   .in = CUDA_R_16BF,
                   .out = CUDA_R_16BF,
                   .alpha = 0,
                   .beta = 2,
                   .epilogue = CUBLASLT_EPILOGUE_BIAS};
    problem_t q = problem_new(&p);
    array_t nan = array_new(CUDA_R_16BF, q.a.array.count, 0);
    OK(cudaMemcpy(q.a.array.device, nan.host, nan.count * 2, cudaMemcpyHostToDevice));
    BLAS_OK(matmul(&q, NULL, NULL, 0, NULL));
    check_result(&q);
    array_free(&nan);
    problem_free(&q);
}

/* Without epilogue and with one type it is the very product that cublasSgemm computes. */
static void plain_product_has_the_bits_of_sgemm(void **state)
{
    (void)state;
    enum { M = 300, N = 200, K = 500 };
    const float one = 1, zero = 0;
    cublasHandle_t blas;
    product_t p = {.m = M, .n = N, .k = K, .in = CUDA_R_32F, .out = CUDA_R_32F, .alpha = 1};
    problem_t q = problem_new(&p);
    array_t other = array_new(CUDA_R_32F, q.d.array.count, 0);
    BLAS_OK(matmul(&q, NULL, NULL, 0, NULL));
    BLAS_OK(cublasCreate(&blas));
    BLAS_OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, q.a.array.device, M, q.b.array.device,
                        K, &zero, other.device, M));
    download(&q.d.array);
    download(&other);
    assert_memory_equal(q.d.array.host, other.host, M * N * sizeof(float));
    BLAS_OK(cublasDestroy(blas));
    array_free(&other);
    problem_free(&q);
}

/* Hashes of products of all kinds, for the test of workers. */
static uint64_t hash_of_products(void)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    void *workspace;
    const size_t bytes = (size_t)64 << 20;
    OK(cudaMalloc(&workspace, bytes));
    for (int e = -1; e < EPILOGUE_COUNT; e++)
        for (int t = 0; t < 3; t++) {
            product_t p = {.m = 150,
                           .n = 130,
                           .k = 700,
                           .in = types[t][0],
                           .out = types[t][1],
                           .epilogue = e < 0 ? 0 : epilogues[e],
                           .alpha = 1};
            problem_t q = problem_new(&p);
            BLAS_OK(matmul(&q, NULL, t % 2 ? workspace : NULL, t % 2 ? bytes : 0, NULL));
            download(&q.d.array);
            for (size_t i = 0; i < q.d.array.count * type_bytes(p.out); i++)
                h = (h ^ ((unsigned char *)q.d.array.host)[i]) * UINT64_C(0x100000001b3);
            problem_free(&q);
        }
    OK(cudaFree(workspace));
    return h;
}

static const char *self;

static void bits_do_not_depend_on_workers(void **state)
{
    (void)state;
    const uint64_t want = hash_of_products();
    for (int workers = 1; workers <= 5; workers += 2) {
        char command[1024];
        unsigned long long h = 0;
        snprintf(command, sizeof command, "SOFTGPU_WORKERS=%d '%s' print", workers, self);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        assert_int_equal(fscanf(pipe, "%llx", &h), 1);
        assert_int_equal(pclose(pipe), 0);
        if (h != want)
            fail_msg("other bits with %d workers", workers);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_transpose_matches_the_reference),
        cmocka_unit_test(every_order_matches_the_reference),
        cmocka_unit_test(every_epilogue_matches_the_reference),
        cmocka_unit_test(epilogues_of_large_products_match_the_reference),
        cmocka_unit_test(epilogues_take_batches_and_tables),
        cmocka_unit_test(epilogues_follow_a_row_major_result),
        cmocka_unit_test(gelu_and_its_slope_are_those_of_the_tanh_form),
        cmocka_unit_test(alpha_zero_does_not_read_the_factors),
        cmocka_unit_test(plain_product_has_the_bits_of_sgemm),
        cmocka_unit_test(bits_do_not_depend_on_workers),
    };
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "print")) {
        if (lt_setup(NULL))
            return 1;
        printf("%llx\n", (unsigned long long)hash_of_products());
        return 0;
    }
    return cmocka_run_group_tests(tests, lt_setup, lt_teardown);
}
