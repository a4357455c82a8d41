/* bench_copy.c: the copy engine (offload/) against what the link carries: buffers evicted and fetched as the reactive half
 * does it, and the engine's streams alone, each way and both at once. One JSON object on stdout.
 *
 *   bench_copy [MIB [COUNT [PERCENT]]]    COUNT buffers of MIB each (64, 16); exit code 1 if one way alone reaches less than
 *                                         PERCENT of the link
 *
 * The link's rate is that of plain copies of whole buffers by the driver, issued without a gap. Time is the device's, by
 * events: real on a GPU and on the software device's threads, computed under SOFTGPU_SCHEDULER=deterministic.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "ckpt/run/residence/residence.h"
#include "hook/hook.h"
#include "offload/ebb_offload.h"

static ebb_device_t *const device0 = &ebb_global.device[0];

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int check_ = (int)(call);                                                                            \
        if (check_) {                                                                                        \
            fprintf(stderr, "bench_copy: %s: %d, %s\n", #call, check_, ebb_last_failure());                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { MOST = 256 };

static struct {
    size_t bytes, count;
    ebb_buffer_t *buffer[MOST];
    ebb_host_t host[MOST];
    CUstream clock; /* nothing else is on it: an event there tells the time at which it was recorded */
} bench;

static CUevent now(void)
{
    CUevent e;
    CHECK(ebb_driver.cuEventCreate(&e, CU_EVENT_DEFAULT));
    CHECK(ebb_driver.cuEventRecord(e, bench.clock));
    return e;
}

/* GB/s of so many buffers, from then until all copies are over. */
static double rate_since(CUevent begin, size_t buffers)
{
    float ms = 0;
    CHECK(ebb_driver.cuCtxSynchronize());
    CUevent end = now();
    CHECK(ebb_driver.cuEventSynchronize(end));
    CHECK(ebb_driver.cuEventElapsedTime(&ms, begin, end));
    ebb_driver.cuEventDestroy_v2(begin);
    ebb_driver.cuEventDestroy_v2(end);
    return (double)buffers * (double)bench.bytes / ((double)ms * 1e6);
}

/* ---- plain copies ---- */

static void copy_plainly(size_t i, bool in, CUstream stream)
{
    if (in)
        CHECK(
            ebb_driver.cuMemcpyHtoDAsync_v2(bench.buffer[i]->address, bench.host[i].at, bench.bytes, stream));
    else
        CHECK(
            ebb_driver.cuMemcpyDtoHAsync_v2(bench.host[i].at, bench.buffer[i]->address, bench.bytes, stream));
}

static double plain(bool out, bool in)
{
    const CUstream to_host = ebb_stream_handle(ebb_copy_stream(device0, EBB_OUT)),
                   to_device = ebb_stream_handle(ebb_copy_stream(device0, EBB_IN));
    CUevent begin = now();
    for (size_t i = 0; i < bench.count; i++) {
        const bool comes = in && (!out || i % 2);
        copy_plainly(i, comes, comes ? to_device : to_host);
    }
    return rate_since(begin, bench.count);
}

/* ---- the engine ---- */

static double engine(bool out, bool in)
{
    ebb_mark_t done;
    CUevent begin = now();
    for (size_t i = 0; i < bench.count; i++) {
        if (in && (!out || i % 2))
            CHECK(ebb_copy_in(bench.buffer[i], bench.host[i], &done));
        else
            CHECK(ebb_copy_out(bench.buffer[i], bench.host[i], &done));
    }
    return rate_since(begin, bench.count);
}

/* ---- all of it: victims are chosen, copied, unmapped; mapped and copied back ---- */

static double evict_all(void)
{
    CUevent begin = now();
    const size_t chunks = ebb_chunks_limit(device0); /* more than there is: everything must go */
    ebb_residence_make_room(device0, chunks);
    const double rate = rate_since(begin, bench.count);
    for (size_t i = 0; i < bench.count; i++)
        if (bench.buffer[i]->range->mapped) {
            fprintf(stderr, "bench_copy: buffer %zu was not evicted\n", i);
            exit(1);
        }
    return rate;
}

static double fetch_all(void)
{
    CUevent begin = now();
    for (size_t i = 0; i < bench.count; i++) {
        ebb_access_t access = {.buffer = bench.buffer[i]};
        ebb_operation_t op = {.kind = EBB_SET,
                              .stream = ebb_stream_of(device0, bench.clock),
                              .access = &access,
                              .access_count = 1};
        CHECK(ebb_residence_acquire(device0, &op));
        ebb_residence_release(&op);
    }
    return rate_since(begin, bench.count);
}

/* ---- */

static void set_up(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr p;
    bench.bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
    bench.count = argc > 2 ? (size_t)atoi(argv[2]) : 16;
    if (!bench.bytes || !bench.count || bench.count > MOST)
        exit(2);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&p, 4096)); /* ebb is at work from here on */
    ebb_lock();
    CHECK(ebb_driver.cuStreamCreate(&bench.clock, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < bench.count; i++) {
        CHECK(ebb_heap_alloc(device0, &(ebb_request_t){.bytes = bench.bytes}, &bench.buffer[i]));
        CHECK(ebb_host_alloc(device0, bench.bytes, false, &bench.host[i]));
        if (!bench.host[i].pinned)
            exit(1);
        memset(bench.host[i].at, (int)i, bench.bytes);
    }
}

static double worst = 1;

static void say(const char *name, double rate, double link, bool counts)
{
    if (counts && rate / link < worst)
        worst = rate / link;
    printf("  \"%s\": {\"gb_s\": %.2f, \"of_link\": %.4f},\n", name, rate, rate / link);
}

int main(int argc, char **argv)
{
    ebb_open(&ebb_global);
    set_up(argc, argv);
    plain(true, true); /* pages, streams, events */
    const double out = plain(true, false), in = plain(false, true), both = plain(true, true);
    const double engine_out = engine(true, false), engine_in = engine(false, true),
                 engine_both = engine(true, true);
    for (size_t i = 0; i < bench.count; i++)
        ebb_host_free(device0, bench.host[i]); /* pinned, for the evictions */
    evict_all();
    fetch_all();
    const double evicted = evict_all(), fetched = fetch_all();
    char name[128] = "";
    CUdevice device = 0;
    ebb_driver.cuDeviceGetName(name, sizeof name, device);
    printf("{\n  \"device\": \"%s\", \"buffers\": %zu, \"bytes\": %zu,\n", name, bench.count, bench.bytes);
    printf("  \"link_gb_s\": {\"out\": %.2f, \"in\": %.2f, \"both\": %.2f},\n", out, in, both);
    say("engine_out", engine_out, out, true);
    say("engine_in", engine_in, in, true);
    say("engine_both", engine_both, both, false);
    say("evict", evicted, out, true);
    say("fetch", fetched, in, true);
    printf("  \"window_peak_bytes\": %zu\n}\n", ebb_traffic(device0).in_flight_peak_bytes);
    ebb_unlock();
    return argc > 3 && worst * 100 < atof(argv[3]);
}
