/* residence_state.h: what residence.c, evict.c, victims.c and lookahead.c share. For this folder. */
#ifndef EBB_RESIDENCE_STATE_H
#define EBB_RESIDENCE_STATE_H

#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"

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
        ready; /* the last thing that ebb itself did with its bytes on the device: who touches it joins this */
    ebb_mark_t left; /* LEAVING: when its chunks may be taken */
    bool dropping;   /* LEAVING: it will be DROPPED */
    unsigned wanted; /* > 0: an operation in preparation needs it: may be copied out, not dropped */
    /* clean.h. `kept`: a block with the bytes that left last, owned, while the content is on the device. */
    ebb_host_t kept;
    uint64_t hash; /* of the bytes that left last, if `hashed` */
    bool hashed, same;
    struct ebb_residence *spare; /* the next one that nobody has yet (residence.c) */
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

/* evict.c: the buffers that are LEAVING, in order through `evicting`. */
ebb_buffer_t *ebb_leaving_first(ebb_device_t *dev);
size_t ebb_leaving_chunks(ebb_device_t *dev);
size_t ebb_leaving_bytes(ebb_device_t *dev);

/* Sends victims on their way (evict.c): LEAVING. The host does not wait for them, but where `host` allows it only a
 * copy to pageable memory. */
ebb_status_t ebb_leave(ebb_buffer_t *buffer, bool drop);
/* Takes the chunks of a leaving buffer; the host waits until it may. */
ebb_status_t ebb_vacate(ebb_buffer_t *buffer);
/* A leaving buffer stays. */
void ebb_stay(ebb_buffer_t *buffer);
/* Brings back what is on the host or has no content. The host waits only if there are no chunks. */
ebb_status_t ebb_fetch(ebb_buffer_t *buffer);

/* Frees a host block when a mark is reached. */
void ebb_free_host_at(ebb_device_t *dev, ebb_host_t host, size_t bytes, ebb_mark_t until);
/* Those whose marks are reached. */
void ebb_collect_hosts(ebb_device_t *dev);

/* Says what holds the memory, once per shortage (shortage.c). `operation`: its buffers are held, and could
 * not all be had; NULL: an allocation of `bytes` could not. */
void ebb_report_shortage(ebb_device_t *dev, const ebb_operation_t *operation, size_t bytes);

#endif
