/* order.h: rules about the order of ops in different streams (order.c). All under sg.lock. */
#ifndef SG_ORDER_H
#define SG_ORDER_H

#include "softgpu/driver/stream/streams.h"

/* Before an op is appended to the stream. Breaking a rule fails the stream's context. */
void sg_order_check_locked(sg_stream_t *s, sg_op_t *op);
/* The op leaves the queues. */
void sg_order_forget_locked(sg_op_t *op);
/* The stream's future work waits until `on` has reached the number. */
void sg_order_wait_locked(sg_stream_t *s, const sg_stream_t *on, uint64_t number);

void sg_order_mapped_locked(sg_handle_t *handle);
void sg_order_unmapped_locked(sg_handle_t *handle);
void sg_order_unmapping_locked(CUdeviceptr base, size_t bytes);
void sg_order_allocated_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s);
void sg_order_freed_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s);

#endif
