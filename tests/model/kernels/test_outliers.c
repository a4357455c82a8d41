/* outlier_check: the decision of every step against the definition, in double, over a past of any length. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/kernels/kernels.h"

#define STEPS 500

/* Device memory: the past, the results, the loss. */
typedef struct device {
    float *past, *result, *loss;
} device_t;

static device_t device_open(float count)
{
    device_t d;
    void *memory[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(cudaMalloc(&memory[i], OUTLIER_FLOATS * sizeof(float)), cudaSuccess);
    d = (device_t){memory[0], memory[1], memory[2]};
    assert_int_equal(cudaMemset(d.past, 0, OUTLIER_FLOATS * sizeof(float)), cudaSuccess);
    assert_int_equal(cudaMemcpy(d.past + OUTLIER_COUNT, &count, sizeof count, cudaMemcpyHostToDevice),
                     cudaSuccess);
    return d;
}

static void device_close(device_t *d)
{
    cudaFree(d->past);
    cudaFree(d->result);
    cudaFree(d->loss);
}

/* One step; result[0..2] afterwards. */
static void check(device_t *d, float loss, float norm, float threshold, float result[3])
{
    const float before[3] = {norm, 0.25f, 7.0f};
    assert_int_equal(cudaMemcpy(d->result, before, sizeof before, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemcpy(d->loss, &loss, sizeof loss, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(outlier_check(d->past, d->result, d->loss, threshold, NULL), cudaSuccess);
    assert_int_equal(cudaMemcpy(result, d->result, 3 * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
}

/* Pseudo-random numbers in (0, 1). */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static bool far_above(const float *values, int count, float x, double threshold)
{
    int first = count > OUTLIER_WINDOW ? count - OUTLIER_WINDOW : 0, n = count - first;
    double mean = 0, squares = 0;
    for (int i = first; i < count; i++)
        mean += (double)values[i] / n;
    for (int i = first; i < count; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    return (double)x > mean + threshold * sqrt(squares / (n - 1));
}

static void decisions_are_those_of_the_definition(void **state)
{
    (void)state;
    static float losses[STEPS], norms[STEPS];
    uint64_t seed = 5;
    int count = 0, skipped = 0, by_norm = 0;
    device_t d = device_open(0);
    for (int step = 0; step < STEPS; step++) {
        float result[3], loss = (float)(3 + draw(&seed) + (draw(&seed) < 0.05)),
                         norm = (float)(1 + draw(&seed));
        if (draw(&seed) < 0.05)
            norm *= 3;
        if (step % 97 == 50)
            loss = step % 2 ? NAN : INFINITY;
        if (step % 89 == 40)
            norm = NAN;
        bool number = isfinite(loss) && isfinite(norm), enough = count >= OUTLIER_LEAST;
        bool high_norm = number && enough && far_above(norms, count, norm, 2.5);
        bool expected = !number || high_norm || (enough && far_above(losses, count, loss, 2.5));
        check(&d, loss, norm, 2.5f, result);
        if (result[2] != (expected ? 1.0f : 0.0f) || result[1] != (expected ? -1.0f : 0.25f))
            fail_msg("step %d: %g, %g, expected %d", step, (double)result[1], (double)result[2], expected);
        skipped += expected && number;
        by_norm += high_norm;
        if (number) {
            losses[count] = loss;
            norms[count++] = norm;
        }
    }
    assert_true(skipped > 10 && by_norm > 3 && skipped > by_norm);
    device_close(&d);
}

/* The count is a float: where whole numbers end to be floats it goes back by a window, and stays in its place. */
static void count_never_stands_still(void **state)
{
    (void)state;
    device_t d = device_open(16777215.0f - 3);
    float result[3], past[OUTLIER_FLOATS];
    for (int step = 0; step < 200; step++) {
        check(&d, (float)step, 1.0f, 1e9f, result);
        assert_int_equal(cudaMemcpy(past, d.past, sizeof past, cudaMemcpyDeviceToHost), cudaSuccess);
        assert_true(past[OUTLIER_LOSSES + (16777212 + step) % OUTLIER_WINDOW] == (float)step);
        assert_true(past[OUTLIER_COUNT] < 16777216.0f);
        assert_int_equal((int)past[OUTLIER_COUNT] % OUTLIER_WINDOW, (16777213 + step) % OUTLIER_WINDOW);
    }
    device_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_the_definition),
        cmocka_unit_test(count_never_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
