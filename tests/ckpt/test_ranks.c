/* Ranks that communicate (programs/ranks.c), each a process under libebb of its own, or a thread with a device of its own: the same bits as
 * without, within less memory. TEST_LONG=1: more means of a plan, and more budgets. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"
#include "trainer.h"

static char stats_pattern[64], stats_names[64];

static int setup(void **state)
{
    (void)state;
    snprintf(stats_names, sizeof stats_names, "/tmp/ebb-ranks-%d-%%p.json", (int)getpid());
    snprintf(stats_pattern, sizeof stats_pattern, "/tmp/ebb-ranks-%d-*.json", (int)getpid());
    return 0;
}

typedef struct extremes {
    double least, most;
} extremes_t;

/* Of what the ranks' statistics say; they are removed if `remove_them`. */
static extremes_t of_ranks(const char *key, int ranks, bool remove_them)
{
    glob_t found;
    extremes_t e = {0};
    size_t count = 0;
    assert_int_equal(glob(stats_pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const double its = program_statistic(found.gl_pathv[i], NULL, key);
        e.least = count && e.least < its ? e.least : its;
        e.most = count && e.most > its ? e.most : its;
        count++;
        if (remove_them)
            remove(found.gl_pathv[i]);
    }
    globfree(&found);
    assert_int_equal(count, ranks);
    return e;
}

/* The same of one process with a device for each rank. */
static extremes_t of_devices(const char *key, int ranks)
{
    glob_t found;
    extremes_t e = {0};
    assert_int_equal(glob(stats_pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    for (int i = 0; i < ranks; i++) {
        char device[32];
        snprintf(device, sizeof device, "{\"device\": %d,", i);
        const double its = program_statistic(found.gl_pathv[0], device, key);
        e.least = i && e.least < its ? e.least : its;
        e.most = i && e.most > its ? e.most : its;
    }
    globfree(&found);
    return e;
}

typedef struct ranked {
    const char *arguments;
    int ranks, mib; /* of the 62 or so that a rank holds */
    double driven;  /* steps at least; */
    bool offloads;  /* not so without offloading: what has to go cannot be made again */
    bool threads;   /* of one process, under ebb; else a process each */
} ranked_t;

static void run_both(const ranked_t *c, const char *settings)
{
    static program_run_t without, with;
    static char alone_with[128];
    char command[1024];
    if (strcmp(alone_with, c->arguments)) {
        snprintf(command, sizeof command, "SOFTGPU_DEVICES=%d %s ranks=%d %s", c->ranks, getenv("TEST_RANKS"),
                 c->ranks, c->arguments);
        program_run(command, &without);
        assert_int_equal(without.status, 0);
        snprintf(alone_with, sizeof alone_with, "%s", c->arguments);
    }
    snprintf(command, sizeof command,
             "SOFTGPU_DEVICES=%d SOFTGPU_POISON=1 SOFTGPU_MEMORY=%dMiB LD_PRELOAD=%s EBB_STATS=%s "
             "EBB_LOG=info %s timeout 200 %s ranks=%d threads=%d %s",
             c->ranks, c->mib, getenv("TEST_LIBEBB"), stats_names, settings, getenv("TEST_RANKS"), c->ranks,
             c->threads, c->arguments);
    program_run(command, &with);
    const int files = c->threads ? 1 : c->ranks;
    const double driven = c->threads ? of_devices("steps_driven", c->ranks).least
                                     : of_ranks("steps_driven", files, false).least,
                 moved = c->threads ? of_devices("evictions", c->ranks).least
                                    : of_ranks("evictions", files, false).least;
    print_message("%s at %d MiB%s, %s: %.0f steps driven, %.0f evictions\n", c->arguments, c->mib,
                  c->threads ? " in threads" : "", settings, driven, moved);
    const double mismatches = of_ranks("mismatches", files, true).most;
    if (with.status || strcmp(with.output, without.output))
        fail_msg("status %d, %s instead of %s: %s", with.status, with.output, without.output, with.log);
    assert_true(moved > 0 && mismatches == 0);
    assert_true(driven >= c->driven || (c->offloads && strstr(settings, "EBB_OFFLOAD=0")));
}

static const char *const means[] = {"",
                                    "EBB_OFFLOAD=0",
                                    "EBB_RECOMPUTE=0",
                                    "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1",
                                    "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=2 EBB_OFFLOAD=0",
                                    "NCCL_CUMEM_ENABLE=0"};
enum { MEANS = sizeof means / sizeof *means };

/* By the means `in_turn`; in the long form by the first three, too, but for threads. */
static void under_ebb(const ranked_t *c, size_t in_turn)
{
    for (size_t i = 0; i < MEANS; i++)
        if (i == in_turn || (test_is_long() && i < 3 && !c->threads))
            run_both(c, means[i]);
}

static void gradients_that_are_averaged(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"steps=22", 2, 46, 8, false, false}, 3);
}

static void weights_that_are_gathered_and_gradients_that_are_scattered(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"shard=1 steps=22", 2, 46, 8, false, false}, 1);
}

