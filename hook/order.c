#include "hook/order.h"

#include <stdatomic.h>

#include "hook/enter.h"

static atomic_int wanted; /* by how many */

void ebb_listen_to_order(bool on)
{
    atomic_fetch_add_explicit(&wanted, on ? 1 : -1, memory_order_relaxed);
}

void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) || !ebb_enter())
        return;
    const bool has_stream = kind <= EBB_ORDER_SYNC_STREAM && kind != EBB_ORDER_SYNC_EVENT;
    if (ebb_listener && ebb_listener->ordered)
        ebb_listener->ordered(&(ebb_order_t){kind, has_stream ? ebb_stream_of(stream) : NULL, event});
    ebb_unlock();
}
