/* What libebb learns of a step: who writes, what may be replayed, and what learning costs. The truth is in the kernels'
 * signatures: what is const there is only read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/run/profile/profile.h"
#include "program.h"
#include "trace_file.h"
#include "trainer.h"

char *__cxa_demangle(const char *name, char *out, size_t *bytes, int *status);

static char trace_path[512];

static void unset(void)
{
    static const char *const names[] = {"LD_PRELOAD", "EBB_TRACE",         "EBB_LOG",
                                        "EBB_BUDGET", "SOFTGPU_SCHEDULER", "SOFTGPU_PROFILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* Trains under libebb with a trace; what was said on stderr. */
static outcome_t train(const char *arguments)
{
    char all[1024];
    snprintf(all, sizeof all, "%s --sample 0 --data %s", arguments, trainer_text());
    remove(trace_path);
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    setenv("EBB_TRACE", trace_path, 1);
    setenv("EBB_LOG", "info", 1);
    outcome_t out = trainer_run(all);
    unset();
    if (out.exit_code)
        fail_msg("exit code %d: %s", out.exit_code, out.error);
    return out;
}

/* ---- who writes ---- */

/* Pointers of a structure that is a kernel's only argument: how many of the first ones are not const. */
static int writers_in_structure(const char *arguments)
{
    static const struct {
        const char *name;
        int writers;
    } known[] = {{"(forward)", 2}, {"(backward)", 1}, {"(residual_layernorm)", 4}, {"(layernorm_grad)", 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(arguments, known[i].name))
            return known[i].writers;
    return -1;
}

/* A parameter's number where all before it are of 8 bytes. Products have three tensor maps in front, for A, B and D, at 112 on this
 * architecture; one that has none takes A, B, C, D as pointers. */
static unsigned number_of(const char *kernel, uint32_t param_offset)
{
    enum { MAPS = 112, MAP = 128, POINTERS = MAPS + 3 * MAP };
    static const unsigned mapped[] = {0, 1, 3};
    if (strncmp(kernel, "softgpu_gemm", 12) != 0)
        return param_offset / 8;
    return param_offset < POINTERS ? mapped[(param_offset - MAPS) / MAP] : (param_offset - POINTERS) / 8;
}

/* The parameters that are pointers to what is not const, as bits by their number. */
static uint64_t truth_of(const char *kernel)
{
    int status;
    if (!strncmp(kernel, "softgpu_sgemm", 13))
        return 1u << 2; /* A, B, C */
    /* A, B, C, D, bias, aux, two scalars, workspace, counters; bias and aux as the epilogue has it */
    if (!strncmp(kernel, "softgpu_gemm", 12))
        return 1u << 3 | 1u << 8 | (strstr(kernel, "_grad") ? 1u << 4 : 1u << 5);
    char *text = __cxa_demangle(kernel, NULL, NULL, &status);
    if (!text)
        fail_msg("%s is no kernel's name", kernel);
    char *at = strrchr(text, '('), way[8];
    unsigned parts;
    /* Between `together` and `apart[parts]`, one way or the other. */
    if (sscanf(text, "void heads_kernel<%u, %5[a-z]>", &parts, way) == 2) {
        free(text);
        return !strcmp(way, "true") ? (((uint64_t)1 << parts) - 1) << 1 : 1;
    }
    int structure = writers_in_structure(at);
    uint64_t bits = structure >= 0 ? ((uint64_t)1 << structure) - 1 : 0;
    unsigned offset = 0;
    for (char *p = strtok(at + 1, ",)"); p && structure < 0; p = strtok(NULL, ",)")) {
        bool pointer = strchr(p, '*') != NULL;
        if (!pointer) /* pointers to what is written come first in these kernels */
            offset = UINT32_MAX / 2;
        else if (offset < 512 && !strstr(p, "const"))
            bits |= (uint64_t)1 << offset / 8;
        else
            assert_non_null(strstr(p, "const"));
        offset += 8;
    }
    free(text);
    return bits;
}

/* How an operation reaches the memory that an access points to, by the truth. */
typedef struct reach {
    bool written;   /* from where the access points to */
    bool elsewhere; /* other parts of the buffer are written */
    bool
        by_tiles; /* of the tiles in which writes were seen behind the access, all are seen behind a writer, too */
} reach_t;

static reach_t reach_of(const ebb_trace_t *t, const ebb_trace_operation_t *o, uint32_t access, uint64_t truth)
{
    const ebb_trace_access_t *a = &t->access[access];
    reach_t r = {.by_tiles = !a->tile_count};
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *x = &t->access[k];
        if (x->buffer != a->buffer || !(truth >> number_of(o->name, x->param_offset) & 1))
            continue;
        r.written |= x->offset_bytes == a->offset_bytes;
        r.elsewhere |= x->offset_bytes != a->offset_bytes;
        r.by_tiles |=
            x->first_tile <= a->first_tile && a->first_tile + a->tile_count <= x->first_tile + x->tile_count;
    }
    return r;
}

