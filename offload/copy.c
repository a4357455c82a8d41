/* copy.c: the copy engine. Its streams are non-blocking: the program's default stream does not concern them.
 */
#include "driver.h"
#include "ebb_offload.h"
#include "traffic.h"

static ebb_stream_t *out_stream, *in_stream;

static ebb_status_t open_stream(ebb_stream_t **s)
{
    CUstream handle;
    if (*s)
        return 0;
    EBB_DRIVER(cuStreamCreate, 0, (&handle, CU_STREAM_NON_BLOCKING));
    *s = ebb_stream_of(handle);
    return 0;
}

ebb_status_t ebb_copy_out(ebb_buffer_t *b, void *host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    EBB_TRY(open_stream(&out_stream));
    CUstream stream = ebb_stream_handle(out_stream);
    EBB_TRY(ebb_buffer_join(stream, b));
    EBB_DRIVER(cuMemcpyDtoHAsync, b->bytes, (host, b->address, b->bytes, stream));
    *done = ebb_mark_issue(out_stream);
    ebb_traffic_counters.bytes_out += b->bytes;
    return 0;
}

ebb_status_t ebb_copy_in(ebb_buffer_t *b, const void *host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    EBB_TRY(open_stream(&in_stream));
    EBB_DRIVER(cuMemcpyHtoDAsync, b->bytes, (b->address, host, b->bytes, ebb_stream_handle(in_stream)));
    *done = ebb_mark_issue(in_stream);
    ebb_traffic_counters.bytes_in += b->bytes;
    return 0;
}
