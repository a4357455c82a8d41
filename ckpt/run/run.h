/* run.h: what happens at each of the program's operations, called by the edge (hook/); see runner.c.
 *
 * All with ebb_lock() held, about the device that is given, whose context is current. An operation belongs to the device of its stream;
 * buffers of others among its accesses are pinned while it is prepared and issued.
 */
#ifndef EBB_RUN_H
#define EBB_RUN_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* What this folder remembers begins empty. Once, before anything else. False: no host memory. */
bool ebb_run_open(ebb_t *ebb);

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
/* It was allocated without memory, which could not be had since: whoever touches it gives it some. */
void ebb_run_unbacked(ebb_buffer_t *buffer);
/* The program frees it. True: it was a placed one and is gone now. */
bool ebb_run_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* The pool has too few: gets `chunks` more into it. False: it cannot. */
bool ebb_run_make_room(ebb_device_t *dev, size_t chunks);

/* Something has ordered operations. */
void ebb_run_ordered(ebb_device_t *dev, const ebb_order_t *order);
/* Whether that is to be told, which costs something at each event: wanted as often as not any more. Any thread. */
bool ebb_run_wants_order(ebb_t *ebb);
void ebb_run_want_order(ebb_t *ebb, bool wanted);
/* The program has waited for work of its own. */
void ebb_run_waited(ebb_device_t *dev);

/* Something has come up that no plan knows: a drive ends, what was learned is forgotten. */
void ebb_run_interrupted(ebb_device_t *dev, const char *why);
/* A CUmodule or CUlibrary of the program is about to be unloaded, its functions with it: the last chance to launch one. */
void ebb_run_unloading(ebb_device_t *dev, const void *handle);
/* The context of the device is at its end, and nothing is under way: what is held for it goes back. */
void ebb_run_ended(ebb_device_t *dev);

#endif
