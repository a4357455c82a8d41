/* internal.h: what the files of replay/ share. */
#ifndef EBB_RUN_REPLAY_INTERNAL_H
#define EBB_RUN_REPLAY_INTERNAL_H

#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

/* ---- recipes of the step that is followed ---- */

/* Of a content that is dropped. */
typedef struct recipe {
    bool given_up;    /* by a plan (replay.h): */
    bool copied;      /* residence has a copy */
    size_t own_bytes; /* that making it takes beside the program's buffers, at most */
    uint32_t count;
    uint32_t operation[]; /* [count] that make it, in order */
} recipe_t;

/* What is known of a numbered buffer. */
typedef struct content {
    uint64_t version; /* counts operations that may have written it */
    uint32_t
        writer; /* the last operation of this step that wrote it; EBB_NONE: none, another than the recorded, or not to be repeated */
    recipe_t *recipe; /* owned; NULL: it is not dropped, or about to be */
    uint32_t place;   /* in `dropped` */
    uint32_t needed;  /* how often recipes of dropped buffers read it */
} content_t;

typedef struct ebb_recipes {
    content_t *of;        /* [buffers] NULL: nothing may be dropped */
    ebb_issued_t *issued; /* [operations] as issued in this step */
    uint64_t *seen;       /* [accesses] version of the buffer before the operation, in this step */
    uint32_t *maker;      /* [accesses] its `writer` then */
    uint32_t *dropped;    /* [buffers] numbers: those that are dropped, or about to be */
    uint32_t dropped_count, orphan_count; /* the latter: of them, by a plan */
    uint32_t *path; /* [buffers + 2] contents that are being made, each for the one before */
    uint32_t path_length;
    ebb_buffer_t **own; /* [buffers] what stands for a buffer while a recipe goes on; else NULL */
    uint32_t
        *last_read; /* [buffers] 1 + the last operation of the recipe under way that reads it there; else 0 */
    uint32_t *chain;  /* [operations] room for the operations that have made a content */
    uint64_t most_ns; /* a recipe's own operations may take */
    const ebb_operation_t *under_way;
    bool shut;          /* nothing more is dropped: what is dropped is being made */
    ebb_stream_t *side; /* for what is done besides the program's work; NULL: none yet */
    ebb_recipe_counts_t counts;
} recipes_t;

static inline const ebb_trace_operation_t *ebb_recorded(ebb_device_t *dev, uint32_t operation)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    return &tracked->learned->trace->operation[operation];
}

static inline const ebb_trace_access_t *ebb_accesses(ebb_device_t *dev, uint32_t operation)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    return &tracked->learned->trace->access[ebb_recorded(dev, operation)->first_access];
}

/* The first access of an operation to its buffer. */
static inline bool ebb_is_first(ebb_device_t *dev, uint32_t operation, uint32_t k)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    const ebb_trace_t *t = tracked->learned->trace;
    return ebb_trace_is_first(t, operation, t->operation[operation].first_access + k);
}

static inline bool ebb_is_dropped(ebb_device_t *dev, uint32_t id)
{
    recipes_t *recipes = dev->run->recipes;
    return recipes->of[id].recipe != NULL;
}

/* In a recipe of `id`: the access only reads, and what it reads is in its buffer, or dropped itself. */
static inline bool ebb_is_there(ebb_device_t *dev, uint32_t id, uint32_t operation, uint32_t k)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const ebb_trace_access_t *a = &ebb_accesses(dev, operation)[k];
    return a->buffer != id && a->mode == EBB_READS && tracked->buffer[a->buffer] &&
           recipes->of[a->buffer].version == recipes->seen[ebb_recorded(dev, operation)->first_access + k];
}

/* Of a buffer, as it was in this step; no less, where that is not known. */
static inline size_t ebb_recipe_bytes(ebb_device_t *dev, uint32_t id)
{
    const size_t recorded = dev->run->tracked->learned->trace->buffer[id].bytes,
                 seen = ebb_match_bytes(dev, id);
    return seen > recorded ? seen : recorded;
}

/* The access is to memory of ebb's own, in place of the buffer. */
static inline bool ebb_is_own(ebb_device_t *dev, uint32_t id, uint32_t operation, uint32_t k)
{
    return ebb_accesses(dev, operation)[k].buffer != id && !ebb_is_there(dev, id, operation, k);
}

/* ---- recipe.c ---- */

/* A stream of ebb's own, for what is done besides the program's work; the step's, if there is none to be had. */
ebb_stream_t *ebb_recipe_side(ebb_device_t *dev);

/* Memory to keep recipes of the step that is followed. False: there is none. */
bool ebb_recipe_open(ebb_device_t *dev);
/* Operation `index` was issued as recorded, or R.issued says that it was left out; `kept`: R.issued has it. */
void ebb_recipe_note(ebb_device_t *dev, uint32_t index, bool kept);
/* The buffer has another content, of unknown origin. */
void ebb_recipe_note_stray(ebb_device_t *dev, uint32_t id);
/* The content is dropped, and made by this, which is owned from then on. */
void ebb_recipe_list(ebb_device_t *dev, uint32_t id, recipe_t *recipe);
/* Makes what is dropped and reads `input`; EBB_NONE: all of it. */
ebb_status_t ebb_recipe_make_readers(ebb_device_t *dev, uint32_t input, ebb_stream_t *stream);

/* ---- recipe_make.c ---- */

/* Fills R.last_read for a recipe, or clears it again. */
void ebb_recipe_note_reads(ebb_device_t *dev, uint32_t id, const recipe_t *recipe, bool fill);

#endif
