/* How many operations a training step takes, and a step that is launched as CUDA graphs: the same training, with few. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "trainer.h"

#define SMALL "--layers 2 --width 32 --heads 2 --context 16 --batch 2 --steps 6 --lr 0.01 "

/* An operation more or less in a step is told here: it should be worth it. */
static void steps_take_as_many_launches_as_ever(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int eager, graph;
    } runs[] = {{"--model tiny", 106, 5},
                {"--model tiny --accumulate 2", 202, 7},
                {"--model tiny --dropout 0.1", 118, 5},
                {"--model tiny --dtype bf16", 91, 5},
                {"--model llama:tiny", 100, 5},
                {"--model llama:tiny --accumulate 2", 189, 7},
                {"--model llama:tiny --dtype bf16", 103, 5}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s --attention flash --batch 2 --steps 2", runs[i].flags);
        history_t eager = trainer_train(arguments);
        snprintf(arguments, sizeof arguments, "%s --attention flash --batch 2 --steps 3 --graph",
                 runs[i].flags);
        history_t graph = trainer_train(arguments);
        if (eager.launches[1] != runs[i].eager || graph.launches[2] != runs[i].graph)
            fail_msg("%s: %g launches in a step instead of %d, with --graph %g instead of %d", runs[i].flags,
                     eager.launches[1], runs[i].eager, graph.launches[2], runs[i].graph);
        assert_true(eager.launches[0] == runs[i].eager && graph.launches[1] == runs[i].graph);
        assert_true(graph.launches[0] == runs[i].eager); /* the first step is issued call by call */
    }
}

static void assert_same(const history_t *a, const history_t *b, const char *what)
{
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        if (strcmp(a->loss_hex[i], b->loss_hex[i]) != 0 ||
            strcmp(a->grad_norm_hex[i], b->grad_norm_hex[i]) != 0)
            fail_msg("%s, step %d: loss %s, norm %s; without --graph %s, %s", what, i + 1, b->loss_hex[i],
                     b->grad_norm_hex[i], a->loss_hex[i], a->grad_norm_hex[i]);
    assert_string_equal(a->held_out_loss_hex, b->held_out_loss_hex);
    assert_string_equal(a->state_hash, b->state_hash);
}

/* Dropout's masks, rates, corrections of moments and random rounding change from step to step: so must a graph's. */
static void graph_trains_bit_for_bit(void **state)
{
    (void)state;
    static const char *const ways[] = {
        SMALL "--dropout 0.2",
        SMALL "--dropout 0.2 --dtype bf16 --rounding stochastic --accumulate 3 --decay-embeddings 0",
        SMALL "--model llama:tiny --kv-heads 1 --hidden 64 --accumulate 2 --attention naive --save lean "
              "--skip-outliers 3 --dropout 0.1",
        SMALL "--model llama:tiny --kv-heads 1 --hidden 64 --dtype bf16 --save lean --eval-every 2 "
              "--eval-batches 2",
        SMALL "--context 15 --dropout 0.3 --attention naive",
        SMALL "--lora-rank 4 --dtype bf16 --rounding stochastic --accumulate 2"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char graph[512];
        history_t eager = trainer_train(ways[i]);
        snprintf(graph, sizeof graph, "%s --graph", ways[i]);
        history_t captured = trainer_train(graph);
        assert_true(captured.launches[5] < eager.launches[5] / 5);
        assert_same(&eager, &captured, ways[i]);
    }
}

/* Also where only a part of the step can be captured, and in the middle of one. */
static void step_that_cannot_be_captured_is_issued(void **state)
{
    (void)state;
    static const char way[] = SMALL "--dropout 0.2 --accumulate 2";
    static const char *const faults[] = {"cuStreamBeginCapture*@1", "cuStreamBeginCapture*@2",
                                         "cuGraphInstantiate*@2", "cuGraphInstantiate*@3"};
    history_t eager = trainer_train(way);
    char log[128], arguments[1024];
    trainer_path(log, sizeof log, "log");
    snprintf(arguments, sizeof arguments, "--data %s --log %s --sample 0 %s --graph", trainer_text(), log,
             way);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv("SOFTGPU_FAULT", faults[i], 1);
        outcome_t outcome = trainer_run(arguments);
        unsetenv("SOFTGPU_FAULT");
        if (outcome.exit_code != 0)
            fail_msg("%s: exit code %d: %s", faults[i], outcome.exit_code, outcome.error);
        assert_non_null(strstr(outcome.error, "--graph: the step cannot be captured (cuda"));
        assert_non_null(strstr(outcome.error, "issued call by call"));
        history_t captured = trainer_read_log(log);
        assert_true(captured.launches[5] == eager.launches[5]);
        assert_same(&eager, &captured, faults[i]);
    }
}

/* The state of a training with graphs is the state. */
static void graph_goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    static const char way[] = SMALL "--dropout 0.2 --dtype bf16 --rounding stochastic";
    char folder[256], arguments[1024];
    history_t whole = trainer_train(way);
    files_path(folder, "kept");
    snprintf(arguments, sizeof arguments, "%s --graph --checkpoint %s --checkpoint-every 3", way, folder);
    (void)trainer_train(arguments);
    char command[600];
    snprintf(command, sizeof command, "rm -r %s/step-00000006", folder);
    assert_int_equal(system(command), 0);
    char log[128], all[1400];
    trainer_path(log, sizeof log, "log");
    snprintf(all, sizeof all, "--data %s --log %s --sample 0 %s --graph --checkpoint %s --resume",
             trainer_text(), log, way, folder);
    outcome_t outcome = trainer_run(all); /* adds three steps to the log of the first run */
    assert_int_equal(outcome.exit_code, 0);
    FILE *file = fopen(log, "r");
    char line[4096], hash[64] = "";
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (strstr(line, "\"kind\": \"final\"") != NULL)
            assert_true(json_text(line, "state_hash", hash, sizeof hash)); /* of the last run */
    fclose(file);
    assert_string_equal(hash, whole.state_hash);
    files_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_as_many_launches_as_ever),
        cmocka_unit_test(graph_trains_bit_for_bit),
        cmocka_unit_test(step_that_cannot_be_captured_is_issued),
        cmocka_unit_test(graph_goes_on_from_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
