/* pinned.h: page-locked host memory, which the device's copy engines reach at full speed and without waiting.
 *
 * Pinning is slow (the kernel has to find and lock every page, the driver to map them: it costs about as much
 * as copying the bytes), so freed blocks stay pinned and are given out again for the same size: a training
 * step asks for the same sizes over and over. Blocks of sizes that nobody asks for any more make room when
 * the budget is reached.
 *
 * Glossary
 *   block   what a caller gets; from half a page up it is rounded to pages and to nothing else, below to 64
 *           bytes
 *   extent  memory that was pinned at once (extent.h): one block, or a slab of small ones
 *   cached  of a block: pinned and free
 *
 * Memory comes from the NUMA node of the calling thread's current device (topology.h) and is not inherited by forked
 * children. Each device has an arena of its own, for its node and because a registration ends with the context that
 * made it: a block is given back to the device of which it was taken. The budget is one for all.
 *
 * Threads and locks: everything here wants ebb_lock() held (alloc/ebb_alloc.h), or one thread, and takes no
 * lock of ebb's. The driver is called to pin and unpin, with a current context; never after the process began to exit.
 *
 * An operation or an allocation whose evictions want blocks that are not cached says so before it has changed anything (ebb_pinned_want).
 * It ends as if there was no memory; the call pins the blocks without the lock, and is made again (hook/internal.h). So does the operation
 * or allocation at whose beginning a plan is to be installed, which is not by a call that cannot be made again. The lock is held for a MiB
 * and less, which takes less than a millisecond, and where nothing can be given up: scratch memory of learning, copies that the first driven
 * steps keep, what is dropped and has to be made before the program frees something, buffers that are to stay where they are, memory that is
 * lent to the driver; and when the fourth attempt of an eviction wants more still.
 */
#ifndef EBB_PINNED_H
#define EBB_PINNED_H

#include "alloc/ebb_alloc.h"

typedef struct ebb_pinned_usage {
    size_t allocated_bytes;  /* in blocks in use, as requested */
    size_t cached_bytes;     /* in cached blocks */
    size_t registered_bytes; /* in all extents: what the machine has less because of us */
    size_t peak_bytes;       /* the most that was ever registered */
    size_t budget_bytes;     /* EBB_HOST_BUDGET, or half of what the machine or control group has */
    size_t own_bytes;        /* of allocated_bytes, this device's */
    size_t others_bytes;     /* of registered_bytes, other devices' */
} ebb_pinned_usage_t;

/* A block of pinned memory, contents undefined. NULL: the budget does not allow it, or it could not be
 * pinned; the first time, the log says why and what to do. */
void *ebb_pinned_alloc(ebb_device_t *dev, size_t bytes);

/* The same for contents that may be pageable: an eighth of the budget is left to ebb's own memory, without which no step is learned. */
void *ebb_pinned_alloc_content(ebb_device_t *dev, size_t bytes);

/* Where the memory of a block is from `*at` on, and how much of `bytes` is pinned at once there: for copies, which no more than that may
 * be (extent.h). A block that is larger than a piece is known to the CPU by this alone. */
size_t ebb_pinned_piece(ebb_device_t *dev, void **at, size_t bytes);

/* Gives a block back; `bytes` as requested. Nothing may be under way to or from it. NULL is ignored. */
void ebb_pinned_free(ebb_device_t *dev, void *block, size_t bytes);

/* So many blocks of these sizes will be wanted next: a thread pins those that are not cached (pin_ahead.c), without the lock. What was
 * expected before, on this device, is not any more. No more than all of these together is ever pinned and yet unused. After a refusal of
 * the driver's, and with EBB_PREALLOC=0, none is pinned. */
void ebb_pinned_expect(ebb_device_t *dev, const size_t *bytes, size_t count);

/* ---- what is pinned before it is needed, by the call that needs it ---- */

/* The thread's call of the driver. */
typedef struct ebb_pinned_call {
    bool
        open; /* it has wanted something, or is final: of nearly all it is false, so asking that is all that they pay */
    bool final, deferring;
    unsigned tries;
    ebb_device_t *device;
    CUcontext context;    /* the device's when it wanted */
    size_t *bytes, count; /* owns; what is wanted there */
} ebb_pinned_call_t;
extern _Thread_local ebb_pinned_call_t ebb_pinned_call __attribute__((tls_model("initial-exec")));
/* Such a call has ended, with the driver's error or not: what it wanted is pinned. True: it is to be made again. Lock not held. */
bool ebb_pinned_call_again(bool failed);
/* The call under way cannot be made again: it may have changed something. */
void ebb_pinned_call_is_final(void);
/* From here on, what this thread does can be given up, or not any more. False: it cannot, for the call is final, or has been made again too
 * often. */
bool ebb_pinned_defer(bool defer);
/* So many blocks of these sizes will be asked for; `content`: by ebb_pinned_alloc_content, where contents may be pageable. False: some have
 * to be pinned first, and what is under way shall be given up. */
bool ebb_pinned_want(ebb_device_t *dev, const size_t *bytes, size_t count, bool content);
/* It is being given up. */
bool ebb_pinned_is_wanted(void);

/* Unpins all cached blocks and returns them to the system. Returns how many bytes that were. Waits for the
 * device. */
size_t ebb_pinned_trim(ebb_device_t *dev);

ebb_pinned_usage_t ebb_pinned_usage(ebb_device_t *dev);

/* Checks all structures (debug builds and tests). */
void ebb_pinned_check(ebb_device_t *dev);

#endif
