/* enter.h: whether ebb is at work in this process, and how every intercepted call begins and ends. For this
 * folder. */
#ifndef EBB_CORE_H
#define EBB_CORE_H

#include "alloc/ebb_alloc.h"

/* How calls begin. True: the lock is held, ebb_slot says which device is meant, and its context is current until
 * ebb_unlock. False: the call goes straight to the driver, no lock held. A device's state is made by the first call
 * that finds a context of it; of each device one context is served, the first. */

/* The device of the current context. False: ebb does not serve that one. */
bool ebb_enter(void);
/* The device whose address it is. For an address of ebb's true in every context; if it is nobody's (any more), ebb_slot
 * may be EBB_NOWHERE. For another address as ebb_enter. */
bool ebb_enter_at(CUdeviceptr address);
/* For an operation: as ebb_enter, but true in every context, because any may touch ebb's memory (ebb_slot is
 * EBB_NOWHERE then); ebb_issue knows what to do. */
bool ebb_enter_work(void);
/* The device of a stream, which may be another than the current context's; NULL: false. */
ebb_stream_t *ebb_enter_stream(CUstream stream);
/* The device of that number; the one of that context, served from now on if it is the first of its device. */
bool ebb_enter_device(CUdevice device);
bool ebb_enter_context(CUcontext context);
/* The device of the current context, if that is a further one, which ebb does not serve. */
bool ebb_enter_beside(void);
/* For a question about tables of the process: true unless ebb is asleep, also without a context. */
bool ebb_enter_any(void);

/* Before all that a call does, and after it: whether it is to be made again. Lock not held, unless the call comes out of one of ebb's own. */
void ebb_call_begins(void);
bool ebb_call_again(CUresult result);

/* Before one of these, for a call that only asks, or frees only this: what was allocated last needs no memory for it (heap.c). */
void ebb_enter_to_ask(void);
void ebb_enter_to_free(CUdeviceptr address);

/* After one of these: goes on with another slot, until ebb_unlock; only if it is the same device still. False: its
 * context is gone. */
bool ebb_enter_goes_on(unsigned slot);
/* After ebb_enter_work or ebb_enter_any: whether the current context is one that ebb serves. */
bool ebb_enter_is_inside(void);

/* Makes sure that ebb_driver is filled, for programs that call exported symbols. False: there is no driver.
 */
bool ebb_have_driver(void);

/* What a call that waits for the device has to return, after ebb_fail_program; else `result`. Any thread. */
CUresult ebb_waited(CUresult result);

size_t ebb_device_budget(void); /* EBB_BUDGET in bytes, of the present device; lock held */
size_t
ebb_budget_of(size_t total_bytes); /* the same of a device with so much memory that has no context yet */
CUcontext ebb_context(void);       /* its context; lock held */
/* Whether ebb serves it. Lock not held. */
bool ebb_is_context(CUcontext context);
/* Whether it serves the device's primary context. Lock not held. */
bool ebb_is_primary_of(CUdevice device);

/* Measures what else is held on the present device; if there is more than the budget allows now, plans end and something is evicted. Not
 * while a stream is captured. Lock held. */
void ebb_measure(void);

/* Waits for every device that ebb serves. Lock not held. */
CUresult ebb_synchronize_all(void);

/* The program is about to destroy the present slot's context: everything of ebb's that lives in it ends. The next
 * context of that device gets a slot of its own. Lock held, context current. */
void ebb_context_ends(void);
/* The one of this device has been destroyed: the same, as far as it still can be done. Lock not held. */
void ebb_context_gone(CUdevice device);

/* Issues an operation on the device of its stream: ebb_run_before, `issue(context)` in the program's own context,
 * marks, ebb_run_after. Lock held. */
CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context);

#endif
