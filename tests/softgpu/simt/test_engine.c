/* Threads, barriers, lanes, atomics, shared memory: every program of it gives the same whatever the order in which threads
 * run. Run in SIMT mode with several seeds, and in checked mode, which must find nothing to report. */
#include "simt_test.h"

static void every_thread_knows_its_place(void **state)
{
    (void)state;
    const unsigned g[] = {3, 2, 2}, b[] = {7, 3, 2};
    enum { BLOCKS = 12, THREADS = 42 };
    unsigned got[BLOCKS * THREADS];
    CUdeviceptr out = device_zeros(sizeof got);
    OK(cuLaunchKernel(kernel("indices"), g[0], g[1], g[2], b[0], b[1], b[2], 0, NULL, (void *[]){&out},
                      NULL));
    read_back(got, out, sizeof got);
    for (unsigned block = 0; block < BLOCKS; block++)
        for (unsigned t = 0; t < THREADS; t++)
            assert_int_equal(got[block * THREADS + t],
                             block * 10000 + t % 7 + 100 * (t / 7 % 3) + 1000 * (t / 21));
    OK(cuMemFree(out));
}

static void barrier_orders_shared_memory(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 1024; threads = threads < 32 ? threads + 31 : 2 * threads) {
        int p[4 * 1024], n = 4 * threads;
        for (int i = 0; i < n; i++)
            p[i] = i;
        CUdeviceptr d = device_ints(p, (size_t)n);
        OK(LAUNCH("reverse", 4, threads, &d));
        read_back(p, d, (size_t)n * 4);
        for (int i = 0; i < n; i++)
            assert_int_equal(p[i], i / threads * threads + threads - 1 - i % threads);
        OK(cuMemFree(d));
    }
}

static void barriers_count_and_vote(void **state)
{
    (void)state;
    int got[3], limit = 0;
    CUdeviceptr out = device_zeros(sizeof got);
    OK(LAUNCH("count_and_or", 1, 100, &out, &limit));
    read_back(got, out, sizeof got);
    assert_true(got[0] == 34 && got[1] == 1 && got[2] == 1);
    limit = 99;
    OK(LAUNCH("count_and_or", 1, 100, &out, &limit));
    read_back(got, out, sizeof got);
    assert_true(got[0] == 34 && got[1] == 0 && got[2] == 1);
    limit = 100;
    OK(LAUNCH("count_and_or", 1, 100, &out, &limit));
    read_back(got, out, sizeof got);
    assert_true(got[1] == 0 && got[2] == 0);
    OK(cuMemFree(out));
}

static void exited_threads_hold_nobody_up(void **state)
{
    (void)state;
    int got[128], stay = 77;
    CUdeviceptr out = device_zeros(sizeof got);
    OK(LAUNCH("early_exit", 1, 128, &out, &stay));
    read_back(got, out, sizeof got);
    for (int i = 0; i < 128; i++)
        assert_int_equal(got[i], i < stay ? stay : 0);
    OK(cuMemFree(out));
}

static int shuffled(int kind, int lane, int width)
{
    const int group = lane / width * width;
    int from = lane;
    switch (kind) {
    case 0:
        from = group + 3 % width;
        break;
    case 1:
        from = lane - 2 >= group ? lane - 2 : lane;
        break;
    case 2:
        from = lane + 5 < group + width ? lane + 5 : lane;
        break;
    default:
        from = (lane ^ 9) < group + width ? lane ^ 9 : lane;
    }
    return 100 + from;
}

static void shuffles_move_values(void **state)
{
    (void)state;
    long long got[5 * 32];
    CUdeviceptr out = device_zeros(sizeof got);
    for (int width = 1; width <= 32; width *= 2) {
        OK(LAUNCH("shuffles", 1, 32, &out, &width));
        read_back(got, out, sizeof got);
        for (int lane = 0; lane < 32; lane++) {
            for (int kind = 0; kind < 4; kind++)
                assert_int_equal(got[32 * kind + lane], shuffled(kind, lane, width));
            assert_int_equal(got[128 + lane], (long long)(31 - lane) << 40 | 7);
        }
    }
    OK(cuMemFree(out));
}

static void lanes_vote_match_and_reduce(void **state)
{
    (void)state;
    unsigned got[8 * 32], fives = 0;
    CUdeviceptr out = device_zeros(sizeof got);
    OK(LAUNCH("votes", 1, 32, &out));
    read_back(got, out, sizeof got);
    for (unsigned i = 0; i < 32; i += 5)
        fives |= 1u << i;
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned third = lane / 3 * 3, trio = third == 30 ? 3u << 30 : 7u << third;
        assert_int_equal(got[lane], fives);
        assert_int_equal(got[32 + lane], 1);
        assert_int_equal(got[64 + lane], trio);
        assert_int_equal(got[96 + lane], 0);
        assert_int_equal(got[128 + lane], 496u + 0xffffffffu);
        assert_int_equal(got[160 + lane], 3100 - 7);
        if (lane % 2) {
            assert_int_equal(got[192 + lane], 0xaaaa0000u & ~1u << 16);
            assert_int_equal(got[224 + lane], 0xaaaaaaaau);
        } else {
            assert_int_equal(got[192 + lane], lane == 30 ? 30 : lane + 2);
            assert_int_equal(got[224 + lane], 0x55555555u);
        }
    }
    OK(cuMemFree(out));
}

