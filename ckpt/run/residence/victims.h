/* victims.h: who makes room, and how. For this folder.
 *
 * While the program's next operations are known (tracker/follow.h), a victim's score is what bringing it back will cost the
 * device, by its bytes and by the time for which its memory is free: the cheapest go first. With copies only, that is
 * farthest next use first (Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems J. 5,
 * 1966). Of the two ways out a victim takes the cheaper: copying out and in at the link's rates, of which nothing counts
 * that the time until its next use hides, or the time of the launches that would make it again. EBB_OFFLOAD,
 * EBB_RECOMPUTE, EBB_OFFLOAD_MIN_GAP and EBB_RECOMPUTE_MAX_COST decide what may be taken; where that is not enough,
 * buffers are copied out all the same, because the program has to go on.
 *
 * Otherwise: least recently used first, those last that queued work still needs (their copies would wait for it, and the
 * host with them).
 */
#ifndef EBB_VICTIMS_H
#define EBB_VICTIMS_H

#include "ckpt/run/residence/residence_state.h"

typedef struct ebb_victim {
    ebb_buffer_t *buffer;
    bool drop;
    double score; /* smaller: first */
} ebb_victim_t;

typedef struct ebb_victims {
    ebb_victim_t *list; /* in order; owned */
    size_t count, chunks;
} ebb_victims_t;

/* Some that have `chunks` together, or all there are. False: none, or no host memory to list them. */
bool ebb_victims_choose(ebb_device_t *dev, ebb_victims_t *out, size_t chunks);
/* The same of those that are not touched within the next `beyond` operations, and only what the options allow; by
 * what is known of the future. */
bool ebb_victims_choose_ahead(ebb_device_t *dev, ebb_victims_t *out, size_t chunks, uint32_t beyond);
/* Host memory for all that are copied out is there, or can't be waited for (offload/ebb_offload.h). False: they stay. In evict.c. */
bool ebb_victims_have_hosts(ebb_device_t *dev, const ebb_victims_t *victims);
void ebb_victims_free(ebb_victims_t *victims);

#endif
