/* Training on several GPUs, a process each: the losses of the same batches on one, the same bits in every run, and one end for all. */
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "model/layers/parameters.h"
#include "trainer.h"

#define SMALL "--layers 2 --width 32 --heads 2 --context 32 --batch 4 --sample 0 "

static void on_devices(int count)
{
    char text[16];
    snprintf(text, sizeof text, "%d", count);
    setenv("SOFTGPU_DEVICES", text, 1);
}

static void assert_same(const history_t *a, const history_t *b, const char *what)
{
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        if (strcmp(a->loss_hex[i], b->loss_hex[i]) != 0)
            fail_msg("%s: step %d: %s and %s", what, i + 1, a->loss_hex[i], b->loss_hex[i]);
    assert_string_equal(a->state_hash, b->state_hash);
    assert_string_equal(a->held_out_loss_hex, b->held_out_loss_hex);
}

/* They take the sequences, and the dropout's masks, that one GPU takes in as many micro-batches; only sums have another order. */
static void ranks_have_the_losses_of_as_many_micro_batches(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "--dropout 0.1",
        "--model llama:tiny --width 32 --heads 2 --kv-heads 1 --hidden 64 --layers 2 --context 32",
        "--dtype bf16 --rounding stochastic --width 64"};
    on_devices(3);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char together[512], alone[512];
        snprintf(together, sizeof together, SMALL "--steps 14 --accumulate 2 %s --gpus 3", modes[i]);
        snprintf(alone, sizeof alone, SMALL "--steps 14 --accumulate 6 %s", modes[i]);
        const history_t a = trainer_train(together), again = trainer_train(together),
                        b = trainer_train(alone);
        assert_same(&a, &again, modes[i]);
        for (int step = 0; step < 14; step++)
            if (relative(a.loss[step], b.loss[step]) > (i == 2 ? 1e-3 : 1e-5))
                fail_msg("%s: step %d: %.9g and %.9g", modes[i], step + 1, a.loss[step], b.loss[step]);
        assert_true(relative(a.held_out_loss, b.held_out_loss) < 1e-3);
        print_message("%s: %.6f and %.6f\n", modes[i], a.loss[13], b.loss[13]);
    }
}

/* Whoever keeps what: the same bits, in less memory. */
static void shards_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        int ranks;
    } modes[] = {
        {"--dropout 0.1 --accumulate 2", 3},
        {"--model llama:tiny --width 32 --heads 2 --kv-heads 1 --hidden 64 --layers 3 --context 32 --save "
         "lean",
         2},
        {"--dtype bf16 --rounding stochastic --width 64 --layers 4 --clip 0.5 --skip-outliers 5 --decay 0.1",
         5},
        {"--dtype bf16 --rounding stochastic --width 64 --layers 4 --lora-rank 3 --lora-targets all-linear",
         3}};
    on_devices(5);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        history_t whole = {0};
        for (int zero = 0; zero <= 3; zero++) {
            char arguments[512];
            snprintf(arguments, sizeof arguments,
                     SMALL "--steps 7 --sample 8 --eval-every 3 %s --gpus %d --zero %d", modes[i].mode,
                     modes[i].ranks, zero);
            const history_t h = trainer_train(arguments);
            if (zero == 0)
                whole = h;
            assert_same(&whole, &h, arguments);
            assert_true(zero == 0 || h.peak_bytes < whole.peak_bytes);
            print_message("%s: %.0f bytes\n", arguments, h.peak_bytes);
        }
    }
}

