/* learn_state.h: what learn.c, times.c, watch.c and prove.c share. */
#ifndef EBB_LEARN_STATE_H
#define EBB_LEARN_STATE_H

#include "ckpt/run/profile/learn.h"
#include "ckpt/run/profile/tiles.h"

/* Of an operation, as far as it is known. */
typedef struct ebb_fact {
    bool wanted;      /* to be proven */
    bool refuted;     /* a replay gave other bits */
    uint8_t rounds;   /* steps in which it was replayed */
    uint32_t agreed;  /* replays that gave the same bits */
    unsigned written; /* distinct buffers that it wrote when it was replayed */
    uint64_t
        zeroed; /* of its written buffers (prove.c counts them): those that came out the same from zeros */
    ebb_verdict_t why;  /* not PROVEN: it cannot be tried */
    uint64_t bytes, ns; /* scratch and time that a proof takes */
} ebb_fact_t;

enum { EBB_LEAST_PROOFS = 3 };

typedef enum ebb_stage {
    EBB_STAGE_RECORD,
    EBB_STAGE_TIMES,
    EBB_STAGE_WATCH,
    EBB_STAGE_LOOK,
    EBB_STAGE_PROVE,
    EBB_STAGE_DONE
} ebb_stage_t;

struct ebb_lessons {
    ebb_recording_t recorded;
    ebb_stage_t stage;
    bool all; /* what is hardly worth it is proven as well */
    unsigned given, lost, lost_in_a_row;
    unsigned earlier;     /* given before what is recorded now */
    uint64_t unloaded;    /* modules, when it was recorded: the functions of others are no more */
    ebb_fact_t *fact;     /* [operations] */
    uint32_t *extent;     /* [accesses] tiles from the pointer's to the next pointer's into its buffer */
    uint32_t *first_tile; /* [accesses] */
    bool *arena;          /* [buffers] reached by several pointers */
    bool *
        wide; /* [buffers] an arena that somebody writes beyond the next pointer: known writers may to its end */
    bool *crossed;            /* [buffers] used on several streams */
    uint64_t *left;           /* [buffers] generation that the last step has left behind; 0: it was freed */
    unsigned again;           /* times that a recording was given up because it had something extra */
    uint32_t *first_use;      /* [buffers] access */
    double step_ns, total_ns; /* of the step as it is; of all lessons */
    unsigned steps;           /* in total_ns */
    double proofs_guessed_ns, proofs_ns; /* of the device for proofs: as was thought, as it came */
};

static inline bool ebb_is_watched_kind(const ebb_trace_operation_t *o)
{
    return o->kind == EBB_TRACE_KERNEL;
}

/* Of a kernel's access, by what is known of the word. */
bool ebb_lessons_may_write(ebb_device_t *dev, const ebb_lessons_t *lessons, uint32_t operation,
                           uint32_t access);

/* Whether an operation may write the buffer, by any of its accesses. */
bool ebb_lessons_writes(ebb_device_t *dev, const ebb_lessons_t *lessons, uint32_t operation, uint32_t buffer);

/* times.c */
bool ebb_times_begin(ebb_device_t *dev, ebb_lessons_t *lessons);
void ebb_times_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_times_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_times_end(ebb_device_t *dev, bool good); /* device idle */

/* watch.c: `all` operations, or only some launches of kernels of which something is not known yet. */
bool ebb_watch_begin(ebb_device_t *dev, ebb_lessons_t *lessons, bool all);
void ebb_watch_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_watch_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_watch_interrupt(ebb_t *ebb); /* by an operation that is not known */
void ebb_watch_end(ebb_device_t *dev, bool good, ebb_stream_t *stream); /* waits */
bool ebb_watch_is_needed(ebb_device_t *dev, const ebb_lessons_t *lessons);

/* afford.c: chooses what is proven. False: no memory. */
bool ebb_afford(ebb_device_t *dev, ebb_lessons_t *lessons);

/* prove.c */
bool ebb_prove_begin(ebb_device_t *dev, ebb_lessons_t *lessons, double most_ns);
void ebb_prove_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_prove_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_prove_end(ebb_device_t *dev, bool good, ebb_stream_t *stream); /* waits */
/* Memory is short: gives back what is not in use just now. False: nothing. */
bool ebb_prove_relieve(ebb_t *ebb);
bool ebb_prove_is_needed(const ebb_lessons_t *lessons);
/* Says of every operation why it may not be replayed, or PROVEN if its replays agree. */
void ebb_prove_qualify(ebb_device_t *dev, ebb_lessons_t *lessons);

#endif
