#include "ckpt/run/profile/profile.h"

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

enum { LARGE = 4 * EBB_CHUNK_BYTES, SMALL = EBB_CHUNK_BYTES / 32, ROUNDS = 3, EVENTS = 16, CALIBRATION = 64 };
enum {
    REPEATS = 8, /* of a kernel between two events, whose times are exact to half a microsecond */
    MOST_HASHES = 64,
    LEAST_HASHES = 4,
    LONGEST_HOLD = 1 << 16
};

struct ebb_price_list {
    bool tried;
    ebb_hardware_t prices;
    CUfunction hold;
    double round_ns; /* of the kernel `hold`; 0: it cannot be used */
};
const size_t ebb_part_price_list = sizeof(struct ebb_price_list);

typedef struct bench {
    ebb_device_t *dev;
    ebb_stream_t *stream;          /* of its own */
    ebb_buffer_t *buffer, *beside; /* beside: where copies in go, which hashes do not read */
    void *host;
    ebb_hashes_t *hashes;
    CUevent event[EVENTS];
} bench_t;

static bool mark(const bench_t *b, unsigned event)
{
    return !ebb_driver.cuEventRecord(b->event[event], ebb_stream_handle(b->stream));
}

/* Waits for the later one. Negative: not known. */
static double between(const bench_t *b, unsigned from, unsigned to)
{
    float ms = 0;
    if (ebb_await_event(b->event[to]) || ebb_driver.cuEventElapsedTime(&ms, b->event[from], b->event[to]))
        return -1;
    return (double)ms * 1e6;
}

static bool hold(struct ebb_price_list *known, ebb_stream_t *stream, unsigned rounds)
{
    CUdeviceptr never = 0;
    void *params[] = {&never, &rounds};
    if (ebb_driver.cuLaunchKernel(known->hold, 1, 1, 1, 1, 1, 1, 0, ebb_stream_handle(stream), params, NULL))
        return false;
    ebb_mark_issue(stream);
    return true;
}

static unsigned rounds_for(struct ebb_price_list *known, unsigned calls)
{
    /* A quarter more, for a host that is slower for once. */
    const double rounds = 1.25 * calls * known->prices.call_ns / known->round_ns + 1;
    return rounds < LONGEST_HOLD ? (unsigned)rounds : LONGEST_HOLD;
}

void ebb_hold(ebb_device_t *dev, ebb_stream_t *stream, unsigned calls)
{
    struct ebb_price_list *known = dev->run->price_list;
    ebb_prices(dev);
    if (known->round_ns > 0)
        hold(known, stream, rounds_for(known, calls));
}

/* ---- one after another ---- */

/* Recording an event on an idle stream: it tells the host's time. */
static void measure_calls(struct ebb_price_list *known, bench_t *b)
{
    for (int round = 0; round < ROUNDS; round++) {
        bool good = true;
        for (unsigned i = 0; i < EVENTS && good; i++)
            good = mark(b, i);
        const double ns = good ? between(b, 0, EVENTS - 1) / (EVENTS - 1) : 0;
        if (ns > 0 && (known->prices.call_ns <= 0 || ns < known->prices.call_ns))
            known->prices.call_ns = ns;
    }
}

/* By two lengths, behind a third. */
static void measure_hold(struct ebb_price_list *known, bench_t *b)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (!hold(known, b->stream, CALIBRATION * 8) || !mark(b, 0) || !hold(known, b->stream, CALIBRATION) ||
            !mark(b, 1) || !hold(known, b->stream, CALIBRATION * 9) || !mark(b, 2))
            return;
        const double ns = (between(b, 1, 2) - between(b, 0, 1)) / (CALIBRATION * 8);
        if (ns > 0 && (known->round_ns <= 0 || ns < known->round_ns))
            known->round_ns = ns;
    }
}

static bool issue_zero(bench_t *b, size_t bytes)
{
    return !ebb_driver.cuMemsetD8Async(b->buffer->address, 0, bytes, ebb_stream_handle(b->stream));
}

static bool issue_hash(bench_t *b, size_t bytes)
{
    return !ebb_hash_issue(b->dev, b->hashes, 0, b->stream, b->buffer->address, bytes, EBB_HASH_ALL);
}

static bool issue_again(bench_t *b, bool (*issue)(bench_t *b, size_t bytes), size_t bytes)
{
    bool good = true;
    for (unsigned i = 0; i < REPEATS && good; i++)
        good = issue(b, bytes);
    return good;
}

/* What a launch takes, and the rate of the bytes beside. Where a launch of many bytes takes no longer than one of few (an H200, of 8 MiB), the
 * rate is at least that of many. */
static void measure_work(struct ebb_price_list *known, bench_t *b, bool (*issue)(bench_t *b, size_t bytes),
                         double *launch_ns, double *bytes_per_ns)
{
    double small = 1e18, large = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        if (!hold(known, b->stream, rounds_for(known, 4 * REPEATS)) || !mark(b, 0) ||
            !issue_again(b, issue, SMALL) || !mark(b, 1) || !issue_again(b, issue, LARGE) || !mark(b, 2))
            return;
        const double s = between(b, 0, 1) / REPEATS, l = between(b, 1, 2) / REPEATS;
        small = s >= 0 && s < small ? s : small;
        large = l > 0 && l < large ? l : large;
    }
    if (small >= 1e18 || large >= 1e18)
        return;
    *bytes_per_ns = large > small ? (LARGE - SMALL) / (large - small) : LARGE / large;
    const double rest = small - SMALL / *bytes_per_ns;
    *launch_ns = rest > 0 ? rest : 0;
}

