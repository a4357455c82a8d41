/* estimate.c: `ebb estimate`: runs a program until a step is recorded, and plans that step for the budgets of a GPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/gpus.h"
#include "cli/plan_curve.h"
#include "cli/plan_show.h"
#include "cli/process.h"
#include "cli/report_show.h"
#include "cli/run_check.h"

typedef struct request {
    const ebb_gpu_t *gpu, *from; /* NULL: the trace's own */
    const char *report;          /* NULL: none */
    const char *command;         /* what was typed */
    bool keep_allocator;
} request_t;

enum { GPU = 1000, FROM, REPORT, KEEP_ALLOCATOR };

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    request_t *r = request;
    if (key == GPU)
        r->gpu = ebb_plan_gpu(c, "gpu", value);
    else if (key == FROM)
        r->from = ebb_plan_gpu(c, "recorded-on", value);
    else if (key == REPORT)
        r->report = value;
    else
        r->keep_allocator = true;
}

/* ---- the step ---- */

static ebb_trace_t *try_trace(const char *path)
{
    char why[256];
    FILE *f = fopen(path, "r");
    ebb_trace_t *t = f ? ebb_trace_read(f, why, sizeof why) : NULL;
    if (f)
        fclose(f);
    return t;
}

/* A file that is written to the end: its first line says how long it is. */
static bool is_recorded(const void *path)
{
    ebb_trace_t *t = try_trace(path);
    ebb_trace_delete(t);
    return t;
}

/* The program runs until its step is in the file. */
static ebb_trace_t *record_into(const char *path, char **program)
{
    pid_t pid;
    setenv("EBB_TRACE", path, 1);
    const int status = ebb_process_run(program, &pid, is_recorded, path);
    ebb_trace_t *t = try_trace(path);
    if (!t && status != 126 && status != 127) /* which has been said */
        fprintf(stderr,
                "ebb estimate: no step was recorded: %s ended (exit code %d) before it had repeated one\n",
                program[0], status);
    return t;
}

/* NULL after a complaint. */
static ebb_trace_t *record(const request_t *r, char **program)
{
    char folder[EBB_FOLDER_ROOM], path[PATH_MAX];
    if (!ebb_process_folder(folder))
        return NULL;
    snprintf(path, sizeof path, "%s/step.trace", folder);
    setenv("EBB_POLICY", "learn", 1);
    setenv("EBB_LIVE", "0", 1);    /* its page stays where a program is ended */
    setenv("EBB_LOG", "quiet", 0); /* the answer is what is printed here */
    /* On the software device: times of this GPU's, computed. */
    if (r->gpu) {
        setenv("SOFTGPU_PROFILE", r->gpu->name, 0);
        setenv("SOFTGPU_SCHEDULER", "deterministic", 0);
    }
    ebb_trace_t *t = record_into(path, program);
    ebb_process_remove_traces(path);
    rmdir(folder);
    return t;
}

/* ---- what it comes to ---- */

/* Budgets by which the cost is told: of the step's peak, largest first to be given up; none that the GPU does not have. */
static unsigned list_budgets(uint64_t all, uint64_t device, uint64_t floor, uint64_t out[EBB_CURVE_POINTS])
{
    static const unsigned percents[] = {30, 40, 50, 60, 70, 80, 90, 100};
    unsigned n = 0;
    out[n++] = floor < all ? floor : all;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        const uint64_t budget = all / 100 * percents[i] + all % 100 * percents[i] / 100;
        if (budget > out[0] && (!device || budget <= device))
            out[n++] = budget;
    }
    if (device && device < all && device > floor)
        out[n++] = device;
    return n;
}

static void show_fit(const char *name, uint64_t all, uint64_t device, uint64_t floor)
{
    char needed[EBB_SIZE_ROOM], has[EBB_SIZE_ROOM], least[EBB_SIZE_ROOM];
    ebb_cli_size(all, needed);
    ebb_cli_size(floor, least);
    if (!device)
        printf("fits       a step takes %s; the size of %s is not known\n", needed, name);
    else
        printf("fits       %s: a step takes %s, %s has %s\n", all <= device ? "yes" : "no", needed, name,
               ebb_cli_size(device, has));
    if (!floor)
        puts("smallest   there is no plan for any budget");
    else
        printf("smallest   %s is the smallest budget with a plan%s\n", least,
               device && floor > device ? ": more than that GPU has" : "");
}

/* What the figures rest on. */
static void show_grounds(const request_t *r, const ebb_trace_t *t, const ebb_gpu_t *from)
{
    const bool software = !strncmp(t->device, "softgpu", 7), scaled = r->gpu && from && from != r->gpu;
    const char *dry = getenv("SOFTGPU_DRY");
    if (software && from)
        puts("assumed    times were computed by the software device, from what kernels declare to cost: no "
             "GPU ran");
    else if (software)
        puts("assumed    times are those of the software device: they say nothing of a GPU (--gpu NAME "
             "computes its)");
    if (software)
        puts("assumed    that launches give the same bits again was shown on the software device, not on a "
             "GPU");
    if (scaled)
        printf("assumed    times were scaled from %s to %s by data sheets: tensor cores for matrix products, "
               "else memory\n",
               from->name, r->gpu->name);
    if (r->gpu)
        puts("assumed    the link carries what copies of pinned memory usually reach on such a GPU");
    if (software && dry && *dry == '1')
        puts("assumed    SOFTGPU_DRY=1: nothing was computed, so it is not known what launches write: costs "
             "are too low");
    puts("assumed    every step is like the recorded one; context and libraries, some hundred MiB, come on "
         "top");
}

