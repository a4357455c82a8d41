/* core.h: whether ebb is at work in this process, and how every intercepted call begins and ends. For this
 * folder. */
#ifndef EBB_CORE_H
#define EBB_CORE_H

#include "ebb_alloc.h"

/* True if ebb serves the calling thread's current context; it then holds the lock. False: the call goes
 * straight to the driver, no lock held. Sets up arena and pool at the first call that finds a context. */
bool ebb_enter(void);

/* Makes sure that ebb_driver is filled, for programs that call exported symbols. False: there is no driver.
 */
bool ebb_have_driver(void);

/* What a call that waits for the device has to return, after ebb_fail_program; else `result`. Any thread. */
CUresult ebb_waited(CUresult result);

size_t ebb_device_budget(void); /* EBB_BUDGET in bytes */

/* Issues an operation: listener before, `issue(context)`, marks, listener after. Lock held. */
CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context);

#endif