/* What is sent of gradients is less, and trains all the same. */
static void gradients_are_compressed(void **state)
{
    (void)state;
    static const struct {
        const char *name, *how, *model;
    } modes[] = {
        {"two", "--compress powersgd --compress-rank 2", ""},
        {"one", "--compress powersgd --compress-rank 1", "--dtype bf16 --rounding stochastic"},
        {"top", "--compress top --compress-share 0.05", ""},
        {"llama", "--compress top --compress-share 0.02",
         "--model llama:tiny --width 32 --heads 2 --kv-heads 1 --hidden 64 --layers 2 --context 32"}};
    on_devices(3);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char arguments[1024], folder[512];
        trainer_path(folder, sizeof folder, modes[i].name);
        snprintf(arguments, sizeof arguments, SMALL "--steps 30 --accumulate 2 --gpus 3 %s %s",
                 modes[i].model, modes[i].how);
        const history_t a = trainer_train(arguments), again = trainer_train(arguments);
        assert_same(&a, &again, modes[i].name);
        snprintf(arguments, sizeof arguments,
                 SMALL "--steps 30 --accumulate 2 --gpus 3 %s %s --graph --checkpoint %s", modes[i].model,
                 modes[i].how, folder);
        const history_t graph = trainer_train(arguments);
        assert_same(&a, &graph, modes[i].name);
        /* The held-out loss is of all ranks' weights. Of the first one's, which the checkpoint has, it is the same. */
        snprintf(arguments, sizeof arguments, SMALL "--steps 30 --accumulate 6 %s --resume %s",
                 modes[i].model, folder);
        const history_t alone = trainer_train(arguments);
        assert_string_equal(a.state_hash, alone.state_hash);
        assert_string_equal(a.held_out_loss_hex, alone.held_out_loss_hex);
        if (!(a.loss[29] < 0.8 * a.loss[0]))
            fail_msg("%s: %.6f after %.6f", modes[i].name, a.loss[29], a.loss[0]);
        print_message("%s: %.6f to %.6f\n", modes[i].name, a.loss[0], a.loss[29]);
    }
    /* All of them: of two ranks it is the same sum. */
    const history_t whole = trainer_train(SMALL "--steps 7 --gpus 2"),
                    all = trainer_train(SMALL "--steps 7 --gpus 2 --compress top --compress-share 1");
    assert_same(&whole, &all, "all of them");
    const outcome_t out = trainer_run(SMALL "--gpus 2 --zero 1 --compress top --data nowhere");
    assert_int_equal(out.exit_code, 2);
    assert_non_null(strstr(out.error, "--compress: without shards only"));
    const outcome_t skipping = trainer_run(SMALL "--gpus 2 --skip-outliers 5 --compress top --data nowhere");
    assert_int_equal(skipping.exit_code, 2);
    assert_non_null(strstr(skipping.error, "--skip-outliers"));
}

