/* future.h: what the reactive half is told about the program's next operations, by the room above, which follows the program
 * through a recorded step (ckpt/run/tracker/follow.h). For this folder, and for whoever tells.
 *
 * All of it is advice but two things: what `rebuild` makes must be the content that was dropped, and `dropped` asks
 * whoever tells to keep that possible: by calling ebb_residence_restore before anything happens that would prevent it.
 * Without a future (NULL, or nothing known at the moment) victims are those that were not used for the longest time, and
 * nothing is dropped or fetched ahead.
 *
 * Threads and locks: ebb_lock() held throughout.
 */
#ifndef EBB_FUTURE_H
#define EBB_FUTURE_H

#include "alloc/ebb_alloc.h"

typedef struct ebb_next_use {
    bool known; /* else the rest means nothing */
    uint32_t
        ahead; /* operations until it is touched; 0: by the next one. A buffer that is freed untouched: until then */
    uint64_t ns;     /* until then, by what the operations took on the device */
    uint32_t behind; /* operations since it was touched last */
} ebb_next_use_t;

/* One of the next operations, by what it asks of memory. */
typedef struct ebb_coming {
    size_t born_chunks;  /* allocated just before it */
    size_t freed_chunks; /* freed just before it, of those that will be on the device as things are */
    uint32_t buffers;    /* that it touches */
} ebb_coming_t;

typedef struct ebb_future {
    /* False: nothing is known at the moment. */
    bool (*known)(void);
    ebb_next_use_t (*next_use)(const ebb_buffer_t *buffer);
    /* The operation `ahead` operations from now. False: nothing is known that far ahead. */
    bool (*coming)(uint32_t ahead, ebb_coming_t *out);
    /* The i-th buffer that it touches. NULL: not allocated yet. */
    ebb_buffer_t *(*touched)(uint32_t ahead, uint32_t i);

    /* Whether the content can be made again, and how long that would take the device. */
    bool (*can_rebuild)(const ebb_buffer_t *buffer, uint64_t *cost_ns);
    /* The content is about to be dropped: behind `ready` and all that touched it its bytes may be looked at, until the
     * mark that is returned. `keep_copy`: the host shall keep them as well, if it has memory for that. */
    ebb_mark_t (*dropping)(ebb_buffer_t *buffer, ebb_mark_t ready, bool *keep_copy);
    /* It is dropped (true), or is not after all (false). */
    void (*dropped)(ebb_buffer_t *buffer, bool dropped);
    /* Makes the content of a DROPPED buffer, for `stream`, by ebb_residence_blank and launches behind that. On failure
     * nothing has changed, but what was fetched for it. */
    ebb_status_t (*rebuild)(ebb_buffer_t *buffer, ebb_stream_t *stream);
    /* After that, of a buffer that the host has a copy of: whether it is the same. The host waits. */
    bool (*agrees)(ebb_buffer_t *buffer, ebb_stream_t *stream);
} ebb_future_t;

/* Set once, before any operation. */
void ebb_residence_future(const ebb_future_t *future);

/* After an operation of the program: what is needed next is brought in, into chunks that are free or of buffers needed later,
 * and room is made for it. The host does not wait for the device. */
void ebb_residence_look_ahead(void);

/* For rebuilding. A DROPPED buffer gets memory, contents undefined, and counts as resident; the host waits only if there
 * are no chunks. `stream` is behind whatever used them. */
ebb_status_t ebb_residence_blank(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* Instead of what was to be made: DROPPED again; the host waits for the stream. */
void ebb_residence_unblank(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* The buffers of an operation are needed soon, or not any more: they may be copied out meanwhile, not dropped. */
void ebb_residence_want(const ebb_operation_t *operation, bool wanted);
/* ebb has issued something on `stream`, up to `mark`, that touches the resident buffer. */
ebb_status_t ebb_residence_used(ebb_buffer_t *buffer, ebb_mark_t mark);
/* A content that a plan has given up: that of the unmapped buffer is nowhere, `rebuild` makes it (DROPPED). `copy`: a block
 * of pinned memory that has it too, residence's from then on; NULL: there is none. */
void ebb_residence_put_dropped(ebb_buffer_t *buffer, void *copy);
/* A DROPPED buffer is made now, in order on `stream`; one that is on its way there stays. */
ebb_status_t ebb_residence_restore(ebb_buffer_t *buffer, ebb_stream_t *stream);
bool ebb_residence_is_dropped(const ebb_buffer_t *buffer);

#endif
