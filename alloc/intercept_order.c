/* intercept_order.c: events, which ebb only listens to: they say which operations of different streams are
 * ordered. */
#include "intercept.h"
#include "order.h"

ASYNC_CALL(cuEventRecord, (CUevent event, CUstream stream),
           ebb_order_done(EBB_PASS(cuEventRecord, (event, stream)), EBB_ORDER_RECORD, stream, event))
ASYNC_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
           ebb_order_done(EBB_PASS(cuEventRecordWithFlags, (event, stream, flags)), EBB_ORDER_RECORD, stream,
                          event))