/* The environment of torchrun, mpirun and srun, and a port of one's own. */
static void whoever_starts_them(void **state)
{
    (void)state;
    static const char *const starters[][3] = {
        {"WORLD_SIZE", "RANK", "LOCAL_RANK"},
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
        {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"}};
    char log[512], arguments[1024], port[16];
    on_devices(2);
    trainer_path(log, sizeof log, "started");
    snprintf(arguments, sizeof arguments, SMALL "--steps 6 --data %s --log %s --gpus 2", trainer_text(), log);
    const outcome_t out = trainer_run(arguments);
    assert_int_equal(out.exit_code, 0);
    const char *said = strstr(out.out, "held-out loss");
    assert_true(said && !strstr(said + 1, "held-out loss")); /* the first one speaks */
    const history_t own = trainer_read_log(log);
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        int process[2];
        remove(log);
        snprintf(port, sizeof port, "%d", 12000 + (int)(((unsigned)getpid() * 7 + i) % 18000));
        setenv("MASTER_PORT", port, 1);
        setenv(starters[i][0], "2", 1);
        for (int rank = 0; rank < 2; rank++) {
            const char *text = rank ? "1" : "0";
            setenv(starters[i][1], text, 1);
            setenv(starters[i][2], text, 1);
            if (i == 3) /* each is given one device, which is its first */
                setenv("CUDA_VISIBLE_DEVICES", rank ? "0" : "1", 1);
            process[rank] = trainer_start(arguments);
        }
        unsetenv("CUDA_VISIBLE_DEVICES");
        for (int rank = 0; rank < 2; rank++) {
            const outcome_t its = trainer_wait(process[rank]);
            if (its.exit_code != 0)
                fail_msg("%s: rank %d: exit code %d: %s", starters[i][0], rank, its.exit_code, its.error);
        }
        const history_t h = trainer_read_log(log);
        assert_same(&own, &h, starters[i][0]);
        for (int k = 0; k < 3; k++)
            unsetenv(starters[i][k]);
        unsetenv("MASTER_PORT");
    }
}

/* Open MPI, MPICH and Slurm, where they are. */
static void starters_start_them(void **state)
{
    (void)state;
    char within[256];
    snprintf(within, sizeof within, "bash %s", getenv("TEST_SLURM"));
    const struct {
        const char *needs, *within, *starter;
    } starters[] = {{"mpirun.openmpi", "", "mpirun.openmpi --allow-run-as-root --oversubscribe"},
                    {"mpiexec.mpich", "", "mpiexec.mpich"},
                    {"srun", within, "srun --overcommit"},
                    {"srun", within, "srun --overcommit --mpi=pmi2"}};
    enum { NOT_THERE = 77 };
    char log[512], command[2048];
    int tried = 0;
    on_devices(2);
    trainer_path(log, sizeof log, "started");
    const history_t own = trainer_train(SMALL "--steps 6 --zero 2 --gpus 2");
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        snprintf(command, sizeof command, "command -v %s >/dev/null", starters[i].needs);
        if (system(command) != 0)
            continue;
        remove(log);
        snprintf(command, sizeof command,
                 "MASTER_PORT=%d %s %s -n 2 %s " SMALL "--steps 6 --zero 2 --data %s --log %s >/dev/null",
                 12000 + (int)(((unsigned)getpid() * 7 + 50 + i) % 18000), starters[i].within,
                 starters[i].starter, getenv("TEST_TRAINER"), trainer_text(), log);
        const int status = system(command);
        if (*starters[i].within && WEXITSTATUS(status) == NOT_THERE)
            continue;
        assert_int_equal(status, 0);
        const history_t h = trainer_read_log(log);
        assert_same(&own, &h, starters[i].starter);
        tried++;
    }
    if (!tried)
        skip();
}

/* Of a log's last record. */
static history_t end_of(const char *log)
{
    static char line[1 << 16];
    history_t h = {0};
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strstr(line, "\"kind\": \"final\"")) {
            h.held_out_loss = json_number(line, "held_out_loss");
            json_text(line, "state_hash", h.state_hash, sizeof h.state_hash);
        }
    fclose(f);
    return h;
}

/* What compressing has lost of gradients is a part of it. */
static void resumes_with_as_many_and_with_others(void **state)
{
    (void)state;
    static const char *const ways[] = {"none", "powersgd", "top"};
    char folder[512], log[512], arguments[2048];
    on_devices(3);
    trainer_path(log, sizeof log, "resumed");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(arguments, sizeof arguments, "resumed-%s", ways[i]);
        trainer_path(folder, sizeof folder, arguments);
        snprintf(arguments, sizeof arguments, SMALL "--steps 10 --gpus 2 --compress %s", ways[i]);
        const history_t whole = trainer_train(arguments);
        snprintf(arguments, sizeof arguments,
                 SMALL "--steps 10 --gpus 2 --compress %s --checkpoint %s --checkpoint-every 4 --keep 0",
                 ways[i], folder);
        const history_t kept = trainer_train(arguments);
        assert_same(&whole, &kept, "with checkpoints");
        for (int gpus = 1; gpus <= 3; gpus++) {
            snprintf(arguments, sizeof arguments,
                     SMALL "--steps 10 --gpus %d --compress %s --resume %s/step-00000004 --data %s --log %s",
                     gpus, ways[i], folder, trainer_text(), log);
            remove(log);
            const outcome_t out = trainer_run(arguments);
            if (out.exit_code != 0)
                fail_msg("%s, %d GPUs: exit code %d: %s", ways[i], gpus, out.exit_code, out.error);
            const history_t rest = end_of(log);
            if (gpus == 2)
                assert_string_equal(rest.state_hash, whole.state_hash);
            assert_int_equal(strstr(out.error, "they begin without") != NULL, i > 0 && gpus == 3);
            assert_true(relative(rest.held_out_loss, whole.held_out_loss) < 0.05);
        }
    }
}

