/* run.h: the live half of ebb: follows the program's operations as they come, keeps it inside the budget, learns its step, and drives a plan for it.
 *
 * hook/ calls it, once for each operation, allocation, free and wait of the program. Parts, each a folder:
 *   tracker     where is the program in its step, and which buffer is which
 *   residence   reactive eviction and fetching, while no plan is driven
 *   profile     profiling passes over a step: what happens, how long it takes, what is written, what may be replayed
 *   replay      launching again: rebuilding dropped contents, and checking what was rebuilt
 *   drive       following a plan
 *   stats       what has happened, for people and programs
 *
 * Threads and locks: everything here and in these folders is called with ebb_lock() held unless it says otherwise, about the device that it is
 * given. An operation belongs to the device of its stream; buffers of other devices among its accesses are pinned while it is prepared
 * and issued. A thread of ebb's own makes plans, without the lock (internal.h). State: state.h.
 */
#ifndef EBB_RUN_RUN_H
#define EBB_RUN_RUN_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* ---- operations of the program (runner.c) ---- */

/* What this folder remembers begins empty: of the process, once, before anything else; of a device, before any call is about it. False: no host memory. */
bool ebb_run_open(ebb_t *ebb);
bool ebb_run_open_device(ebb_device_t *dev);
/* The process ends: so does the thread that plans (internal.h), within a second. ebb_lock() not held. */
void ebb_run_stop(ebb_t *ebb);

/* Makes all buffers of the operation resident, ordered before it on its stream. A failure goes to the program. */
ebb_status_t ebb_run_before(ebb_device_t *dev, ebb_operation_t *operation);
/* It has been issued, with this result of the driver's. Called for every operation that ebb_run_before let pass. */
void ebb_run_after(ebb_device_t *dev, const ebb_operation_t *operation, CUresult result);

