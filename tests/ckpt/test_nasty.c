/* Programs that try to break ebb (programs/nasty), each with and without it: the same output, bit for bit, on a device that
 * has no more memory than the budget, down to 30% of what the program holds beyond what must be there at once.
 *
 * And what ebb is to make of each: whether it finds a step, and the verdict on the operations that carry the trait.
 *
 *   TEST_NASTY_GROUP=contents|memory|order|reach    the programs of one file
 *   TEST_NASTY=full|some|one|learn                  every budget, by means in turn (also with TEST_LONG=1); or three; or
 *                                                   one, in turn (the default); or verdicts only
 *   TEST_NASTY_ONLY=NAME                            one program
 *   TEST_FROM=SEED                                  what is asked of the planner
 */
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

#include "plan_any.h"
#include "program.h"
#include "trace_file.h"

enum { OPERATIONS = 4, SEEDS = 2, WAYS = 3 };

/* Where `proven` is expected, `untried` will do: ebb tries only what somebody needs. */
typedef struct expectation {
    const char *operation, *verdicts; /* of every such operation one of these, separated by '|' */
} expectation_t;

typedef struct program {
    const char *name, *group;
    unsigned steps;     /* 0: as many as the program thinks */
    unsigned driven;    /* steps at least, where there is some room */
    bool unseen_writes; /* may lose what it has recomputed, if it is told so */
    bool
        unseen_reads; /* may fault in what no argument says it reads, if it is told so; with EBB_STALE_WORDS=0 it does not */
    bool stepless; /* no step is expected */
    bool roomy;    /* nothing may leave the device: ebb does not see what is reached */
    bool
        compared; /* all that is recomputed is once compared whole: what other streams do to its memory must wait for that */
    bool any_size;  /* no two steps have the same sizes */
    bool unlearned; /* there is a step, but it would be waited for ever, or no size or operand recurs */
    bool spares; /* copies out of what the host has already are spared */
    bool
        rotates; /* a buffer outlives the step, the trace knows which one it is in the next, and the step is driven */
    expectation_t operation[OPERATIONS];
} program_t;

