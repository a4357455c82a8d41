/* pin.h: memory that must stay where it is, because something reaches it that ebb does not see: another
 * process, another device, a captured graph, a network card. 
 *
 * A held buffer is not evicted; a pinned one is also resident. Neither is part of a plan: a step with it is learned,
 * but none is driven. Buffers may be any device's. All with ebb_lock() held.
 */
#ifndef EBB_PIN_H
#define EBB_PIN_H

#include "alloc/ebb_alloc.h"

/* From now on nothing leaves any device, and no plan is followed, because something may reach any buffer at any
 * time. Lock held. */
void ebb_keep_everything(ebb_t *ebb, const char *why);
/* The same for one device. */
void ebb_keep_device(ebb_device_t *dev, const char *why);
bool ebb_keeps_everything(ebb_device_t *dev);
/* From now on no step is learned and no plan followed, on any device: both wait for the device, which perhaps waits for what the
 * program has not issued yet; or an invariant is broken (status.h). Lock held. */
void ebb_end_plans(ebb_t *ebb, const char *why);
/* No plan may be made or followed now: everything is kept, plans have ended, or a stream is being captured (the device may
 * not be waited for then). */
bool ebb_plans_rest(ebb_device_t *dev);
/* ebb_run_interrupted, about each device. */
void ebb_interrupt_all(ebb_t *ebb, const char *why);

/* As many releases as holds. What is freed by the program is released with it. */
void ebb_buffer_hold(ebb_buffer_t *buffer);
void ebb_buffer_release(ebb_buffer_t *buffer);

/* Holds it and makes it resident; the host waits until its bytes are there. CUDA_ERROR_OUT_OF_MEMORY: it does
 * not fit beside what else must stay. */
ebb_status_t ebb_buffer_pin(ebb_buffer_t *buffer);

/* A buffer that may be gone when it is to be released. */
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
