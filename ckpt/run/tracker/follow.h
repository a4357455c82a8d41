/* follow.h: where the program is in a recorded step, while no plan is driven, and what that says about its buffers.
 *
 * A cursor goes along with the program. An operation that is the recorded one at the cursor (function, geometry, shape of
 * arguments) moves it on; another one is taken for an extra, or, when two in a row continue the step a little further on, for
 * the sign that something was left out. Failing both, one that differs from the recorded one in sizes only moves the cursor on
 * as well. After too many strays nothing is known until the next boundary. Buffers get their numbers in the trace when they
 * are first touched as recorded; one that outlives the step goes by its next number (trace.h) behind the boundary.
 *
 * What the cursor says is advice to residence/: next uses, what is allocated and touched next. What is dropped rests on more
 * (recipe.h).
 *
 * One step is followed at a time; with ebb_lock() held.
 */
#ifndef EBB_FOLLOW_H
#define EBB_FOLLOW_H

#include "ckpt/run/profile/record.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/trace/trace.h"
#include "offload/ebb_offload.h"

/* The next operation is the first one of a step like this one, which is borrowed until the next call or ebb_follow_end.
 * NULL, or without a trace: like the one before, if any. What is dropped is made before another step is followed. */
void ebb_follow_boundary(ebb_device_t *dev, ebb_recording_t *learned);
/* What is dropped is made. Does nothing if nothing is followed. */
void ebb_follow_end(ebb_device_t *dev);
bool ebb_follow_follows(ebb_t *ebb, const ebb_recording_t *learned);

/* At a boundary: [buffers] those with which the next step like this one begins, by their numbers in it, as far as they are
 * known; the caller's to free. NULL: nothing is known. */
ebb_buffer_t **ebb_follow_present(ebb_t *ebb, const ebb_recording_t *learned);

/* What is dropped is made. The cursor is lost, and buffers have no numbers, until the next boundary: the program's
 * operations are not shown to this module for now. */
void ebb_follow_pause(ebb_device_t *dev);
/* The program is in the middle of a step, where a plan has left it (left.h): followed from here on. */
struct ebb_left;
void ebb_follow_resume(ebb_device_t *dev, struct ebb_left *left);

/* Around every operation. `before` is for the moment when nothing has been done for it yet; an error goes to the
 * program. */
ebb_status_t ebb_follow_before(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_follow_after(ebb_t *ebb, const ebb_operation_t *operation, bool issued);
/* A buffer of the program is about to be freed, on the stream; NULL: now. */
void ebb_follow_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* ---- what comes next, for residence/ ---- */

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

/* False: nothing is known at the moment, and the others may not be asked. */
bool ebb_follow_known(ebb_device_t *dev);
ebb_next_use_t ebb_follow_next_use(const ebb_buffer_t *buffer);
/* The operation `ahead` operations from now. False: nothing is known that far ahead. */
bool ebb_follow_coming(ebb_t *ebb, uint32_t ahead, ebb_coming_t *out);
/* The i-th buffer that it touches. NULL: not allocated yet. */
ebb_buffer_t *ebb_follow_touched(ebb_t *ebb, uint32_t ahead, uint32_t i);

/* ---- for recipe.c ---- */

typedef struct ebb_followed {
    ebb_recording_t *learned; /* NULL: nothing is followed */
    unsigned slot;            /* the device on which it is */
    ebb_uses_t uses;
    ebb_buffer_t **buffer; /* [buffers] alive, under this number; NULL: none is known */
    bool known;            /* the cursor is right */
    bool paused,
        resumed; /* ebb_follow_pause, since the last boundary; ebb_follow_resume, until another one begins */
    uint32_t cursor; /* the next operation; operation_count: the step is over */
    uint64_t step;   /* counts boundaries */
    bool matches;    /* the operation under way is the one at the cursor, on the recorded buffers */
    uint32_t at;     /* its number then */
} ebb_followed_t;

#endif
