/* One call after another fails, once: each of the driver's, and each allocation of host memory in libebb, between the profiling pass's end and
 * the end of the program. While a plan is installed none of them may be noticed: the same output, and the plan, or one after it, is
 * driven in the end. While it is driven, left, changed, or contents are rebuilt, the program may at most be told of an error.
 *
 * Of a row of calls with one name the first and the last are taken, and of those a few, spread over each phase. EBB_TEST_LONG=1: while
 * a plan is installed all of those, and every sixteenth of a row; more after that; and all scenes.
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

enum { POINTS = 1 << 18, NAMES = 128, NAME = 48, FEW = 2, MORE = 100, ROW = 16 };

typedef enum phase { BEFORE, INSTALLING, AFTER } phase_t;

typedef struct point {
    unsigned name, nth;
    phase_t phase;
} point_t;

typedef struct scene {
    const char *what, *settings, *arguments;
    unsigned driven; /* steps, at least, if nothing fails; 0: nothing is planned */
    enum { LONG_FORM, DRIVER, BOTH } what_fails; /* in the short form */
} scene_t;

/* With 50 steps after the first plan, at least. */
static const scene_t scenes[] = {
    {"copies", "SOFTGPU_MEMORY=26MiB EBB_RECOMPUTE=0", "mib=1 layers=6 steps=64", 50, LONG_FORM},
    {"drops", "SOFTGPU_MEMORY=34MiB EBB_OFFLOAD=0", "mib=2 layers=6 steps=64", 50, LONG_FORM},
    {"small buffers", "SOFTGPU_MEMORY=26MiB", "mib=1 layers=6 steps=64 look=1", 50, BOTH},
    {"other places in every step", "SOFTGPU_MEMORY=30MiB", "mib=1 layers=5 steps=64 keep=1 swap=1", 50,
     LONG_FORM},
    {"two plans", "SOFTGPU_MEMORY=26MiB", "mib=1 layers=6 steps=72 short=3", 50, LONG_FORM},
    {"leaving", "SOFTGPU_MEMORY=34MiB EBB_OFFLOAD=0", "mib=2 layers=6 steps=72 each=10", 20, DRIVER},
    {"rebuilding", "SOFTGPU_MEMORY=30MiB EBB_OFFLOAD=0 EBB_POLICY=learn", "mib=2 layers=6 steps=64", 0,
     DRIVER},
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
        if (!strncmp(line, "ebb: making a plan", 18))
            phase = INSTALLING;
        if (!strncmp(line, "ebb: plan: ", 11) || !strncmp(line, "ebb: there is no plan", 21) ||
            (reactive && !strncmp(line, "ebb: learned in", 15)))
            phase = AFTER;
        const char *name = line + strspn(line, "0123456789");
        const size_t length = *name == ' ' ? strcspn(++name, "(") : 0;
        if (name == line || !length || name[length] != '(')
            continue;
        const unsigned n = name_of(name, length);
        nth[n]++;
        if (phase != BEFORE && point_count < POINTS)
            points[point_count++] = (point_t){n, nth[n], phase};
    }
    fclose(f);
}

/* How many of a phase are tried. */
static unsigned most_of(phase_t phase)
{
    return !test_is_long() ? FEW : phase == INSTALLING ? POINTS : MORE;
}

/* The ends of rows. (Of host memory there is one name only, and no row.) */
static void keep_ends(void)
{
    unsigned kept = 0, row = 0;
    for (unsigned i = 0; i < point_count; i++) {
        const bool first = !i || points[i - 1].name != points[i].name;
        const bool last = i + 1 == point_count || points[i + 1].name != points[i].name;
        row = first ? 0 : row + 1;
        if (first || last || name_count == 1 || (test_is_long() && row % ROW == 0))
            points[kept++] = points[i];
    }
    point_count = kept;
}

