/* residence.h: what residence.c and evict.c share. For this folder. */
#ifndef EBB_RESIDENCE_H
#define EBB_RESIDENCE_H

#include "ebb_offload.h"

/* A buffer's listener_state. */
typedef struct ebb_residence {
    ebb_host_t host;  /* the content, if there is a block; owned */
    ebb_mark_t ready; /* otherwise: the buffer's bytes are in place from here on */
    ebb_mark_t left;  /* evict.c: where the copy out ends */
    /* clean.h. `kept`: a block with the bytes that left last, owned, while the content is on the device. */
    ebb_host_t kept;
    uint64_t hash; /* of the bytes that left last, if `hashed` */
    bool hashed, same;
} ebb_residence_t;

/* NULL: no host memory. */
ebb_residence_t *ebb_residence_of(ebb_buffer_t *buffer);

/* Whether its content is on the device, or will be when what was issued is done. A mapped buffer with a host
 * block is not: its content was copied out, but the mapping could not be taken away. */
static inline bool ebb_is_resident(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->listener_state;
    return b->range->mapped && !(r && r->host.at);
}

/* Whether the reactive half may send it away now. */
bool ebb_may_evict(const ebb_buffer_t *buffer);

/* Frees a host block when a mark is reached. */
void ebb_free_host_at(ebb_host_t host, size_t bytes, ebb_mark_t until);
/* Those whose marks are reached. */
void ebb_collect_hosts(void);

/* Says what holds the memory, once per shortage (shortage.c). `operation`: its buffers are held, and could
 * not all be had; NULL: an allocation of `bytes` could not. */
void ebb_report_shortage(const ebb_operation_t *operation, size_t bytes);

#endif
