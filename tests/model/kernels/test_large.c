/* Tensors of more than 2^31 elements: indices are 64 bits wide. Rows at both ends of a large table, of which nothing else is
 * touched (no memory is needed for the rest); and, with TEST_LONG=1, every element of a tensor of 4 GiB, which three kernels
 * go through. Without it the same sweep over a small one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "model/kernels/kernels.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

enum { D = 64, H = 12, KV = 2, C = (H + 2 * KV) * D, HALF = D / 2 };

/* Exact for values of eight bits. */
static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Device memory; the test is skipped where there is none of that size. */
static void *device_new(size_t bytes)
{
    void *data = NULL;
    if (cudaMalloc(&data, bytes) != cudaSuccess) {
        print_message("no %zu bytes of device memory\n", bytes);
        skip();
    }
    return data;
}

static void *device_copy(const void *host, size_t bytes)
{
    void *data = device_new(bytes);
    OK(cudaMemcpy(data, host, bytes, cudaMemcpyHostToDevice));
    return data;
}

/* ---- a table's ends ---- */

enum { CLASSES = (1 << 21) + 5, ENDS = 5 };

static const int ends[ENDS] = {0, 1, CLASSES / 2, CLASSES - 2,
                               CLASSES - 1}; /* row CLASSES / 2 begins at 2^30 */

/* x = rows of wte[CLASSES,C]. */
static void rows_at_both_ends_are_looked_up(void **state)
{
    (void)state;
    static uint16_t rows[ENDS][C], x[ENDS][C];
    uint16_t *wte = device_new((size_t)CLASSES * C * sizeof *wte), *out = device_new(sizeof x);
    int *tokens = device_copy(ends, sizeof ends);
    assert_true((size_t)CLASSES * C > (size_t)1 << 31);
    for (int k = 0; k < ENDS; k++) {
        for (int c = 0; c < C; c++)
            rows[k][c] = bf16_of((float)(1 + (c + 37 * k) % 200));
        OK(cudaMemcpy(wte + (size_t)ends[k] * C, rows[k], sizeof rows[k], cudaMemcpyHostToDevice));
    }
    OK(embedding_forward(DTYPE_BF16, out, tokens, wte, NULL, 1, ENDS, C, (dropout_t){0}, NULL));
    OK(cudaMemcpy(x, out, sizeof x, cudaMemcpyDeviceToHost));
    assert_memory_equal(x, rows, sizeof x);
    OK(cudaFree(wte));
    OK(cudaFree(out));
    OK(cudaFree(tokens));
}

/* dwte[CLASSES,C], in fp32, += rows of dx: 8 GiB of addresses. */
static void gradients_at_both_ends_are_added(void **state)
{
    (void)state;
    static const int first[ENDS + 1] = {0, 1, 2, 3, 4, 5}, order[ENDS] = {0, 1, 2, 3, 4};
    static uint16_t rows[ENDS][C];
    static float before[C], after[C];
    float *dwte = device_new((size_t)CLASSES * C * sizeof *dwte);
    for (int k = 0; k < ENDS; k++)
        for (int c = 0; c < C; c++)
            rows[k][c] = bf16_of((float)(1 + (c + 37 * k) % 200));
    for (int c = 0; c < C; c++)
        before[c] = 0.5f;
    for (int k = 0; k < ENDS; k++)
        OK(cudaMemcpy(dwte + (size_t)ends[k] * C, before, sizeof before, cudaMemcpyHostToDevice));
    void *dx = device_copy(rows, sizeof rows);
    int *token = device_copy(ends, sizeof ends), *from = device_copy(first, sizeof first),
        *which = device_copy(order, sizeof order);
    token_index_t index = {token, from, which, ENDS};
    OK(embedding_backward(DTYPE_BF16, dwte, NULL, dx, index, 1, ENDS, ENDS, C, (dropout_t){0}, 0, NULL));
    for (int k = 0; k < ENDS; k++) {
        OK(cudaMemcpy(after, dwte + (size_t)ends[k] * C, sizeof after, cudaMemcpyDeviceToHost));
        for (int c = 0; c < C; c++)
            assert_true(after[c] == 0.5f + (float)(1 + (c + 37 * k) % 200));
    }
    OK(cudaFree(dwte));
    OK(cudaFree(dx));
    OK(cudaFree(token));
    OK(cudaFree(from));
    OK(cudaFree(which));
}

