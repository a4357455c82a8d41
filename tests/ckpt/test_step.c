/* Finding the step in sequences as trainers make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "step.h"

/* A trainer that issues operations: signature and live bytes go to the finder, events are counted. */
typedef struct trainer {
    ebb_step_finder_t *finder;
    uint64_t live, operations;
    unsigned count[5];          /* events by kind */
    uint64_t found_at, lost_at; /* operation of the first FOUND, of the last LOST */
    unsigned layers, micro_batches;
} trainer_t;

enum { EMBED = 100, FORWARD = 200, LOSS = 300, BACKWARD = 400, ADAMW = 500, EVALUATE = 600, NOISE = 1000 };

static ebb_step_event_t issue(trainer_t *t, uint64_t signature, int64_t bytes)
{
    uint64_t before = t->live;
    t->live += (uint64_t)bytes;
    t->operations++;
    ebb_step_event_t event =
        ebb_step_push(t->finder, &(ebb_step_operation_t){.coarse = signature,
                                                         .fine = signature,
                                                         .live_bytes = before < t->live ? before : t->live});
    t->count[event]++;
    if (event == EBB_STEP_FOUND && t->count[EBB_STEP_FOUND] == 1)
        t->found_at = t->operations;
    if (event == EBB_STEP_LOST)
        t->lost_at = t->operations;
    return event;
}

static void forward(trainer_t *t)
{
    issue(t, EMBED, 10);
    for (unsigned layer = 0; layer < t->layers; layer++)
        for (unsigned k = 0; k < 6; k++)
            issue(t, FORWARD + k, 10);
    issue(t, LOSS, 10);
}

static void step(trainer_t *t)
{
    for (unsigned m = 0; m < t->micro_batches; m++) {
        forward(t);
        for (unsigned layer = 0; layer < t->layers; layer++)
            for (unsigned k = 0; k < 6; k++)
                issue(t, BACKWARD + k, -10);
        issue(t, EMBED + 1, -20);
    }
    for (unsigned layer = 0; layer < t->layers + 1; layer++)
        issue(t, ADAMW, 0);
}

static unsigned step_operations(const trainer_t *t)
{
    return t->micro_batches * (12 * t->layers + 3) + t->layers + 1;
}

static trainer_t start(unsigned layers, unsigned micro_batches)
{
    trainer_t t = {.finder = ebb_step_finder_new(1 << 16), .layers = layers, .micro_batches = micro_batches};
    assert_non_null(t.finder);
    for (unsigned i = 0; i < 50; i++) /* setting up looks like nothing that follows */
        issue(&t, NOISE + i % 7, 100);
    return t;
}

static void step_of_any_depth_is_found_within_three_periods(void **state)
{
    (void)state;
    const unsigned shapes[][2] = {{1, 1}, {2, 1}, {12, 1}, {48, 1}, {12, 4}, {3, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        trainer_t t = start(shapes[i][0], shapes[i][1]);
        for (unsigned n = 0; n < 12; n++)
            step(&t);
        print_message("%u layers x %u: period %zu of %u\n", shapes[i][0], shapes[i][1],
                      ebb_step_period(t.finder), step_operations(&t));
        assert_int_equal(ebb_step_period(t.finder), step_operations(&t));
        ebb_step_finder_delete(t.finder);
    }
}

/* After the first right answer every step ends in a boundary, at the same place. */
static void boundaries_follow_at_every_step(void **state)
{
    (void)state;
    trainer_t t = start(12, 1);
    for (unsigned n = 0; n < 4; n++)
        step(&t);
    assert_int_equal(ebb_step_period(t.finder), step_operations(&t));
    unsigned before = t.count[EBB_STEP_BOUNDARY];
    size_t position = ebb_step_position(t.finder);
    for (unsigned n = 0; n < 100; n++) {
        step(&t);
        assert_int_equal(ebb_step_position(t.finder), position);
    }
    assert_int_equal(t.count[EBB_STEP_BOUNDARY] - before, 100);
    assert_int_equal(t.lost_at, 0);
    ebb_step_finder_delete(t.finder);
}

static void evaluation_costs_one_step_and_the_next_is_found_again(void **state)
{
    (void)state;
    trainer_t t = start(4, 2);
    for (unsigned n = 0; n < 5; n++)
        step(&t);
    for (unsigned round = 0; round < 10; round++) {
        unsigned before = t.count[EBB_STEP_BOUNDARY], lost = t.count[EBB_STEP_LOST];
        for (unsigned k = 0; k < 3; k++) {
            forward(&t);
            issue(&t, EVALUATE, -(int64_t)(10 * (6 * t.layers + 2)));
        }
        for (unsigned n = 0; n < 7; n++)
            step(&t);
        assert_true(t.count[EBB_STEP_LOST] > lost);
        assert_true(t.count[EBB_STEP_BOUNDARY] - before >= 6);
        assert_int_equal(ebb_step_period(t.finder), step_operations(&t));
    }
    assert_int_equal(t.count[EBB_STEP_GIVEN_UP], 0);
    ebb_step_finder_delete(t.finder);
}

static void changed_program_is_given_up_and_learned_anew(void **state)
{
    (void)state;
    trainer_t t = start(4, 1);
    for (unsigned n = 0; n < 5; n++)
        step(&t);
    assert_int_equal(t.count[EBB_STEP_FOUND], 1);
    t.layers = 6;
    for (unsigned n = 0; n < 20; n++)
        step(&t);
    assert_int_equal(t.count[EBB_STEP_FOUND], 2);
    assert_int_equal(ebb_step_period(t.finder), step_operations(&t));
    ebb_step_finder_delete(t.finder);
}

static void random_sequence_has_no_step(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        trainer_t t = {.finder = ebb_step_finder_new(1 << 12)};
        srand(seed);
        for (unsigned i = 0; i < 20000; i++)
            issue(&t, (uint64_t)(rand() % 50), rand() % 3 - 1);
        if (t.count[EBB_STEP_FOUND])
            fail_msg("a step was found in noise, seed %u", seed);
        ebb_step_finder_delete(t.finder);
    }
}

/* A repetition that never gives its memory back is no step: a loop that builds something. */
static void growing_repetition_is_no_step(void **state)
{
    (void)state;
    trainer_t t = {.finder = ebb_step_finder_new(1 << 12)};
    for (unsigned i = 0; i < 5000; i++)
        issue(&t, i % 20, 1);
    assert_int_equal(t.count[EBB_STEP_FOUND], 0);
    ebb_step_finder_delete(t.finder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_of_any_depth_is_found_within_three_periods),
        cmocka_unit_test(boundaries_follow_at_every_step),
        cmocka_unit_test(evaluation_costs_one_step_and_the_next_is_found_again),
        cmocka_unit_test(changed_program_is_given_up_and_learned_anew),
        cmocka_unit_test(random_sequence_has_no_step),
        cmocka_unit_test(growing_repetition_is_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
