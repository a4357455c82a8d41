/* link.c: how fast the link between device and host is: out, in, and both at once. */
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "traffic.h"

/* Half of the bytes each way. */
enum { ROUNDS = 4, BYTES = 16 << 20 };

typedef struct bench {
    CUdeviceptr device;
    char *host;
    CUevent event[2][2]; /* [direction]: begin, end */
} bench_t;

static bool record(const bench_t *b, ebb_direction_t d, int end)
{
    return !ebb_driver.cuEventRecord(b->event[d][end], ebb_stream_handle(ebb_copy_stream(d)));
}

/* Copies the directions' halves at once; milliseconds by events into `ms`. */
static bool run(const bench_t *b, const bool which[2], float ms[2])
{
    for (int d = EBB_OUT; d <= EBB_IN; d++) {
        const size_t at = d == EBB_IN ? BYTES / 2 : 0;
        if (which[d] && (!record(b, (ebb_direction_t)d, 0) ||
                         ebb_copy_issue((ebb_direction_t)d, b->device + at, b->host + at, BYTES / 2) ||
                         !record(b, (ebb_direction_t)d, 1)))
            return false;
    }
    for (int d = EBB_OUT; d <= EBB_IN; d++)
        if (which[d] && (ebb_driver.cuEventSynchronize(b->event[d][1]) ||
                         ebb_driver.cuEventElapsedTime(&ms[d], b->event[d][0], b->event[d][1])))
            return false;
    return true;
}

/* The best of some rounds, in bytes per nanosecond. 0: could not be measured. */
static void measure(const bench_t *b, bool out, bool in, double rate[2])
{
    const bool which[2] = {out, in};
    rate[0] = rate[1] = 0;
    for (int i = 0; i < ROUNDS; i++) {
        float ms[2] = {0, 0};
        if (!run(b, which, ms))
            return;
        for (int d = 0; d < 2; d++) {
            const double now = ms[d] > 0 ? BYTES / 2.0 / ((double)ms[d] * 1e6) : 0;
            rate[d] = now > rate[d] ? now : rate[d];
        }
    }
}

static bool make_events(bench_t *b)
{
    bool good = ebb_copy_stream(EBB_OUT) && ebb_copy_stream(EBB_IN);
    for (int i = 0; i < 4 && good; i++)
        good = !ebb_driver.cuEventCreate(&b->event[i / 2][i % 2], CU_EVENT_DEFAULT);
    return good;
}

static bool measure_all(ebb_link_t *link)
{
    bench_t b = {.host = NULL};
    ebb_buffer_t *buffer = NULL;
    double out[2] = {0}, in[2] = {0}, both[2] = {0};
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
    for (int i = 0; i < 4; i++)
        if (b.event[i / 2][i % 2])
            ebb_driver.cuEventDestroy(b.event[i / 2][i % 2]);
    ebb_pinned_free(b.host, BYTES);
    if (buffer)
        ebb_heap_free(buffer, (ebb_mark_t){0});
    *link = (ebb_link_t){out[0], in[1], both[0], both[1]};
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
        return *link = (ebb_link_t){rate, rate, rate, rate};
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
            *link = (ebb_link_t){10, 10, 10, 10};
        }
    }
    ebb_log(EBB_INFO, "link (%s): %.1f GB/s out, %.1f in; both at once %.1f and %.1f", how, link->out,
            link->in, link->out_both, link->in_both);
    return *link;
}
