/* bench_planner.c: what `auto` costs and what its plans come to: steps of transformers made up by tests/ckpt/traces.c, at budgets
 * from 80 to 20% of the activation peak (what is there at most, above what outlives the step). And where small buffers lie: the height
 * against what is alive at once, for pieces of a rectangle and small buffers of a step (tests/ckpt/lifetimes.c).
 *
 *   bench_planner [LAYERS [MICRO_BATCHES [BOUND [PERCENT]]]]     default: 450 1, 60 7, and small buffers
 *   bench_planner chains [CASES [STAGES]]                        45 7: beside the best possible (tests/ckpt/plan_exact.h), recomputing only
 *   bench_planner families [CASES]                               30: the same for chains, skip connections, LSTMs and U-Nets; and chains with
 *                                                                copies, recomputing, both, beside the bound
 *   bench_planner greedy [CASES]                                 10: larger steps of those shapes beside greedy eviction at run time
 *                                                                (tests/ckpt/plan_dtr.h), from 90 to 10% of what they take
 *   bench_planner --save FILE [--of WORDS] ...                   what it tells goes behind what FILE has, below a line with the command, the
 *                                                                commit, the date and the machine; WORDS say of which build it is
 *
 * Time is processor time of the process; other programs on the same processors make it up to three times as long. So what a plan may take
 * is told in checks of it, which meet the same: exits 1 if it takes more than BOUND times as long as checking it, does not pass the checker,
 * or is slower than that of a smaller budget. That another method is faster is told, and no failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "lifetimes.h"
#include "plan_dtr.h"
#include "plan_exact.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)
enum { CHECKS = 20 };

/* Behind what the file has: the command, the commit, the date, the machine; then what is printed. */
static bool save(const char *path, const char *words, int argc, char **argv)
{
    char commit[64] = "", cpu[256] = "", date[32] = "", line[256];
    FILE *git = popen("git -C '" BENCH_SOURCE "' describe --always --dirty --abbrev=7", "r");
    if (git && !fgets(commit, sizeof commit, git))
        commit[0] = 0;
    if (git)
        pclose(git);
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info) && !cpu[0])
        sscanf(line, "model name : %255[^\n]", cpu);
    if (info)
        fclose(info);
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    double load = 0;
    if (!freopen(path, "a", stdout) || getloadavg(&load, 1) < 0)
        return false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("bench_planner");
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    printf(" · commit %.*s%s%s · %s · %ld cores, %s, under a load of %.0f\n", (int)strcspn(commit, "\n"),
           commit, *words ? ", " : "", words, date, sysconf(_SC_NPROCESSORS_ONLN), cpu, load);
    return true;
}

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
    const ebb_check_limits_t limits = {r->device_bytes, r->host_bytes, 0};
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

/* ---- against the best possible ---- */

typedef struct against {
    uint32_t possible, found,
        optimal; /* budgets: with a plan at all, with one of ours, with one that is as fast as any */
    uint32_t cases, least; /* steps; of those, ours reaches the smallest budget that is possible */
    double sum, worst, extra, extra_best;
    bool bad; /* a plan did not pass */
} against_t;

static void against_exact(against_t *a, const ebb_trace_t *t, uint32_t most)
{
    bool first = true;
    char why[400];
    const uint64_t all_ns = plan_exact_ns(t, most);
    a->cases++;
    for (uint32_t chunks = 1; chunks < most; chunks++) {
        const uint64_t best = plan_exact_ns(t, chunks);
        if (best == UINT64_MAX)
            continue;
        const ebb_plan_request_t r = {
            .device_bytes = chunks * t->chunk_bytes, .host_bytes = PLENTY, .recompute = true};
        const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, 0};
        ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
        if (p && !ebb_check_plan(t, p, &limits, why, sizeof why)) {
            printf("not a good plan: %s\n", why);
            a->bad = true;
        }
        a->possible++;
        a->found += p != NULL;
        a->least += first && p;
        first = false;
        if (!p && getenv("BENCH_CASES"))
            printf("  seed %" PRIu32 " %" PRIu32 " chunks of %" PRIu32 ": none\n", a->cases, chunks, most);
        if (!p)
            continue;
        const double over = (double)p->predicted_ns / (double)best - 1;
        a->optimal += p->predicted_ns <= best + 10;
        a->sum += over;
        a->worst = over > a->worst ? over : a->worst;
        a->extra += (double)(p->predicted_ns - all_ns);
        a->extra_best += (double)(best - all_ns);
        if (getenv("BENCH_CASES"))
            printf("  seed %" PRIu32 " %" PRIu32 " chunks of %" PRIu32 ": %+.2f%%\n", a->cases, chunks, most,
                   100 * over);
        ebb_plan_delete(p);
    }
}