/* Counters that are as they were when the launch ends: from outside, nobody writes them. */
static bool is_put_back(const char *kernel, uint32_t param_offset)
{
    return !strncmp(kernel, "softgpu_gemm", 12) && number_of(kernel, param_offset) == 9;
}

static void compare_with_truth(const ebb_trace_t *t)
{
    unsigned kernels = 0;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        if (o->kind != EBB_TRACE_KERNEL)
            continue;
        uint64_t truth = truth_of(o->name);
        kernels++;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            const reach_t r = reach_of(t, o, k, truth);
            if (is_put_back(o->name, a->param_offset))
                continue;
            if (r.written && a->mode == EBB_READS)
                fail_msg("operation %u, %s: argument at %u writes and was not seen to", i, o->name,
                         a->param_offset);
            if (!r.written && ((a->mode != EBB_READS && !r.elsewhere) || !r.by_tiles))
                fail_msg("operation %u, %s: argument at %u only reads", i, o->name, a->param_offset);
        }
    }
    print_message("%u launches\n", kernels);
    assert_true(kernels >= 40);
}

static void trainer_writes_what_its_signatures_say(void **state)
{
    (void)state;
    static const char *const modes[] = {"--layers 2 --steps 14",
                                        "--layers 1 --steps 14 --attention naive --dropout 0.1",
                                        "--layers 1 --steps 14 --accumulate 2",
                                        "--model llama:tiny --layers 1 --context 64 --steps 14",
                                        "--layers 1 --steps 14 --dtype bf16 --save lean --dropout 0.1",
                                        "--model llama:tiny --layers 1 --context 64 --steps 14 --dtype bf16 "
                                        "--rounding stochastic --save lean"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        train(modes[i]);
        ebb_trace_t *t = trace_file_read(trace_path);
        print_message("%s: ", modes[i]);
        compare_with_truth(t);
        ebb_trace_delete(t);
    }
}

/* ---- kinds of step ---- */

/* Whether an operation of this name is in it. */
static bool has(const ebb_trace_t *t, const char *name)
{
    uint32_t i = 0;
    while (i < t->operation_count && !strstr(t->operation[i].name, name))
        i++;
    return i < t->operation_count;
}

static void every_kind_of_step_has_its_own_trace(void **state)
{
    (void)state;
    char path[sizeof trace_path + 16];
    unsigned kind = 0;
    outcome_t out = train("--layers 2 --steps 40 --eval-every 3 --eval-batches 2");
    const char *other = strstr(out.error, trace_path);
    other = other ? strstr(other + 1, trace_path) : NULL;
    if (!other || sscanf(other + strlen(trace_path), ".%u", &kind) != 1)
        fail_msg("%s", out.error);
    snprintf(path, sizeof path, "%s.%u", trace_path, kind);
    ebb_trace_t *training = trace_file_read(trace_path), *evaluation = trace_file_read(path);
    remove(path);
    assert_true(has(training, "adamw") && has(training, "attention_forward"));
    assert_true(!has(evaluation, "adamw") && has(evaluation, "attention_forward"));
    ebb_trace_delete(training);
    ebb_trace_delete(evaluation);
}

/* ---- what may be replayed, and what learning costs ---- */

static double percent_proven(const ebb_trace_t *t)
{
    ebb_worth_t worth;
    double all = 0, proven = 0;
    assert_true(ebb_worth_find(t, 0, &worth));
    for (uint32_t i = 0; i < worth.saved_count; i++) {
        double bytes = (double)t->buffer[worth.saved[i].buffer].bytes;
        all += bytes;
        proven += worth.saved[i].proven ? bytes : 0;
    }
    ebb_worth_free(&worth);
    print_message("%.2f MiB saved for later, %.2f proven\n", all / 1048576, proven / 1048576);
    assert_true(all > 1 << 20);
    return 100 * proven / all;
}

/* On the computed clock of an H100. Launches of a small model are so short there that each of ebb's costs as much as one
 * of the program's. */
