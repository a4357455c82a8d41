/* hook.h: the edge of libebb: the program's calls of the CUDA driver end here, each becomes one call into ckpt/run (an operation, an
 * allocation, a wait), and most go on to the driver. Which calls, and what becomes of them: alloc/base/driver_calls.h.
 *
 * A program gets at a function of the driver in three ways, and each leads here:
 *   dlsym or dlvsym on a handle of libcuda   libebb exports both (preloaded, it comes first). A name in the table is answered
 *                                            with ebb's function if the real look-up finds one as well; anything else goes to
 *                                            the real dlsym as if nothing had been in between (by a jump, so that RTLD_NEXT
 *                                            still sees its caller), and so does what the driver itself looks up
 *   cuGetProcAddress, v1 and v2              ebb's own, reached by the first way. The real one is asked first: its answer
 *                                            decides whether there is a function, the table whether it is ebb's
 *   linking with -lcuda                      libebb exports its functions under their symbols' names
 * The runtime, static or shared, uses the first way for one name, cuGetProcAddress_v2, and the second for all others.
 *
 * Threads: any thread of the program may call in. A call takes ebb_lock() as it enters (below) and gives it back around the driver's
 * work; "lock held" below is that one. The program's own mappings wait for no lock (foreign.c).
 */
#ifndef EBB_HOOK_H
#define EBB_HOOK_H

#include "alloc/base/driver.h"
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

/* ---- how a call begins and ends (enter.c) ---- */

/* How calls begin. True: the lock is held, ebb_here is the device that is meant, and its context is current until
 * ebb_unlock. False: the call goes straight to the driver, no lock held. A device's state is made by the first call
 * that finds a context of it; of each device one context is served, the first. */

/* The device of the current context. False: ebb does not serve that one. */
bool ebb_enter(void);
/* The device whose address it is. For an address of ebb's true in every context; if it is nobody's (any more), ebb_here->number
 * may be EBB_NOWHERE. For another address as ebb_enter. */
bool ebb_enter_at(CUdeviceptr address);
/* For an operation: as ebb_enter, but true in every context, because any may touch ebb's memory (ebb_here->number is
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
/* Two of these without waiting for the lock: false also if another thread holds it. */
bool ebb_enter_device_now(CUdevice device);
bool ebb_enter_any_now(void);

/* Whether this call is the program's, and ebb serves any. Lock not held, unless the call comes out of one of ebb's own. */
bool ebb_is_awake(void);
/* After all that a call does, if it is open (offload/ebb_offload.h): whether it is to be made again. Lock not held, unless the call comes out of one of
 * ebb's own. */
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
