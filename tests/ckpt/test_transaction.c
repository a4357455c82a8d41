/* One call after another fails, once: each of the driver's, and each allocation of host memory in libebb, between the profiling pass's end and
 * the end of the program. While a plan is made or installed, for the first time or again, none of them may be noticed: the same
 * output, and the plan, or one after it, is driven in the end. While it is driven, left, changed, or contents are rebuilt, the
 * program may at most be told of an error.
 *
 * Of scenes in which replays make several contents at once, the first replays of a driven step are what fails. Of others:
 * of a row of calls with one name the first and the last are taken, and of those a few, spread over each phase, in some scenes. TEST_SCENE=N: one
 * scene, more of them. TEST_EVERY_CALL=N: with it each of the first N calls of a phase, but of planning, which holds nothing. That is for a build with small
 * chunks, in which a run takes a tenth of the time (tests/run.sh --small-chunks): 800 are all while one plan is installed, left or changed, and of
 * driving a step at least. The test says how many there are.
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

#include "loop_run.h"

#ifndef EBB_CHUNK_KIB
#define EBB_CHUNK_KIB 2048
#endif

enum { POINTS = 1 << 18, NAMES = 128, NAME = 48, FEW = 2, MORE = 6, REST = 30 };

typedef enum phase { BEFORE, PLANNING, INSTALLING, CHANGING, LEAVING, DRIVING, PHASES } phase_t;
static const char *const phase_names[] = {"before",   "planning", "installing",
                                          "changing", "leaving",  "driving"};

typedef struct point {
    unsigned name, nth;
    phase_t phase;
} point_t;

typedef struct scene {
    const char *what;
    unsigned half_chunks; /* of the device's memory */
    const char *settings, *arguments;
    unsigned driven; /* steps, at least, if nothing fails; 0: nothing is planned */
    enum { LONG_FORM, DRIVER, BOTH, REPLAYS } what_fails; /* in the short form */
} scene_t;

/* With 50 steps after the first plan, at least. */
static const scene_t scenes[] = {
    {"copies", 26, "EBB_RECOMPUTE=0", "mib=1 layers=6 steps=64", 50, LONG_FORM},
    {"drops", 34, "EBB_OFFLOAD=0", "mib=2 layers=6 steps=64", 50, LONG_FORM},
    {"small buffers", 26, "", "mib=1 layers=6 steps=64 look=1", 50, BOTH},
    {"other places in every step", 30, "", "mib=1 layers=5 steps=64 keep=1 swap=1", 50, LONG_FORM},
    {"two plans", 26, "", "mib=1 layers=6 steps=72 short=3", 50, LONG_FORM},
    {"late copies", 26, "EBB_RECOMPUTE=0 SOFTGPU_PROFILE=H100 EBB_LINK=100GB", "mib=1 layers=6 steps=72", 50,
     LONG_FORM},
    {"two contents from one launch", 36, "EBB_OFFLOAD=0", "mib=2 layers=5 steps=64 couple=1", 50, REPLAYS},
    {"padding", 26, "", "mib=1 layers=6 steps=64 pad=1", 50, DRIVER},
    {"leaving", 34, "EBB_OFFLOAD=0", "mib=2 layers=6 steps=72 each=10", 20, DRIVER},
    {"rebuilding", 30, "EBB_OFFLOAD=0 EBB_POLICY=learn", "mib=2 layers=6 steps=64", 0, DRIVER},
};

/* ---- which calls there are ---- */

static char names[NAMES][NAME];
static unsigned name_count;
static point_t points[POINTS];
static unsigned point_count;

static unsigned name_of(const char *text, size_t length)
{
    unsigned i = 0;
    while (i < name_count && (strlen(names[i]) != length || memcmp(names[i], text, length) != 0))
        i++;
    assert_true(i < NAMES && length < NAME);
    if (i == name_count)
        snprintf(names[name_count++], NAME, "%.*s", (int)length, text);
    return i;
}

/* What ebb's log says when a phase begins. */
static const struct {
    const char *line;
    phase_t phase;
} beginnings[] = {
    {"ebb: making a plan", PLANNING},        {"ebb: installing the plan", INSTALLING},
    {"ebb: the plan is installed", DRIVING}, {"ebb: the plan could not be installed", DRIVING},
    {"ebb: there is no plan", DRIVING},      {"ebb: a plan is being made", DRIVING},
    {"ebb: changing to the plan", CHANGING}, {"ebb: leaving the plan", LEAVING},
};