/* ---- every element ---- */

enum { T = 64, VOCAB = 1021, CHUNK = 1 << 14 /* rows compared at once */ };

/* What the three kernels make of a class's row: looked up, plus 1, each query and key turned by a right angle. */
static void expected_row(uint16_t *row, int token)
{
    float x[C];
    for (int c = 0; c < C; c++)
        x[c] = (float)(1 + (c + token) % 120) + 1;
    for (int c = 0; c < C; c++) {
        int d = c % D;
        bool turned = c < (H + KV) * D;
        row[c] = bf16_of(!turned ? x[c] : d < HALF ? -x[c + HALF] : x[c - HALF]);
    }
}

static int token_of(size_t row)
{
    return (int)(row * 7919 % VOCAB);
}

static void compare_rows(const uint16_t *x, size_t rows, const uint16_t *expected)
{
    uint16_t *host = malloc((size_t)CHUNK * C * sizeof *host);
    assert_non_null(host);
    for (size_t n = 0; n < rows; n += CHUNK) {
        size_t count = rows - n < CHUNK ? rows - n : CHUNK;
        OK(cudaMemcpy(host, x + n * C, count * C * sizeof *host, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < count; i++)
            if (memcmp(host + i * C, expected + (size_t)token_of(n + i) * C, C * sizeof *host) != 0)
                fail_msg("row %zu of %zu is wrong", n + i, rows);
    }
    free(host);
}

static void every_element_of_a_large_tensor_is_right(void **state)
{
    (void)state;
    bool all = getenv("TEST_LONG") != NULL;
    int B = all ? (1 << 15) + 1 : 65;
    size_t rows = (size_t)B * T;
    assert_true(!all || rows * C > (size_t)1 << 31);
    static uint16_t table[VOCAB][C], expected[VOCAB][C], ones[C];
    static float angles[T][2][HALF]; /* cosine 0, sine 1 */
    for (int v = 0; v < VOCAB; v++) {
        for (int c = 0; c < C; c++)
            table[v][c] = bf16_of((float)(1 + (c + v) % 120));
        expected_row(expected[v], v);
    }
    for (int c = 0; c < C; c++)
        ones[c] = bf16_of(1);
    for (int t = 0; t < T; t++)
        for (int d = 0; d < HALF; d++)
            angles[t][1][d] = 1;
    int *host = malloc(rows * sizeof *host);
    assert_non_null(host);
    for (size_t n = 0; n < rows; n++)
        host[n] = token_of(n);

    uint16_t *x = device_new(rows * C * sizeof *x);
    void *wte = device_copy(table, sizeof table), *bias = device_copy(ones, sizeof ones);
    float *turns = device_copy(angles, sizeof angles);
    int *tokens = device_copy(host, rows * sizeof *host);
    attention_shape_t shape = {B, T, H, KV, D};
    OK(embedding_forward(DTYPE_BF16, x, tokens, wte, NULL, B, T, C, (dropout_t){0}, NULL));
    OK(bias_forward(DTYPE_BF16, x, bias, (int)rows, C, NULL));
    OK(rope_forward(DTYPE_BF16, x, turns, shape, NULL));
    OK(cudaDeviceSynchronize());
    compare_rows(x, rows, &expected[0][0]);
    print_message("%zu elements compared\n", rows * C);
    free(host);
    OK(cudaFree(x));
    OK(cudaFree(wte));
    OK(cudaFree(bias));
    OK(cudaFree(turns));
    OK(cudaFree(tokens));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_at_both_ends_are_looked_up),
        cmocka_unit_test(gradients_at_both_ends_are_added),
        cmocka_unit_test(every_element_of_a_large_tensor_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
