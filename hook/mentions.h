/* mentions.h: the buffers that a graph mentions, each pinned once for each graph. For this folder; ebb_lock()
 * held. */
#ifndef EBB_MENTIONS_H
#define EBB_MENTIONS_H

#include "ckpt/run/pin.h"

typedef struct ebb_mentions {
    ebb_pinned_ref_t *slot; /* open addressing by generation; 0: free */
    size_t count, room;     /* room: 0 or a power of two */
    size_t alloc_bytes;     /* that the graph allocates itself */
    unsigned alloc_slot;    /* on whose budget they count, once they do */
    bool all;               /* something of it could not be read: it may touch anything */
} ebb_mentions_t;

/* Makes it resident. CUDA_ERROR_OUT_OF_MEMORY: it cannot be. */
ebb_status_t ebb_mentions_add(ebb_mentions_t *mentions, ebb_buffer_t *buffer);
/* What another graph mentions is resident already. */
void ebb_mentions_add_all(ebb_mentions_t *to, const ebb_mentions_t *from);
/* Something was mentioned that cannot be read. */
void ebb_mentions_all(ebb_mentions_t *mentions);
/* Releases what it holds; it is empty then. */
void ebb_mentions_clear(ebb_mentions_t *mentions);
/* Appends an access for each that is alive, room for `count` of them. */
void ebb_mentions_list(const ebb_mentions_t *mentions, ebb_operation_t *operation);

#endif