/* From a step in the middle. */
static history_t resume(const char *folder, const char *how)
{
    char log[512], arguments[2048];
    trainer_path(log, sizeof log, "resumed");
    remove(log);
    snprintf(arguments, sizeof arguments,
             SMALL "--steps 10 --dtype bf16 --width 64 --dropout 0.1 --resume %s %s --data %s --log %s",
             folder, how, trainer_text(), log);
    const outcome_t out = trainer_run(arguments);
    if (out.exit_code != 0)
        fail_msg("%s: exit code %d: %s", how, out.exit_code, out.error);
    return end_of(log);
}

/* What ranks do together is captured with the rest. */
static void graphs_have_the_bits_of_single_calls(void **state)
{
    (void)state;
    on_devices(2);
    for (int zero = 0; zero <= 3; zero++)
        for (int accumulate = 1; accumulate <= (zero < 2 ? 3 : 1); accumulate += 2) {
            char arguments[256];
            snprintf(arguments, sizeof arguments,
                     SMALL
                     "--steps 9 --dropout 0.1 --dtype bf16 --width 64 --eval-every 4 --gpus 2 --zero %d "
                     "--accumulate %d",
                     zero, accumulate);
            const history_t by_calls = trainer_train(arguments);
            strcat(arguments, " --graph");
            const history_t by_graphs = trainer_train(arguments);
            assert_same(&by_calls, &by_graphs, arguments);
            assert_true(by_graphs.launches[8] < by_calls.launches[8] / 2);
        }
}

/* Written as shards by some ranks, read by as many, by others, and by one, whoever keeps what. */
static void shards_are_read_by_any_number_of_ranks(void **state)
{
    (void)state;
    static const char form[] = SMALL "--steps 10 --dtype bf16 --width 64 --dropout 0.1 --gpus 3 %s";
    char folder[512], file[600], arguments[2048];
    on_devices(4);
    trainer_path(folder, sizeof folder, "shards");
    snprintf(arguments, sizeof arguments, form, "");
    const history_t whole = trainer_train(arguments);
    snprintf(file, sizeof file, "--zero 3 --checkpoint %s --checkpoint-every 4 --keep 0", folder);
    snprintf(arguments, sizeof arguments, form, file);
    const history_t kept = trainer_train(arguments);
    assert_same(&whole, &kept, "with checkpoints");
    snprintf(folder + strlen(folder), 32, "/step-00000004");
    for (int ranks = 1; ranks <= 4; ranks++) {
        char first[32] = "";
        for (int zero = 0; zero <= (ranks == 1 ? 0 : 3); zero++) {
            char how[64];
            snprintf(how, sizeof how, "--gpus %d --zero %d", ranks, zero);
            const history_t h = resume(folder, how);
            if (zero == 0)
                snprintf(first, sizeof first, "%s", h.state_hash);
            assert_string_equal(h.state_hash, ranks == 3 ? whole.state_hash : first);
        }
    }
    /* One of them is damaged, or missing. */
    snprintf(file, sizeof file, "%s/state-00002-of-00003.bin", folder);
    FILE *f = fopen(file, "r+");
    assert_non_null(f);
    fseek(f, -200, SEEK_END);
    const int byte = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(byte ^ 1, f);
    fclose(f);
    snprintf(arguments, sizeof arguments, SMALL "--steps 10 --dtype bf16 --width 64 --resume %s --data %s",
             folder, trainer_text());
    outcome_t out = trainer_run(arguments);
    assert_int_equal(out.exit_code, 2);
    assert_non_null(strstr(out.error, "state-00002-of-00003.bin: field"));
    /* Another run's, of the same step. */
    char other[600], command[1400];
    snprintf(other, sizeof other, "%s-other", folder);
    snprintf(command, sizeof command,
             SMALL
             "--steps 4 --dtype bf16 --width 64 --dropout 0.2 --gpus 3 --zero 1 --checkpoint %s --data %s",
             other, trainer_text());
    out = trainer_run(command);
    assert_int_equal(out.exit_code, 0);
    snprintf(command, sizeof command, "cp %s/step-00000004/state-00002-of-00003.bin %s", other, file);
    assert_int_equal(system(command), 0);
    out = trainer_run(arguments);
    assert_int_equal(out.exit_code, 2);
    assert_non_null(strstr(out.error, "it is not the one that state.bin was written with"));
    remove(file);
    out = trainer_run(arguments);
    assert_int_equal(out.exit_code, 2);
    assert_non_null(strstr(out.error, "state-00002-of-00003.bin: No such file"));
}