static bool family(const trace_family_t *f, uint32_t cases)
{
    against_t a = {0};
    const double begin = cpu_ms();
    for (uint32_t seed = 1; seed <= cases; seed++) {
        ebb_trace_t *t = f->make(seed, f->least + seed % (f->most - f->least + 1));
        uint64_t most = keep_bytes(t, (ebb_plan_request_t){.host_bytes = PLENTY, .recompute = true});
        against_exact(&a, t, (uint32_t)(most / t->chunk_bytes));
        ebb_trace_delete(t);
    }
    printf("%" PRIu32 " of %s, size up to %" PRIu32 ": %" PRIu32
           " budgets are possible, %.1f%% found, %.1f%% optimal; the least in %" PRIu32 " of %" PRIu32
           "; step %.2f%% over the optimum (mean; worst %.1f%%), extra time %.3f times; %.1f s\n",
           cases, f->name, f->most, a.possible, 100.0 * a.found / a.possible, 100.0 * a.optimal / a.possible,
           a.least, a.cases, 100 * a.sum / a.found, 100 * a.worst, a.extra / a.extra_best,
           (cpu_ms() - begin) / 1e3);
    return a.found > 0 && !a.bad;
}

/* Means over chains of 24 stages, at 25 to 50% of what they take, with a link that takes as long for a state, both ways, as four stages. */
static bool two_levels(uint32_t cases)
{
    enum { STAGES = 24, WAYS = 3 };
    static const char *const names[WAYS] = {"copies", "recomputing", "both"};
    static const unsigned percents[] = {25, 30, 40, 50};
    printf("%" PRIu32 " chains of %d stages, step longer than alone in %% by", cases, STAGES);
    for (int way = 0; way < WAYS; way++)
        printf(" %s,", names[way]);
    printf(" and the bound\n");
    bool good = true;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        double sum[WAYS + 1] = {0};
        uint32_t none[WAYS] = {0}, counted = 0, worse = 0; /* worse: both means than one of them alone */
        for (uint32_t seed = 1; seed <= cases; seed++) {
            ebb_trace_t *t = trace_of_two_levels(seed, STAGES);
            ebb_plan_request_t r = {.host_bytes = PLENTY, .recompute = true};
            char why[400];
            double ns = 0, longer[WAYS + 1] = {0};
            bool all = true;
            for (uint32_t k = 0; k < t->operation_count; k++)
                ns += (double)t->operation[k].duration_ns;
            r.device_bytes = keep_bytes(t, r) / 100 * percents[i];
            r.hardware.out_bytes_per_ns = r.hardware.in_bytes_per_ns =
                2 * 8.0 * (double)t->chunk_bytes / (4 * CHAIN_NS);
            for (int way = 0; way < WAYS; way++) {
                r.offload = way != 1;
                r.recompute = way != 0;
                const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, 0};
                ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
                good = good && (!p || ebb_check_plan(t, p, &limits, why, sizeof why));
                all = all && p;
                none[way] += !p;
                longer[way] = p ? (double)p->predicted_ns / ns - 1 : 0;
                ebb_plan_delete(p);
            }
            longer[WAYS] = (double)ebb_plan_bound_ns(t, &r) / ns - 1;
            counted += all;
            worse += all && longer[2] > longer[longer[1] < longer[0]] + 1e-6;
            for (int way = 0; all && way <= WAYS; way++)
                sum[way] += longer[way];
            ebb_trace_delete(t);
        }
        printf("%6u%%:", percents[i]);
        for (int way = 0; way <= WAYS; way++)
            printf(" %7.2f", 100 * sum[way] / (counted ? counted : 1));
        printf("; no plan for %" PRIu32 ", %" PRIu32 ", %" PRIu32 "; both worse than one in %" PRIu32 "\n",
               none[0], none[1], none[2], worse);
    }
    return good;
}

/* ---- against greedy eviction ---- */

