/* link.c: how fast the link between device and host is, each way. */
#include "driver.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "traffic.h"

enum { ROUNDS = 4 };

/* One direction, by events around the copies on the engine's stream. 0: could not be measured. */
static double measure(ebb_direction_t direction, const ebb_buffer_t *b, void *host)
{
    ebb_stream_t *s = ebb_copy_stream(direction);
    CUevent event[2] = {NULL, NULL};
    float ms = 0, best = 0;
    for (int i = 0; i < 2; i++)
        if (!s || ebb_driver.cuEventCreate(&event[i], CU_EVENT_DEFAULT))
            event[i] = NULL;
    for (int i = 0; event[0] && event[1] && i < ROUNDS; i++) {
        if (ebb_driver.cuEventRecord(event[0], ebb_stream_handle(s)) ||
            ebb_copy_issue(direction, b->address, host, b->bytes) ||
            ebb_driver.cuEventRecord(event[1], ebb_stream_handle(s)) ||
            ebb_driver.cuEventSynchronize(event[1]) || ebb_driver.cuEventElapsedTime(&ms, event[0], event[1]))
            break;
        best = ms > 0 && (best == 0 || ms < best) ? ms : best;
    }
    for (int i = 0; i < 2; i++)
        if (event[i])
            ebb_driver.cuEventDestroy(event[i]);
    return best > 0 ? (double)b->bytes / ((double)best * 1e6) : 0;
}

ebb_link_t ebb_link(void)
{
    static ebb_link_t link;
    if (link.out > 0)
        return link;
    const size_t bytes = 4 * EBB_CHUNK_BYTES;
    ebb_buffer_t *b = NULL;
    void *host = NULL;
    if (ebb_options.link > 0) {
        link.out = link.in = (double)ebb_options.link * 1e-9;
        return link;
    }
    if (!ebb_heap_alloc(&(ebb_request_t){.bytes = bytes}, &b))
        host = ebb_pinned_alloc(bytes);
    if (host) {
        ebb_traffic_t before = ebb_traffic();
        link.out = measure(EBB_OUT, b, host);
        link.in = measure(EBB_IN, b, host);
        ebb_traffic_uncount(&before);
    }
    ebb_pinned_free(host, bytes);
    if (b)
        ebb_heap_free(b, (ebb_mark_t){0});
    if (!(link.out > 0) || !(link.in > 0)) {
        ebb_log(EBB_WARN,
                "the link could not be measured; taking 10 GB/s each way (EBB_LINK says otherwise)");
        link = (ebb_link_t){10, 10};
    }
    ebb_log(EBB_INFO, "link: %.1f GB/s out, %.1f in", link.out, link.in);
    return link;
}
