/* bench_planner.c: what `auto` costs and what its plans come to: steps of transformers made up by tests/ckpt/traces.c, at budgets
 * from 80 to 20% of the activation peak (what is there at most, above what outlives the step). And where small buffers lie: the height
 * against what is alive at once, for pieces of a rectangle and small buffers of a step (tests/ckpt/lifetimes.c).
 *
 *   bench_planner [LAYERS [MICRO_BATCHES [BOUND [PERCENT]]]]     default: 450 1, 60 7, and small buffers
 *
 * Time is processor time of the process; other programs on the same processors make it up to three times as long. So what a plan may take
 * is told in checks of it, which meet the same: exits 1 if it takes more than BOUND times as long as checking it, is not good, or is slower
 * than that of a smaller budget.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "lifetimes.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)
enum { CHECKS = 20 };

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static uint64_t keep_bytes(const ebb_trace_t *t, ebb_plan_request_t r)
{
    char why[400];
    r.policy = "keep";
    r.device_bytes = PLENTY;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    const uint64_t bytes = p ? ebb_plan_sum(p, t).peak_bytes : 0;
    ebb_plan_delete(p);
    return bytes;
}

static bool plan_one(const ebb_trace_t *t, const ebb_plan_request_t *r, unsigned percent, double bound,
                     uint64_t *before)
{
    char why[400] = "";
    double ns = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        ns += (double)t->operation[i].duration_ns;
    const double begin = cpu_ms();
    ebb_plan_t *p = ebb_plan_make(t, r, why, sizeof why);
    const double took = cpu_ms() - begin;
    if (!p) {
        printf("%6u%% %8.0f ms  %s\n", percent, took, why);
        return true;
    }
    const ebb_check_limits_t limits = {r->device_bytes, r->host_bytes};
    const double check_begin = cpu_ms();
    bool good = true;
    for (int i = 0; i < CHECKS; i++)
        good = good && ebb_check_plan(t, p, &limits, why, sizeof why);
    const double checked = (cpu_ms() - check_begin) / CHECKS;
    ebb_simulation_t s;
    const ebb_plan_sum_t sum = ebb_plan_sum(p, t);
    if (!good)
        printf("not a good plan: %s\n", why);
    if (ebb_simulate(&s, p, t, &r->hardware, false)) {
        const double copies = s.track_ns[EBB_TRACK_OUT] + s.track_ns[EBB_TRACK_IN];
        printf("%6u%% %8.0f ms %+8.2f%% longer, %5" PRIu32
               " replays, %6.0f MiB each way, %5.1f%% of it hidden; checked in %.1f ms\n",
               percent, took, 100 * (s.step_ns / ns - 1), sum.replays, (double)sum.bytes_in / (1 << 20),
               copies > 0 ? 100 * s.hidden_ns / copies : 100.0, checked);
    }
    if (p->predicted_ns < *before) {
        printf("a larger budget's plan was slower\n");
        good = false;
    }
    *before = p->predicted_ns;
    ebb_plan_delete(p);
    if (took > bound * checked) {
        printf("it took %.0f times as long as checking it, not %.0f\n", took / checked, bound);
        good = false;
    }
    return good;
}

/* `only`: this percentage; 0: all. */
static bool plan_all(uint32_t layers, uint32_t micro_batches, double bound, unsigned only)
{
    static const unsigned percents[] = {100, 80, 60, 50, 40, 30, 20};
    const trace_shape_t shape = {.layers = layers,
                                 .width_chunks = 4,
                                 .weight_chunks = 6,
                                 .micro_batches = micro_batches,
                                 .kernel_ns = 2000};
    ebb_trace_t *t = trace_of_transformer(&shape);
    ebb_plan_request_t r = {.host_bytes = PLENTY,
                            .min_buffer = 1 << 20,
                            .offload = true,
                            .recompute = true,
                            .hardware = {.out_bytes_per_ns = 50, .in_bytes_per_ns = 50}};
    const uint64_t all = keep_bytes(t, r);
    uint64_t persistent = 0, before = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        persistent +=
            t->buffer[i].born == EBB_NONE && t->buffer[i].bytes > t->chunk_bytes / 2 ? t->buffer[i].bytes : 0;
    printf("%" PRIu32 " layers, %" PRIu32 " micro-batches: %" PRIu32 " launches, %.1f GiB\n", layers,
           micro_batches, t->operation_count, (double)all / (1 << 30));
    bool good = all > 0;
    for (size_t i = 0; good && i < sizeof percents / sizeof percents[0]; i++) {
        if (only && percents[i] != only)
            continue;
        r.device_bytes = persistent + (all - persistent) / 100 * percents[i];
        good = plan_one(t, &r, percents[i], bound, &before);
    }
    ebb_trace_delete(t);
    return good;
}

/* Means over some seeds: of first fit, and with as many steps as a plan has for it. */
static bool pack_all(bool step)
{
    static const uint32_t counts[] = {50, 100, 200, 400, 1000, 2000, 10000}, seeds = 5;
    static const uint64_t steps[] = {0, 100000000};
    bool good = true;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        printf("%6" PRIu32 " %s", counts[i], step ? "small buffers of a step" : "pieces of a rectangle  ");
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
            double ratio = 0, ms = 0;
            for (uint32_t seed = 1; seed <= seeds; seed++) {
                ebb_lifetime_t *l = calloc(counts[i], sizeof *l);
                if (!l)
                    return false;
                if (step)
                    lifetimes_of_step(l, counts[i], seed);
                else
                    lifetimes_by_cuts(l, counts[i], 10 * counts[i], 1000000, seed);
                const double alive = (double)lifetimes_alive(l, counts[i]), begin = cpu_ms();
                ratio += (double)ebb_pack(l, counts[i], 1, steps[k]) / alive / seeds;
                ms += (cpu_ms() - begin) / seeds;
                free(l);
            }
            good = good && ratio > 1 - 1e-9;
            printf("  %s%.4f in %6.1f ms", k ? "" : "first fit ", ratio, ms);
        }
        printf("\n");
    }
    return good;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const double bound = argc > 3 ? atof(argv[3]) : 1e9;
    if (argc > 1)
        return !plan_all((uint32_t)atoi(argv[1]), argc > 2 ? (uint32_t)atoi(argv[2]) : 1, bound,
                         argc > 4 ? (unsigned)atoi(argv[4]) : 0);
    return !plan_all(450, 1, bound, 0) | !plan_all(60, 7, bound, 0) | !pack_all(false) | !pack_all(true);
}
