/* The order in which a block's warps run, of kernels that come from PTX (order.ptx): by number, or drawn from SOFTGPU_SEED, the same under
 * the same seed. So a barrier that is missing shows as another result under some seed. */
#include "simt_test.h"

enum { THREADS = 256, WARPS = THREADS / 32, SEEDS = 8 };

static const char *name;
static int seed; /* 0: none is given */

/* What the kernel leaves, to stderr. */
static void run(void)
{
    char text[16];
    int values[THREADS + 1];
    snprintf(text, sizeof text, "%d", seed);
    if (seed)
        setenv("SOFTGPU_SEED", text, 1);
    child_device();
    CUdeviceptr p = child_zeros(sizeof values);
    CHILD_LAUNCH(name, 1, THREADS, &p);
    CHILD_CHECK(cuMemcpyDtoH(values, p, sizeof values) == CUDA_SUCCESS);
    for (int i = 0; i <= THREADS; i++)
        fprintf(stderr, "%d ", values[i]);
}

typedef struct result {
    int values[THREADS + 1];
} result_t;

static result_t result_of(const char *kernel, int with_seed)
{
    static char log[16 << 10];
    result_t result;
    name = kernel;
    seed = with_seed;
    if (in_child(run, log, sizeof log))
        fail_msg("%s, seed %d: %s", kernel, seed, log);
    const char *at = log;
    for (int i = 0; i <= THREADS; i++) {
        char *end;
        result.values[i] = (int)strtol(at, &end, 10);
        if (end == at)
            fail_msg("%s, seed %d: the log says: %s", kernel, seed, log);
        at = end;
    }
    return result;
}

static bool same(const result_t *a, const result_t *b)
{
    return !memcmp(a, b, sizeof *a);
}

static void warps_run_by_number_or_as_the_seed_has_it(void **state)
{
    result_t results[SEEDS];
    int others = 0;
    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        unsigned met = 0;
        results[i] = result_of("warps_in_order", i);
        assert_int_equal(results[i].values[0], WARPS);
        for (int w = 0; w < WARPS; w++)
            met |= 1u << results[i].values[1 + w];
        assert_int_equal(met, (1u << WARPS) - 1);
        others += !same(&results[i], &results[0]);
    }
    for (int w = 0; w < WARPS; w++)
        assert_int_equal(results[0].values[1 + w], w);
    assert_int_equal(others, SEEDS - 1); /* 8! orders */
    const result_t again = result_of("warps_in_order", 3);
    assert_true(same(&again, &results[3]));
}

static void a_missing_barrier_shows_under_some_seed(void **state)
{
    const result_t wrong = result_of("without_barrier", 0), right = result_of("with_barrier", 0);
    int others = 0;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(right.values[i], (i + 32) % THREADS);
    for (int i = 1; i < SEEDS; i++) {
        const result_t with = result_of("with_barrier", i), without = result_of("without_barrier", i);
        assert_true(same(&with, &right));
        others += !same(&without, &wrong);
    }
    assert_true(others > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warps_run_by_number_or_as_the_seed_has_it),
        cmocka_unit_test(a_missing_barrier_shows_under_some_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
