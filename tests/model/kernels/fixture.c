#include "fixture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, TENSORS = 64, LOG_WORDS = 1 << 24 };
static const size_t arena_bytes = (size_t)32 << 20;

static struct {
    char *device;       /* owns the arena */
    size_t used, dirty; /* dirty: what is no longer as fixture_setup() left it */
    int place;
    uint64_t seed, random;
    dtype_t type;
    void *host[TENSORS]; /* owns, until the end of a body */
    int host_count;
    struct {
        size_t begin, end;
    } tensor[TENSORS];
    int tensor_count;
    FILE *dump;       /* EBB_TEST_DUMP; NULL: not wanted */
    uint32_t *log[2]; /* what was compared, in the two places */
    size_t logged[2];
} now;

int fixture_setup(void **state)
{
    (void)state;
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        printf("no CUDA device (%s): skipped\n", cudaGetErrorString(error));
        exit(77);
    }
    const char *const seed = getenv("EBB_TEST_SEED");
    now.seed = seed ? strtoull(seed, NULL, 0) : 20240607;
    printf("EBB_TEST_SEED=%" PRIu64 "\n", now.seed);
    for (int place = 0; place < 2; place++) {
        now.log[place] = malloc(sizeof(uint32_t) * LOG_WORDS);
        if (!now.log[place])
            return -1;
    }
    const char *const dump = getenv("EBB_TEST_DUMP");
    now.dump = dump && *dump ? fopen(dump, "wb") : NULL;
    now.dirty = arena_bytes;
    return cudaMalloc((void **)&now.device, arena_bytes) == cudaSuccess ? 0 : -1;
}

int fixture_teardown(void **state)
{
    (void)state;
    free(now.log[0]);
    free(now.log[1]);
    if (now.dump && fclose(now.dump))
        return -1;
    return cudaFree(now.device) == cudaSuccess ? 0 : -1;
}

bool fixture_small(void)
{
    const char *const text = getenv("EBB_TEST_SMALL");
    return text && !strcmp(text, "1");
}

double fixture_uniform(void)
{
    now.random = now.random * 6364136223846793005u + 1442695040888963407u;
    return (double)(now.random >> 11) / 4503599627370496.0 - 1.0;
}

int fixture_below(int below)
{
    return (int)((fixture_uniform() + 1.0) / 2.0 * below);
}

static void *host(size_t bytes)
{
    assert_true(now.host_count < TENSORS);
    void *const p = calloc(bytes ? bytes : 1, 1);
    assert_non_null(p);
    now.host[now.host_count++] = p;
    return p;
}

double *fixture_doubles(size_t n)
{
    return host(n * sizeof(double));
}

/* Device memory between guards. */
static char *reserve(size_t bytes)
{
    assert_true(now.tensor_count < TENSORS);
    size_t begin = (now.used + 63) / 64 * 64 + GUARD;
    if (now.place == 1)
        begin += (size_t)(16 * (1 + now.tensor_count % 3));
    const size_t end = begin + bytes;
    assert_true(end + 2 * GUARD <= arena_bytes);
    now.used = end + GUARD;
    now.tensor[now.tensor_count].begin = begin;
    now.tensor[now.tensor_count++].end = end;
    return now.device + begin;
}

float *fixture_tensor(double *values, size_t n)
{
    float *const floats = malloc(n * sizeof *floats + 1), *const device = (float *)reserve(4 * n);
    assert_non_null(floats);
    for (size_t i = 0; i < n; i++) {
        floats[i] = (float)values[i];
        values[i] = (double)floats[i];
    }
    fixture_ok(cudaMemcpy(device, floats, n * sizeof *floats, cudaMemcpyHostToDevice));
    free(floats);
    return device;
}

float *fixture_random(double **values, size_t n, double size)
{
    *values = fixture_doubles(n);
    for (size_t i = 0; i < n; i++)
        (*values)[i] = size * fixture_uniform();
    return fixture_tensor(*values, n);
}

int *fixture_ints(const int *values, size_t n)
{
    int *const device = (int *)reserve(4 * n);
    fixture_ok(cudaMemcpy(device, values, n * sizeof *values, cudaMemcpyHostToDevice));
    return device;
}

float *fixture_output(size_t n)
{
    return (float *)reserve(4 * n); /* fixture_run() has filled the arena with NaN */
}

void fixture_read(float *to, const float *device, size_t n)
{
    fixture_ok(cudaMemcpy(to, device, n * sizeof *to, cudaMemcpyDeviceToHost));
}

/* ---- elements ---- */

void fixture_use(dtype_t type)
{
    now.type = type;
}

dtype_t fixture_type(void)
{
    return now.type;
}