/* clang-format off */
static const program_t programs[] = {
    {.name = "plain", .group = "contents", .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}, {"input_gradient", "proven"}, {"update", "proven"}}},
    {.name = "windows", .group = "contents", .steps = 40, .driven = 20, .operation = {{"accumulate", "untried"}, {"forward", "proven"}}},
    {.name = "zeros", .group = "contents", .operation = {{"accumulate", "proven"}}},
    {.name = "flag", .group = "contents", .unseen_writes = true, .operation = {{"perhaps", "proven"}, {"copy", "host"}}},
    {.name = "later", .group = "contents", .unseen_writes = true, .operation = {{"later", "proven"}, {"advance", "proven"}}},
    {.name = "frozen", .group = "contents", .steps = 60, .spares = true, .operation = {{"accumulate", "proven"}}},
    {.name = "thawed", .group = "contents", .steps = 44, .spares = true, .operation = {{"accumulate", "proven"}, {"advance", "proven"}}},
    {.name = "semaphore", .group = "contents", .operation = {{"tally", "proven"}}},
    {.name = "spinning", .group = "contents", .operation = {{"in_turn", "proven"}}},
    {.name = "inplace", .group = "contents", .operation = {{"accumulate", "proven"}, {"fill", "proven"}}},
    {.name = "statistics", .group = "contents", .operation = {{"statistics", "proven"}, {"centre", "proven"}}},
    {.name = "random", .group = "contents", .operation = {{"dropout", "proven"}}},
    {.name = "nondeterministic", .group = "contents", .operation = {{"scatter", "differs|untried"}, {"collect", "proven"}, {"set", "proven"}}},
    {.name = "scalars", .group = "contents", .operation = {{"accumulate", "proven"}}},
    {.name = "foreach", .group = "contents", .operation = {{"update_all", "proven"}}},
    {.name = "stale_words", .group = "contents", .unlearned = true}, /* what points into a buffer counts as an operand: steps differ */
    {.name = "stale", .group = "contents", .operation = {{"update_all", "proven"}}}, /* junk says what is stale */
    {.name = "sometimes", .group = "contents", .unlearned = true},
    {.name = "grown", .group = "contents", .steps = 44, .operation = {{"update_all", "proven"}}},
    {.name = "lists", .group = "contents", .operation = {{"_ZN2at6native25multi_tensor_apply_kernelINS0_18TensorListMetadataILi2EEENS0_8SubtractEEEvT_T0_f", "proven"}}}, /* as leftovers, but it says so */
    {.name = "hidden", .group = "contents", .steps = 44, .unseen_reads = true, .operation = {{"update_some", "proven|differs"}}},

    {.name = "kept", .group = "memory", .rotates = true, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "losses", .group = "memory", .steps = 40, .driven = 20, .rotates = true, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "running", .group = "memory", .steps = 60, .driven = 30, .rotates = true, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "late", .group = "memory", .operation = {{"forward", "proven"}}},
    {.name = "early", .group = "memory", .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "epochs", .group = "memory", .steps = 44, .driven = 34, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "exchanged", .group = "memory", .steps = 34, .rotates = true, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "synchronous", .group = "memory", .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "small", .group = "memory", .operation = {{"forward", "proven"}, {"accumulate", "proven"}, {"fill", "proven"}}},
    {.name = "ends", .group = "memory", .operation = {{"span", "proven"}}},
    {.name = "batches", .group = "memory", .operation = {{"forward", "proven"}}},
    {.name = "lengths", .group = "memory", .steps = 40, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "documents", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "bucketed", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "sorted", .group = "memory", .steps = 80, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "loader", .group = "memory", .steps = 60, .any_size = true, .rotates = true, .operation = {{"forward", "proven"}}},
    {.name = "listed", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "targets", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "behind", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "micro", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "accumulated", .group = "memory", .steps = 30, .driven = 12, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "examined", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "surprised", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "experts", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "routed", .group = "memory", .steps = 70, .any_size = true, .operation = {{"forward", "proven"}, {"gather", "proven"}, {"add_rows", "proven"}}},
    {.name = "resized", .group = "memory", .steps = 70, .operation = {{"forward", "proven"}, {"weight_gradient", "proven"}}},
    {.name = "padded", .group = "memory", .steps = 60, .any_size = true, .operation = {{"forward", "proven"}, {"fill", "proven"}}},
    {.name = "retry", .group = "memory", .operation = {{"forward", "proven"}}},

    {.name = "streams", .group = "order", .stepless = true, .operation = {{"sums", "proven"}}},
    {.name = "branches", .group = "order", .compared = true, .operation = {{"forward", "proven"}, {"accumulate", "proven"}}},
    {.name = "halves", .group = "order", .operation = {{"through_table", "table"}, {"accumulate", "proven"}}},
    {.name = "words", .group = "order", .unlearned = true},
    {.name = "awaited", .group = "order", .unlearned = true},
    {.name = "threads", .group = "order", .stepless = true, .operation = {{"forward", "proven"}}},
    {.name = "early_start", .group = "order", .operation = {{"forward", "proven|attributes"}, {"input_gradient", "proven"}}}, /* ebb takes the attribute off */
    {.name = "clusters", .group = "order", .operation = {{"forward", "proven"}, {"input_gradient", "proven"}}},
    {.name = "cooperative", .group = "order", .operation = {{"in_turn", "attributes"}, {"forward", "proven"}}},
    {.name = "evaluation", .group = "order", .operation = {{"forward", "proven"}}},
    {.name = "saving", .group = "order", .operation = {{"forward", "proven"}}},
    {.name = "extra", .group = "order", .operation = {{"forward", "proven"}}},

    {.name = "mapped", .group = "reach", .operation = {{"accumulate", "foreign"}, {"forward", "proven"}}},
    {.name = "managed", .group = "reach", .operation = {{"accumulate", "foreign"}, {"forward", "proven"}}},
    {.name = "batch", .group = "reach", .operation = {{"copy", "host"}, {"accumulate", "proven"}}},
    {.name = "symbols", .group = "reach", .operation = {{"scaled", "globals"}, {"forward", "proven"}}},
    {.name = "passes", .group = "reach", .operation = {{"counted", "globals"}, {"by_count", "globals"}, {"forward", "proven"}}},
    {.name = "unseen", .group = "reach", .operation = {{"counted_unseen", "globals"}, {"by_count_unseen", "globals"}, {"forward", "proven"}}},
    {.name = "private", .group = "reach", .operation = {{"counted_unseen", "globals"}, {"by_count_unseen", "globals"}, {"forward", "proven"}}},
    {.name = "masked", .group = "reach", .stepless = true}, /* what touches everything cannot be recorded */
    {.name = "table", .group = "reach", .operation = {{"grouped", "table"}, {"accumulate", "proven"}, {"forward", "proven"}}},
    {.name = "tables", .group = "reach", .operation = {{"through_table", "table"}, {"forward", "proven"}}},
    {.name = "object", .group = "reach", .roomy = true, .operation = {{"grouped_by", "table"}, {"forward", "proven"}}},
    {.name = "device_table", .group = "reach", .roomy = true, .operation = {{"grouped", "table"}, {"make_table", "differs|table|untried"}, {"forward", "proven"}}},
    {.name = "maps", .group = "reach", .operation = {{"accumulate_mapped", "proven"}, {"forward", "proven"}}},
    {.name = "rectangles", .group = "reach", .operation = {{"cuMemcpy2D", "other"}, {"forward", "proven"}}},
};
/* clang-format on */
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- running them ---- */

