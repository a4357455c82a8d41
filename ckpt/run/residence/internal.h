/* internal.h: what the files of residence/ share. */
#ifndef EBB_RUN_RESIDENCE_INTERNAL_H
#define EBB_RUN_RESIDENCE_INTERNAL_H

#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"

/* ---- where each content is ---- */

/* Where a buffer's content is.
 *
 *   RESIDENT  on the device, or it will be when `ready` is reached
 *   LEAVING   on the device, and until `left` on its way out or to be dropped: any access makes it RESIDENT again
 *   ON_HOST   in the host block `host`; the range has no chunks (or could not be rid of them)
 *   DROPPED   nowhere: ebb_recipe_rebuild makes it. Perhaps there is a block for the case that it fails
 *   EMPTY     it has none: handed over by a plan without content; the range has no chunks
 *
 * make room, look ahead:  RESIDENT -> LEAVING -> ON_HOST | DROPPED;  acquire: all -> RESIDENT;
 * a plan that is left:    ebb_residence_put -> ON_HOST | EMPTY;  ebb_residence_put_dropped -> DROPPED */
typedef enum ebb_whereabouts {
    EBB_RESIDENT,
    EBB_LEAVING,
    EBB_ON_HOST,
    EBB_DROPPED,
    EBB_EMPTY
} ebb_whereabouts_t;

/* A buffer's residence. */
typedef struct ebb_residence {
    ebb_whereabouts_t where;
    ebb_host_t host; /* ON_HOST, LEAVING, DROPPED: the block; owned */
    ebb_mark_t
        ready; /* the last thing that ebb itself did with its bytes on the device: operations on it join this */
    ebb_mark_t left; /* LEAVING: when its chunks may be taken */
    bool dropping;   /* LEAVING: it will be DROPPED */
    unsigned wanted; /* > 0: an operation in preparation needs it: may be copied out, not dropped */
    /* internal.h. `kept`: a block with the bytes that left last, owned, while the content is on the device. */
    ebb_host_t kept;
    uint64_t hash; /* of the bytes that left last, if `hashed` */
    bool hashed, same;
    struct ebb_residence *spare; /* the next free one (residence.c) */
} ebb_residence_t;

/* NULL: no host memory. */
ebb_residence_t *ebb_residence_of(ebb_buffer_t *buffer);

static inline ebb_whereabouts_t ebb_where(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return r ? r->where : EBB_RESIDENT;
}

static inline bool ebb_is_resident(const ebb_buffer_t *b)
{
    return ebb_where(b) == EBB_RESIDENT;
}

/* Whether the reactive half may send it away now. */
bool ebb_may_evict(const ebb_buffer_t *buffer);

/* evict.c: the buffers that are LEAVING, in the order in which they left, linked through `evicting`. */
struct ebb_leaving {
    ebb_buffer_t *first, *last;
    size_t chunks, bytes;
};

/* Sends victims on their way (evict.c): LEAVING. The host does not wait for them, but where `host` allows it only a
 * copy to pageable memory. */
ebb_status_t ebb_leave(ebb_buffer_t *buffer, bool drop);
/* Takes the chunks of a leaving buffer; the host waits until it may. */
ebb_status_t ebb_vacate(ebb_buffer_t *buffer);
/* A leaving buffer stays. */
void ebb_stay(ebb_buffer_t *buffer);
/* Brings back what is on the host or has no content. The host waits only if there are no chunks. */
ebb_status_t ebb_fetch(ebb_buffer_t *buffer);

/* Frees a host block when a mark is reached (ebb_collect_hosts). */
void ebb_free_host_at(ebb_device_t *dev, ebb_host_t host, ebb_mark_t until);

/* ---- host blocks that outlive the fetch (clean.c) ---- */

/* Host blocks that outlive the fetch: when their buffer leaves again and has not changed, nothing need be
 * copied. For this folder.
 *
 * Every content that leaves is hashed on the device: it is clean only if the hash is the same as when the block was filled.
 * Where that seldom pays (the program's buffers are always written), hashing pauses for a while. EBB_CLEAN=0: never. */

/* An operation is about to be prepared. */
void ebb_residence_prepare(ebb_device_t *dev);

/* Hashes a list of buffers (by `evicting`) that are about to leave, after all that touched them; the host waits. Notes in
 * each residence its hash, and `same` if its block holds the same bytes. */
void ebb_clean_look(ebb_buffer_t *list);

/* Kept blocks of other buffers go until `bytes` of them are free. False: there are none any more. */
bool ebb_clean_drop(ebb_device_t *dev, size_t bytes);

/* The buffer has no use for its kept block any more. */
void ebb_clean_forget(ebb_buffer_t *buffer);

/* ---- what makes room, and how (victims.c) ---- */

/* Which buffers make room, and how. For this folder.
 *
 * While the program's next operations are known (tracker/tracker.h), a victim's score is what bringing it back will cost the
 * device, by its bytes and by the time for which its memory is free: the cheapest go first. With copies only, that is
 * farthest next use first (Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems J. 5,
 * 1966). Of the two ways out a victim takes the cheaper: copying out and in at the link's rates, of which nothing counts
 * that the time until its next use hides, or the time of the launches that would make it again. EBB_OFFLOAD,
 * EBB_RECOMPUTE, EBB_OFFLOAD_MIN_GAP and EBB_RECOMPUTE_MAX_COST decide what may be taken; where that is not enough,
 * buffers are copied out all the same, because the program has to go on.
 *
 * Otherwise: least recently used first, those last that queued work still needs (their copies would wait for it, and the
 * host with them). */

typedef struct ebb_victim {
    ebb_buffer_t *buffer;
    bool drop;
    bool forced;  /* whatever the options say */
    double score; /* smaller: first */
} ebb_victim_t;

typedef struct ebb_victims {
    ebb_victim_t *list;   /* [candidates] in order; owned */
    size_t count, chunks; /* the first ones, which are taken */
    size_t candidates;
} ebb_victims_t;

/* Some that have `chunks` together, or all there are. False: none, or no host memory to list them. */
bool ebb_victims_choose(ebb_device_t *dev, ebb_victims_t *out, size_t chunks);
/* The same of those that are not touched within the next `beyond` operations, and only what the options allow; by
 * the lookahead. */
bool ebb_victims_choose_ahead(ebb_device_t *dev, ebb_victims_t *out, size_t chunks, uint32_t beyond);
/* Host memory for all that are copied out is there, or can't be waited for (offload/ebb_offload.h). False: they stay. In evict.c. */
bool ebb_victims_have_hosts(ebb_device_t *dev, const ebb_victims_t *victims);
void ebb_victims_free(ebb_victims_t *victims);

#endif
