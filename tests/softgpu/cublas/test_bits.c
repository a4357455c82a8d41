/* The bits of a product depend on its shape and operands only: not on the number of workers, the addresses,
 * or what else runs. With the argument "print" the program prints a hash of many products; it runs itself so
 * with different workers. */
#include "cublas_test.h"

static const char *self;

static uint64_t hash(uint64_t h, const float *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &p[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x100000001b3);
    }
    return h;
}

static const int shapes[][3] = {{768, 1024, 64}, {256, 256, 1024}, {104, 104, 104},
                                {333, 777, 55},  {1024, 256, 128}, {40, 40, 2000}};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0], LARGEST = 768 * 1024 };

static uint64_t hash_of_products(void)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    const float one = 1, zero = 0;
    operand_t a = operand_new(LARGEST, 1, NULL), b = operand_new(LARGEST, 2, NULL),
              c = operand_new(LARGEST, 3, NULL);
    for (int s = 0; s < SHAPE_COUNT; s++)
        for (int t = 0; t < 4; t++) {
            const int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            BLAS_OK(cublasSgemm(handle, t & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, t & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                m, n, k, &one, a.device, t & 1 ? k : m, b.device, t & 2 ? n : k, &zero,
                                c.device, m));
            to_host(c.host, c.device, (size_t)m * (size_t)n);
            h = hash(h, c.host, (size_t)m * (size_t)n);
        }
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
    return h;
}

static uint64_t hash_with_workers(int workers)
{
    char command[1024];
    unsigned long long h = 0;
    snprintf(command, sizeof command, "SOFTGPU_WORKERS=%d '%s' print", workers, self);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%llx", &h), 1);
    assert_int_equal(pclose(pipe), 0);
    return h;
}

static void bits_do_not_depend_on_workers(void **state)
{
    (void)state;
    const uint64_t want = hash_of_products();
    for (int workers = 1; workers <= 5; workers++)
        if (hash_with_workers(workers) != want)
            fail_msg("other bits with %d workers", workers);
}

/* Each operand in turn at other offsets from a page, down to the 4 bytes that a float needs. */
static void bits_do_not_depend_on_addresses(void **state)
{
    (void)state;
    enum { M = 320, N = 288, K = 176, ROOM = M * N + 4096 };
    const size_t offsets[] = {0, 64, 128, 192, 1024, 960, 16, 4, 1};
    const float one = 1, half = 0.5f;
    float *a = random_matrix(M * K, 1), *b = random_matrix(K * N, 2), *c = random_matrix(M * N, 3),
          *want = malloc(M * N * sizeof *c), *got = malloc(M * N * sizeof *c);
    void *room[3];
    for (int i = 0; i < 3; i++)
        OK(cudaMalloc(&room[i], ROOM * sizeof *a));
    for (size_t i = 0; i < 3 * sizeof offsets / sizeof offsets[0]; i++) {
        const size_t o = offsets[i / 3];
        float *da = (float *)room[0] + (i % 3 == 0 ? o : 0), *db = (float *)room[1] + (i % 3 == 1 ? o : 0),
              *dc = (float *)room[2] + (i % 3 == 2 ? o : 0);
        OK(cudaMemcpy(da, a, M * K * sizeof *a, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(db, b, K * N * sizeof *b, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(dc, c, M * N * sizeof *c, cudaMemcpyHostToDevice));
        BLAS_OK(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, M, N, K, &one, da, K, db, K, &half, dc, M));
        to_host(i ? got : want, dc, M * N);
        if (i && memcmp(got, want, M * N * sizeof *c))
            fail_msg("other bits with operand %zu %zu floats further", i % 3, o);
    }
    for (int i = 0; i < 3; i++)
        OK(cudaFree(room[i]));
    free(a);
    free(b);
    free(c);
    free(want);
    free(got);
}

/* Many equal products at once, of a size that goes through OpenBLAS's shared work buffers: all alike, every
 * time. */
static void bits_do_not_depend_on_what_else_runs(void **state)
{
    (void)state;
    enum { N = 104, BATCH = 64, ROUNDS = 300 };
    const float one = 1, zero = 0;
    float *want = malloc(N * N * sizeof *want);
    operand_t a = operand_new(N * N, 1, NULL), b = operand_new(N * N, 2, NULL),
              c = operand_new((size_t)BATCH * N * N, 3, NULL);
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, a.device, N, b.device, N, &zero,
                        c.device, N));
    to_host(want, c.device, N * N);
    for (int round = 0; round < ROUNDS; round++) {
        BLAS_OK(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, a.device, N, 0,
                                          b.device, N, 0, &zero, c.device, N, N * N, BATCH));
        to_host(c.host, c.device, (size_t)BATCH * N * N);
        for (int i = 0; i < BATCH; i++)
            if (memcmp(c.host + (size_t)i * N * N, want, N * N * sizeof *want))
                fail_msg("round %d: product %d has other bits", round, i);
    }
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
    free(want);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_workers),
        cmocka_unit_test(bits_do_not_depend_on_addresses),
        cmocka_unit_test(bits_do_not_depend_on_what_else_runs),
    };
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "print")) {
        if (blas_setup(NULL))
            return 1;
        printf("%llx\n", (unsigned long long)hash_of_products());
        return 0;
    }
    return cmocka_run_group_tests(tests, blas_setup, blas_teardown);
}
