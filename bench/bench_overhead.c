/* bench_overhead.c: what budgets cost on a recorded step, under every policy, as JSON: overhead.sh makes tables of it.
 *
 *     bench_overhead TRACE LINK MEMORY [PERCENT..]
 *
 * LINK is what the link carries each way, MEMORY the rate of the device's memory, both in 10^9 bytes a second. PERCENT, 80 60 50
 * 40 30 20 unless given: of the activation peak. The activation peak is what keeping everything takes beyond the state: the buffers
 * that are there before the step and after it, weights and moments, say. A budget is the state and its share of the rest.
 *
 * Every plan is proven by the checker, then simulated; its time is compared with that of the operations alone. All but
 * the rates is as on the computed clock (softgpu/driver/scheduler/profile.h): copies slow operations down by the link's share of the memory's
 * rate, each way of the link is slower while both are in use, copies, memsets and launches have latencies, and a call of the driver takes the
 * host its time. A tenth of each recomputed content is compared, EBB_VERIFY's default; one Nth with BENCH_VERIFY=N, nothing with 0.
 * `bound`: the overhead that no plan goes below, whatever is compared; -1: none fits. BENCH_POLICY: that policy only. Exit code 1: a plan did not pass.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"

/* Of strategies with a number, several. */
static const char *const policies[] = {
    "auto",      "keep",      "offload",   "sqrt",      "selective", "recursive",
    "uniform:1", "uniform:2", "uniform:4", "uniform:8", "revolve:8", "revolve:16",
};
enum { POLICIES = sizeof policies / sizeof policies[0] };
static const double percents[] = {80, 60, 50, 40, 30, 20};

typedef struct bench {
    ebb_trace_t *trace;
    ebb_plan_request_t request;
    uint64_t keep_bytes, state_bytes;
    double operations_ns;
    bool failed;
} bench_t;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Large buffers that outlive the step on both sides, in whole chunks. */
static uint64_t state_bytes(const ebb_trace_t *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (b->born == EBB_NONE && b->dies == EBB_NONE && b->bytes > t->chunk_bytes / 2)
            bytes += (b->bytes + t->chunk_bytes - 1) / t->chunk_bytes * t->chunk_bytes;
    }
    return bytes;
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if ((unsigned char)*text >= ' ' && *text != '"' && *text != '\\')
            putchar(*text);
    putchar('"');
}

static void print_plan(bench_t *b, const ebb_plan_t *p, double planning_s)
{
    char why[400];
    ebb_simulation_t s;
    const ebb_check_limits_t limits = {b->request.device_bytes, b->request.host_bytes, 0};
    const ebb_plan_sum_t sum = ebb_plan_sum(p, b->trace);
    if (!ebb_check_plan(b->trace, p, &limits, why, sizeof why)) {
        fprintf(stderr, "bench_overhead: a plan of %s is not good: %s\n", b->request.policy, why);
        b->failed = true;
    }
    if (!ebb_simulate(&s, p, b->trace, &b->request.hardware, false)) {
        b->failed = true;
        printf("\"why\": \"no memory\"");
        return;
    }
    const double copies = s.track_ns[EBB_TRACK_OUT] + s.track_ns[EBB_TRACK_IN];
    printf("\"step_ns\": %.0f, \"overhead\": %.5f, \"peak_bytes\": %" PRIu64 ", \"bytes_out\": %" PRIu64
           ", \"bytes_in\": %" PRIu64 ", \"hidden\": ",
           s.step_ns, s.step_ns / b->operations_ns - 1, s.peak_bytes, sum.bytes_out, sum.bytes_in);
    if (copies > 0)
        printf("%.4f", s.hidden_ns / copies);
    else
        printf("null");
    printf(", \"link_busy\": %.4f, \"replays\": %" PRIu32 ", \"replay_ns\": %.0f, \"wait_ns\": %.0f, "
           "\"slowed_ns\": %.0f, \"planning_s\": %.3f",
           copies / (2 * s.step_ns), sum.replays, s.track_ns[EBB_TRACK_REPLAY],
           s.track_ns[EBB_TRACK_WAIT_OUT] + s.track_ns[EBB_TRACK_WAIT_IN], s.slowed_ns, planning_s);
    ebb_simulation_delete(&s);
}

static void plan(bench_t *b, const char *policy)
{
    char why[400] = "";
    const double begin = now_s();
    b->request.policy = policy;
    ebb_plan_t *p = ebb_plan_make(b->trace, &b->request, why, sizeof why);
    const double planning_s = now_s() - begin;
    printf("{\"policy\": \"%s\", ", policy);
    if (p) {
        print_plan(b, p, planning_s);
    } else {
        printf("\"why\": ");
        print_text(why);
    }
    printf("}");
    ebb_plan_delete(p);
}