static phase_t phase_behind(const char *line, phase_t phase, bool reactive)
{
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(line, beginnings[i].line, strlen(beginnings[i].line)))
            return beginnings[i].phase;
    return reactive && !strncmp(line, "ebb: learned in", 15) ? DRIVING : phase;
}

/* The program, or its runtime, makes it. */
static bool is_programs(const char *name)
{
    return !strcmp(name, "cuLaunchKernel") || !strcmp(name, "cuCtxGetCurrent");
}

/* Lines of the device's trace ("thread name(arguments) = result") among those of ebb's log. */
static void list_points(const char *path, bool reactive)
{
    static char line[4096];
    unsigned nth[NAMES] = {0};
    phase_t phase = BEFORE;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    point_count = name_count = 0;
    while (fgets(line, sizeof line, f)) {
        phase = phase_behind(line, phase, reactive);
        const char *name = line + strspn(line, "0123456789");
        const size_t length = *name == ' ' ? strcspn(++name, "(") : 0;
        if (name == line || !length || name[length] != '(')
            continue;
        const unsigned n = name_of(name, length);
        nth[n]++;
        if (is_programs(names[n]) && phase != BEFORE && phase != INSTALLING)
            phase = DRIVING; /* the program goes on */
        if (phase != BEFORE && point_count < POINTS)
            points[point_count++] = (point_t){n, nth[n], phase};
    }
    fclose(f);
}

/* The first launches of ebb's own while a plan is driven. */
static void keep_replays(void)
{
    enum { REPLAYS_TRIED = 10 };
    unsigned kept = 0;
    for (unsigned i = 0; i < point_count && kept < REPLAYS_TRIED; i++)
        if (points[i].phase == DRIVING && !strcmp(names[points[i].name], "cuLaunchKernelEx"))
            points[kept++] = points[i];
    point_count = kept;
}

/* How many of a phase are tried without leaving any out. */
static unsigned beginning(void)
{
    const char *text = getenv("TEST_EVERY_CALL");
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* The ends of rows. (Of host memory there is one name only, and no row.) */
static void keep_ends(void)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < point_count; i++) {
        const bool first = !i || points[i - 1].name != points[i].name;
        const bool last = i + 1 == point_count || points[i + 1].name != points[i].name;
        if (first || last || name_count == 1)
            points[kept++] = points[i];
    }
    point_count = kept;
}

/* So many of each phase at most, spread over it, behind its beginning. */
static void thin_out(void)
{
    unsigned kept = 0, total[PHASES] = {0}, seen[PHASES] = {0};
    const unsigned first = beginning();
    if (!first)
        keep_ends();
    for (unsigned i = 0; i < point_count; i++)
        total[points[i].phase]++;
    for (unsigned i = 0; i < point_count; i++) {
        const phase_t p = points[i].phase;
        const unsigned few = first                  ? REST
                             : getenv("TEST_SCENE") ? MORE
                                                    : FEW,
                       all = p == PLANNING ? 0 : first;
        const uint64_t n = seen[p]++ - all, rest = total[p] - all, most = few < rest ? few : rest;
        if (seen[p] <= all || n * most / rest != (n + 1) * most / rest)
            points[kept++] = points[i];
    }
    point_count = kept;
}

/* ---- one of them fails ---- */

/* It has ended because a call of its own failed, and says so. */
static bool was_told(const program_run_t *run)
{
    return WIFEXITED(run->status) && WEXITSTATUS(run->status) == 3 && strstr(run->log, "\nloop: ");
}

static const char *faults_of(const point_t *p, bool host)
{
    static char text[80];
    if (host)
        snprintf(text, sizeof text, "FAILING_MALLOC=%u", p->nth);
    else
        snprintf(text, sizeof text, "SOFTGPU_FAULT=%s@%u", names[p->name], p->nth);
    return text;
}

static const char *last(const char *log, const char *words)
{
    const char *found = NULL;
    for (const char *at = log; (at = strstr(at, words)); at++)
        found = at;
    return found;
}

/* None was begun, or the last one has been left. */
static bool is_without_plan(const char *log)
{
    const char *made = last(log, "ebb: making a plan"), *left = last(log, "ebb: leaving the plan"),
               *installed = made ? last(made, "ebb: installing the plan") : NULL,
               *begun = installed ? installed : made;
    return !begun || (left && left > begun);
}

/* NULL, or what is wrong. Not every run makes the same calls while it learns: the call may have come before a plan was begun, or when it had
 * been left. */
