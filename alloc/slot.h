/* slot.h: several devices, one state each. A slot is the state of one device for the life of one context: budget,
 * chunks, heap, streams, copy engine. It is opened when the device's first context is seen and ends with that context;
 * a context that the device gets after that opens another slot.
 *
 * Every file whose state belongs to a device keeps an array of it, one per slot, and works on the element of
 * `ebb_slot`:
 *
 *     static struct {...} heaps[EBB_STATES];
 *     #define heap (heaps[ebb_slot])
 *
 * There is one lock for all of them (ebb_lock). ebb_slot belongs to the thread that holds it: ebb_enter* (hook/hook.h) set
 * it, by the current context, by the address that a call is about, or by the stream; while it is set, the slot's
 * context is current. What has to do with another device in the middle of a call visits its slot.
 *
 * Of the process, not of a device: the arena (one reservation of addresses, so that one comparison tells ebb's
 * pointers; a range knows its slot), the table of foreign memory and those of graphs, captures, tensor maps, pointer
 * tables, textures and functions (handles and addresses are unique in the process), stream records (each knows its
 * slot, and marks may be asked for, joined and waited for in any), the options, EBB_HOST_BUDGET and pageable memory.
 */
#ifndef EBB_SLOT_H
#define EBB_SLOT_H

#include <cuda.h>

#include "alloc/base/status.h"

enum {
    EBB_SLOTS = 16, /* contexts that are served in the life of a process; beyond, they are the driver's */
    EBB_NOWHERE =
        EBB_SLOTS, /* no device of ebb's: another context than one that it serves. Its state stays empty */
    EBB_STATES = EBB_SLOTS + 1
};

/* The lock's holder works on this one. */
extern unsigned ebb_slot;

typedef struct ebb_served {
    CUcontext context; /* NULL: it is gone, or could not be served */
    CUdevice device;
    bool failed;    /* ebb cannot serve this device */
    bool leftovers; /* its context went before its memory could be given back */
    size_t budget_bytes;
} ebb_served_t;

/* Those below ebb_slot_count have been opened. Lock held for all of this. */
extern ebb_served_t ebb_served[EBB_STATES];
extern unsigned ebb_slot_count;

/* EBB_NOWHERE: none left. */
unsigned ebb_slot_open(CUcontext context, CUdevice device);
/* The slot that serves it now, or EBB_NOWHERE. */
unsigned ebb_slot_of_context(CUcontext context);
unsigned ebb_slot_of_device(CUdevice device);
/* Of a stream's handle that is none of the default ones: that of its context. */
unsigned ebb_slot_of_stream(CUstream handle);

typedef struct ebb_visit {
    unsigned from;
    bool pushed;
} ebb_visit_t;

/* Works on another slot, with its context current, until ebb_slot_return; visits may be nested. Nothing has changed
 * on failure. */
ebb_status_t ebb_slot_visit(unsigned slot, ebb_visit_t *visit);
void ebb_slot_return(ebb_visit_t visit);

/* The same for what does not call the driver: returns the slot to be put back. */
static inline unsigned ebb_slot_swap(unsigned slot)
{
    unsigned before = ebb_slot;
    ebb_slot = slot;
    return before;
}

#endif
