/* order.h: telling ckpt/run what orders the program's streams and its host. */
#ifndef EBB_ORDER_H
#define EBB_ORDER_H

#include "alloc/ebb_alloc.h"

/* After the driver has done it, a record before; the lock is not held. One load if nobody wants to know. */
void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event);
/* The same if `result` is a success; returns it. */
static inline CUresult ebb_order_done(CUresult result, ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    if (!result)
        ebb_order_note(kind, stream, event);
    return result;
}

/* After a record. */
static inline CUresult ebb_order_recorded(CUresult result, CUevent event)
{
    if (result)
        ebb_order_note(EBB_ORDER_NOT_RECORDED, NULL, event);
    return result;
}

#endif