static double least_overhead(const bench_t *b)
{
    const uint64_t ns = ebb_plan_bound_ns(b->trace, &b->request);
    return ns == UINT64_MAX ? -1 : ns ? (double)ns / b->operations_ns - 1 : 0;
}

static void run(bench_t *b, double percent, bool last)
{
    b->request.device_bytes =
        b->state_bytes + (uint64_t)((double)(b->keep_bytes - b->state_bytes) * percent / 100);
    printf("{\"percent\": %g, \"budget_bytes\": %" PRIu64 ", \"bound\": %.5f, \"plans\": [\n", percent,
           b->request.device_bytes, least_overhead(b));
    const char *only = getenv("BENCH_POLICY");
    for (int i = 0, first = 1; i < POLICIES; i++)
        if (!only || !strcmp(only, policies[i])) {
            printf(first ? "" : ",\n");
            plan(b, policies[i]);
            first = 0;
        }
    printf("]}");
    printf(last ? "\n" : ",\n");
    fflush(stdout);
}

static bool measure_keep(bench_t *b)
{
    char why[400];
    b->request.policy = "keep";
    b->request.device_bytes = (uint64_t)1 << 62;
    ebb_plan_t *p = ebb_plan_make(b->trace, &b->request, why, sizeof why);
    if (!p) {
        fprintf(stderr, "bench_overhead: %s\n", why);
        return false;
    }
    b->keep_bytes = ebb_plan_sum(p, b->trace).peak_bytes;
    b->state_bytes = state_bytes(b->trace);
    b->operations_ns = ebb_simulate_alone_ns(b->trace);
    ebb_plan_delete(p);
    return b->keep_bytes > b->state_bytes && b->operations_ns > 0;
}

static ebb_hardware_t hardware(const ebb_trace_t *trace, double link, double memory)
{
    const char *verify = getenv("BENCH_VERIFY");
    const double parts = verify ? atof(verify) : 10;
    return (ebb_hardware_t){.clean = 1,
                            .out_bytes_per_ns = link,
                            .in_bytes_per_ns = link,
                            .out_ns = 1500,
                            .in_ns = 1500,
                            .out_both = 0.85,
                            .in_both = 0.85,
                            .out_slowdown = link / (memory - link),
                            .in_slowdown = link / (memory - link),
                            .zero_ns = 1500,
                            .zero_bytes_per_ns = memory,
                            .hash_ns = 2000,
                            .hash_bytes_per_ns = memory,
                            .checked = parts > 0 ? 1 / parts : 0,
                            .call_ns = 2000,
                            .multiprocessors = trace->hardware.multiprocessors};
}

int main(int argc, char **argv)
{
    char why[400];
    const double link = argc > 3 ? atof(argv[2]) : 0, memory = argc > 3 ? atof(argv[3]) : 0;
    FILE *f = argc > 3 ? fopen(argv[1], "r") : NULL;
    if (!f || link <= 0 || memory <= 0) {
        fprintf(stderr, "usage: bench_overhead TRACE LINK MEMORY [PERCENT..]\n");
        return 2;
    }
    bench_t b = {
        .trace = ebb_trace_read(f, why, sizeof why),
        .request = {.host_bytes = INT64_MAX / 4, .min_buffer = 1 << 20, .offload = true, .recompute = true}};
    fclose(f);
    if (b.trace)
        b.request.hardware = hardware(b.trace, link, memory);
    if (!b.trace || !measure_keep(&b)) {
        fprintf(stderr, "bench_overhead: %s: %s\n", argv[1], b.trace ? "nothing to plan" : why);
        return 2;
    }
    printf("{\"operations\": %" PRIu32 ", \"operations_ns\": %.0f, \"keep_bytes\": %" PRIu64
           ", \"state_bytes\": %" PRIu64 ", \"link_gb_s\": %g, \"memory_gb_s\": %g, \"budgets\": [\n",
           b.trace->operation_count, b.operations_ns, b.keep_bytes, b.state_bytes, link, memory);
    const int given = argc - 4, count = given ? given : (int)(sizeof percents / sizeof percents[0]);
    for (int i = 0; i < count; i++)
        run(&b, given ? atof(argv[4 + i]) : percents[i], i + 1 == count);
    printf("]}\n");
    ebb_trace_delete(b.trace);
    return b.failed;
}