static void gathering_beside_scattering(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"shard=1 apart=1 steps=22", 2, 56, 8, false, false}, 4);
}

static void activations_that_go_round(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"ring=1 steps=22 slow=2", 3, 46, 8, false, false}, 0);
}

/* What the program tells NCCL is heard: else everything would have to be there, and no step could be learned. */
static void operands_that_no_argument_names(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"ring=1 pieces=64 steps=22", 2, 46, 8, false, false}, 3);
}

/* NCCL's buffers are then memory like the program's, and one leads to another that no argument names. */
static void memory_of_the_librarys_own(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"steps=20 layers=5", 2, 46, 6, false, false}, 5);
}

/* One rank's plan is another than the others'. */
static void rank_that_holds_more(void **state)
{
    (void)state;
    under_ebb(&(ranked_t){"more=10 steps=22", 2, 46, 8, true, false}, 4);
}

/* Each device has its step and its plan. A thread waits for its device while others go on with theirs: it may be waiting for them. */
static void ranks_that_are_threads(void **state)
{
    (void)state;
    setenv("NCCL_P2P_DISABLE", "1", 1);
    under_ebb(&(ranked_t){"steps=22", 2, 46, 8, false, true}, 0);
    under_ebb(&(ranked_t){"shard=1 steps=22", 2, 46, 8, false, true}, 3);
    under_ebb(&(ranked_t){"ring=1 steps=22 slow=2", 3, 46, 8, false, true}, 1);
    under_ebb(&(ranked_t){"steps=20 layers=5", 2, 46, 6, false, true}, 5);
    under_ebb(&(ranked_t){"more=10 steps=22", 2, 46, 8, true, true}, 2);
    unsetenv("NCCL_P2P_DISABLE");
}

/* Whose devices may reach each other's memory: nothing leaves them, and nothing is in the way of the other. */
static void ranks_that_are_threads_and_peers(void **state)
{
    static program_run_t without, with;
    char command[512];
    (void)state;
    snprintf(command, sizeof command, "SOFTGPU_DEVICES=2 %s ranks=2 steps=22", getenv("TEST_RANKS"));
    program_run(command, &without);
    snprintf(command, sizeof command,
             "SOFTGPU_DEVICES=2 SOFTGPU_POISON=1 LD_PRELOAD=%s timeout 200 %s ranks=2 threads=1 steps=22",
             getenv("TEST_LIBEBB"), getenv("TEST_RANKS"));
    program_run(command, &with);
    if (with.status || strcmp(with.output, without.output))
        fail_msg("status %d, %s instead of %s: %s", with.status, with.output, without.output, with.log);
    assert_non_null(strstr(with.log, "nothing leaves device 0"));
    assert_non_null(strstr(with.log, "nothing leaves device 1"));
}

static void rank_without_room_ends_the_others(void **state)
{
    (void)state;
    static program_run_t out;
    char command[1024];
    snprintf(command, sizeof command,
             "SOFTGPU_DEVICES=2 SOFTGPU_MEMORY=46MiB LD_PRELOAD=%s EBB_HOST_BUDGET=32MiB EBB_PAGEABLE=0 "
             "%s ranks=2 steps=22 more=64",
             getenv("TEST_LIBEBB"), getenv("TEST_RANKS"));
    program_run(command, &out);
    assert_int_equal(WEXITSTATUS(out.status), 3);
    assert_non_null(strstr(out.log, "out of memory"));
}

