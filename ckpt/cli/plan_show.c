/* plan_show.c: `ebb plan TRACE` makes a plan for a recorded step, proves it and tells what it comes to; `ebb
 * check TRACE PLAN` proves a given one. */
#include "plan_show.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "checker.h"
#include "options.h"
#include "planner.h"

typedef struct arguments {
    const char *word[2], *output;
    int words;
    int64_t budget, host, min_buffer,
        link; /* budget: negative, percent of what keeping everything takes; link: bytes/s */
    int64_t offload, recompute;
} arguments_t;

static int fail(const char *what, const char *detail)
{
    fprintf(stderr, "ebb: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    return 2;
}

/* Flags and words in any order. 0, or an exit code. */
static int parse(int argc, char **argv, arguments_t *a)
{
    const struct {
        const char *flag;
        int64_t *value;
    } flags[] = {{"--budget", &a->budget},
                 {"-b", &a->budget},
                 {"--host", &a->host},
                 {"--link", &a->link},
                 {"--min-buffer", &a->min_buffer},
                 {"--offload", &a->offload},
                 {"--recompute", &a->recompute}};
    enum { FLAGS = sizeof flags / sizeof flags[0] };
    for (int i = 0; i < argc; i++) {
        int k = 0;
        if (argv[i][0] != '-') {
            if (a->words == 2)
                return fail("one word too many", argv[i]);
            a->word[a->words++] = argv[i];
            continue;
        }
        if (i + 1 == argc)
            return fail("a value is missing after", argv[i]);
        if (!strcmp(argv[i], "-o")) {
            a->output = argv[++i];
            continue;
        }
        while (k < FLAGS && strcmp(flags[k].flag, argv[i]))
            k++;
        if (k == FLAGS)
            return fail("unknown option", argv[i]);
        if (!ebb_parse_bytes(argv[++i], flags[k].value) ||
            (*flags[k].value < 0 && flags[k].value != &a->budget))
            return fail("not a number or size", argv[i]);
    }
    return 0;
}

static ebb_trace_t *read_trace(const char *path)
{
    char error[256];
    FILE *f = fopen(path, "r");
    ebb_trace_t *t = f ? ebb_trace_read(f, error, sizeof error) : NULL;
    if (!t)
        fail(path, f ? error : strerror(errno));
    if (f)
        fclose(f);
    return t;
}

static ebb_plan_t *read_plan(const char *path)
{
    char error[256];
    FILE *f = fopen(path, "r");
    ebb_plan_t *p = f ? ebb_plan_read(f, error, sizeof error) : NULL;
    if (!p)
        fail(path, f ? error : strerror(errno));
    if (f)
        fclose(f);
    return p;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void show(const ebb_plan_t *p, const ebb_trace_t *t)
{
    ebb_plan_sum_t s = ebb_plan_sum(p, t);
    uint64_t ns = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        ns += t->operation[i].duration_ns;
    printf("kept       %6" PRIu32 " buffers %11.1f MiB\n", s.kept_buffers, mib(s.kept_bytes));
    printf("offloaded  %6" PRIu32 " buffers %11.1f MiB   %.1f MiB out, %.1f MiB in a step\n",
           s.offloaded_buffers, mib(s.offloaded_bytes), mib(s.bytes_out), mib(s.bytes_in));
    printf("dropped    %6" PRIu32 " buffers %11.1f MiB   %" PRIu32 " replays of %.3f ms a step\n",
           s.dropped_buffers, mib(s.dropped_bytes), s.replays, (double)s.replay_ns * 1e-6);
    printf("peak       %.1f MiB, %.1f MiB of it for small buffers\n", mib(s.peak_bytes), mib(p->small_bytes));
    printf("time       %.3f ms predicted, %.3f ms of operations (%+.1f%%)\n", (double)p->predicted_ns * 1e-6,
           (double)ns * 1e-6, ns ? 100.0 * ((double)p->predicted_ns / (double)ns - 1) : 0.0);
}

/* Proves it; 0 or 1. */
static int prove(const ebb_trace_t *t, const ebb_plan_t *p, uint64_t device_bytes, uint64_t host_bytes)
{
    char why[400];
    ebb_check_limits_t limits = {device_bytes, host_bytes};
    bool good = ebb_check_plan(t, p, &limits, why, sizeof why);
    printf("checked    %s\n", good ? "good" : why);
    return !good;
}

static int write_plan(const ebb_plan_t *p, const char *path)
{
    FILE *f = fopen(path, "w");
    bool good = f && ebb_plan_write(p, f);
    if (f)
        good = !fclose(f) && good;
    return good ? 0 : fail(path, strerror(errno));
}

/* Percent are of what the step takes when everything is kept. */
static bool resolve_budget(const arguments_t *a, const ebb_trace_t *t, ebb_plan_request_t *r)
{
    char why[400];
    if (a->budget >= 0) {
        r->device_bytes = (uint64_t)a->budget;
        return true;
    }
    ebb_plan_request_t all = *r;
    all.device_bytes = (uint64_t)1 << 62;
    ebb_plan_t *p = ebb_plan_make(t, &all, why, sizeof why);
    if (!p) {
        fail("no plan", why);
        return false;
    }
    r->device_bytes = (uint64_t)((double)ebb_plan_sum(p, t).peak_bytes * (double)-a->budget / 100);
    ebb_plan_delete(p);
    return true;
}

static int make_plan(const arguments_t *a, const ebb_trace_t *t)
{
    char why[400];
    ebb_plan_request_t r = {.host_bytes = (uint64_t)a->host,
                            .min_buffer = (uint64_t)a->min_buffer,
                            .offload = a->offload,
                            .recompute = a->recompute,
                            .out_bytes_per_ns = (double)a->link * 1e-9,
                            .in_bytes_per_ns = (double)a->link * 1e-9};
    if (!resolve_budget(a, t, &r))
        return 1;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p) {
        fail("no plan", why);
        return 1;
    }
    show(p, t);
    int result = prove(t, p, r.device_bytes, r.host_bytes);
    if (!result && a->output)
        result = write_plan(p, a->output);
    ebb_plan_delete(p);
    return result;
}

int ebb_plan_command(int argc, char **argv)
{
    arguments_t a = {
        .host = INT64_MAX / 4, .min_buffer = 1 << 20, .link = 25000000000, .offload = 1, .recompute = 1};
    int result = parse(argc, argv, &a);
    if (result)
        return result;
    if (a.words != 1 || !a.budget || !a.link)
        return fail("ebb plan TRACE --budget B", NULL);
    ebb_trace_t *t = read_trace(a.word[0]);
    result = t ? make_plan(&a, t) : 2;
    ebb_trace_delete(t);
    return result;
}

int ebb_check_command(int argc, char **argv)
{
    arguments_t a = {.host = INT64_MAX / 4};
    int result = parse(argc, argv, &a);
    if (result)
        return result;
    if (a.words != 2 || a.budget <= 0)
        return fail("ebb check TRACE PLAN --budget BYTES", NULL);
    ebb_trace_t *t = read_trace(a.word[0]);
    ebb_plan_t *p = t ? read_plan(a.word[1]) : NULL;
    result = 2;
    if (p && (p->operation_count != t->operation_count || p->buffer_count != t->buffer_count)) {
        fail(a.word[1], "is a plan for another trace");
    } else if (p) {
        show(p, t);
        result = prove(t, p, (uint64_t)a.budget, (uint64_t)a.host);
    }
    ebb_plan_delete(p);
    ebb_trace_delete(t);
    return result;
}
