/* scheduler.h: the deterministic scheduler's clock and threads. deterministic.c decides what runs when.
 *
 * Guarded by sg.lock, but for what says otherwise.
 */
#ifndef SG_SCHEDULER_H
#define SG_SCHEDULER_H

#include "softgpu/driver/stream/streams.h"

/* ---- scheduler/clock.c ---- */

/* Virtual time: when each op would begin and end on the GPU of the profile. Who runs an op's work, and when in
 * real time, is none of its business (deterministic.c).
 *
 * The model
 *   host      One clock for all host threads. A call of the API moves it on by SG_CALL_NS; a call that waits moves it to
 *             the end of what it waited for. Whatever else the host does takes no time.
 *   kernels   One after another: when one ends, the next is, of those whose turn has come in their streams, the one of
 *             highest priority, and of those the one that was queued first. A running kernel is not interrupted. Copies
 *             within the device and memsets take their turns among kernels.
 *   kernels that wait for others (softgpu/kernel_abi.h)   One after another, beside other kernels, which are slower by the
 *             multiprocessors that they take.
 *   copies    One at a time in each direction over the link, beside kernels, in the same order. While both directions are
 *             in use each is slower; while copies run, kernels are (profile.h).
 *   devices   Each has kernels and copies of its own; a copy between two of them goes over the link, in the direction to
 *             the device whose stream it is in.
 *   host functions   One at a time on each device, each SG_HOST_FUNCTION_NS.
 *   waits, records   No time.
 * All of it in whole nanoseconds, by integer arithmetic: the same on every machine.
 */
void sg_clock_call_locked(void); /* a call begins */
uint64_t sg_clock_now_locked(void);
void sg_clock_add_locked(const sg_op_t *op); /* it is queued now */
/* The stream has reached the number by the host's time. */
bool sg_clock_over_locked(const sg_stream_t *stream, uint64_t number);
/* Moves the host's clock on until the stream has. The caller holds a reference. */
void sg_clock_wait_locked(const sg_stream_t *stream, uint64_t number);

/* ---- scheduler/executors.c ---- */

/* The threads of the deterministic scheduler. They run what they are handed and decide nothing.
 *
 * One device executor does all work on device memory, and one caller all host functions, as long as what they are
 * handed ends soon. A piece of work that does not (a kernel that waits for the host or for another stream) is let
 * loose: it goes on by itself, and a further executor takes the next piece.
 */
CUresult sg_executors_start(void);
/* Whether there is one for this op: always for work; for a host function unless another one is let loose. */
bool sg_executor_free_locked(const sg_op_t *op);
/* Hands over the op, to be run up to unit `limit`, and waits until that is done: true, or it is let loose: false. Gives
 * up the lock meanwhile. */
bool sg_executor_run_locked(sg_op_t *op, uint64_t limit);
/* deterministic.c: that is done; `ok`: nothing faulted. `loose`: nobody has waited for them. */
void sg_executed_locked(sg_op_t *op, bool ok, bool loose);

/* Something has changed for those who wait with this. */
void sg_executors_wake_locked(void);
void sg_executors_wait_locked(void);

#endif