/* Hashes one behind another, for most of the time of a copy; without it, and beside it. */
static bool issue_hashes(bench_t *b, unsigned count, ebb_direction_t way, bool copy)
{
    struct ebb_price_list *known = b->dev->run->price_list;
    bool good = hold(known, b->stream, rounds_for(known, count + 8)) && mark(b, 0);
    if (copy) {
        const CUdeviceptr at = (way == EBB_OUT ? b->buffer : b->beside)->address;
        CUstream stream = ebb_stream_handle(ebb_copy_stream(b->dev, way));
        good = good && !ebb_driver.cuStreamWaitEvent(stream, b->event[0], 0) &&
               !ebb_copy_issue(b->dev, way, at, b->host, LARGE) &&
               !ebb_driver.cuEventRecord(b->event[2], stream);
    }
    for (unsigned i = 0; i < count && good; i++)
        good = issue_hash(b, LARGE);
    return good && mark(b, 1);
}

static void measure_slowdown(bench_t *b, ebb_direction_t way)
{
    struct ebb_price_list *known = b->dev->run->price_list;
    const ebb_link_t link = ebb_link(b->dev);
    const double hash_ns = known->prices.hash_ns + LARGE / known->prices.hash_bytes_per_ns;
    const double hashes = 0.8 * LARGE / (way == EBB_OUT ? link.out : link.in) / hash_ns;
    const unsigned count = hashes < MOST_HASHES ? (unsigned)hashes : MOST_HASHES;
    double ns[2] = {1e18, 1e18};
    for (int round = 0; round < 2 * ROUNDS && count >= LEAST_HASHES; round++) {
        if (!issue_hashes(b, count, way, round % 2))
            return;
        const double now = between(b, 0, 1);
        if (now <= 0 || (round % 2 && between(b, 1, 2) < 0))
            return; /* the copy was over before */
        ns[round % 2] = now < ns[round % 2] ? now : ns[round % 2];
    }
    if (ns[0] < 1e18 && ns[1] > ns[0] && ns[1] < 2 * ns[0])
        *(way == EBB_OUT ? &known->prices.out_slowdown : &known->prices.in_slowdown) = ns[1] / ns[0] - 1;
}

/* ---- all of it ---- */

static bool open(ebb_device_t *dev, bench_t *b)
{
    struct ebb_price_list *known = dev->run->price_list;
    CUstream stream;
    known->hold = ebb_own_kernel(dev, EBB_HOLD);
    if (!known->hold || !ebb_copy_stream(dev, EBB_OUT) || !ebb_copy_stream(dev, EBB_IN) ||
        ebb_driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return false;
    b->stream = ebb_stream_of(dev, stream);
    for (int i = 0; i < EVENTS; i++)
        if (ebb_driver.cuEventCreate(&b->event[i], CU_EVENT_DEFAULT))
            return false;
    return true;
}

/* The stream stays: its record does. */
static void close(ebb_device_t *dev, bench_t *b)
{
    for (int i = 0; i < EVENTS; i++)
        if (b->event[i])
            ebb_driver.cuEventDestroy_v2(b->event[i]);
    ebb_hashes_delete(dev, b->hashes);
    ebb_scratch_free(b->buffer, NULL);
    ebb_scratch_free(b->beside, NULL);
    ebb_scratch_pinned_free(dev, b->host, LARGE);
}

static void measure(ebb_device_t *dev, bench_t *b)
{
    struct ebb_price_list *known = dev->run->price_list;
    const ebb_traffic_t before = ebb_traffic(dev);
    measure_calls(known, b);
    measure_hold(known, b);
    if (known->round_ns <= 0)
        return;
    b->buffer = ebb_scratch_alloc(dev, LARGE, b->stream);
    b->host = b->buffer ? ebb_scratch_pinned_alloc(dev, LARGE) : NULL;
    b->hashes = b->host ? ebb_hashes_new(dev, 1) : NULL;
    if (!b->hashes)
        return;
    measure_work(known, b, issue_zero, &known->prices.zero_ns, &known->prices.zero_bytes_per_ns);
    measure_work(known, b, issue_hash, &known->prices.hash_ns, &known->prices.hash_bytes_per_ns);
    b->beside = ebb_scratch_alloc(dev, LARGE, b->stream);
    for (ebb_direction_t way = EBB_OUT; known->prices.hash_bytes_per_ns > 0 && way <= EBB_IN; way++)
        if (way == EBB_OUT || b->beside)
            measure_slowdown(b, way);
    ebb_traffic_uncount(dev, &before);
}

ebb_hardware_t ebb_prices(ebb_device_t *dev)
{
    struct ebb_price_list *known = dev->run->price_list;
    bench_t b = {.dev = dev};
    if (known->tried)
        return known->prices;
    known->tried = true;
    ebb_link(dev); /* measures, if need be: not beside this */
    if (!ebb_wait_for_device(dev->ebb) && open(dev, &b))
        measure(dev, &b);
    ebb_wait_for_device(dev->ebb);
    close(dev, &b);
    const ebb_hardware_t *p = &known->prices;
    ebb_log(EBB_DEBUG,
            "prices: %.2f us a call; zeroing %.1f us and %.0f GB/s, hashing %.1f and %.0f; a copy out "
            "slows compute down by %.1f%%, one in by %.1f%%",
            p->call_ns * 1e-3, p->zero_ns * 1e-3, p->zero_bytes_per_ns, p->hash_ns * 1e-3,
            p->hash_bytes_per_ns, 100 * p->out_slowdown, 100 * p->in_slowdown);
    return *p;
}