typedef struct sizes {
    double peak, must, small, largest; /* bytes: nasty.h */
} sizes_t;

static char stats_path[64], trace_path[64];

static void run(const char *settings, const program_t *p, program_run_t *out)
{
    char command[1024], steps[32] = "";
    if (p->steps)
        snprintf(steps, sizeof steps, " steps=%u", p->steps);
    snprintf(command, sizeof command, "SOFTGPU_POISON=1 %s timeout 600 %s %s%s", settings,
             getenv("TEST_NASTY_PROGRAM"), p->name, steps);
    program_run(command, out);
}

static double statistic(const char *key)
{
    return program_statistic(stats_path, NULL, key);
}

/* On a device that has so many bytes. False: it has lost contents and has said so, which is this program's right. */
static bool run_under_ebb(const program_t *p, double bytes, const char *settings,
                          const program_run_t *without)
{
    static program_run_t with;
    char all[768];
    snprintf(all, sizeof all, "LD_PRELOAD=%s EBB_STRICT=1 EBB_LINK=10G EBB_STATS=%s SOFTGPU_MEMORY=%.0f %s",
             getenv("TEST_LIBEBB"), stats_path, bytes, settings);
    remove(stats_path);
    run(all, p, &with);
    if (p->unseen_writes && WEXITSTATUS(with.status) == 3 && strstr(with.log, "has other bits") &&
        strstr(with.log, "cudaErrorLaunchFailure") && !strstr(settings, "EBB_RECOMPUTE=0")) {
        print_message("%s, %.1f MiB %s: content was lost, and the program was told\n", p->name,
                      bytes / 1048576, settings);
        return false;
    }
    if (p->unseen_reads && WEXITSTATUS(with.status) == 3 && strstr(with.log, "cudaErrorIllegalAddress") &&
        strstr(with.log, "EBB_STALE_WORDS=0")) {
        print_message("%s, %.1f MiB %s: it faulted, and was told\n", p->name, bytes / 1048576, settings);
        snprintf(all, sizeof all, "EBB_STALE_WORDS=0 %s", settings);
        return strstr(settings, "EBB_STALE_WORDS") ? fail(), false : run_under_ebb(p, bytes, all, without);
    }
    if (with.status || strcmp(with.output, without->output))
        fail_msg("%s nasty %s: exit code %d, %s: %s", all, p->name, WEXITSTATUS(with.status),
                 strcmp(with.output, without->output) ? "OTHER OUTPUT" : "the same output", with.log);
    assert_true(!p->roomy || strstr(with.log, "no plan"));
    print_message(
        "%s, %.1f MiB %s: %.0f steps of %.0f operations, %.0f driven, %.0f evictions, %.0f offloaded, %.0f "
        "dropped, %.0f mismatches\n",
        p->name, bytes / 1048576, settings, statistic("steps"), statistic("step_operations"),
        statistic("steps_driven"), statistic("evictions"), statistic("offloaded"), statistic("dropped"),
        statistic("mismatches"));
    assert_true(statistic("peak_bytes") + statistic("overhead_bytes") <= bytes);
    return true;
}

