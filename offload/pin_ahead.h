/* pin_ahead.h: between pinned.c and pin_ahead.c. All of it with ebb_lock() held. */
#ifndef EBB_PIN_AHEAD_H
#define EBB_PIN_AHEAD_H

#include "offload/extent.h"
#include "offload/pinned.h"

/* One thing to do without the lock. */
typedef struct ebb_pin_job {
    bool unpin; /* `extent`, a cached block; else pin one of extent.bytes, from `place`, and put it there */
    ebb_extent_t extent;
    const ebb_place_t *place;
} ebb_pin_job_t;

/* What is next to be done so that so many blocks of these sizes are cached, the first one first. Blocks that are pinned ahead and were
 * never used are together no more than that: those of other sizes go before another is pinned. False: nothing, or what is left of the
 * budget is for what is asked for. Nothing has changed. */
bool ebb_pinned_next_ahead(ebb_device_t *dev, const size_t *bytes, size_t count, ebb_pin_job_t *job);
/* It is about to be done, from then on none of the cached blocks, but counted as pinned. */
void ebb_pinned_begin_ahead(ebb_device_t *dev, const ebb_pin_job_t *job);
/* It is done, or could not be; a block that has been pinned is cached. False: there is none. */
bool ebb_pinned_end_ahead(ebb_device_t *dev, const ebb_pin_job_t *job, ebb_status_t status);

/* Of these, those that are not cached, rounded, into `missing` [count]: what takes longer than a call of the driver, and what the budget
 * allows, of contents as of others. Returns how many. */
size_t ebb_pinned_missing(ebb_device_t *dev, const size_t *bytes, size_t count, bool content,
                          size_t *missing);
/* One of this size, rounded, is about to be pinned, after others have made room. False: the budget does not allow it. */
bool ebb_pinned_begin_wanted(ebb_device_t *dev, size_t rounded, ebb_pin_job_t *job);
/* Cached blocks are unpinned, so many bytes at least. False: there is none. */
bool ebb_pinned_make_room(ebb_device_t *dev, size_t bytes);

/* Whether the thread is pinning a block of this size, for the present device. */
bool ebb_pin_ahead_has(ebb_device_t *dev, size_t rounded);
/* What the thread is pinning or unpinning, for any device, becomes a cached block or is gone; the host waits for it. False: it does
 * neither. */
bool ebb_pin_ahead_collect(ebb_t *ebb);

#endif
