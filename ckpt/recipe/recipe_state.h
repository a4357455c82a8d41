/* recipe_state.h: what recipe.c and recipe_make.c share. */
#ifndef EBB_RECIPE_STATE_H
#define EBB_RECIPE_STATE_H

#include "follow.h"
#include "recipe.h"
#include "relaunch.h"

/* Distinct buffers of an operation that is repeated. */
enum { EBB_RECIPE_BUFFERS = 64 };

/* What is known of a numbered buffer. */
typedef struct content {
    uint64_t version;      /* counts operations that may have written it */
    uint32_t *chain;       /* [room] owned; [length] the operations that made it, in order */
    uint32_t length, room; /* length 0: not known, or not to be repeated */
    uint32_t place;        /* in `dropped`, or NEVER */
    uint32_t needed;       /* dropped buffers whose recipes read it, with repetitions */
    uint64_t ns;           /* the chain takes the device */
} content_t;

typedef struct recipes {
    content_t *of;        /* [buffers] NULL: nothing may be dropped */
    ebb_issued_t *issued; /* [operations] as issued in this step */
    uint64_t *seen;       /* [accesses] version of the buffer before the operation, in this step */
    uint32_t *dropped;    /* [buffers] numbers: those that are dropped, or about to be */
    uint32_t dropped_count;
    uint64_t most_ns; /* a recipe's own operations may take */
    const ebb_operation_t *under_way;
    bool shut; /* nothing more is dropped: what is dropped is being made */
    ebb_recipe_counts_t counts;
} recipes_t;
extern recipes_t ebb_recipes;

static inline const ebb_trace_operation_t *ebb_recorded(uint32_t operation)
{
    return &ebb_followed.learned->trace->operation[operation];
}

static inline const ebb_trace_access_t *ebb_accesses(uint32_t operation)
{
    return &ebb_followed.learned->trace->access[ebb_recorded(operation)->first_access];
}

/* The first access of an operation to its buffer. */
static inline bool ebb_is_first(uint32_t operation, uint32_t k)
{
    const ebb_trace_t *t = ebb_followed.learned->trace;
    return ebb_trace_is_first(t, operation, t->operation[operation].first_access + k);
}

static inline bool ebb_is_dropped(uint32_t id)
{
    return ebb_recipes.of[id].place != EBB_TRACE_NEVER;
}

#endif