static const char *judge(const scene_t *s, const program_run_t *without, const program_run_t *with,
                         const point_t *p)
{
    if (with->status)
        return was_told(with) &&
                       (p->phase > INSTALLING || is_programs(names[p->name]) || is_without_plan(with->log))
                   ? NULL
                   : "it has failed";
    if (strcmp(without->output, with->output))
        return "OTHER OUTPUT";
    if (!s->driven || loop_statistic("steps_driven") > 0)
        return NULL;
    /* Without memory for it a step is not learned, or there is no plan, which is said. */
    return strstr(with->log, "ebb stays reactive: ") ? NULL : "it was never driven";
}

static const char *const kinds[] = {"driver", "host memory"};

static void let_each_fail(const scene_t *s, bool host)
{
    char preload[384], settings[512], arguments[256], path[80];
    loop_statistics_t statistics;
    unsigned told = 0, failures = 0, failed[PHASES] = {0}, total[PHASES] = {0};
    snprintf(path, sizeof path, "%s.trace", loop_stats);
    snprintf(preload, sizeof preload,
             "SOFTGPU_LOG=2 SOFTGPU_MEMORY=%uKiB EBB_MIN_BUFFER=%uKiB %s LD_PRELOAD=%s:%s",
             s->half_chunks * (EBB_CHUNK_KIB / 2), EBB_CHUNK_KIB / 2, s->settings,
             getenv("TEST_FAILING_MALLOC"), getenv("TEST_LIBEBB"));
    snprintf(settings, sizeof settings, "%s %s", preload,
             host ? "EBB_LOG=debug FAILING_MALLOC=0" : "EBB_LOG=debug SOFTGPU_TRACE=-");
    snprintf(arguments, sizeof arguments, "%s 2>%s; true", s->arguments, path);
    const program_run_t without = loop_run("", s->arguments);
    loop_under_ebb(settings, arguments, &statistics);
    assert_true(s->driven ? statistics.driven >= s->driven : statistics.replays > 0);
    list_points(path, !s->driven);
    remove(path);
    for (unsigned i = 0; i < point_count; i++)
        total[points[i].phase]++;
    if (!getenv("TEST_SCENE") && s->what_fails == REPLAYS)
        keep_replays();
    else
        thin_out();
    for (unsigned i = 0; i < point_count; i++) {
        const char *fault = faults_of(&points[i], host);
        snprintf(settings, sizeof settings, "%s %s", preload, fault);
        const program_run_t with = loop_under_ebb(settings, s->arguments, &statistics);
        const char *wrong = judge(s, &without, &with, &points[i]);
        told += with.status != 0;
        failed[points[i].phase] +=
            strstr(with.log, host ? " fails as FAILING_MALLOC" : " fails as SOFTGPU_FAULT") != NULL;
        if (with.status && !wrong)
            print_message("%s, %s: told: %s", s->what, fault, strstr(with.log, "\nloop: ") + 1);
        if (wrong) {
            failures++;
            print_message("%s, %s, %s: %s, exit code %d\n%.1500s\n", s->what, fault,
                          phase_names[points[i].phase], wrong, WEXITSTATUS(with.status), with.log);
        }
    }
    print_message("%s, %s: %u programs were told of calls that failed, one by one:", s->what, kinds[host],
                  told);
    unsigned all = 0;
    for (int i = PLANNING; i < PHASES; i++) {
        all += failed[i];
        print_message(" %s %u of %u;", phase_names[i], failed[i], total[i]);
    }
    print_message("\n");
    assert_true(point_count >= FEW && 2 * all >= point_count); /* not every run makes the same calls */
    assert_true(failures == 0);
}

static void a_call_of_the_driver_fails(void **state)
{
    let_each_fail(*state, false);
}

static void an_allocation_of_host_memory_fails(void **state)
{
    let_each_fail(*state, true);
}

int main(void)
{
    enum { SCENES = sizeof scenes / sizeof scenes[0] };
    static char text[SCENES][2][64];
    struct CMUnitTest tests[2 * SCENES];
    size_t count = 0;
    const char *only = getenv("TEST_SCENE");
    for (unsigned i = 0; i < SCENES; i++)
        for (unsigned host = 0; host < 2; host++) {
            if (only   ? i != (unsigned)atoi(only)
                : host ? scenes[i].what_fails != BOTH
                       : scenes[i].what_fails == LONG_FORM)
                continue;
            snprintf(text[i][host], sizeof text[i][host], "%s, %s", scenes[i].what, kinds[host]);
            tests[count++] = (struct CMUnitTest){
                text[i][host], host ? an_allocation_of_host_memory_fails : a_call_of_the_driver_fails, NULL,
                NULL, (void *)&scenes[i]};
        }
    return _cmocka_run_group_tests("transaction", tests, count, loop_run_setup, loop_run_teardown);
}
