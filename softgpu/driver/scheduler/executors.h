/* executors.h: the threads of the deterministic scheduler. They run what they are handed and decide nothing.
 *
 * One device executor does all work on device memory, and one caller all host functions, as long as what they are
 * handed ends soon. A piece of work that does not (a kernel that waits for the host or for another stream) is let
 * loose: it goes on by itself, and a further executor takes the next piece.
 *
 * Guarded by sg.lock, but for what says otherwise.
 */
#ifndef SG_EXECUTORS_H
#define SG_EXECUTORS_H

#include "softgpu/driver/stream/streams.h"

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