/* It fails as it does without ebb, with an error and in time. */
static void rank_that_dies_ends_the_others(void **state)
{
    (void)state;
    static program_run_t out;
    char command[1024];
    snprintf(command, sizeof command,
             "SOFTGPU_DEVICES=2 SOFTGPU_MEMORY=46MiB LD_PRELOAD=%s EBB_LOG=info %s ranks=2 steps=22 die=16",
             getenv("TEST_LIBEBB"), getenv("TEST_RANKS"));
    program_run(command, &out);
    assert_int_equal(WEXITSTATUS(out.status), 3);
    assert_non_null(strstr(out.log, "ranks: "));
}

static void library_whose_names_are_its_own(void **state)
{
    (void)state;
    static program_run_t out;
    char command[2048];
    for (int under = 0; under < 2; under++) {
        snprintf(command, sizeof command, "LD_PRELOAD=%s %s", under ? getenv("TEST_LIBEBB") : "",
                 getenv("TEST_LOCAL_NCCL"));
        program_run(command, &out);
        if (out.status)
            fail_msg("exit code %d: %s", WEXITSTATUS(out.status), out.log);
    }
}

/* ---- ebb-train ---- */

typedef struct shared {
    int ranks, zero, accumulate;
    const char *compress; /* NULL: none */
} shared_t;

#define MODEL "--layers 2 --width 128 --heads 4 --context 128 --batch 32 --dropout 0.1 --steps 22 --sample 0 "

/* In `percent` of the memory that it takes by itself: the state that it has then. */
static void train_both(shared_t c, int percent)
{
    static history_t without;
    static shared_t alone;
    char arguments[256], text[32];
    snprintf(arguments, sizeof arguments, MODEL "--gpus %d --zero %d --accumulate %d --compress %s", c.ranks,
             c.zero, c.accumulate, c.compress ? c.compress : "none");
    snprintf(text, sizeof text, "%d", c.ranks);
    setenv("SOFTGPU_DEVICES", text, 1);
    if (memcmp(&alone, &c, sizeof c)) {
        without = trainer_train(arguments);
        alone = c;
    }
    snprintf(text, sizeof text, "%.0f", without.peak_bytes * percent / 100);
    setenv("SOFTGPU_MEMORY", text, 1);
    setenv("EBB_STATS", stats_names, 1);
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    const history_t with = trainer_train(arguments);
    unsetenv("LD_PRELOAD");
    unsetenv("EBB_STATS");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("SOFTGPU_DEVICES");
    const double replays = of_ranks("replays", c.ranks, false).least,
                 driven = of_ranks("steps_driven", c.ranks, true).least;
    print_message("ebb-train %s, %d%% of %.1f MiB: %.0f steps driven, %.0f replays\n", arguments, percent,
                  without.peak_bytes / 1048576, driven, replays);
    assert_string_equal(with.state_hash, without.state_hash);
    /* Of what 40% are NCCL takes nearly half, and the rest is too little for a plan. */
    assert_true(driven >= 8 || percent < 50);
    assert_true(replays > 0 || !getenv("EBB_OFFLOAD"));
}

static void trainer_on_two_gpus(void **state)
{
    (void)state;
    train_both((shared_t){2, 0, 1, NULL}, 50);
}

/* Of an earlier run, a file for each rank. */
static void plans_that_were_saved(void **state)
{
    (void)state;
    char plan[128], path[128];
    snprintf(plan, sizeof plan, "/tmp/ebb-ranks-%d-plan-%%r", (int)getpid());
    setenv("EBB_SAVE_PLAN", plan, 1);
    train_both((shared_t){2, 2, 1, NULL}, 60);
    unsetenv("EBB_SAVE_PLAN");
    setenv("EBB_PLAN", plan, 1);
    train_both((shared_t){2, 2, 1, NULL}, 60);
    unsetenv("EBB_PLAN");
    for (int rank = 0; rank < 2; rank++) {
        snprintf(path, sizeof path, "/tmp/ebb-ranks-%d-plan-%d", (int)getpid(), rank);
        assert_int_equal(remove(path), 0);
    }
}