static void incomplete_warps_work(void **state)
{
    (void)state;
    float x[100], got[3] = {0};
    float want = 0;
    int n = 100;
    for (int i = 0; i < n; i++)
        want += x[i] = (float)i;
    CUdeviceptr in, out = device_zeros(sizeof got);
    OK(cuMemAlloc(&in, sizeof x));
    OK(cuMemcpyHtoD(in, x, sizeof x));
    OK(LAUNCH("warp_sums", 1, 80, &out, &in, &n));
    read_back(got, out, sizeof got);
    assert_true(got[0] == want &&
                got[1] == want); /* the third warp has 16 lanes: what others would give is undefined */
    OK(cuMemFree(in));
    OK(cuMemFree(out));
}

static void atomics_lose_nothing(void **state)
{
    (void)state;
    struct {
        int add, sub, min, max;
        unsigned inc, dec, and_, or_, xor_, exch, cas;
        float f;
        double d;
        unsigned long long ull;
    } c;
    memset(&c, 0, sizeof c);
    c.and_ = 0xffffffffu;
    const int n = 6 * 96;
    unsigned xors = 0;
    for (int i = 0; i < n; i++)
        xors ^= (unsigned)i;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, sizeof c));
    OK(cuMemcpyHtoD(p, &c, sizeof c));
    OK(LAUNCH("atomics", 6, 96, &p));
    read_back(&c, p, sizeof c);
    assert_int_equal(c.add, n * (n - 1) / 2);
    assert_int_equal(c.sub, -n * (n - 1) / 2);
    assert_int_equal(c.min, 1 - n);
    assert_int_equal(c.max, n - 1);
    assert_int_equal(c.inc, n % 10);
    assert_int_equal(c.dec, (10 - n % 10) % 10);
    assert_int_equal(c.and_, 0);
    assert_int_equal(c.or_, 0xffffffffu);
    assert_int_equal(c.xor_, xors);
    assert_int_equal(c.exch, 5);
    assert_int_equal(c.cas, 2 * n);
    assert_true(c.f == 0.5f * (float)n && c.d == 0.25 * n && c.ull == (unsigned long long)n << 33);
    OK(cuMemFree(p));
}

static void threads_of_a_block_may_spin_for_each_other(void **state)
{
    (void)state;
    int got;
    CUdeviceptr p = device_zeros(4);
    OK(LAUNCH("spin_lock", 1, 70, &p));
    read_back(&got, p, 4);
    assert_int_equal(got, 70);
    OK(cuMemFree(p));
}

static void dynamic_shared_memory_is_what_the_launch_says(void **state)
{
    (void)state;
    int n = 12 * 1024, bytes = n * 4, *got = malloc(2 * (size_t)bytes);
    CUdeviceptr out = device_zeros(2 * (size_t)bytes);
    OK(LAUNCH_SHARED("dynamic_shared", 2, 64, bytes, &out, &n));
    read_back(got, out, 2 * (size_t)bytes);
    for (int i = 0; i < 2 * n; i++)
        assert_int_equal(got[i], n - 1 - i % n + i / n);
    /* More than 48 KiB has to be asked for. */
    int m = 20 * 1024;
    CUdeviceptr more = device_zeros((size_t)m * 4);
    CUfunction f = kernel("dynamic_shared");
    assert_int_equal(LAUNCH_SHARED("dynamic_shared", 1, 64, m * 4, &more, &m), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, m * 4));
    OK(LAUNCH_SHARED("dynamic_shared", 1, 64, m * 4, &more, &m));
    OK(LAUNCH_SHARED("dynamic_by_two_names", 1, 32, 256, &more));
    read_back(got, more, 128);
    float one = 1.0f;
    assert_memory_equal(&got[31], &one, 4);
    OK(cuMemFree(out));
    OK(cuMemFree(more));
    free(got);
}

static void static_shared_memory_is_known(void **state)
{
    (void)state;
    int bytes, most;
    float got[256];
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel("shared_of_a_function")));
    assert_int_equal(bytes, 1024 + 64);
    OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          kernel("shared_of_a_function")));
    assert_int_equal(most, (48 << 10) - 1024 - 64);
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel("votes")));
    assert_int_equal(bytes, 0);
    CUdeviceptr out = device_zeros(sizeof got);
    OK(LAUNCH("shared_of_a_function", 1, 200, &out));
    read_back(got, out, sizeof got);
    for (int i = 0; i < 200; i++)
        assert_true(got[i] == 199 * 100 + 1);
    OK(cuMemFree(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_knows_its_place),
        cmocka_unit_test(barrier_orders_shared_memory),
        cmocka_unit_test(barriers_count_and_vote),
        cmocka_unit_test(exited_threads_hold_nobody_up),
        cmocka_unit_test(shuffles_move_values),
        cmocka_unit_test(lanes_vote_match_and_reduce),
        cmocka_unit_test(incomplete_warps_work),
        cmocka_unit_test(atomics_lose_nothing),
        cmocka_unit_test(threads_of_a_block_may_spin_for_each_other),
        cmocka_unit_test(dynamic_shared_memory_is_what_the_launch_says),
        cmocka_unit_test(static_shared_memory_is_known),
    };
    return cmocka_run_group_tests(tests, simt_setup, NULL);
}
