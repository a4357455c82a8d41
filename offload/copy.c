/* copy.c: the copy engine.
 *
 * Two streams, one each way, non-blocking: the program's default stream does not concern them. Stream
 * priorities do nothing for copies (CUDA's documentation of cuStreamCreateWithPriority), and where a device
 * has one copy engine, a copy waits for all that were issued before it, whatever their streams. So what is
 * not urgent is kept short instead: copies out are issued in pieces, and no more than WINDOW bytes of them
 * are under way at any time; a fetch that comes in between waits for that much at most. Fetches are issued at
 * once and whole.
 */
#include <string.h>

#include "alloc/base/clock.h"
#include "alloc/base/driver.h"
#include "offload/internal.h"

/* ---- what is counted ---- */

ebb_traffic_t ebb_traffic(ebb_device_t *dev)
{
    ebb_traffic_t t = ebb_offload_of(dev)->traffic;
    ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    t.host_bytes = u.own_bytes - ebb_stage_bytes(dev);
    t.host_peak_bytes = u.peak_bytes;
    t.host_budget_bytes = u.budget_bytes;
    t.pageable_bytes = ebb_pageable_usage(dev->ebb).bytes;
    t.pageable_peak_bytes = ebb_pageable_usage(dev->ebb).peak_bytes;
    const ebb_disk_t *disk = &dev->ebb->offload->disk;
    t.disk_bytes = disk->bytes;
    t.disk_peak_bytes = disk->peak_bytes;
    t.disk_reserved_bytes = disk->closed ? 0 : disk->reserved_bytes;
    t.disk_written_bytes = disk->written_bytes;
    t.disk_read_bytes = disk->read_bytes;
    return t;
}

ebb_traffic_t *ebb_traffic_counted(ebb_device_t *dev)
{
    return &ebb_offload_of(dev)->traffic;
}

void ebb_traffic_uncount(ebb_device_t *dev, const ebb_traffic_t *before)
{
    ebb_offload_of(dev)->traffic.bytes_out = before->bytes_out;
    ebb_offload_of(dev)->traffic.bytes_in = before->bytes_in;
}

ebb_status_t ebb_stall(ebb_device_t *dev, ebb_mark_t mark)
{
    uint64_t start = ebb_now_ns();
    ebb_status_t status = ebb_mark_wait(mark);
    ebb_offload_of(dev)->traffic.stall_ns += ebb_now_ns() - start;
    return status;
}

/* ---- the engine ---- */

ebb_stream_t *ebb_copy_stream(ebb_device_t *dev, ebb_direction_t direction)
{
    ebb_stream_t **stream = &ebb_offload_of(dev)->stream[direction];
    CUstream handle;
    if (*stream)
        return *stream;
    int result = ebb_driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING);
    if (result) {
        ebb_fail(result, "cuStreamCreate", 0);
        return NULL;
    }
    return *stream = ebb_stream_of(dev, handle);
}

ebb_status_t ebb_copy_pieces(ebb_device_t *dev, ebb_direction_t direction, CUdeviceptr device, void *host,
                             size_t bytes, ebb_stream_t *on)
{
    CUstream stream = ebb_stream_handle(on);
    for (size_t at = 0, piece; at < bytes; at += piece) {
        void *part = (char *)host + at;
        piece = ebb_pinned_piece(dev, &part, bytes - at);
        if (direction == EBB_OUT)
            EBB_DRIVER(cuMemcpyDtoHAsync_v2, piece, (part, device + at, piece, stream));
        else
            EBB_DRIVER(cuMemcpyHtoDAsync_v2, piece, (device + at, part, piece, stream));
        ebb_mark_issue(on);
    }
    return 0;
}

ebb_status_t ebb_copy_issue(ebb_device_t *dev, ebb_direction_t direction, CUdeviceptr device, void *host,
                            size_t bytes)
{
    ebb_traffic_t *traffic = &ebb_offload_of(dev)->traffic;
    ebb_stream_t *s = ebb_copy_stream(dev, direction);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    EBB_TRY(ebb_copy_pieces(dev, direction, device, host, bytes, s));
    *(direction == EBB_OUT ? &traffic->bytes_out : &traffic->bytes_in) += bytes;
    return 0;
}

/* ---- the window ---- */

static void retire_oldest(ebb_window_t *w)
{
    w->in_flight -= w->bytes[w->first];
    w->first = (w->first + 1) % EBB_WINDOW_PIECES;
    w->count--;
}

/* Host waits until so many bytes more may be under way. */
static ebb_status_t admit(ebb_device_t *dev, size_t bytes)
{
    ebb_window_t *w = &ebb_offload_of(dev)->window;
    while (w->count && ebb_mark_reached(w->end[w->first]))
        retire_oldest(w);
    while (w->count && (w->count == EBB_WINDOW_PIECES || w->in_flight + bytes > EBB_WINDOW_BYTES)) {
        EBB_TRY(ebb_stall(dev, w->end[w->first]));
        retire_oldest(w);
    }
    return 0;
}

static void note(ebb_device_t *dev, size_t bytes)
{
    ebb_traffic_t *traffic = &ebb_offload_of(dev)->traffic;
    ebb_window_t *w = &ebb_offload_of(dev)->window;
    unsigned last = (w->first + w->count++) % EBB_WINDOW_PIECES;
    w->end[last] = ebb_mark_here(ebb_copy_stream(dev, EBB_OUT));
    w->bytes[last] = bytes;
    w->in_flight += bytes;
    if (w->in_flight > traffic->in_flight_peak_bytes)
        traffic->in_flight_peak_bytes = w->in_flight;
}

/* ---- whole buffers ---- */

ebb_status_t ebb_copy_out(ebb_buffer_t *b, ebb_host_t host, ebb_mark_t *done)
{
    ebb_device_t *dev = b->range->device;
    EBB_DCHECK(b->range->mapped);
    ebb_stream_t *s = ebb_copy_stream(dev, EBB_OUT);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    EBB_TRY(ebb_buffer_join(s, b));
    if (!host.pinned)
        EBB_TRY(ebb_stage_out(dev, b->address, host, b->bytes));
    for (size_t at = 0, bytes; host.pinned && at < b->bytes; at += bytes) {
        bytes = b->bytes - at < EBB_PIECE_BYTES ? b->bytes - at : EBB_PIECE_BYTES;
        EBB_TRY(admit(dev, bytes));
        EBB_TRY(ebb_copy_issue(dev, EBB_OUT, b->address + at, (char *)host.at + at, bytes));
        note(dev, bytes);
    }
    *done = ebb_mark_here(s);
    return 0;
}

ebb_status_t ebb_copy_in(ebb_buffer_t *b, ebb_host_t host, ebb_mark_t *done)
{
    ebb_device_t *dev = b->range->device;
    EBB_DCHECK(b->range->mapped);
    EBB_TRY(host.pinned ? ebb_copy_issue(dev, EBB_IN, b->address, host.at, b->bytes)
                        : ebb_stage_in(dev, b->address, host, b->bytes));
    *done = ebb_mark_here(ebb_copy_stream(dev, EBB_IN));
    return 0;
}
