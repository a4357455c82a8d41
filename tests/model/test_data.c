/* A text's parts, training sequences, held-out batches and the token index, against the plainest way to get
 * them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/rng.h"
#include "model/data/data.h"
#include "model/data/token_index.h"

static dataset_t open_text(size_t count, uint64_t seed, int T)
{
    char path[256];
    fault_t fault;
    dataset_t data;
    unsigned char *bytes = malloc(count);
    for (size_t k = 0; k < count; k++)
        bytes[k] = (unsigned char)rng_at(seed, k);
    files_write(files_path(path, "text"), bytes, count);
    free(bytes);
    if (!dataset_open(&data, "--data", path, DATA_TEXT, 256, &fault) ||
        !dataset_split(&data, T, false, &fault))
        fail_msg("%s", fault.text);
    return data;
}

static void text_last_twentieth_is_held_out(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{40, 38},    {59, 57},    {60, 57},
                                      {1000, 950}, {1019, 969}, {4404412, 4184192}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fault_t fault;
        dataset_t data = open_text(sizes[i][0], 3, 8);
        assert_int_equal(data.count, sizes[i][0]);
        assert_int_equal(data.train_count, sizes[i][1]);
        int *tokens = malloc(sizes[i][0] * sizeof *tokens);
        assert_true(dataset_read(&data, 0, sizes[i][0], tokens, &fault));
        for (size_t k = 0; k < sizes[i][0]; k++)
            if (tokens[k] != (unsigned char)rng_at(3, k))
                fail_msg("token %zu is %d", k, tokens[k]);
        free(tokens);
        dataset_close(&data);
    }
}

static void sequence_starts_reach_every_place_and_no_held_out_token(void **state)
{
    (void)state;
    enum { T = 16 };
    dataset_t data = open_text(120, 9, T);
    uint64_t places = data.train_count - T; /* the last one's targets end at the last training token */
    int *hits = calloc(places, sizeof *hits);
    for (uint64_t q = 0; q < 20000; q++) {
        uint64_t start = dataset_sequence_start(&data, 5, q);
        assert_true(start < places);
        hits[start]++;
    }
    for (uint64_t i = 0; i < places; i++) /* 204 expected */
        assert_in_range(hits[i], 130, 290);
    free(hits);
    dataset_close(&data);
}

static void sequence_starts_depend_on_seed_and_number_alone(void **state)
{
    (void)state;
    dataset_t data = open_text(100000, 9, 32);
    int same = 0;
    for (uint64_t q = 0; q < 1000; q++) {
        uint64_t expected = rng_at(rng_at(7, RNG_BATCH), q) % (data.train_count - 32);
        assert_int_equal(dataset_sequence_start(&data, 7, q), expected);
        same += dataset_sequence_start(&data, 7, q) == dataset_sequence_start(&data, 8, q);
    }
    assert_true(same < 10);
    dataset_close(&data);
}

static void sequence_targets_are_the_next_tokens(void **state)
{
    (void)state;
    fault_t fault;
    dataset_t data = open_text(200, 9, 16);
    int inputs[17], targets[17];
    inputs[16] = targets[16] = -1;
    assert_true(dataset_sequence(&data, 31, 16, inputs, targets, &fault));
    for (uint64_t t = 0; t < 16; t++) {
        assert_int_equal(inputs[t], (unsigned char)rng_at(9, 31 + t));
        assert_int_equal(targets[t], (unsigned char)rng_at(9, 31 + t + 1));
    }
    assert_int_equal(inputs[16], -1);
    assert_int_equal(targets[16], -1);
    dataset_close(&data);
}

static void held_out_batches_predict_each_token_once(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 500; trial++) {
        size_t count = 40 + rng_at(trial, 0) % 3000;
        int B = 1 + (int)(rng_at(trial, 1) % 6), T = 1 + (int)(rng_at(trial, 2) % 40);
        dataset_t data = {.token_bytes = 1, .count = count, .train_count = count - count / 20};
        held_out_t held_out = held_out_of(&data, trial % 2 == 0 ? NULL : &data);
        unsigned char *predicted = calloc(count, 1);
        uint64_t batches = held_out_batches(&held_out, B, T);
        for (uint64_t i = 0; i < batches; i++) {
            held_out_batch_t batch = held_out_batch(&held_out, i, B, T);
            assert_true(batch.B >= 1 && batch.B <= B && batch.T >= 1 && batch.T <= T);
            for (int k = 0; k < batch.B * batch.T; k++) {
                assert_true(batch.start + (uint64_t)k + 1 < count);
                predicted[batch.start + (uint64_t)k + 1]++;
            }
        }
        for (size_t k = 0; k < count; k++)
            if (predicted[k] != (k > held_out.first))
                fail_msg("trial %d: B %d, T %d, %zu tokens: token %zu is predicted %d times", (int)trial, B,
                         T, count, k, predicted[k]);
        free(predicted);
    }
}

/* The index says the same as a search through the tokens for each class. */
static void check_index(const int *tokens, int N, int V)
{
    int K = N < V ? N : V, placed = 0;
    int *token = malloc((size_t)K * sizeof(int)), *first = malloc((size_t)(K + 1) * sizeof(int));
    int *order = malloc((size_t)N * sizeof(int)), *workspace = malloc((size_t)V * sizeof(int));
    unsigned char *listed = calloc((size_t)V, 1);
    token_index_host_t index = {token, first, order};
    assert_int_equal(token_index_build(index, tokens, N, V, workspace), K);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[K], N);
    for (int k = 0; k < K; k++) {
        assert_in_range(token[k], 0, V - 1);
        assert_int_equal(listed[token[k]]++, 0);
        for (int n = 0; n < N; n++)
            if (tokens[n] == token[k])
                assert_int_equal(order[placed++], n);
        assert_int_equal(first[k + 1], placed);
    }
    assert_int_equal(placed, N); /* no class that occurs is missing */
    free(token);
    free(first);
    free(order);
    free(workspace);
    free(listed);
}

static void token_index_agrees_with_a_search(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 300; trial++) {
        int N = 1 + (int)(rng_at(trial, 0) % 200), V = 1 + (int)(rng_at(trial, 1) % 300);
        int used = 1 + (int)(rng_at(trial, 2) % (uint64_t)V); /* few classes, or many */
        int tokens[200];
        for (int n = 0; n < N; n++)
            tokens[n] = V - 1 - (int)(rng_at(trial, (uint64_t)(3 + n)) % (uint64_t)used);
        print_message(trial % 100 == 0 ? "trial %d: N %d, V %d, %d classes used\n" : "", (int)trial, N, V,
                      used);
        check_index(tokens, N, V);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_last_twentieth_is_held_out),
        cmocka_unit_test(sequence_starts_reach_every_place_and_no_held_out_token),
        cmocka_unit_test(sequence_starts_depend_on_seed_and_number_alone),
        cmocka_unit_test(sequence_targets_are_the_next_tokens),
        cmocka_unit_test(held_out_batches_predict_each_token_once),
        cmocka_unit_test(token_index_agrees_with_a_search),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