static float from_bf16(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* By search among the two neighbours, not by the kernels' arithmetic. */
static uint16_t to_bf16(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    const uint16_t below = (uint16_t)(word >> 16), above = (uint16_t)(below + 1);
    const double down = fabs((double)x - (double)from_bf16(below)),
                 up = fabs((double)from_bf16(above) - (double)x);
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

void fixture_round(double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] =
            (double)(now.type == DTYPE_BF16 ? from_bf16(to_bf16((float)values[i])) : (float)values[i]);
}

void *fixture_given_elements(double *values, size_t n)
{
    if (now.type == DTYPE_FP32)
        return fixture_tensor(values, n);
    uint16_t *const bits = malloc(n * sizeof *bits + 1), *const device =
                                                             (uint16_t *)fixture_output_elements(n);
    assert_non_null(bits);
    for (size_t i = 0; i < n; i++)
        bits[i] = to_bf16((float)values[i]);
    fixture_round(values, n);
    fixture_ok(cudaMemcpy(device, bits, n * sizeof *bits, cudaMemcpyHostToDevice));
    free(bits);
    return device;
}

void *fixture_elements(double **values, size_t n, double size)
{
    *values = fixture_doubles(n);
    for (size_t i = 0; i < n; i++)
        (*values)[i] = size * fixture_uniform();
    return fixture_given_elements(*values, n);
}

void *fixture_output_elements(size_t n)
{
    return now.type == DTYPE_FP32 ? reserve(4 * n) : reserve(2 * n);
}

/* ---- comparing ---- */

/* A name, a number of floats, a line's end, the floats. */
static void dump(const char *what, const char *suffix, const float *values, size_t n)
{
    if (fprintf(now.dump, "%s%s %zu\n", *what ? what : "-", suffix, n) < 0 ||
        fwrite(values, sizeof *values, n, now.dump) != n)
        fail_msg("EBB_TEST_DUMP cannot be written");
}

static void match(const char *what, const char *suffix, const float *got, const double *expected, size_t n,
                  double tolerance)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(got[i]))
            fail_msg("%s%s[%zu] is %g, expected %g", what, suffix, i, (double)got[i], expected[i]);
        error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    /* Some gradients are exactly 0 (those of a single key's score): then rounding is all there is. */
    if (!(sqrt(error) <= (norm > 0 ? tolerance * sqrt(norm) : 1e-6)))
        fail_msg("%s%s (%zu elements) is off by %.3g relative", what, suffix, n, sqrt(error / norm));
    if (now.dump && now.place == 0)
        dump(what, suffix, got, n);
    assert_true(now.logged[now.place] + n <= LOG_WORDS);
    memcpy(now.log[now.place] + now.logged[now.place], got, n * sizeof *got);
    now.logged[now.place] += n;
}

void fixture_match_within(const char *what, const float *device, const double *expected, size_t n,
                          double tolerance)
{
    float *const got = host(n * sizeof *got);
    fixture_read(got, device, n);
    match(what, "", got, expected, n, tolerance);
}

void fixture_match(const char *what, const float *device, const double *expected, size_t n)
{
    fixture_match_within(what, device, expected, n, 1e-5);
}

void fixture_match_elements_within(const char *what, const void *device, const double *expected, size_t n,
                                   double tolerance, double rounding)
{
    if (now.type == DTYPE_FP32) {
        fixture_match_within(what, device, expected, n, tolerance);
        return;
    }
    uint16_t *const bits = host(n * sizeof *bits);
    float *const got = host(n * sizeof *got);
    fixture_ok(cudaMemcpy(bits, device, n * sizeof *bits, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
        got[i] = from_bf16(bits[i]);
    match(what, "(bf16)", got, expected, n, rounding);
}

void fixture_match_elements(const char *what, const void *device, const double *expected, size_t n)
{
    fixture_match_elements_within(what, device, expected, n, 1e-5, 5e-3);
}

/* Every byte that is in no tensor must be as fixture_run() left it. */
static void check_guards(void)
{
    const size_t size = now.used + GUARD;
    unsigned char *const bytes = host(size);
    fixture_ok(cudaMemcpy(bytes, now.device, size, cudaMemcpyDeviceToHost));
    size_t at = 0;
    for (int i = 0; i <= now.tensor_count; i++) {
        const size_t end = i < now.tensor_count ? now.tensor[i].begin : size;
        for (; at < end; at++)
            if (bytes[at] != 0xff)
                fail_msg("byte %zu behind tensor %d was overwritten", at - (i ? now.tensor[i - 1].end : 0),
                         i - 1);
        if (i < now.tensor_count)
            at = now.tensor[i].end;
    }
}

void fixture_run(void (*body)(const void *), const void *argument)
{
    for (int place = 0; place < 2; place++) {
        now.place = place;
        now.used = 0;
        now.tensor_count = 0;
        now.host_count = 0;
        now.logged[place] = 0;
        now.random = now.seed;
        fixture_ok(cudaMemset(now.device, 0xff, now.dirty));
        body(argument);
        fixture_ok(cudaDeviceSynchronize());
        check_guards();
        now.dirty = now.used + GUARD;
        for (int i = 0; i < now.host_count; i++)
            free(now.host[i]);
    }
    assert_true(now.logged[0] > 0 && now.logged[0] == now.logged[1]);
    for (size_t i = 0; i < now.logged[0]; i++)
        if (now.log[0][i] != now.log[1][i])
            fail_msg("word %zu of the results depends on addresses", i);
}