static void saved_activations_are_proven_at_bounded_cost(void **state)
{
    (void)state;
    double steps = 0, cost = 100;
    setenv("SOFTGPU_SCHEDULER", "deterministic", 1);
    setenv("SOFTGPU_PROFILE", "H100", 1);
    outcome_t out = train("--layers 3 --width 256 --heads 8 --context 128 --batch 16 --steps 10");
    const char *line = strstr(out.error, "learned in ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "learned in %lf steps, which cost %lf", &steps, &cost), 2);
    print_message("%.*s\n", (int)strcspn(line, "\n"), line);
    assert_true(cost <= 3.0);
    ebb_trace_t *t = trace_file_read(trace_path);
    assert_true(percent_proven(t) >= 95);
    for (uint32_t i = 0; i < t->operation_count; i++)
        if (t->operation[i].verdict == EBB_PROVEN && t->operation[i].kind == EBB_TRACE_KERNEL)
            assert_true(t->operation[i].proofs >= 3 && t->operation[i].proof_bytes &&
                        t->operation[i].proof_ns);
    ebb_trace_delete(t);
}

/* ---- what is hardly worth it ---- */

static void run_dear(const char *settings, program_run_t *out)
{
    char command[1536];
    snprintf(command, sizeof command, "SOFTGPU_SCHEDULER=deterministic %s %s %s dear", settings,
             getenv("TEST_RELOAD"), getenv("TEST_RELOAD_KERNELS"));
    program_run(command, out);
    if (out->status || !*out->output)
        fail_msg("%s: %d: %s", command, out->status, out->log);
}

/* Buffers that take longer to make than they lie idle (programs/reload.c) are left alone, until nothing else helps. */
static void what_is_hardly_worth_it_is_proven_when_no_plan_fits(void **state)
{
    (void)state;
    static program_run_t without, roomy, tight;
    char settings[1024];
    unsigned proven = 0;
    run_dear("", &without);
    snprintf(settings, sizeof settings, "LD_PRELOAD=%s EBB_LOG=info EBB_OFFLOAD=0 EBB_TRACE=%s",
             getenv("TEST_LIBEBB"), trace_path);
    run_dear(settings, &roomy);
    ebb_trace_t *t = trace_file_read(trace_path);
    for (uint32_t i = 0; i < t->operation_count; i++)
        proven += t->operation[i].verdict == EBB_PROVEN && !strcmp(t->operation[i].name, "layer");
    ebb_trace_delete(t);
    assert_int_equal(proven, 0);
    snprintf(settings, sizeof settings, "LD_PRELOAD=%s EBB_LOG=debug EBB_OFFLOAD=0 SOFTGPU_MEMORY=14M",
             getenv("TEST_LIBEBB"));
    run_dear(settings, &tight);
    assert_string_equal(roomy.output, without.output);
    assert_string_equal(tight.output, without.output);
    if (!strstr(tight.log, "no plan fits into ") || !strstr(tight.log, ", drops 2,"))
        fail_msg("%s", tight.log);
}

/* ---- extents ---- */

static const ebb_trace_access_t *access_of(const ebb_trace_t *t, const char *kernel, unsigned nth,
                                           unsigned word)
{
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        if (!strstr(o->name, kernel) || nth--)
            continue;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            if (t->access[k].param_offset == 8 * word)
                return &t->access[k];
    }
    fail_msg("no launch %u of %s", nth, kernel);
    return NULL;
}

static void assert_extent(const ebb_trace_access_t *a, uint32_t first, uint32_t count)
{
    if (a->first_tile != first || a->tile_count != count)
        fail_msg("tiles %u to %u instead of %u to %u", a->first_tile, a->first_tile + a->tile_count, first,
                 first + count);
}

/* Slices of 10 tiles of one buffer; see programs/arena.c. */
static void slices_of_a_shared_buffer_are_told_apart(void **state)
{
    (void)state;
    char command[1024];
    remove(trace_path);
    snprintf(command, sizeof command, "LD_PRELOAD=%s EBB_TRACE=%s %s steps=14", getenv("TEST_LIBEBB"),
             trace_path, getenv("TEST_ARENA"));
    assert_int_equal(system(command), 0);
    ebb_trace_t *t = trace_file_read(trace_path);
    for (unsigned i = 0; i < 6; i++) {
        const ebb_trace_access_t *to = access_of(t, "add_kernel", i, 0),
                                 *from = access_of(t, "add_kernel", i, 1);
        assert_extent(to, 10 * (i + 1), 10);
        assert_extent(from, 0, 0);
        assert_int_equal(to->buffer, from->buffer);
    }
    /* By one pointer to its beginning: beyond the next pointer, to the end. */
    assert_extent(access_of(t, "scale_kernel", 0, 0), 0, 70);
    /* From another buffer, which it only reads. */
    assert_int_equal(access_of(t, "scale_kernel", 0, 1)->mode, EBB_READS);
    assert_int_equal(access_of(t, "sum_kernel", 0, 1)->mode, EBB_READS);
    ebb_trace_delete(t);
}

static int setup(void **state)
{
    (void)state;
    trainer_path(trace_path, sizeof trace_path, "trace");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unset();
    trainer_clean();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_a_shared_buffer_are_told_apart),
        cmocka_unit_test(every_kind_of_step_has_its_own_trace),
        cmocka_unit_test(what_is_hardly_worth_it_is_proven_when_no_plan_fits),
        cmocka_unit_test(trainer_writes_what_its_signatures_say),
        cmocka_unit_test(saved_activations_are_proven_at_bounded_cost),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
