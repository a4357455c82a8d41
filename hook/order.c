#include "hook/order.h"

#include "ckpt/run/run.h"
#include "hook/enter.h"

void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    if (!ebb_run_wants_order() || !ebb_enter())
        return;
    const bool has_stream = kind <= EBB_ORDER_SYNC_STREAM && kind != EBB_ORDER_SYNC_EVENT;
    ebb_run_ordered(&(ebb_order_t){kind, has_stream ? ebb_stream_of(stream) : NULL, event});
    ebb_unlock();
}