/* The plan for the smallest sensible budget stands in the report beside the curve. */
static bool write_step(const ebb_trace_t *t, const ebb_plan_request_t *request, const ebb_curve_t *c,
                       const char *trace, const char *plan)
{
    char why[400];
    ebb_plan_request_t r = *request;
    r.device_bytes = c->point[c->sensible >= 0 ? (unsigned)c->sensible : c->count - 1].budget_bytes;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    FILE *f = p ? fopen(trace, "w") : NULL;
    bool good = f && ebb_trace_write(t, f);
    good = f && !fclose(f) && good;
    f = good ? fopen(plan, "w") : NULL;
    good = f && ebb_plan_write(p, f);
    good = f && !fclose(f) && good;
    ebb_plan_delete(p);
    return good;
}

static int report(const request_t *r, char **program, const ebb_trace_t *t, const ebb_plan_request_t *request,
                  const ebb_curve_t *c)
{
    char folder[EBB_FOLDER_ROOM], trace[PATH_MAX], plan[PATH_MAX];
    if (!ebb_process_folder(folder))
        return 2;
    snprintf(trace, sizeof trace, "%s/planned.trace", folder);
    snprintf(plan, sizeof plan, "%s/planned.plan", folder);
    char *title = ebb_process_title(program);
    const ebb_report_files_t files = {.source = trace,
                                      .plan = plan,
                                      .title = title,
                                      .command = r->command,
                                      .kind = -1,
                                      .out_bytes_per_ns = request->hardware.out_bytes_per_ns,
                                      .in_bytes_per_ns = request->hardware.in_bytes_per_ns,
                                      .output = {r->report},
                                      .output_count = 1};
    const int result = write_step(t, request, c, trace, plan)
                           ? ebb_cli_report(&files)
                           : ebb_cli_fail(folder, "the planned step cannot be written");
    if (!result)
        fprintf(stderr, "ebb: the report is in %s\n", r->report);
    unlink(trace);
    unlink(plan);
    rmdir(folder);
    free(title);
    return result;
}

static int estimate(const request_t *r, char **program, ebb_trace_t *t)
{
    char why[400];
    const ebb_gpu_t *const from = r->from ? r->from : ebb_gpu_of_device(t->device);
    ebb_plan_request_t q = {
        .host_bytes = INT64_MAX / 4, .min_buffer = 1 << 20, .offload = true, .recompute = true};
    q.hardware = ebb_plan_hardware(&ebb_estimate_command, t, r->gpu, from, (ebb_link_rates_t){0, 0});
    const uint64_t device = r->gpu ? (uint64_t)r->gpu->memory_gib << 30 : ebb_gpu_device_bytes(t->device),
                   all = ebb_keep_bytes(t, &q, why, sizeof why);
    if (!all)
        return ebb_cli_fail("no plan", why);
    const uint64_t floor = ebb_plan_floor(t, &q);
    uint64_t budgets[EBB_CURVE_POINTS];
    ebb_curve_t c;
    printf("step       %" PRIu32 " operations, recorded on %s\n", t->operation_count,
           *t->device ? t->device : "an unknown device");
    show_fit(r->gpu ? r->gpu->name : t->device, all, device, floor);
    int result = floor && (!device || floor <= device) ? 0 : 1;
    const unsigned n = result ? 0 : list_budgets(all, device, floor, budgets);
    if (!result && !ebb_curve_at(&c, t, &q, budgets, n, why, sizeof why))
        return ebb_cli_fail("no curve", why);
    if (!result)
        ebb_plan_curve_print(&c, all);
    show_grounds(r, t, from);
    fflush(stdout);
    return !result && r->report ? report(r, program, t, &q, &c) : result;
}

static int run(int argc, char **argv)
{
    request_t r = {.report = NULL};
    char *const command = ebb_process_command(argv);
    char **program = ebb_command_parse(&ebb_estimate_command, argc, argv, take, &r);
    r.command = command;
    if (!ebb_run_prepare(&ebb_estimate_command, program[0], r.report, r.keep_allocator))
        return 2;
    ebb_trace_t *t = record(&r, program);
    const int result = t ? estimate(&r, program, t) : 2;
    ebb_trace_delete(t);
    free(command);
    return result;
}

static const ebb_flag_t flags[] = {
    {"For what", "gpu", GPU, "NAME",
     "for this GPU: its memory, its link, and times rescaled to it (the one it runs on)"},
    {NULL, "recorded-on", FROM, "NAME", "the times are of this GPU (as the device says itself)"},
    {"Output", "report", REPORT, "FILE",
     "a page with the plan for the smallest sensible budget, and the curve"},
    {"The run", "keep-allocator", KEEP_ALLOCATOR, NULL, "leave PyTorch's choice of an allocator as it is"},
    {0}};
const ebb_command_t ebb_estimate_command = {
    .name = "estimate",
    .summary = "tell what a program would cost inside less memory",
    .usage = "[--] PROGRAM [ARGUMENT...]",
    .about = "Starts PROGRAM under ebb, ends it (SIGTERM) when a step is recorded, and plans that step: "
             "whether it fits, the "
             "smallest budget, and how much longer a step takes within 90 to 30% of its peak. "
             "Without a GPU the "
             "software device computes the times of the GPU that is named.",
    .example = {"--gpu H100 -- python3 train.py",
                "--gpu 'RTX 4090' --report estimate.html -- ./train --batch 8"},
    .flags = flags,
    .words = EBB_TAKES_PROGRAM,
    .least = 1,
    .run = run};
