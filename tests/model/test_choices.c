/* Multiple-choice questions: the evaluator's batches against one completion at a time, for a model that is a formula. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/rng.h"
#include "model/data/choices.h"

#define VOCAB 500

/* Loss of a token after its past: a hash of all of it, so that one wrong token changes everything after. */
static float loss_after(uint64_t past, int target)
{
    return (float)rng_unit(rng_hash(past, (uint64_t)target)) * 10;
}

typedef struct calls {
    int rows, most_rows, most_width;
} calls_t;

static void formula(void *context, const int *inputs, const int *targets, int B, int T, float *losses)
{
    calls_t *calls = context;
    calls->rows += B;
    calls->most_rows = B > calls->most_rows ? B : calls->most_rows;
    calls->most_width = T > calls->most_width ? T : calls->most_width;
    for (int b = 0; b < B; b++) {
        uint64_t past = 0;
        for (int t = 0; t < T; t++) {
            assert_in_range(inputs[b * T + t], 0, VOCAB - 1);
            past = rng_hash(past, (uint64_t)inputs[b * T + t]);
            losses[b * T + t] = loss_after(past, targets[b * T + t]);
        }
    }
}

/* The same by the definition: log-likelihoods of the tokens of one completion that a window of T+1 tokens shows. */
static void judge(const example_t *e, int T, int *best, int *best_mean)
{
    double top = -INFINITY, top_mean = -INFINITY;
    for (int c = 0; c < e->completions; c++) {
        int tokens[256], count = 0, scored = 0;
        double sum = 0;
        for (int i = 0; i < e->context_length; i++)
            tokens[count++] = e->context[i];
        for (int i = 0; i < e->lengths[c]; i++)
            tokens[count++] = e->tokens[c][i];
        int begin = count > T + 1 ? count - T - 1 : 0;
        uint64_t past = 0;
        for (int i = begin; i < count - 1; i++) {
            past = rng_hash(past, (uint64_t)tokens[i]);
            if (i + 1 >= e->context_length) {
                sum -= (double)loss_after(past, tokens[i + 1]);
                scored++;
            }
        }
        if (sum > top) {
            top = sum;
            *best = c;
        }
        if (sum / scored > top_mean) {
            top_mean = sum / scored;
            *best_mean = c;
        }
    }
}

static void batches_judge_as_one_by_one(void **state)
{
    (void)state;
    enum { EXAMPLES = 150 };
    char path[256];
    fault_t fault;
    choices_t choices;
    files_choices(files_path(path, "choices"), 11, EXAMPLES, VOCAB);
    if (!choices_open(&choices, path, VOCAB, &fault))
        fail_msg("%s", fault.text);
    assert_int_equal(choices.count, EXAMPLES);
    static const int shapes[][2] = {{1, 64}, {4, 64}, {7, 64}, {1000, 64}, {3, 12}, {16, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int B = shapes[s][0], T = shapes[s][1], right = 0, right_mean = 0, rows = 0;
        for (int i = 0; i < EXAMPLES; i++) {
            example_t e = choices_example(&choices, i);
            int best = -1, best_mean = -1;
            judge(&e, T, &best, &best_mean);
            right += best == e.right;
            right_mean += best_mean == e.right;
            rows += e.completions;
        }
        calls_t calls = {0};
        choices_score_t score;
        assert_true(choices_evaluate(&choices, (choices_model_t){formula, &calls, B, T}, 0, &score, &fault));
        assert_int_equal(score.examples, EXAMPLES);
        assert_int_equal(score.right, right);
        assert_int_equal(score.right_norm, right_mean);
        assert_int_equal(calls.rows, rows);
        assert_true(calls.most_rows <= B && calls.most_width <= T);
        assert_in_range(right, EXAMPLES / 8, EXAMPLES * 2 / 3); /* a third by chance */
        assert_true(T < 64 || right != right_mean);
        assert_true(choices_evaluate(&choices, (choices_model_t){formula, &calls, B, T}, 20, &score, &fault));
        assert_int_equal(score.examples, 20);
    }
    choices_close(&choices);
}

/* Knows the label: the right completion's tokens cost nothing. */
typedef struct oracle {
    const choices_t *choices;
    int row, example; /* the next completion asked for */
} oracle_t;

static void knows(void *context, const int *inputs, const int *targets, int B, int T, float *losses)
{
    oracle_t *o = context;
    (void)inputs;
    (void)targets;
    for (int b = 0; b < B; b++) {
        example_t e = choices_example(o->choices, o->example);
        for (int t = 0; t < T; t++)
            losses[b * T + t] = o->row == e.right ? 0.0f : 1.0f;
        if (++o->row == e.completions) {
            o->row = 0;
            o->example++;
        }
    }
}

static void perfect_model_is_always_right(void **state)
{
    (void)state;
    char path[256];
    fault_t fault;
    choices_t choices;
    choices_score_t score;
    files_choices(files_path(path, "choices"), 3, 40, VOCAB);
    assert_true(choices_open(&choices, path, VOCAB, &fault));
    oracle_t oracle = {&choices, 0, 0};
    assert_true(choices_evaluate(&choices, (choices_model_t){knows, &oracle, 5, 64}, 0, &score, &fault));
    assert_int_equal(score.right, 40);
    assert_int_equal(score.right_norm, 40);
    choices_close(&choices);
    assert_false(choices_open(&choices, path, 300, &fault)); /* tokens that the model does not have */
    assert_non_null(strstr(fault.text, "a token is "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_judge_as_one_by_one),
        cmocka_unit_test(perfect_model_is_always_right),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