/* May serve a request by a placed buffer. NULL: the allocator shall, unless the call is to be given up (ebb_pinned_is_wanted). */
ebb_buffer_t *ebb_run_serve(ebb_device_t *dev, const ebb_request_t *request);
/* A plan is driven, which would be left if memory was needed for anything else. */
bool ebb_run_drives(ebb_device_t *dev);
void ebb_run_allocated(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* A request could not be served. */
void ebb_run_out_of_memory(ebb_device_t *dev, const ebb_request_t *request);
/* It was allocated without memory, which could not be had since: the next operation that touches it gets it memory. */
void ebb_run_unbacked(ebb_buffer_t *buffer);
/* The program frees it. True: that is done, or will be (ebb_drive_put_off_free). */
bool ebb_run_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* The pool has too few: gets `chunks` more into it. False: it cannot. */
bool ebb_run_make_room(ebb_device_t *dev, size_t chunks);

/* Something has ordered operations. */
void ebb_run_ordered(ebb_device_t *dev, const ebb_order_t *order);
/* Whether that is to be reported, which costs something at each event: each `true` needs its `false`. Any thread. */
bool ebb_run_wants_order(ebb_t *ebb);
void ebb_run_want_order(ebb_t *ebb, bool wanted);
/* The smallest budget with a plan for each step that is known, or (`times` 2) for steps of any size that are twice as large as those so
 * far; bytes, whole MiB. 0: the budget is that large, this is not known, or there is none. */
size_t ebb_run_wanted_budget(ebb_device_t *dev, unsigned times);
/* The program has waited for work of its own. */
void ebb_run_waited(ebb_device_t *dev);
/* A call of the program's that waits or gives the device work returns this error. */
void ebb_run_failed(ebb_device_t *dev, CUresult result);

/* Whether a launch of a graph had better be the operations of its nodes: memory has been short, or steps are to be learned for another reason. */
bool ebb_run_wants_operations(ebb_device_t *dev);
/* Something has come up that no plan knows: a drive ends, what was learned is forgotten. */
void ebb_run_interrupted(ebb_device_t *dev, const char *why);
/* A CUmodule or CUlibrary of the program is about to be unloaded, its functions with it: the last chance to launch one. */
void ebb_run_unloading(ebb_device_t *dev, const void *handle);
/* The context of the device is at its end, and nothing is under way: what is held for it goes back. */
void ebb_run_ended(ebb_device_t *dev);

/* ---- what the program tells ebb itself (told.c) ---- */

/* A step begins with the next operation. */
void ebb_run_mark_step(ebb_device_t *dev);
/* Another EBB_BUDGET: what is beyond it leaves, plans are made anew. False: more than that has to stay. */
bool ebb_run_budget(ebb_device_t *dev, size_t bytes);
/* The buffer is resident, its bytes are there, and it stays until as many of the other: what reaches it is seen, and plans go by it. An error: as ebb_buffer_pin. */
ebb_status_t ebb_buffer_keep(ebb_buffer_t *buffer);
void ebb_buffer_keep_no_more(ebb_buffer_t *buffer);

/* ---- memory that must stay where it is (pin.c) ---- */

/* Memory that must stay where it is, because something reaches it that ebb does not see: another
 * process, another device, a graph that is launched as one, a network card.
 *
 * A held buffer is not evicted; a pinned one is also resident. Neither is part of a plan: a step with it is learned,
 * but none is driven. Buffers may be any device's. All with ebb_lock() held. */

/* From now on nothing leaves any device, and no plan is followed, because something may reach any buffer at any
 * time. Lock held. */
void ebb_keep_everything(ebb_t *ebb, const char *why);
/* The same for one device. */
void ebb_keep_device(ebb_device_t *dev, const char *why);
bool ebb_keeps_everything(ebb_device_t *dev);
/* From now on no step is learned and no plan followed, no kernel of ebb's is loaded and nothing pinned ahead, on any device: all of these wait, or
 * the driver may (CUDA programming guide, Lazy Loading and Implicit Synchronization), for the device, which perhaps waits for what the
 * program has not issued yet; or an invariant is broken (status.h). False: so it was already. Lock held. */
bool ebb_end_plans(ebb_t *ebb, const char *why);
/* From the next boundary on no step is learned and no plan followed, until as many calls with false. */
void ebb_run_pause(ebb_t *ebb, bool pause);
/* No plan may be made or followed now: everything is kept, plans have ended or are paused, or a stream is being captured (the device may
 * not be waited for then). */
bool ebb_plans_rest(ebb_device_t *dev);
/* ebb_run_interrupted, about each device. */
void ebb_interrupt_all(ebb_t *ebb, const char *why);

/* As many releases as holds. What is freed by the program is released with it. What reached it
 * unseen may be under way still: ebb_buffer_touch, ebb_buffer_touch_by_all. */
void ebb_buffer_hold(ebb_buffer_t *buffer);
void ebb_buffer_release(ebb_buffer_t *buffer);

/* Resident, its bytes there when it returns; it may leave again. */
ebb_status_t ebb_buffer_bring(ebb_buffer_t *buffer);
/* The same of all buffers of all devices. CUDA_ERROR_OUT_OF_MEMORY: they do not fit, and some may have come. */
ebb_status_t ebb_bring_everything(ebb_t *ebb, const char *why);
/* Holds it and makes it resident; the host waits until its bytes are there. CUDA_ERROR_OUT_OF_MEMORY: it does
 * not fit beside what else must stay. */
ebb_status_t ebb_buffer_pin(ebb_buffer_t *buffer);

/* An address in a buffer that may be gone when it is asked for. */
typedef struct ebb_pinned_ref {
    uint64_t generation; /* 0: none */
    CUdeviceptr address;
} ebb_pinned_ref_t;
static inline ebb_pinned_ref_t ebb_pinned_ref(const ebb_buffer_t *b)
{
    return (ebb_pinned_ref_t){b->generation, b->address};
}
/* The buffer, or NULL. */
ebb_buffer_t *ebb_pinned_get(ebb_t *ebb, ebb_pinned_ref_t ref);
void ebb_pinned_release(ebb_t *ebb, ebb_pinned_ref_t ref);

#endif
