/* order.c: what orders the program's streams: events, and whatever the host waits for. A record is told of before it is issued: behind it
 * stands all that was issued by then, and perhaps more, when several threads issue at once. */
#include "hook/order.h"
#include "alloc/device.h"

#include "ckpt/run/run.h"
#include "hook/enter.h"
#include "hook/intercept.h"

void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    if (!ebb_run_wants_order() || !ebb_enter())
        return;
    const bool has_stream = kind <= EBB_ORDER_SYNC_STREAM && kind != EBB_ORDER_SYNC_EVENT;
    ebb_run_ordered(&(ebb_order_t){kind, has_stream ? ebb_stream_of(ebb_here, stream) : NULL, event});
    ebb_unlock();
}

ASYNC_CALL(cuEventRecord, (CUevent event, CUstream stream),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecord, (event, stream)), event)))
ASYNC_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecordWithFlags, (event, stream, flags)), event)))
