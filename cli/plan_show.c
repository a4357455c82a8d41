/* plan_show.c: `ebb plan TRACE` makes a plan for a recorded step, proves it and tells what it comes to; `ebb
 * check TRACE PLAN` proves a given one. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "alloc/base/options.h"
#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "cli/cli.h"
#include "cli/gpus.h"
#include "cli/plan_curve.h"

typedef struct arguments {
    const char *word[2], *output, *policy, *svg;
    const ebb_gpu_t *gpu, *from;
    bool curve;
    unsigned words, wanted;
    int64_t budget, host, min_buffer,
        link; /* budget: negative, percent of what keeping everything takes; link: bytes/s */
    int64_t offload, recompute;
} arguments_t;

enum { HOST = 1000, LINK, MIN_BUFFER, OFFLOAD, RECOMPUTE, CURVE, GPU, FROM };

static void take_size(struct argp_state *state, const char *word, bool percent, int64_t *out)
{
    if (!ebb_parse_bytes(word, out) || (*out < 0 && !percent))
        argp_error(state, "not a number or size: %s", word);
}

static void check_policy(struct argp_state *state, const char *word)
{
    ebb_policy_t policy;
    if (!ebb_planner_find(&policy, word))
        argp_error(state, "no such policy: %s (there are %s)", word, &EBB_PLANNER_POLICIES[2]);
}

