/* copy.c: the copy engine.
 *
 * Two streams, one each way, non-blocking: the program's default stream does not concern them. Stream
 * priorities do nothing for copies (CUDA's documentation of cuStreamCreateWithPriority), and where a device
 * has one copy engine, a copy waits for all that were issued before it, whatever their streams. So what is
 * not urgent is kept short instead: copies out are issued in pieces, and no more than WINDOW bytes of them
 * are under way at any time; a fetch that comes in between waits for that much at most. Fetches are issued at
 * once and whole.
 */
#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "offload/ebb_offload.h"
#include "offload/pinned.h"
#include "offload/staging.h"
#include "offload/traffic.h"

/* At 25 GB/s a piece takes 0.6 ms, 40 times what issuing it costs, and the window 2.7 ms. */
enum { PIECE_BYTES = 16 << 20, WINDOW_BYTES = 64 << 20, MOST_PIECES = WINDOW_BYTES / PIECE_BYTES };

static ebb_stream_t *streams_of[EBB_STATES][2];
#define stream_of (streams_of[ebb_here->number])

/* The last pieces out, in a ring: those from `first` on may still be under way. */
static struct {
    ebb_mark_t end[MOST_PIECES];
    size_t bytes[MOST_PIECES], in_flight;
    unsigned first, count;
} windows[EBB_STATES];
#define window (windows[ebb_here->number])

ebb_stream_t *ebb_copy_stream(ebb_direction_t direction)
{
    CUstream handle;
    if (stream_of[direction])
        return stream_of[direction];
    int result = ebb_driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING);
    if (result) {
        ebb_fail(result, "cuStreamCreate", 0);
        return NULL;
    }
    return stream_of[direction] = ebb_stream_of(ebb_here, handle);
}

ebb_status_t ebb_copy_pieces(ebb_direction_t direction, CUdeviceptr device, void *host, size_t bytes,
                             ebb_stream_t *on)
{
    CUstream stream = ebb_stream_handle(on);
    for (size_t at = 0, piece; at < bytes; at += piece) {
        void *part = (char *)host + at;
        piece = ebb_pinned_piece(&part, bytes - at);
        if (direction == EBB_OUT)
            EBB_DRIVER(cuMemcpyDtoHAsync_v2, piece, (part, device + at, piece, stream));
        else
            EBB_DRIVER(cuMemcpyHtoDAsync_v2, piece, (device + at, part, piece, stream));
        ebb_mark_issue(on);
    }
    return 0;
}

ebb_status_t ebb_copy_issue(ebb_direction_t direction, CUdeviceptr device, void *host, size_t bytes)
{
    ebb_stream_t *s = ebb_copy_stream(direction);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    EBB_TRY(ebb_copy_pieces(direction, device, host, bytes, s));
    *(direction == EBB_OUT ? &ebb_traffic_counters.bytes_out : &ebb_traffic_counters.bytes_in) += bytes;
    return 0;
}

/* ---- the window ---- */

static void retire_oldest(void)
{
    window.in_flight -= window.bytes[window.first];
    window.first = (window.first + 1) % MOST_PIECES;
    window.count--;
}

/* Host waits until so many bytes more may be under way. */
static ebb_status_t admit(size_t bytes)
{
    while (window.count && ebb_mark_reached(window.end[window.first]))
        retire_oldest();
    while (window.count && (window.count == MOST_PIECES || window.in_flight + bytes > WINDOW_BYTES)) {
        EBB_TRY(ebb_stall(window.end[window.first]));
        retire_oldest();
    }
    return 0;
}

static void note(size_t bytes)
{
    unsigned last = (window.first + window.count++) % MOST_PIECES;
    window.end[last] = ebb_mark_here(ebb_copy_stream(EBB_OUT));
    window.bytes[last] = bytes;
    window.in_flight += bytes;
    if (window.in_flight > ebb_traffic_counters.in_flight_peak_bytes)
        ebb_traffic_counters.in_flight_peak_bytes = window.in_flight;
}

/* ---- whole buffers ---- */

ebb_status_t ebb_copy_out(ebb_buffer_t *b, ebb_host_t host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    ebb_stream_t *s = ebb_copy_stream(EBB_OUT);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    EBB_TRY(ebb_buffer_join(ebb_stream_handle(s), b));
    if (!host.pinned)
        EBB_TRY(ebb_stage_out(b->address, host.at, b->bytes));
    for (size_t at = 0, bytes; host.pinned && at < b->bytes; at += bytes) {
        bytes = b->bytes - at < PIECE_BYTES ? b->bytes - at : PIECE_BYTES;
        EBB_TRY(admit(bytes));
        EBB_TRY(ebb_copy_issue(EBB_OUT, b->address + at, (char *)host.at + at, bytes));
        note(bytes);
    }
    *done = ebb_mark_here(s);
    return 0;
}

ebb_status_t ebb_copy_in(ebb_buffer_t *b, ebb_host_t host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    EBB_TRY(host.pinned ? ebb_copy_issue(EBB_IN, b->address, host.at, b->bytes)
                        : ebb_stage_in(b->address, host.at, b->bytes));
    *done = ebb_mark_here(ebb_copy_stream(EBB_IN));
    return 0;
}