/* What must be there at once: an operation's operands, what may never leave, the small ones (which are cut from shared
 * chunks: twice), and a few chunks. */
static double budget_of(const sizes_t *s, unsigned percent)
{
    const double chunk = 2 << 20, least = s->must + 2 * s->small + 3 * chunk, most = s->peak + s->small;
    const double bytes = least + (most > least ? (most - least) * percent / 100 : 0);
    return (double)((uint64_t)(bytes / chunk) * (uint64_t)chunk);
}

/* ---- what is learned ---- */

static bool is_among(const char *verdict, size_t length, const char *verdicts)
{
    for (const char *at = verdicts; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, verdict, length) && (at[length] == 0 || at[length] == '|'))
            return true;
    return false;
}

/* The value of a key of a line: its first character. */
static const char *value_of(const char *line, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at)
        fail_msg("no %s in %s", key, line);
    return at + strlen(quoted);
}

static void check_verdict(const program_t *p, const expectation_t *e, const char *line)
{
    const char *verdict = value_of(line, "verdict") + 1;
    const size_t length = strcspn(verdict, "\"");
    if (is_among(verdict, length, e->verdicts) ||
        (is_among("proven", 6, e->verdicts) && is_among(verdict, length, "untried")))
        return;
    fail_msg("%s: verdict on %s: %.*s instead of %s", p->name, e->operation, (int)length, verdict,
             e->verdicts);
}

/* ---- who writes, as the kernels' declarations have it (programs/nasty/kernels.cuh) ---- */