static error_t parse(int key, char *word, struct argp_state *state)
{
    arguments_t *a = state->input;
    switch (key) {
    case 'b':
        take_size(state, word, a->wanted == 1, &a->budget);
        return 0;
    case CURVE:
        a->curve = true;
        a->svg = word;
        return 0;
    case GPU:
    case FROM:
        *(key == GPU ? &a->gpu : &a->from) = ebb_gpu_find(word);
        if (!ebb_gpu_find(word))
            argp_error(state, "no such GPU: %s (there are %s)", word, ebb_gpu_names());
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
        if (a->words < a->wanted || (!a->budget && !a->curve))
            argp_error(state, a->words < a->wanted ? "a file is missing" : "--budget is missing");
        if (a->from && !a->gpu)
            argp_error(state, "--recorded-on without --gpu");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Where the time goes, by the simulator. */
static void show_time(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *hardware)
{
    ebb_simulation_t s;
    if (!ebb_simulate(&s, p, t, hardware, false))
        return;
    const double ns = s.alone_ns, copies = s.track_ns[EBB_TRACK_OUT] + s.track_ns[EBB_TRACK_IN];
    printf("time       %.3f ms predicted, %.3f ms of operations (%+.1f%%): %.3f ms replays, %.3f ms waiting "
           "for memory, %.3f "
           "for data\n",
           s.step_ns * 1e-6, ns * 1e-6, percent(s.step_ns - ns, ns), s.track_ns[EBB_TRACK_REPLAY] * 1e-6,
           s.track_ns[EBB_TRACK_WAIT_OUT] * 1e-6, s.track_ns[EBB_TRACK_WAIT_IN] * 1e-6);
    if (copies > 0)
        printf("copies     %.3f ms out, %.3f ms in, %.1f%% hidden\n", s.track_ns[EBB_TRACK_OUT] * 1e-6,
               s.track_ns[EBB_TRACK_IN] * 1e-6, percent(s.hidden_ns, copies));
}

static void show(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *hardware)
{
    ebb_plan_sum_t s = ebb_plan_sum(p, t);
    printf("kept       %6" PRIu32 " buffers %11.1f MiB\n", s.kept_buffers, mib(s.kept_bytes));
    printf("offloaded  %6" PRIu32 " buffers %11.1f MiB   %.1f MiB out, %.1f MiB in a step\n",
           s.offloaded_buffers, mib(s.offloaded_bytes), mib(s.bytes_out), mib(s.bytes_in));
    printf("dropped    %6" PRIu32 " buffers %11.1f MiB   %" PRIu32 " replays of %.3f ms a step\n",
           s.dropped_buffers, mib(s.dropped_bytes), s.replays, (double)s.replay_ns * 1e-6);
    printf("peak       %.1f MiB, %.1f MiB of it for small buffers\n", mib(s.peak_bytes), mib(p->small_bytes));
    show_time(p, t, hardware);
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

/* What the step takes when everything is kept. 0 after a complaint. */
static uint64_t keep_bytes(const ebb_plan_request_t *r, const ebb_trace_t *t)
{
    char why[400];
    ebb_plan_request_t all = *r;
    all.policy = "keep";
    all.device_bytes = (uint64_t)1 << 62;
    ebb_plan_t *p = ebb_plan_make(t, &all, why, sizeof why);
    if (!p) {
        ebb_cli_fail("no plan", why);
        return 0;
    }
    const uint64_t bytes = ebb_plan_sum(p, t).peak_bytes;
    ebb_plan_delete(p);
    return bytes;
}

/* The trace's, as far as it knows and nothing else is asked for. */
static ebb_hardware_t hardware_of(const arguments_t *a, const ebb_trace_t *t)
{
    ebb_hardware_t h = t->hardware;
    const double rate = a->link                  ? (double)a->link * 1e-9
                        : a->gpu                 ? a->gpu->link_gbs
                        : h.out_bytes_per_ns > 0 ? 0
                                                 : 25;
    if (rate > 0)
        h.out_bytes_per_ns = h.in_bytes_per_ns = rate;
    return h;
}

static int make_plan(const arguments_t *a, ebb_trace_t *t)
{
    char why[400];
    ebb_plan_request_t r = {.policy = a->policy,
                            .host_bytes = (uint64_t)a->host,
                            .min_buffer = (uint64_t)a->min_buffer,
                            .offload = a->offload,
                            .recompute = a->recompute};
    const ebb_gpu_t *from = a->from ? a->from : ebb_gpu_of_device(t->device);
    if (a->gpu && from)
        ebb_gpu_rescale(t, from, a->gpu);
    r.hardware = hardware_of(a, t);
    const uint64_t all = keep_bytes(&r, t);
    if (!all)
        return 1;
    if (a->curve)
        return ebb_plan_curve(t, &r, all, a->svg);
    r.device_bytes =
        a->budget >= 0 ? (uint64_t)a->budget : (uint64_t)((double)all * (double)-a->budget / 100);
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p) {
        ebb_cli_fail("no plan", why);
        return 1;
    }
    show(p, t, &r.hardware);
    int result = prove(t, p, r.device_bytes, r.host_bytes);
    printf("smallest   %.1f MiB would do, %.1f MiB keep everything\n", mib(ebb_plan_floor(t, &r)), mib(all));
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
        {"curve", CURVE, "FILE", OPTION_ARG_OPTIONAL, "For the range of budgets; draws it into FILE (SVG)",
         0},
        {"gpu", GPU, "NAME", 0, "Plan for this GPU: its link, and times rescaled from those of the trace's",
         0},
        {"recorded-on", FROM, "NAME", 0, "The trace's times are of this GPU (as it says itself)", 0},
        {"link", LINK, "RATE", 0, "Bytes a second each way (of --gpu, else the trace's, else 25000000000)",
         0},
        {"host", HOST, "BYTES", 0, "Pinned host memory (no limit)", 0},
        {"min-buffer", MIN_BUFFER, "BYTES", 0, "Keep what is smaller (1MiB)", 0},
        {"policy", 'p', "POLICY", 0, &(EBB_PLANNER_POLICIES ": who plans; auto unless given")[2], 0},
        {"output", 'o', "FILE", 0, "Write the plan", 0},
        {0}};
    static const struct argp parser = {
        flags, parse, "TRACE", "Plan a recorded step for a budget, prove the plan and tell what it costs.",
        NULL,  NULL,  NULL};
    arguments_t a = {.wanted = 1, .host = INT64_MAX / 4, .min_buffer = 1 << 20, .offload = 1, .recompute = 1};
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
    arguments_t a = {.wanted = 2, .host = INT64_MAX / 4};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    ebb_trace_t *t = ebb_cli_read_trace(a.word[0]);
    ebb_plan_t *p = t ? ebb_cli_read_plan(a.word[1]) : NULL;
    int result = 2;
    if (p && (p->operation_count != t->operation_count || p->buffer_count != t->buffer_count)) {
        ebb_cli_fail(a.word[1], "is a plan for another trace");
    } else if (p) {
        const ebb_hardware_t hardware = hardware_of(&a, t);
        show(p, t, &hardware);
        result = prove(t, p, (uint64_t)a.budget, (uint64_t)a.host);
    }
    ebb_plan_delete(p);
    ebb_trace_delete(t);
    return result;
}