/* Without copies activations are made again, from weights that are held. */
static void trainer_whose_weights_are_gathered(void **state)
{
    (void)state;
    train_both((shared_t){2, 3, 2, NULL}, 60);
    setenv("EBB_OFFLOAD", "0", 1);
    train_both((shared_t){2, 3, 2, NULL}, 80);
    unsetenv("EBB_OFFLOAD");
}

/* What was lost of their gradients is read and written once in a step. */
static void trainers_that_compress_gradients(void **state)
{
    (void)state;
    if (test_is_long())
        train_both((shared_t){2, 0, 1, "powersgd"}, 60);
    train_both((shared_t){2, 0, 2, "top"}, 60);
}

/* ebb around what starts the ranks, or `within` each of them, as `torchrun --no-python ebb run -- ...` has it. */
static void start_them(const char *starter, bool within, const history_t *without)
{
    char ebb[512], log[512], command[4096];
    trainer_path(log, sizeof log, "started");
    snprintf(ebb, sizeof ebb, "%s run --budget %.0f --stats '%s' --", getenv("TEST_EBB"),
             without->peak_bytes * 60 / 100, stats_names);
    remove(log);
    snprintf(command, sizeof command,
             "MASTER_PORT=%d %s %s %s " MODEL "--zero 1 --data %s --log %s >/dev/null",
             12000 + (int)(((unsigned)getpid() * 7 + 70) % 18000), within ? starter : ebb,
             within ? ebb : starter, getenv("TEST_TRAINER"), trainer_text(), log);
    const int status = system(command);
    if (!strncmp(starter, "bash", 4) && WEXITSTATUS(status) == 77) /* slurm.sh */
        skip();
    assert_int_equal(status, 0);
    const history_t with = trainer_read_log(log);
    assert_string_equal(with.state_hash, without->state_hash);
    assert_true(of_ranks("steps_driven", 2, true).least >= 8);
}

static void start_by(const char *program, const char *starter, bool within)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    if (system(command))
        skip();
    setenv("SOFTGPU_DEVICES", "2", 1);
    const history_t without = trainer_train(MODEL "--gpus 2 --zero 1");
    start_them(starter, within, &without);
    unsetenv("SOFTGPU_DEVICES");
}

static void ranks_that_mpirun_starts(void **state)
{
    (void)state;
    start_by("mpirun.openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe -n 2", true);
}

static void ranks_that_srun_starts(void **state)
{
    char starter[256];
    (void)state;
    snprintf(starter, sizeof starter, "bash %s srun --overcommit -n 2", getenv("TEST_SLURM"));
    start_by("srun", starter, false);
}

static void trainer_in_every_budget(void **state)
{
    (void)state;
    if (!test_is_long())
        skip();
    train_both((shared_t){2, 1, 1, NULL}, 100);
    for (int zero = 0; zero <= 3; zero++)
        for (int percent = 60; percent >= 40; percent -= 20)
            train_both((shared_t){4, zero, 1 + zero % 2, NULL}, percent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_that_are_averaged),
        cmocka_unit_test(weights_that_are_gathered_and_gradients_that_are_scattered),
        cmocka_unit_test(gathering_beside_scattering),
        cmocka_unit_test(activations_that_go_round),
        cmocka_unit_test(operands_that_no_argument_names),
        cmocka_unit_test(memory_of_the_librarys_own),
        cmocka_unit_test(rank_that_holds_more),
        cmocka_unit_test(ranks_that_are_threads),
        cmocka_unit_test(ranks_that_are_threads_and_peers),
        cmocka_unit_test(rank_without_room_ends_the_others),
        cmocka_unit_test(rank_that_dies_ends_the_others),
        cmocka_unit_test(library_whose_names_are_its_own),
        cmocka_unit_test(trainer_on_two_gpus),
        cmocka_unit_test(plans_that_were_saved),
        cmocka_unit_test(trainer_whose_weights_are_gathered),
        cmocka_unit_test(trainers_that_compress_gradients),
        cmocka_unit_test(ranks_that_mpirun_starts),
        cmocka_unit_test(ranks_that_srun_starts),
        cmocka_unit_test(trainer_in_every_budget),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, setup, trainer_teardown);
}