/* The words of a kernel's arguments that are pointers to what is not const, as bits by offset / 8. 0: there is no such kernel. */
static uint64_t declared_writers(const char *kernel)
{
    static char text[1 << 14];
    char start[64];
    uint64_t bits = 0;
    unsigned offset = 0;
    FILE *f = fopen(NASTY_DECLARATIONS, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    snprintf(start, sizeof start, "NASTY_KERNEL %s(", kernel);
    char *at = strstr(text, start);
    if (!at || strstr(at, "struct nasty_pairs") == at + strlen(start))
        return 0; /* pointers in a structure */
    at += strlen(start);
    at[strcspn(at, ")")] = 0;
    for (char *a = strtok(at, ","); a; a = strtok(NULL, ",")) {
        char *star = strrchr(a, '*');
        const unsigned size = star ? 8 : 4;
        offset = (offset + size - 1) & ~(size - 1);
        if (star) {
            *star = 0; /* what it points to: const if that is the first word, or follows its last star */
            const char *last = strrchr(a, '*');
            if (!strstr(last ? last : a, "const"))
                bits |= (uint64_t)1 << offset / 8;
        }
        offset += size;
    }
    return bits;
}

/* Declared, and not to be seen: what is added is 0, what is counted is put back, the same is written again; or only the
 * address is taken. */
static bool is_unseen(const program_t *p, const char *kernel, unsigned param)
{
    static const struct {
        const char *program, *kernel;
        unsigned first, last;
    } unseen[] = {{"zeros", "accumulate", 0, 0},
                  {"thawed", "later", 0, 0},
                  {NULL, "tally", 16, 16},
                  {NULL, "in_turn", 8, 8},
                  {"branches", "centre", 0, 0},
                  {NULL, "make_table", 0, 24}};
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if ((!unseen[i].program || !strcmp(unseen[i].program, p->name)) &&
            !strcmp(unseen[i].kernel, kernel) && param >= unseen[i].first && param <= unseen[i].last)
            return true;
    return false;
}

/* An operation's line: what is declared to be written may be written. */
static void check_writers(const program_t *p, const char *kernel, const char *line)
{
    /* Behind the arguments stand the table's pointers, of which it writes through the second. */
    const uint64_t behind = strcmp(kernel, "through_table") ? 0 : 1 << 3,
                   writers = declared_writers(kernel) | behind;
    unsigned param, mode;
    const char *at = value_of(line, "access") + 1;
    for (; (at = strchr(at, '[')); at++)
        if (sscanf(at, "[%*u,%*u,%u,%*u,%*u,%u", &param, &mode) == 2 && param < 8 * 64 &&
            writers >> param / 8 & 1 && mode == 1 && !is_unseen(p, kernel, param))
            fail_msg("%s: %s writes its argument at %u and was not seen to", p->name, kernel, param);
}

static void check_trace(const program_t *p)
{
    static char line[1 << 16];
    unsigned seen[OPERATIONS] = {0}, proven = 0, rotating = 0;
    FILE *f = fopen(trace_path, "r");
    if (!f)
        fail_msg("%s: no step was learned", p->name);
    while (fgets(line, sizeof line, f)) {
        if (strstr(line, "{\"buffer\""))
            rotating += *value_of(line, "born") != 'n' && *value_of(line, "next") != 'n';
        if (!strstr(line, "{\"op\""))
            continue;
        const char *name = value_of(line, "name") + 1;
        char kernel[64] = "";
        sscanf(name, "%63[^\"]", kernel);
        if (!p->unseen_writes)
            check_writers(p, kernel, line);
        proven += !strncmp(value_of(line, "verdict") + 1, "proven\"", 7);
        for (unsigned i = 0; i < OPERATIONS && p->operation[i].operation; i++) {
            const size_t length = strlen(p->operation[i].operation);
            if (strncmp(name, p->operation[i].operation, length) || name[length] != '"')
                continue;
            seen[i]++;
            check_verdict(p, &p->operation[i], line);
        }
    }
    fclose(f);
    assert_true(proven > 0);
    assert_int_equal(rotating, p->rotates);
    for (unsigned i = 0; i < OPERATIONS && p->operation[i].operation; i++)
        if (!seen[i])
            fail_msg("%s: no %s in the trace", p->name, p->operation[i].operation);
}

/* Whatever the step's times, and whoever asks. */
static void check_plans(void)
{
    const unsigned seed = getenv("TEST_FROM") ? (unsigned)atoi(getenv("TEST_FROM")) : 1;
    ebb_trace_t *t = trace_file_read(trace_path);
    srand(seed);
    print_message("seed %u: %u plans\n", seed, plan_any(t, test_cases(4, 60)));
    ebb_trace_delete(t);
}

/* With room for everything. */
static void learn(const program_t *p, const sizes_t *s, const program_run_t *without)
{
    char settings[128];
    snprintf(settings, sizeof settings, "EBB_TRACE=%s", trace_path);
    remove(trace_path);
    if (!run_under_ebb(p, 3 * (s->peak + s->small) + (64 << 20), settings, without) || p->stepless)
        return;
    assert_true(statistic("step_operations") > 0);
    if (!p->unlearned) {
        check_trace(p);
        check_plans();
    } else if (!access(trace_path, F_OK))
        fail_msg("%s: a step was learned", p->name);
}

/* ---- the tests ---- */

static const char *const means[] = {"", "EBB_OFFLOAD=0", "EBB_RECOMPUTE=0"};

/* Every budget; of nine programs in a row each by other means under another scheduler. */
static void try_all(const program_t *p, const sizes_t *s, const program_run_t *without)
{
    static const unsigned percents[] = {90, 70, 50, 40, 30};
    char settings[128];
    const unsigned index = (unsigned)(p - programs);
    for (unsigned i = 0; i < 5; i++) {
        const unsigned seed = (i + index / 3) % (SEEDS + 1); /* 0: by threads */
        snprintf(settings, sizeof settings,
                 seed ? "%s SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%u" : "%s", means[(i + index) % 3], seed);
        run_under_ebb(p, budget_of(s, percents[i]), settings, without);
    }
}

/* Recomputing where there is some room, whatever seems best where there is little, and neither plan nor replay. */
static void try_one(const program_t *p, const sizes_t *s, const program_run_t *without, unsigned which)
{
    static const struct {
        unsigned percent;
        const char *settings;
    } ways[WAYS] = {{70, "EBB_OFFLOAD=0"},
                    {40, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1 EBB_OFFLOAD=0"},
                    {30, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=2"}};
    run_under_ebb(p, budget_of(s, ways[which].percent), ways[which].settings, without);
    assert_true(which || (statistic("steps_driven") >= p->driven && (!p->rotates || statistic("steps_driven") > 6)));
    assert_true(!p->any_size || !statistic("mismatches"));
    if (p->spares) {
        run_under_ebb(p, budget_of(s, 40), "EBB_RECOMPUTE=0 EBB_LINK=100M", without); /* so slow that it pays */
        assert_true(statistic("spared_bytes") > 0);
    }
}

static void compare_all(const program_t *p, const sizes_t *s, const program_run_t *without)
{
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        char settings[128];
        snprintf(settings, sizeof settings,
                 "EBB_LINK=0 EBB_VERIFY=1 SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%u", seed);
        assert_true(run_under_ebb(p, budget_of(s, 70), settings, without));
        assert_true(statistic("dropped") > 0 && statistic("steps_driven") > 0);
        assert_true(statistic("mismatches") == 0);
    }
}

/* By threads for what must be driven; else by the place in the table. */
static unsigned way_of(const program_t *p)
{
    return p->rotates || p->driven ? 0 : (unsigned)(p - programs) % WAYS;
}

static void has_the_same_bits(void **state)
{
    static program_run_t without;
    const program_t *p = *state;
    const char *form = getenv("TEST_NASTY");
    form = form ? form : test_is_long() ? "full" : "one";
    sizes_t s;
    run("", p, &without);
    if (without.status ||
        sscanf(without.log, "size %lf %lf %lf %lf", &s.peak, &s.must, &s.small, &s.largest) != 4)
        fail_msg("%s without ebb: exit code %d: %s", p->name, WEXITSTATUS(without.status), without.log);
    learn(p, &s, &without);
    if (p->roomy)
        return;
    if (!strcmp(form, "full"))
        try_all(p, &s, &without);
    for (unsigned way = 0; way < WAYS; way++)
        if (!strcmp(form, "some") || (strcmp(form, "learn") && way == way_of(p)))
            try_one(p, &s, &without, way);
    if (p->compared)
        compare_all(p, &s, &without);
}

/* Out of memory, the program gives back its caches, and goes on. */
static void retries_when_memory_is_short(void **state)
{
    static program_run_t without;
    sizes_t s;
    run("", *state, &without);
    assert_int_equal(sscanf(without.log, "size %lf %lf %lf %lf", &s.peak, &s.must, &s.small, &s.largest), 4);
    run_under_ebb(*state, s.peak + 2 * s.small + (6 << 20), "EBB_POLICY=keep", &without);
}

static void every_program_has_its_row(void **state)
{
    char command[512], name[64];
    unsigned count = 0;
    (void)state;
    snprintf(command, sizeof command, "%s --list", getenv("TEST_NASTY_PROGRAM"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    for (; fscanf(f, "%63s", name) == 1; count++) {
        unsigned i = 0;
        while (i < PROGRAMS && strcmp(programs[i].name, name))
            i++;
        if (i == PROGRAMS)
            fail_msg("%s is not in the table", name);
    }
    assert_int_equal(pclose(f), 0);
    assert_int_equal(count, PROGRAMS);
}

static int clean_up(void **state)
{
    (void)state;
    remove(stats_path);
    remove(trace_path);
    return 0;
}

int main(void)
{
    static struct CMUnitTest tests[PROGRAMS + 2] = {cmocka_unit_test(every_program_has_its_row)};
    const char *group = getenv("TEST_NASTY_GROUP"), *only = getenv("TEST_NASTY_ONLY");
    size_t count = 1;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        const program_t *p = &programs[i];
        if ((group && strcmp(group, p->group)) || (only && strcmp(only, p->name)))
            continue;
        tests[count++] = (struct CMUnitTest){p->name, has_the_same_bits, NULL, NULL, (void *)(uintptr_t)p};
        if (!strcmp(p->name, "retry"))
            tests[count++] = (struct CMUnitTest){"retries_when_memory_is_short", retries_when_memory_is_short,
                                                 NULL, NULL, (void *)(uintptr_t)p};
    }
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-nasty-stats-%d", (int)getpid());
    snprintf(trace_path, sizeof trace_path, "/tmp/ebb-nasty-trace-%d", (int)getpid());
    return _cmocka_run_group_tests("nasty", tests, count, NULL, clean_up);
}
