/* core.h: whether ebb is at work in this process, and how every intercepted call begins and ends. For this
 * folder. */
#ifndef EBB_CORE_H
#define EBB_CORE_H

#include "ebb_alloc.h"

/* True if ebb serves the calling thread's current context; it then holds the lock. False: the call goes
 * straight to the driver, no lock held. Sets up arena and pool at the first call that finds a context. */
bool ebb_enter(void);
/* The same for a call about an address: true also when another context is current, if the address is one of
 * ebb's. Ebb's context is current until ebb_unlock. */
bool ebb_enter_at(CUdeviceptr address);
/* The same for an operation: true in every context, because any may touch ebb's memory; ebb_issue knows what to
 * do then. */
bool ebb_enter_work(void);

/* After ebb_enter_work: whether it is ebb's context that is current. */
bool ebb_enter_is_inside(void);
/* The same whatever is current: false if ebb serves no context (any more). */
bool ebb_enter_own(void);

/* Makes sure that ebb_driver is filled, for programs that call exported symbols. False: there is no driver.
 */
bool ebb_have_driver(void);

/* What a call that waits for the device has to return, after ebb_fail_program; else `result`. Any thread. */
CUresult ebb_waited(CUresult result);

size_t ebb_device_budget(void); /* EBB_BUDGET in bytes */
CUcontext ebb_context(void);    /* the one that ebb serves */
bool ebb_is_context(CUcontext context);
bool ebb_is_device(CUdevice device);
/* Whether it serves the device's primary context. */
bool ebb_is_primary_of(CUdevice device);

/* The program is about to destroy the context that ebb serves: everything of ebb's that lives in it ends, and
 * what is done in another context from here on is not ebb's business. Lock held, context current. */
void ebb_context_ends(void);
/* It has been destroyed: ebb's work is over, nothing can be given back. Lock not held. */
void ebb_context_gone(void);

/* Issues an operation: listener before, `issue(context)`, marks, listener after. Lock held. */
CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context);

#endif
