/* link.c: how fast the link between device and host is: out, in, and both at once; and what a copy takes however small it is. */
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "traffic.h"

/* Half of the bytes each way. */
enum { ROUNDS = 4, BYTES = 16 << 20, LARGE = BYTES / 2, SMALL = 64 << 10 };

/* Three copies one behind another: the first keeps the link busy until the host has issued the others, which are timed. */
enum { COPIES = 3 };
static const size_t sizes[COPIES] = {LARGE, SMALL, LARGE};

typedef struct bench {
    CUdeviceptr device;
    char *host;
    CUevent event[2][COPIES]; /* [direction]: the end of each copy */
} bench_t;

typedef struct result {
    double bytes_per_ns, copy_ns;
} result_t;

static bool issue(const bench_t *b, ebb_direction_t d)
{
    const size_t at = d == EBB_IN ? LARGE : 0;
    for (int i = 0; i < COPIES; i++)
        if (ebb_copy_issue(d, b->device + at, b->host + at, sizes[i]) ||
            ebb_driver.cuEventRecord(b->event[d][i], ebb_stream_handle(ebb_copy_stream(d))))
            return false;
    return true;
}

/* What the small copy and the large one took. False: could not be measured. */
static bool read_times(const bench_t *b, int d, double *small_ns, double *large_ns)
{
    float ms[2];
    if (ebb_driver.cuEventSynchronize(b->event[d][2]) ||
        ebb_driver.cuEventElapsedTime(&ms[0], b->event[d][0], b->event[d][1]) ||
        ebb_driver.cuEventElapsedTime(&ms[1], b->event[d][1], b->event[d][2]))
        return false;
    *small_ns = (double)ms[0] * 1e6;
    *large_ns = (double)ms[1] * 1e6;
    return true;
}

/* Where the small copy took nearly as long as the large one, the machine was busy with something else: then it tells nothing. */
static result_t result_of(double small_ns, double large_ns)
{
    if (small_ns > large_ns / 2)
        return (result_t){large_ns > 0 ? LARGE / large_ns : 0, 0};
    const double rate = (LARGE - SMALL) / (large_ns - small_ns), rest = small_ns - SMALL / rate;
    return (result_t){rate, rest > 0 ? rest : 0};
}

/* The best of some rounds: a copy takes so long, and its bytes at that rate. 0: could not be measured. */
static void measure(const bench_t *b, bool out, bool in, result_t result[2])
{
    const bool which[2] = {out, in};
    double small[2] = {1e18, 1e18}, large[2] = {1e18, 1e18}, ns[2];
    bool good = true;
    for (int i = 0; good && i < ROUNDS; i++) {
        for (int d = 0; d < 2 && good; d++)
            good = !which[d] || issue(b, (ebb_direction_t)d);
        for (int d = 0; d < 2 && good; d++)
            if (which[d] && (good = read_times(b, d, &ns[0], &ns[1]))) {
                small[d] = ns[0] < small[d] ? ns[0] : small[d];
                large[d] = ns[1] < large[d] ? ns[1] : large[d];
            }
    }
    for (int d = 0; d < 2; d++)
        result[d] = good && which[d] ? result_of(small[d], large[d]) : (result_t){0, 0};
}

static bool make_events(bench_t *b)
{
    bool good = ebb_copy_stream(EBB_OUT) && ebb_copy_stream(EBB_IN);
    for (int i = 0; i < 2 * COPIES && good; i++)
        good = !ebb_driver.cuEventCreate(&b->event[i / COPIES][i % COPIES], CU_EVENT_DEFAULT);
    return good;
}

static bool measure_all(ebb_link_t *link)
{
    bench_t b = {.host = NULL};
    ebb_buffer_t *buffer = NULL;
    result_t out[2] = {0}, in[2] = {0}, both[2] = {0};
    ebb_traffic_t before = ebb_traffic();
    if (!ebb_heap_alloc(&(ebb_request_t){.bytes = BYTES}, &buffer))
        b.host = ebb_pinned_alloc(BYTES);
    if (b.host && make_events(&b)) {
        buffer->held++;
        b.device = buffer->address;
        measure(&b, true, false, out);
        measure(&b, false, true, in);
        measure(&b, true, true, both);
        buffer->held--;
    }
    ebb_traffic_uncount(&before);
    for (int i = 0; i < 2 * COPIES; i++)
        if (b.event[i / COPIES][i % COPIES])
            ebb_driver.cuEventDestroy(b.event[i / COPIES][i % COPIES]);
    ebb_pinned_free(b.host, BYTES);
    if (buffer)
        ebb_heap_free(buffer, (ebb_mark_t){0});
    *link = (ebb_link_t){out[0].bytes_per_ns,  in[1].bytes_per_ns, both[0].bytes_per_ns,
                         both[1].bytes_per_ns, out[0].copy_ns,     in[1].copy_ns};
    return link->out > 0 && link->in > 0 && link->out_both > 0 && link->in_both > 0;
}

static bool find_key(ebb_link_key_t *key)
{
    CUdevice device;
    memset(key, 0, sizeof *key);
    return !ebb_driver.cuCtxGetDevice(&device) &&
           !ebb_driver.cuDeviceGetName(key->device, (int)sizeof key->device, device) &&
           !ebb_driver.cuDeviceGetPCIBusId(key->pci, (int)sizeof key->pci, device) &&
           !ebb_driver.cuDriverGetVersion(&key->driver_version);
}

ebb_link_t ebb_link(void)
{
    static ebb_link_t links[EBB_STATES];
    ebb_link_t *link = &links[ebb_slot];
    ebb_link_key_t key;
    const char *how = "kept";
    if (link->out > 0)
        return *link;
    if (ebb_options.link > 0) {
        const double rate = (double)ebb_options.link * 1e-9;
        return *link = (ebb_link_t){.out = rate, .in = rate, .out_both = rate, .in_both = rate};
    }
    const bool known = find_key(&key);
    if (!known || !ebb_link_cache_read(&key, link)) {
        how = "measured";
        if (measure_all(link)) {
            if (known)
                ebb_link_cache_write(&key, link);
        } else {
            ebb_log(EBB_WARN,
                    "the link could not be measured; taking 10 GB/s each way (EBB_LINK says otherwise)");
            *link = (ebb_link_t){.out = 10, .in = 10, .out_both = 10, .in_both = 10};
        }
    }
    ebb_log(EBB_INFO, "link (%s): %.1f GB/s out, %.1f in; both at once %.1f and %.1f; a copy %.1f us more",
            how, link->out, link->in, link->out_both, link->in_both, (link->out_ns + link->in_ns) / 2000);
    return *link;
}
