/* link_measure.c: see link_measure.h. */
#include "offload/link_measure.h"

/* Each way has half of the bytes. Of the other way there are twice as many copies as of the one that is measured, and more as long
 * as they are over before it. */
enum { ROUNDS = 4, LARGE = EBB_LINK_BYTES / 2, SMALL = 64 << 10, LEAST_BESIDE = 4, MOST_BESIDE = 32 };

/* Three copies one behind another: the first keeps the link busy until the host has issued the others, which are timed. */
enum { COPIES = 3 };
static const size_t sizes[COPIES] = {LARGE, SMALL, LARGE};

enum { BEGIN, END_BESIDE, END, EVENTS = END + COPIES };

typedef struct meter {
    const ebb_link_bench_t *bench;
    CUevent event[EVENTS];
} meter_t;

typedef struct result {
    double bytes_per_ns, copy_ns; /* bytes_per_ns 0: could not be measured */
} result_t;

static bool copy(const ebb_link_bench_t *b, int way, size_t bytes)
{
    const size_t at = way ? LARGE : 0;
    return !(way ? ebb_driver.cuMemcpyHtoDAsync_v2(b->device + at, b->host + at, bytes, b->stream[way])
                 : ebb_driver.cuMemcpyDtoHAsync_v2(b->host + at, b->device + at, bytes, b->stream[way]));
}

static bool issue(const meter_t *m, int way, unsigned beside)
{
    const CUstream stream = m->bench->stream[way], other = m->bench->stream[!way];
    bool good = !ebb_driver.cuEventRecord(m->event[BEGIN], other);
    for (unsigned i = 0; i < beside && good; i++)
        good = copy(m->bench, !way, LARGE);
    good = good && !ebb_driver.cuEventRecord(m->event[END_BESIDE], other);
    for (int i = 0; i < COPIES && good; i++)
        good = copy(m->bench, way, sizes[i]) && !ebb_driver.cuEventRecord(m->event[END + i], stream);
    return good;
}

static bool between(const meter_t *m, int from, int to, double *ns)
{
    float ms = 0;
    const bool good = !ebb_driver.cuEventSynchronize(m->event[to]) &&
                      !ebb_driver.cuEventElapsedTime(&ms, m->event[from], m->event[to]);
    *ns = (double)ms * 1e6;
    return good;
}

/* Where the small copy took nearly as long as the large one, the machine was busy with something else: then it tells nothing. */
static result_t result_of(double small_ns, double large_ns)
{
    if (small_ns > large_ns / 2)
        return (result_t){large_ns > 0 ? LARGE / large_ns : 0, 0};
    const double rate = (LARGE - SMALL) / (large_ns - small_ns), rest = small_ns - SMALL / rate;
    return (result_t){rate, rest > 0 ? rest : 0};
}

/* The best of some rounds, of those that had the other way at work until their end. */
static result_t measure(const meter_t *m, int way, bool both)
{
    double small = 1e18, large = 1e18;
    unsigned beside = both ? LEAST_BESIDE : 0;
    for (int rounds = 0; rounds < ROUNDS;) {
        double now[2], end, end_beside;
        if (!issue(m, way, beside) || !between(m, END, END + 1, &now[0]) ||
            !between(m, END + 1, END + 2, &now[1]) || !between(m, BEGIN, END + 2, &end) ||
            !between(m, BEGIN, END_BESIDE, &end_beside))
            return (result_t){0, 0};
        if (both && end_beside < end && beside < MOST_BESIDE) {
            beside *= 2;
            continue;
        }
        small = now[0] < small ? now[0] : small;
        large = now[1] < large ? now[1] : large;
        rounds++;
    }
    return result_of(small, large);
}

bool ebb_link_measure(const ebb_link_bench_t *bench, ebb_link_t *link)
{
    meter_t m = {.bench = bench};
    bool good = true;
    for (int i = 0; i < EVENTS && good; i++)
        good = !ebb_driver.cuEventCreate(&m.event[i], CU_EVENT_DEFAULT);
    result_t result[2][2] = {{{0, 0}}}; /* [both][way] */
    for (int i = 0; i < 4 && good; i++) {
        result[i / 2][i % 2] = measure(&m, i % 2, i / 2);
        good = result[i / 2][i % 2].bytes_per_ns > 0;
    }
    for (int way = 0; way < 2; way++) /* after a failure copies may be under way */
        ebb_driver.cuStreamSynchronize(bench->stream[way]);
    for (int i = 0; i < EVENTS; i++)
        if (m.event[i])
            ebb_driver.cuEventDestroy_v2(m.event[i]);
    *link = (ebb_link_t){result[0][0].bytes_per_ns, result[0][1].bytes_per_ns, result[1][0].bytes_per_ns,
                         result[1][1].bytes_per_ns, result[0][0].copy_ns,      result[0][1].copy_ns};
    return good;
}
