/* plan_show.c: `ebb plan TRACE` makes a plan for a recorded step, proves it and tells what it comes to; `ebb
 * check TRACE PLAN` proves a given one. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "checker.h"
#include "cli.h"
#include "options.h"
#include "planner.h"

typedef struct arguments {
    const char *word[2], *output, *policy;
    unsigned words, wanted;
    int64_t budget, host, min_buffer,
        link; /* budget: negative, percent of what keeping everything takes; link: bytes/s */
    int64_t offload, recompute;
} arguments_t;

enum { HOST = 1000, LINK, MIN_BUFFER, OFFLOAD, RECOMPUTE };

static void take_size(struct argp_state *state, const char *word, bool percent, int64_t *out)
{
    if (!ebb_parse_bytes(word, out) || (*out < 0 && !percent))
        argp_error(state, "not a number or size: %s", word);
}

/* The policies that there are, in a complaint. */
static void check_policy(struct argp_state *state, const char *word)
{
    const char *argument;
    char list[512] = "";
    if (ebb_planner_find(word, &argument))
        return;
    for (unsigned i = 0; ebb_planner(i); i++) {
        const ebb_planner_t *p = ebb_planner(i);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used,
                 p->argument_needed ? "%s%s:%s"
                 : p->argument      ? "%s%s[:%s]"
                                    : "%s%s",
                 i ? ", " : "", p->name, p->argument ? p->argument : "");
    }
    argp_error(state, "no such policy: %s (there are %s)", word, list);
}

static error_t parse(int key, char *word, struct argp_state *state)
{
    arguments_t *a = state->input;
    switch (key) {
    case 'b':
        take_size(state, word, a->wanted == 1, &a->budget);
        return 0;
    case HOST:
        take_size(state, word, false, &a->host);
        return 0;
    case LINK:
        take_size(state, word, false, &a->link);
        return 0;
    case MIN_BUFFER:
        take_size(state, word, false, &a->min_buffer);
        return 0;
    case OFFLOAD:
        take_size(state, word, false, &a->offload);
        return 0;
    case RECOMPUTE:
        take_size(state, word, false, &a->recompute);
        return 0;
    case 'o':
        a->output = word;
        return 0;
    case 'p':
        a->policy = word;
        check_policy(state, word);
        return 0;
    case ARGP_KEY_ARG:
        if (a->words == a->wanted)
            argp_error(state, "one word too many: %s", word);
        a->word[a->words++] = word;
        return 0;
    case ARGP_KEY_END:
        if (a->words < a->wanted || !a->budget || !a->link)
            argp_error(state, a->words < a->wanted ? "a file is missing" : "--budget is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
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
    return good ? 0 : ebb_cli_fail(path, strerror(errno));
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
    all.policy = "keep";
    all.device_bytes = (uint64_t)1 << 62;
    ebb_plan_t *p = ebb_plan_make(t, &all, why, sizeof why);
    if (!p) {
        ebb_cli_fail("no plan", why);
        return false;
    }
    r->device_bytes = (uint64_t)((double)ebb_plan_sum(p, t).peak_bytes * (double)-a->budget / 100);
    ebb_plan_delete(p);
    return true;
}

static int make_plan(const arguments_t *a, const ebb_trace_t *t)
{
    char why[400];
    ebb_plan_request_t r = {
        .policy = a->policy,
        .host_bytes = (uint64_t)a->host,
        .min_buffer = (uint64_t)a->min_buffer,
        .offload = a->offload,
        .recompute = a->recompute,
        .hardware = {.out_bytes_per_ns = (double)a->link * 1e-9, .in_bytes_per_ns = (double)a->link * 1e-9}};
    if (!resolve_budget(a, t, &r))
        return 1;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p) {
        ebb_cli_fail("no plan", why);
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
    static const struct argp_option flags[] = {
        {"budget", 'b', "BYTES", 0, "Device bytes, or percent of what keeping everything takes", 0},
        {"offload", OFFLOAD, "0|1", 0, "May buffers be copied to the host (1)", 0},
        {"recompute", RECOMPUTE, "0|1", 0, "May they be dropped and recomputed (1)", 0},
        {"link", LINK, "RATE", 0, "Bytes a second each way (25000000000)", 0},
        {"host", HOST, "BYTES", 0, "Pinned host memory (no limit)", 0},
        {"min-buffer", MIN_BUFFER, "BYTES", 0, "Keep what is smaller (1MiB)", 0},
        {"policy", 'p', "POLICY", 0,
         "Who plans (auto): keep, offload, sqrt, uniform:N, selective[:names], recursive, revolve:N", 0},
        {"output", 'o', "FILE", 0, "Write the plan", 0},
        {0}};
    static const struct argp parser = {
        flags, parse, "TRACE", "Plan a recorded step for a budget, prove the plan and tell what it costs.",
        NULL,  NULL,  NULL};
    arguments_t a = {.wanted = 1,
                     .host = INT64_MAX / 4,
                     .min_buffer = 1 << 20,
                     .link = 25000000000,
                     .offload = 1,
                     .recompute = 1};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    ebb_trace_t *t = ebb_cli_read_trace(a.word[0]);
    int result = t ? make_plan(&a, t) : 2;
    ebb_trace_delete(t);
    return result;
}

int ebb_check_command(int argc, char **argv)
{
    static const struct argp_option flags[] = {{"budget", 'b', "BYTES", 0, "Device bytes", 0},
                                               {"host", HOST, "BYTES", 0, "Pinned host memory (no limit)", 0},
                                               {0}};
    static const struct argp parser = {
        flags, parse, "TRACE PLAN", "Prove a plan for a recorded step and a budget.", NULL, NULL, NULL};
    arguments_t a = {.wanted = 2, .host = INT64_MAX / 4, .link = 1};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    ebb_trace_t *t = ebb_cli_read_trace(a.word[0]);
    ebb_plan_t *p = t ? ebb_cli_read_plan(a.word[1]) : NULL;
    int result = 2;
    if (p && (p->operation_count != t->operation_count || p->buffer_count != t->buffer_count)) {
        ebb_cli_fail(a.word[1], "is a plan for another trace");
    } else if (p) {
        show(p, t);
        result = prove(t, p, (uint64_t)a.budget, (uint64_t)a.host);
    }
    ebb_plan_delete(p);
    ebb_trace_delete(t);
    return result;
}
