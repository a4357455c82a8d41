/* test_translate_clang.c PTX...: corpus/run.cu as Clang compiles it, translated and run, against the same functions in C. */
#include "ptx_test.h"

#include "run_library.h"

/* ---- the functions of corpus/run.cu: CMake cuts them out ---- */
#define DEVICE static
#include "run_functions.h"

enum { BLOCKS = 7, THREADS = 100, N = BLOCKS * THREADS };

static const softgpu_kernel_table_t *table;
static const char *path;

static void run(const char *name, void *to)
{
    ptx_run_t r = {.grid = {BLOCKS, 1, 1}, .block = {THREADS, 1, 1}, .params = &to};
    if (!ptx_run(ptx_kernel(table, name), &r))
        fail_msg("%s of %s: %s", name, path, r.why);
}

#define CHECK(name, type, expression)                                                                        \
    do {                                                                                                     \
        static type to[N];                                                                                   \
        run(name, to);                                                                                       \
        for (int i = 0; i < N; i++) {                                                                        \
            const type want = (expression);                                                                  \
            if (memcmp(&to[i], &want, sizeof want) != 0)                                                     \
                fail_msg("%s of %s: thread %d has %g instead of %g", name, path, i, (double)to[i],           \
                         (double)want);                                                                      \
        }                                                                                                    \
    } while (0)

static int twice_or_square(int i)
{
    return i % 3 == 0 ? i * i : 2 * i;
}

static int of_block(int i)
{
    const int t = i % THREADS, first = i - t;
    int sum = 0, counts[4] = {0};
    for (int k = first; k < first + THREADS; k++) {
        sum += 3 * k;
        counts[3 * k & 3]++;
    }
    return t == 0 ? sum : t < 5 ? counts[t - 1] : -1;
}

static void kernels_compute_what_c_does(void **state)
{
    (void)state;
    CHECK("k_use", long, use(make(i), (int)(scramble((unsigned)i) % 100)));
    CHECK("k_sorted", int, sorted((unsigned)i, i % 24));
    CHECK("k_collatz", int, collatz((unsigned)i + 1));
    CHECK("k_ackermann", int, ackermann(i % 3, i % 5));
    CHECK("k_series", double, series((float)(i % 13) * 0.25f - 1, i % 40));
    CHECK("k_mixed", unsigned long, mixed((unsigned)i));
    CHECK("k_pointers", int, twice_or_square(i));
    CHECK("k_block", int, of_block(i));
}

int main(int count, char **paths)
{
    int failed = 0;
    if (count < 2)
        return 77; /* no Clang */
    for (int i = 1; i < count; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *in = fopen(path = paths[i], "r");
        if (in == NULL || getdelim(&text, &bytes, '\0', in) < 0)
            return 1;
        fclose(in);
        table = ptx_build(text);
        free(text);
        const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_compute_what_c_does)};
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