/* The rank's process, a child of `parent`, by its environment. */
static int process_of(int parent, const char *rank)
{
    DIR *all = opendir("/proc");
    int found = 0;
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all)) && !found;) {
        static char text[1 << 17];
        char path[300], words[32];
        int its_parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        if (fscanf(f, "%*d (%*[^)]) %*c %d", &its_parent) != 1)
            its_parent = 0;
        fclose(f);
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        if (its_parent != parent || !(f = fopen(path, "r")))
            continue;
        const size_t n = fread(text, 1, sizeof text, f);
        fclose(f);
        snprintf(words, sizeof words, "%cRANK=%s", 0, rank);
        if (memmem(text, n, words, strlen(rank) + 7))
            found = atoi(e->d_name);
    }
    closedir(all);
    return found;
}

static size_t size_of(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f || fseek(f, 0, SEEK_END))
        return 0;
    const long size = ftell(f);
    fclose(f);
    return (size_t)size;
}

/* Started, and some steps on: its second rank gets the signal, or whoever has started it. */
static outcome_t interrupt(bool launcher, int signal_number, const char *more, const char *log)
{
    char arguments[1024];
    remove(log);
    snprintf(arguments, sizeof arguments, SMALL "--steps 100000 --gpus 2 --data %s --log %s %s",
             trainer_text(), log, more);
    const int process = trainer_start(arguments);
    for (int i = 0; size_of(log) < 4000 && i < 6000; i++)
        usleep(10000);
    const int rank = process_of(process, "1");
    assert_true(rank > 0);
    kill(launcher ? process : rank, signal_number);
    return trainer_wait(process);
}

static void a_signal_to_one_ends_all_after_the_same_step(void **state)
{
    (void)state;
    char log[512], folder[512], more[600];
    on_devices(2);
    trainer_path(log, sizeof log, "ended");
    for (int launcher = 0; launcher < 2; launcher++) {
        trainer_path(folder, sizeof folder, launcher ? "ended-all" : "ended-one");
        snprintf(more, sizeof more, "--checkpoint %s", folder);
        const outcome_t out = interrupt(launcher, SIGTERM, more, log);
        if (out.exit_code != 0)
            fail_msg("exit code %d: %s", out.exit_code, out.error);
        assert_non_null(strstr(out.error, "interrupted after step "));
        assert_non_null(strstr(out.out, "checkpoint: step "));
    }
}

static void a_rank_that_is_killed_ends_the_training(void **state)
{
    (void)state;
    char log[512];
    on_devices(2);
    trainer_path(log, sizeof log, "killed");
    const outcome_t out = interrupt(false, SIGKILL, "", log);
    assert_int_equal(out.exit_code, 128 + SIGKILL);
    assert_non_null(strstr(out.error, "a rank was ended by signal 9"));
}