typedef struct beside {
    /* Steps: with a plan and by greedy eviction, by each alone, where greedy eviction is the shorter one, that are impossible (bound) */
    uint32_t both, plans, dtr, lost, impossible;
    double longer, dtr_longer; /* of both, than alone */
    bool bad;                  /* a plan did not pass */
} beside_t;

static void beside_dtr(beside_t *b, const ebb_trace_t *t, uint64_t device_bytes)
{
    char why[400];
    const ebb_plan_request_t r = {.device_bytes = device_bytes, .host_bytes = PLENTY, .recompute = true};
    double ns = 0;
    for (uint32_t k = 0; k < t->operation_count; k++)
        ns += (double)t->operation[k].duration_ns;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, 0};
    b->bad |= p && !ebb_check_plan(t, p, &limits, why, sizeof why);
    const uint64_t dtr = plan_dtr_ns(t, (uint32_t)(device_bytes / t->chunk_bytes));
    if (p && dtr != UINT64_MAX) {
        b->both++;
        b->lost += (double)dtr < 0.999 * (double)p->predicted_ns;
        b->longer += (double)p->predicted_ns / ns - 1;
        b->dtr_longer += (double)dtr / ns - 1;
    } else {
        b->plans += p != NULL;
        b->dtr += dtr != UINT64_MAX;
        b->impossible += ebb_plan_bound_ns(t, &r) == UINT64_MAX;
    }
    ebb_plan_delete(p);
}

static bool greedy(uint32_t cases)
{
    static const uint32_t sizes[] = {24, 24, 10, 5}; /* of trace_families */
    bool good = true;
    for (uint32_t i = 0; trace_families[i].name; i++) {
        const trace_family_t *f = &trace_families[i];
        printf("%" PRIu32 " of %s, size %" PRIu32
               ": step longer than alone in %%, plans and greedy eviction\n",
               cases, f->name, sizes[i]);
        for (unsigned percent = 90; percent >= 10; percent -= 10) {
            beside_t b = {0};
            for (uint32_t seed = 1; seed <= cases; seed++) {
                ebb_trace_t *t = f->make(seed, sizes[i]);
                const uint64_t keep =
                    keep_bytes(t, (ebb_plan_request_t){.host_bytes = PLENTY, .recompute = true});
                beside_dtr(&b, t, keep / 100 * percent);
                ebb_trace_delete(t);
            }
            const double both = b.both ? b.both : 1;
            printf("%6u%%: %7.2f %7.2f of %" PRIu32 " steps, lost %" PRIu32 "; plans alone %" PRIu32
                   ", greedy alone %" PRIu32 ", impossible %" PRIu32 "\n",
                   percent, 100 * b.longer / both, 100 * b.dtr_longer / both, b.both, b.lost, b.plans, b.dtr,
                   b.impossible);
            good = good && !b.bad;
        }
    }
    return good;
}

static bool families(uint32_t cases)
{
    bool good = true;
    for (const trace_family_t *f = trace_families; f->name; f++)
        good &= family(f, cases);
    return two_levels(cases / 5 + 1) && good;
}

int main(int argc, char **argv)
{
    const char *file = NULL, *words = "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2)
        *(!strcmp(argv[1], "--of") ? &words : &file) = argv[2];
    if (file && !save(file, words, argc - 1, argv + 1)) {
        perror(file);
        return 1;
    }
    if (argc > 1 && !strcmp(argv[1], "chains"))
        return !family(
            &(trace_family_t){"chains", trace_of_stages, 2, argc > 3 ? (uint32_t)atoi(argv[3]) : 7},
            argc > 2 ? (uint32_t)atoi(argv[2]) : 45);
    if (argc > 1 && !strcmp(argv[1], "greedy"))
        return !greedy(argc > 2 ? (uint32_t)atoi(argv[2]) : 10);
    if (argc > 1 && !strcmp(argv[1], "families"))
        return !families(argc > 2 ? (uint32_t)atoi(argv[2]) : 30);
    const double bound = argc > 3 ? atof(argv[3]) : 1e9;
    if (argc > 1)
        return !plan_all((uint32_t)atoi(argv[1]), argc > 2 ? (uint32_t)atoi(argv[2]) : 1, bound,
                         argc > 4 ? (unsigned)atoi(argv[4]) : 0);
    return !plan_all(450, 1, bound, 0) | !plan_all(60, 7, bound, 0) | !pack_all(false) | !pack_all(true);
}