/* So many of each phase at most, spread over it. */
static void thin_out(void)
{
    unsigned kept = 0, total[AFTER + 1] = {0}, seen[AFTER + 1] = {0};
    keep_ends();
    for (unsigned i = 0; i < point_count; i++)
        total[points[i].phase]++;
    for (unsigned i = 0; i < point_count; i++) {
        const phase_t p = points[i].phase;
        const uint64_t n = seen[p]++, most = most_of(p) < total[p] ? most_of(p) : total[p];
        if (n * most / total[p] != (n + 1) * most / total[p])
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

/* The program, or its runtime, makes it. */
static bool is_programs(const point_t *p)
{
    return !strcmp(names[p->name], "cuLaunchKernel") || !strcmp(names[p->name], "cuCtxGetCurrent");
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

/* NULL, or what is wrong. */
static const char *judge(const scene_t *s, const program_run_t *without, const program_run_t *with,
                         const point_t *p)
{
    if (strstr(with->log, "condition of ebb") || strstr(with->log, "please report this"))
        return "a condition of ebb's own";
    if (with->status)
        return was_told(with) && (p->phase == AFTER || is_programs(p)) ? NULL : "it has failed";
    if (strcmp(without->output, with->output))
        return "OTHER OUTPUT";
    if (!s->driven || loop_statistic("steps_driven") > 0)
        return NULL;
    /* Without memory for it a step is not learned, or there is no plan, which is said. */
    return strstr(with->log, "ebb stays reactive: ") ? NULL : "it was never driven";
}

static void let_each_fail(const scene_t *s, bool host)
{
    char preload[256], settings[512], arguments[256], path[80];
    loop_statistics_t statistics;
    unsigned told = 0, failures = 0;
    snprintf(path, sizeof path, "%s.trace", loop_stats);
    snprintf(preload, sizeof preload, "%s LD_PRELOAD=%s:%s", s->settings, getenv("TEST_FAILING_MALLOC"),
             getenv("TEST_LIBEBB"));
    snprintf(settings, sizeof settings, "%s %s", preload,
             host ? "EBB_LOG=debug FAILING_MALLOC=0" : "EBB_LOG=debug SOFTGPU_TRACE=-");
    snprintf(arguments, sizeof arguments, "%s 2>%s; true", s->arguments, path);
    const program_run_t without = loop_run("", s->arguments);
    loop_under_ebb(settings, arguments, &statistics);
    assert_true(s->driven ? statistics.driven >= s->driven : statistics.replays > 0);
    list_points(path, !s->driven);
    remove(path);
    const unsigned all = point_count;
    thin_out();
    for (unsigned i = 0; i < point_count; i++) {
        const char *fault = faults_of(&points[i], host);
        snprintf(settings, sizeof settings, "%s %s", preload, fault);
        const program_run_t with = loop_under_ebb(settings, s->arguments, &statistics);
        const char *wrong = judge(s, &without, &with, &points[i]);
        told += with.status != 0;
        if (with.status && !wrong)
            print_message("%s, %s: told: %s", s->what, fault, strstr(with.log, "\nloop: ") + 1);
        if (wrong) {
            failures++;
            print_message("%s, %s, %s: %s, exit code %d\n%.1500s\n", s->what, fault,
                          points[i].phase == INSTALLING ? "installing" : "after", wrong,
                          WEXITSTATUS(with.status), with.log);
        }
    }
    print_message("%s, %s: %u calls of %u failed, one by one: %u programs were told\n", s->what,
                  host ? "host memory" : "driver", point_count, all, told);
    assert_true(point_count >= FEW);
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
    struct CMUnitTest tests[2 * SCENES];
    size_t count = 0;
    const char *only = getenv("TEST_SCENE");
    for (unsigned i = 0; i < SCENES; i++) {
        const bool all = only || test_is_long();
        if (all || scenes[i].what_fails != LONG_FORM)
            tests[count++] = (struct CMUnitTest){scenes[i].what, a_call_of_the_driver_fails, NULL, NULL,
                                                 (void *)&scenes[i]};
        if (all || scenes[i].what_fails == BOTH)
            tests[count++] = (struct CMUnitTest){scenes[i].what, an_allocation_of_host_memory_fails, NULL,
                                                 NULL, (void *)&scenes[i]};
    }
    if (only)
        cmocka_set_test_filter(only);
    return _cmocka_run_group_tests("transaction", tests, count, loop_run_setup, loop_run_teardown);
}