/* With as many ranks as one likes, of elements from none on: the shards are all of them, in order. */
static void shards_of_small_groups_may_be_empty(void **state)
{
    (void)state;
    for (size_t elements = 0; elements < 200; elements += 2)
        for (int ranks = 1; ranks <= 9; ranks++) {
            size_t next = 0;
            for (int rank = 0; rank < ranks; rank++) {
                const group_shard_t s = parameters_shard(elements, ranks, rank);
                assert_int_equal(s.first, (size_t)rank * s.size);
                assert_true(s.count <= s.size && (s.count == 0 || s.first == next));
                assert_true(ranks == 1 || s.size % 8 == 0);
                next += s.count;
            }
            assert_int_equal(next, elements);
        }
}

/* At any moment, also while shards are written: what was saved is whole, and leads to the same end. */
static void killed_ranks_lose_nothing_that_was_saved(void **state)
{
    (void)state;
    char log[512], folder[512], more[700], arguments[1400];
    on_devices(2);
    trainer_path(log, sizeof log, "kills");
    trainer_path(folder, sizeof folder, "kills-saved");
    const history_t whole = trainer_train(SMALL "--steps 60 --gpus 2");
    snprintf(more, sizeof more, "--checkpoint %s --checkpoint-every 1 --resume --zero 3", folder);
    for (int i = 0; i < 6; i++) {
        remove(log);
        snprintf(arguments, sizeof arguments, SMALL "--steps 60 --gpus 2 --data %s --log %s %s",
                 trainer_text(), log, more);
        const int process = trainer_start(arguments);
        for (int k = 0; size_of(log) < 3000 && k < 3000; k++)
            usleep(10000);
        usleep((useconds_t)(i * 7919 % 23000));
        const int rank = process_of(process, i % 2 ? "0" : "1");
        if (rank > 0)
            kill(rank, SIGKILL);
        (void)trainer_wait(process);
    }
    remove(log);
    const outcome_t out = trainer_run(arguments);
    if (out.exit_code != 0)
        fail_msg("exit code %d: %s", out.exit_code, out.error);
    assert_non_null(strstr(out.out, "going on after step"));
    assert_string_equal(end_of(log).state_hash, whole.state_hash);
}

static void refuses(const char *arguments, int code, const char *words)
{
    char all[1024];
    snprintf(all, sizeof all, SMALL "--steps 2 --data %s %s", trainer_text(), arguments);
    const outcome_t out = trainer_run(all);
    assert_int_equal(out.exit_code, code);
    if (!strstr(out.error, words))
        fail_msg("'%s' lacks '%s'", out.error, words);
}

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    on_devices(1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("RANK", "1", 1);
    refuses("--graph --zero 2 --accumulate 2", 2, "--accumulate must be 1");
    setenv("RANK", "2", 1);
    refuses("", 2, "RANK=2, as torchrun sets it: must be between 0 and 1");
    setenv("RANK", "0", 1);
    refuses("--gpus 3", 2, "torchrun has started 2 ranks");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
    refuses("--gpus 2", 1, "Duplicate GPU");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_losses_of_as_many_micro_batches),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(graphs_have_the_bits_of_single_calls),
        cmocka_unit_test(shards_of_small_groups_may_be_empty),
        cmocka_unit_test(shards_are_read_by_any_number_of_ranks),
        cmocka_unit_test(killed_ranks_lose_nothing_that_was_saved),
        cmocka_unit_test(gradients_are_compressed),
        cmocka_unit_test(whoever_starts_them),
        cmocka_unit_test(starters_start_them),
        cmocka_unit_test(resumes_with_as_many_and_with_others),
        cmocka_unit_test(a_signal_to_one_ends_all_after_the_same_step),
        cmocka_unit_test(a_rank_that_is_killed_ends_the_training),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
