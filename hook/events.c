/* events.c: events, which ebb only listens to: they say which operations of different streams are
 * ordered. A record is told of before it is issued: behind it stands all that was issued by then, and perhaps more, when several
 * threads issue at once. */
#include "hook/intercept.h"
#include "hook/order.h"

ASYNC_CALL(cuEventRecord, (CUevent event, CUstream stream),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecord, (event, stream)), event)))
ASYNC_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecordWithFlags, (event, stream, flags)), event)))
