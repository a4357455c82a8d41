/* hook.h: the edge of libebb: the program's calls of the CUDA driver end here, each becomes one call into ckpt/run (an operation, an
 * allocation, a wait), and most go on to the driver. Which calls, and what becomes of them: alloc/base/driver_calls.h.
 *
 * A program gets at a function of the driver in three ways, and each leads here:
 *   dlsym or dlvsym on a handle of libcuda   libebb exports both (preloaded, it comes first). A name in the table is answered
 *                                            with ebb's function if the real look-up finds one as well, a function of the driver's
 *                                            that is not in the table as unknown.c says; anything else goes to
 *                                            the real dlsym as if nothing had been in between (by a jump, so that RTLD_NEXT
 *                                            still sees its caller), and so does what the driver itself looks up
 *   cuGetProcAddress, v1 and v2              ebb's own, reached by the first way. The real one is asked first: its answer
 *                                            decides whether there is a function, the table whether it is ebb's
 *   linking with -lcuda                      libebb exports its functions under their symbols' names
 * The runtime, static or shared, uses the first way for one name, cuGetProcAddress_v2, and the second for all others.
 *
 * Calls of NCCL's are listened to as well (nccl.c): they tell what its kernels reach.
 *
 * Threads: any thread of the program may call in. A call takes ebb_lock() as it enters (below) and gives it back around the driver's
 * work; "lock held" below is that one. The program's own mappings wait for no lock (foreign.c).
 *
 * State: a call of the program passes nothing of ebb's. What it is about it gets from entering: a device, and by that the process
 * (dev->ebb). What is asked without the lock is asked of ebb_global.
 */
#ifndef EBB_HOOK_H
#define EBB_HOOK_H

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* ---- look-ups (lookup.c) ---- */

/* One entry point that ebb answers for. */
typedef struct ebb_entry {
    const char *name;   /* as cuGetProcAddress has it */
    const char *symbol; /* as dlsym has it */
    int version;        /* the form that appeared with this version */
    void *plain;
    void *per_thread;   /* the same for the per-thread default stream; NULL: none */
    const char *suffix; /* of its symbol: _ptsz, _ptds */
} ebb_entry_t;

/* The SERVED and WATCHED rows of driver_calls.h, ended by a NULL name. */
extern const ebb_entry_t ebb_entries[];

/* The entry that answers for cuGetProcAddress(name, version, flags), or NULL; its function for these flags. */
const ebb_entry_t *ebb_entry_by_name(const char *name, int version, unsigned long long flags);
void *ebb_hook_of(const ebb_entry_t *entry, unsigned long long flags);
/* Ebb's function for an exported symbol of the driver, or NULL. */
void *ebb_hook_by_symbol(const char *symbol);

/* Whether the table passes such a function, in whatever form. */
bool ebb_is_passed(const char *symbol);

/* Whether code lies in the shared library of which the file's name begins so. Any thread. */
bool ebb_is_code_of(const void *code, const char *library);

/* ---- how a call begins and ends (enter.c) ---- */

/* The process. */
extern ebb_t ebb_global;

/* How calls begin. They return the device that is meant: the lock is held, and its context is current until ebb_unlock. NULL: the call goes
 * straight to the driver, no lock held. A device's state is made by the first call that finds a context of it; of each device one
 * context is served, the first. */

/* Of the current context. NULL: ebb does not serve that one. */
ebb_device_t *ebb_enter(void);
/* Whose address it is. For an address of ebb's never NULL if there is a current context; if it is in no range (any more), perhaps
 * ebb_no_device. For another address as ebb_enter. */
ebb_device_t *ebb_enter_at(CUdeviceptr address);
/* For an operation: as ebb_enter, but ebb_no_device in a context that ebb does not serve, because any may touch ebb's memory. ebb_issue
 * knows what to do. */
ebb_device_t *ebb_enter_work(void);
/* Of the stream that is returned (ebb_stream_device), which may be another than the current context's. NULL: ebb does not serve it. */
ebb_stream_t *ebb_enter_stream(CUstream stream);
/* Of that number; of that context, served from now on if it is the first of its device. */
ebb_device_t *ebb_enter_device(CUdevice device);
ebb_device_t *ebb_enter_context(CUcontext context);
/* Of the current context, if that is a further one of its device, which ebb does not serve. */
ebb_device_t *ebb_enter_beside(void);
/* For a question about the process: as ebb_enter_work, and ebb_no_device without a context. NULL: ebb is asleep. */
ebb_device_t *ebb_enter_any(void);
/* Two of these without waiting for the lock: NULL also if another thread holds it. The second is always ebb_no_device. */
ebb_device_t *ebb_enter_device_now(CUdevice device);
ebb_device_t *ebb_enter_any_now(void);
/* As ebb_enter_any, ebb_enter_at and ebb_enter_stream, for a call that only asks, or frees only this: what was allocated last needs no
 * memory for it (heap.c). */
ebb_device_t *ebb_enter_to_ask(void);
ebb_device_t *ebb_enter_to_free(CUdeviceptr address);
ebb_stream_t *ebb_enter_stream_to_free(CUstream stream, CUdeviceptr address);

/* Whether this call is the program's, and ebb serves any. Lock not held, unless the call comes out of one of ebb's own. */
bool ebb_is_awake(void);
/* After all that a call does, if it is open (offload/ebb_offload.h): whether it is to be made again. Lock not held, unless the call comes out of one of
 * ebb's own. */
bool ebb_call_again(CUresult result);

/* Makes sure that ebb_driver is filled, for programs that call exported symbols. False: there is no driver.
 */
bool ebb_have_driver(void);

/* What a call that waits for the device has to return, after ebb_fail_program; else `result`. Any thread. */
CUresult ebb_waited(CUresult result);

/* A budget in bytes, of a device with so much memory; EBB_BUDGET. */
size_t ebb_share_of(ebb_size_t budget, size_t total_bytes);
size_t ebb_budget_of(size_t total_bytes);
/* Whether ebb serves it. Lock not held. */
bool ebb_is_context(CUcontext context);
/* Whether it serves the device's primary context. Lock not held. */
bool ebb_is_primary_of(CUdevice device);

/* Measures what else is held on the device; if there is more than the budget allows now, plans end and something is evicted. Not while a
 * stream is captured. Lock held. */
void ebb_measure(ebb_device_t *dev);

/* Waits for every device that ebb serves. Lock not held. */
CUresult ebb_synchronize_all(void);

/* The program is about to destroy the device's context: everything of ebb's that lives in it ends. The next context of that device gets
 * a state of its own. Lock held, context current. */
void ebb_context_ends(ebb_device_t *dev);
/* The one of this device has been destroyed: the same, as far as it still can be done. Lock not held. */
void ebb_context_gone(CUdevice device);

/* ---- operations (issue.c) ---- */

/* Issues an operation on the device of its stream: ebb_run_before, `issue(context)` in the program's own context,
 * marks, ebb_run_after. Lock held. */
CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context);

#endif
