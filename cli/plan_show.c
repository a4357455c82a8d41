/* plan_show.c: `ebb plan TRACE` makes a plan for a recorded step, proves it and tells what it comes to; `ebb
 * check TRACE PLAN` proves a given one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/gpus.h"
#include "cli/plan_curve.h"
#include "cli/plan_moves.h"
#include "cli/plan_show.h"
#include "cli/report/curve.h"

typedef struct arguments {
    const char *output, *policy, *svg;
    const ebb_gpu_t *gpu, *from;
    bool curve, verbose;
    ebb_size_t budget; /* amount 0: none was given */
    ebb_link_rates_t link;
    int64_t host, disk, min_buffer;
    int64_t offload, recompute;
} arguments_t;

enum { HOST = 1000, DISK, LINK, MIN_BUFFER, OFFLOAD, RECOMPUTE, CURVE, GPU, FROM };

const ebb_gpu_t *ebb_plan_gpu(const ebb_command_t *c, const char *flag, const char *name)
{
    const ebb_gpu_t *const gpu = ebb_gpu_find(name);
    if (!gpu)
        ebb_command_refuse(c, "--%s %s: no such GPU (there are %s)", flag, name, ebb_gpu_names());
    return gpu;
}

static const char *check_policy(const ebb_command_t *c, const char *name)
{
    ebb_policy_t policy;
    if (!ebb_planner_find(&policy, name))
        ebb_command_refuse(c, "--policy %s: no such policy (there are %s)", name, &EBB_PLANNER_POLICIES[2]);
    return name;
}

