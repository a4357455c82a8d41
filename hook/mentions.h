/* mentions.h: the buffers that a graph mentions, each pinned once for each graph. For this folder; ebb_lock()
 * held. */
#ifndef EBB_MENTIONS_H
#define EBB_MENTIONS_H

#include "alloc/base/table.h"
#include "ckpt/run/pin.h"

typedef struct ebb_mentions {
    ebb_table_t refs;    /* ebb_pinned_ref_t */
    size_t alloc_bytes;  /* that the graph allocates itself */
    unsigned alloc_slot; /* on whose budget they count, once they do */
    bool all;            /* something of it could not be read: it may touch anything */
} ebb_mentions_t;

/* Makes it resident. CUDA_ERROR_OUT_OF_MEMORY: it cannot be. */
ebb_status_t ebb_mentions_add(ebb_mentions_t *mentions, ebb_buffer_t *buffer);
/* What another graph mentions is resident already. */
void ebb_mentions_add_all(ebb_mentions_t *to, const ebb_mentions_t *from);
/* Something was mentioned that cannot be read. */
void ebb_mentions_all(ebb_mentions_t *mentions);
/* Releases what it holds; it is empty then. */
void ebb_mentions_clear(ebb_mentions_t *mentions);
/* The next one that is alive, from *at on, 0 at first. NULL: there is none. */
ebb_buffer_t *ebb_mentions_next(const ebb_mentions_t *mentions, size_t *at);
/* Appends an access for each that is alive, room for refs.count of them. */
void ebb_mentions_list(const ebb_mentions_t *mentions, ebb_operation_t *operation);

#endif