static int64_t take_switch(const ebb_command_t *c, const char *flag, const char *value)
{
    if (strcmp(value, "0") && strcmp(value, "1"))
        ebb_command_refuse(c, "--%s %s: 0 or 1", flag, value);
    return *value == '1';
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    arguments_t *a = request;
    switch (key) {
    case 'b':
        a->budget = ebb_command_size(c, "budget", value);
        break;
    case CURVE:
        a->curve = true;
        a->svg = value;
        break;
    case GPU:
        a->gpu = ebb_plan_gpu(c, "gpu", value);
        break;
    case FROM:
        a->from = ebb_plan_gpu(c, "recorded-on", value);
        break;
    case HOST:
        a->host = ebb_command_bytes(c, "host", value);
        break;
    case DISK:
        a->disk = ebb_command_bytes(c, "disk", value);
        break;
    case LINK:
        a->link = ebb_command_rates(c, "link", value);
        break;
    case MIN_BUFFER:
        a->min_buffer = ebb_command_bytes(c, "min-buffer", value);
        break;
    case OFFLOAD:
        a->offload = take_switch(c, "offload", value);
        break;
    case RECOMPUTE:
        a->recompute = take_switch(c, "recompute", value);
        break;
    case 'o':
        a->output = value;
        break;
    case 'p':
        a->policy = check_policy(c, value);
        break;
    default:
        a->verbose = true;
    }
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* ---- what is said ---- */

static void show_step(const ebb_trace_t *t, const arguments_t *a, const ebb_hardware_t *h)
{
    const bool assumed = !a->link.out && !a->gpu && t->hardware.out_bytes_per_ns <= 0;
    printf("step       %" PRIu32 " operations, recorded on %s\n", t->operation_count,
           *t->device ? t->device : "an unknown device");
    printf("link       %.1f GB/s out, %.1f in%s%s%s\n", h->out_bytes_per_ns, h->in_bytes_per_ns,
           a->gpu ? ", of " : "", a->gpu ? a->gpu->name : "", assumed ? ", assumed: the trace has none" : "");
}

/* Where the time goes, by the simulator. */
static void show_time(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *hardware)
{
    ebb_simulation_t s;
    if (!ebb_simulate(&s, p, t, hardware, false))
        return;
    const double ns = s.alone_ns, copies = s.track_ns[EBB_TRACK_OUT] + s.track_ns[EBB_TRACK_IN];
    printf("time       %.3f ms predicted, %.3f ms of operations (%+.1f%%)\n", s.step_ns * 1e-6, ns * 1e-6,
           percent(s.step_ns - ns, ns));
    if (s.step_ns > ns)
        printf("           %.3f ms replays, %.3f ms waiting for memory, %.3f for data\n",
               s.track_ns[EBB_TRACK_REPLAY] * 1e-6, s.track_ns[EBB_TRACK_WAIT_OUT] * 1e-6,
               s.track_ns[EBB_TRACK_WAIT_IN] * 1e-6);
    if (copies > 0)
        printf("copies     %.3f ms out, %.3f ms in, %.1f%% hidden\n", s.track_ns[EBB_TRACK_OUT] * 1e-6,
               s.track_ns[EBB_TRACK_IN] * 1e-6, percent(s.hidden_ns, copies));
}

static void show(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *hardware)
{
    ebb_plan_sum_t s = ebb_plan_sum(p, t);
    printf("kept       %6" PRIu32 " buffers %11.1f MiB\n", s.kept_buffers, ebb_cli_mib(s.kept_bytes));
    printf("offloaded  %6" PRIu32 " buffers %11.1f MiB   %.1f MiB out, %.1f MiB in a step\n",
           s.offloaded_buffers, ebb_cli_mib(s.offloaded_bytes), ebb_cli_mib(s.bytes_out),
           ebb_cli_mib(s.bytes_in));
    if (s.spared_bytes > 0)
        printf("spared     %.1f MiB out, which the host has already\n", ebb_cli_mib(s.spared_bytes));
    printf("dropped    %6" PRIu32 " buffers %11.1f MiB   %" PRIu32 " replays of %.3f ms a step\n",
           s.dropped_buffers, ebb_cli_mib(s.dropped_bytes), s.replays, (double)s.replay_ns * 1e-6);
    if (s.late_buffers)
        printf("held       %6" PRIu32 " buffers %11.1f MiB   which the program frees before their last use\n",
               s.late_buffers, ebb_cli_mib(s.late_bytes));
    printf("peak       %.1f MiB, %.1f MiB of it for small buffers\n", ebb_cli_mib(s.peak_bytes),
           ebb_cli_mib(p->small_bytes));
    show_time(p, t, hardware);
}

/* Proves it; 0 or 1. */
static int prove(const ebb_trace_t *t, const ebb_plan_t *p, const arguments_t *a, uint64_t device_bytes)
{
    char why[400], bytes[EBB_SIZE_ROOM], budget[EBB_SIZE_ROOM];
    const ebb_check_limits_t limits = {device_bytes, (uint64_t)a->host, (uint64_t)a->disk};
    const bool good = ebb_check_plan(t, p, &limits, why, sizeof why);
    const uint64_t needed = ebb_plan_sum(p, t).peak_bytes;
    if (good)
        puts("checked    good");
    else if (needed > device_bytes)
        printf("checked    FAILED: needs %s, the budget is %s\n", ebb_cli_size(needed, bytes),
               ebb_cli_size(device_bytes, budget));
    else
        printf("checked    FAILED: %s\n", why);
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

/* ---- the budget ---- */

/* What the step takes when everything is kept. 0 after a complaint. */
static uint64_t keep_bytes(const ebb_plan_request_t *r, const ebb_trace_t *t)
{
    char why[400];
    const uint64_t bytes = ebb_keep_bytes(t, r, why, sizeof why);
    if (!bytes)
        ebb_cli_fail("no plan", why);
    return bytes;
}

/* The trace's, as far as it knows and nothing else is asked for. */
static ebb_hardware_t hardware_of(const ebb_trace_t *t, const ebb_gpu_t *gpu, ebb_link_rates_t link)
{
    ebb_hardware_t h = t->hardware;
    if (link.out) {
        h.out_bytes_per_ns = (double)link.out * 1e-9;
        h.in_bytes_per_ns = (double)link.in * 1e-9;
    } else if (gpu) {
        h.out_bytes_per_ns = gpu->out_gbs;
        h.in_bytes_per_ns = gpu->in_gbs;
    } else if (h.out_bytes_per_ns <= 0) {
        h.out_bytes_per_ns = h.in_bytes_per_ns = 25;
    }
    return h;
}

ebb_hardware_t ebb_plan_hardware(const ebb_command_t *c, ebb_trace_t *t, const ebb_gpu_t *gpu,
                                 const ebb_gpu_t *from, ebb_link_rates_t link)
{
    if (gpu && !from)
        ebb_command_refuse(c,
                           "--gpu %s: times of the trace's device (%s) cannot be rescaled; say --recorded-on",
                           gpu->name, *t->device ? t->device : "it names none");
    if (gpu)
        ebb_gpu_rescale(t, from, gpu);
    return hardware_of(t, gpu, link);
}

typedef struct budget {
    uint64_t bytes, whole; /* whole: of which it is a share */
} budget_t;

/* Of --budget. `all`: what keeping everything takes. Refused where nothing tells the device's size; above it, a warning. */
static budget_t find_budget(const ebb_command_t *c, const arguments_t *a, const ebb_trace_t *t, uint64_t all)
{
    const uint64_t device = a->gpu ? (uint64_t)a->gpu->memory_gib << 30 : ebb_gpu_device_bytes(t->device);
    const int64_t amount = a->budget.amount;
    char given[EBB_SIZE_ROOM], most[EBB_SIZE_ROOM];
    if (a->budget.of == EBB_SIZE_OF_DEVICE && !device)
        ebb_command_refuse(c,
                           "--budget %" PRId64 "%%: the trace's device (%s) is of unknown size; "
                           "%" PRId64 "%%peak is a share of the step's own peak",
                           amount, *t->device ? t->device : "it names none", amount);
    if (a->budget.of == EBB_SIZE_BYTES && device && (uint64_t)amount > device)
        fprintf(stderr, "ebb %s: the budget of %s is more than the device's %s\n", c->name,
                ebb_cli_size((uint64_t)amount, given), ebb_cli_size(device, most));
    if (a->budget.of == EBB_SIZE_BYTES)
        return (budget_t){(uint64_t)amount, 0};
    const uint64_t whole = a->budget.of == EBB_SIZE_OF_DEVICE ? device : all;
    return (budget_t){(uint64_t)((double)whole * (double)amount / 100), whole};
}

static void show_budget(const arguments_t *a, const budget_t *b)
{
    char bytes[EBB_SIZE_ROOM], whole[EBB_SIZE_ROOM];
    printf("budget     %s", ebb_cli_size(b->bytes, bytes));
    if (b->whole)
        printf(", %" PRId64 "%% of the %s's %s", a->budget.amount,
               a->budget.of == EBB_SIZE_OF_DEVICE ? "device" : "step", ebb_cli_size(b->whole, whole));
    putchar('\n');
}

/* ---- the commands ---- */

/* NULL after a complaint. */
static ebb_plan_t *try_plan(const ebb_trace_t *t, const ebb_plan_request_t *request)
{
    uint64_t smallest = 0;
    char why[400], budget[EBB_SIZE_ROOM], needed[EBB_SIZE_ROOM];
    ebb_plan_request_t r = *request;
    r.smallest = &smallest;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p && smallest > r.device_bytes)
        fprintf(stderr, "ebb plan: FAILED: needs %s, the budget is %s\n", ebb_cli_size(smallest, needed),
                ebb_cli_size(r.device_bytes, budget));
    else if (!p)
        ebb_cli_fail("no plan", why);
    return p;
}

static int show_plan(const arguments_t *a, const ebb_trace_t *t, const ebb_plan_request_t *r, uint64_t all)
{
    ebb_plan_t *p = try_plan(t, r);
    if (!p)
        return 1;
    show(p, t, &r->hardware);
    const double gap = ebb_plan_gap(p, t, r);
    if (gap >= 0)
        printf("bound      at most %.1f%% above the best possible\n", 100 * gap);
    int result = prove(t, p, a, r->device_bytes);
    printf("smallest   %.1f MiB would do, %.1f MiB keep everything\n", ebb_cli_mib(ebb_plan_floor(t, r)),
           ebb_cli_mib(all));
    if (!ebb_show_moves(t, p, &r->hardware, a->verbose))
        result = ebb_cli_fail("out of memory", NULL);
    if (!result && a->output)
        result = write_plan(p, a->output);
    ebb_plan_delete(p);
    return result;
}

static int make_plan(const ebb_command_t *c, const arguments_t *a, ebb_trace_t *t)
{
    ebb_plan_request_t r = {.policy = a->policy,
                            .host_bytes = (uint64_t)a->host,
                            .behind_bytes = (uint64_t)a->disk,
                            .min_buffer = (uint64_t)a->min_buffer,
                            .offload = a->offload,
                            .recompute = a->recompute};
    const ebb_gpu_t *from = a->from ? a->from : ebb_gpu_of_device(t->device);
    r.hardware = ebb_plan_hardware(c, t, a->gpu, from, a->link);
    const uint64_t all = keep_bytes(&r, t);
    if (!all)
        return 1;
    if (a->curve) {
        show_step(t, a, &r.hardware);
        return ebb_plan_curve(t, &r, all, a->svg);
    }
    const budget_t budget = find_budget(c, a, t, all);
    r.device_bytes = budget.bytes;
    show_step(t, a, &r.hardware);
    show_budget(a, &budget);
    return show_plan(a, t, &r, all);
}

static int run_plan(int argc, char **argv)
{
    arguments_t a = {.host = INT64_MAX / 4, .min_buffer = 1 << 20, .offload = 1, .recompute = 1};
    const ebb_command_t *const c = &ebb_plan_command;
    char **word = ebb_command_parse(c, argc, argv, take, &a);
    if (!a.budget.amount && !a.curve)
        ebb_command_refuse(c, "--budget is missing");
    if (a.from && !a.gpu)
        ebb_command_refuse(c, "--recorded-on without --gpu");
    ebb_trace_t *t = ebb_cli_read_trace(word[0]);
    int result = t ? make_plan(c, &a, t) : 2;
    ebb_trace_delete(t);
    return result;
}

static int check_plan(const arguments_t *a, const ebb_trace_t *t, const ebb_plan_t *p)
{
    const ebb_plan_request_t r = {
        .host_bytes = (uint64_t)a->host, .min_buffer = 1 << 20, .hardware = hardware_of(t, a->gpu, a->link)};
    const uint64_t all = a->budget.of == EBB_SIZE_OF_PEAK ? keep_bytes(&r, t) : 1;
    if (!all)
        return 1;
    const budget_t budget = find_budget(&ebb_check_command, a, t, all);
    show_step(t, a, &r.hardware);
    show_budget(a, &budget);
    show(p, t, &r.hardware);
    return prove(t, p, a, budget.bytes);
}

static int run_check(int argc, char **argv)
{
    arguments_t a = {.host = INT64_MAX / 4};
    char **word = ebb_command_parse(&ebb_check_command, argc, argv, take, &a);
    if (!a.budget.amount)
        ebb_command_refuse(&ebb_check_command, "--budget is missing");
    ebb_trace_t *t = ebb_cli_read_trace(word[0]);
    ebb_plan_t *p = t ? ebb_cli_read_plan(word[1]) : NULL;
    int result = 2;
    if (p && (p->operation_count != t->operation_count || p->buffer_count != t->buffer_count))
        ebb_cli_fail(word[1], "is a plan for another trace");
    else if (p)
        result = check_plan(&a, t, p);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
    return result;
}

#define DISK_HELP   "what EBB_DISK reserves, for all that is alive where a plan is left (0)"
#define BUDGET_HELP "device bytes: 24GiB; 60% of the device; 60%peak of what keeping everything takes"

static const ebb_flag_t plan_flags[] = {
    {"For what", "budget", 'b', "SIZE", BUDGET_HELP},
    {NULL, "curve", CURVE, "[FILE]", "for the range of budgets; draws it into FILE (SVG)"},
    {NULL, "gpu", GPU, "NAME", "for this GPU: its link, and the trace's times rescaled to it"},
    {NULL, "recorded-on", FROM, "NAME", "the trace's times are of this GPU (as it says itself)"},
    {NULL, "link", LINK, "RATES",
     "bytes a second each way, or to the host and from it (of --gpu, else the trace's, else 25000000000)"},
    {NULL, "host", HOST, "BYTES", "pinned host memory (no limit)"},
    {NULL, "disk", DISK, "BYTES", DISK_HELP},
    {"How", "policy", 'p', "POLICY", &(EBB_PLANNER_POLICIES ": what plans; auto unless given")[2]},
    {NULL, "offload", OFFLOAD, "0|1", "may buffers be copied to the host (1)"},
    {NULL, "recompute", RECOMPUTE, "0|1", "may they be dropped and recomputed (1)"},
    {NULL, "min-buffer", MIN_BUFFER, "BYTES", "keep what is smaller (1MiB)"},
    {"Output", "output", 'o', "FILE", "write the plan"},
    {NULL, "verbose", 'v', NULL, "list every buffer that leaves the device, and why"},
    {0}};
const ebb_command_t ebb_plan_command = {
    .name = "plan",
    .summary = "plan a recorded step for a budget, and prove the plan",
    .usage = "TRACE",
    .about = "Makes a plan for the step that EBB_TRACE=FILE has recorded, proves "
             "it and tells what it costs.",
    .example = {"-b 60%peak step.trace", "--curve=curve.svg step.trace",
                "-b 40% --gpu H100 -o step.plan step.trace"},
    .flags = plan_flags,
    .words = EBB_TAKES_FILES,
    .least = 1,
    .most = 1,
    .run = run_plan};

static const ebb_flag_t check_flags[] = {{NULL, "budget", 'b', "SIZE", BUDGET_HELP},
                                         {NULL, "host", HOST, "BYTES", "pinned host memory (no limit)"},
                                         {NULL, "disk", DISK, "BYTES", DISK_HELP},
                                         {0}};
const ebb_command_t ebb_check_command = {
    .name = "check",
    .summary = "prove a plan for a recorded step and a budget",
    .usage = "TRACE PLAN",
    .about = "The checker shares no code with the planner. Exit code 1: the plan is "
             "not safe, or does not fit.",
    .example = {"-b 24GiB step.trace step.plan", "-b 60%peak step.trace step.plan"},
    .flags = check_flags,
    .words = EBB_TAKES_FILES,
    .least = 2,
    .most = 2,
    .run = run_check};
