/* step.h: finds the training step in the sequence of operations, and follows it from then on.
 *
 * Seen of an operation are two signatures without addresses and scalar values: the coarse one (function, shape of the
 * arguments) finds the step and the place in it, the fine one (geometry and sizes as well) tells kinds of step apart:
 * another batch size, say. Of memory, the fewest bytes that were alive since the operation before.
 *
 * Glossary
 *   lane      the operations of one stream; where several threads issue into it, of one thread and stream as well.
 *             Lanes are looked at one by one, because their interleaving may differ from step to step. The lead is the
 *             one with the most operations among those that have a step; its steps are the program's
 *   word      what the steps of one kind have in common, from boundary to boundary
 *   kind      steps with about the same word; numbered from 0. Numbers of forgotten ones are given again, serials not
 *   stretch   what lies between two known steps. One that recurs becomes a kind: an evaluation, a save
 *   extra     an operation of a step that is not in its word; missing: one of the word that was left out
 *   aside     an operation that may stand anywhere and counts for nothing: a copy to the host, which logs or saves
 *
 * What is a step. A stretch that repeats at once, but for a few extra and missing operations, and gives back all that
 * it allocates. Layers repeat too, but a forward pass keeps allocating; other loops (an optimizer's launches) end, and
 * what has ended once must repeat for longer the next time. Operations count by how surprising they are: long runs of
 * one function prove nothing. A longer period replaces a shorter one if it explains what stands between the shorter
 * one's occurrences: micro-batches and their optimizer. The boundary is put where the fewest bytes are alive.
 *
 * Following. At a boundary every kind is possible; those that the operations do not fit drop out. Which one is
 * expected is told by how kinds followed one another, until only one is left.
 *
 * Cost: a comparison per kind that is still possible while all goes as known; a look-up in a table, and one comparison
 * per repetition under trial, while a step is looked for. Everything else is paid for by the operations before it.
 *
 * A finder is a value without outside references but its own memory; any thread, one at a time.
 */
#ifndef EBB_STEP_H
#define EBB_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EBB_STEP_KINDS 8u

typedef enum ebb_step_event {
    EBB_STEP_NONE,     /* nothing to report */
    EBB_STEP_FOUND,    /* one more kind of step is known; kinds that its word contains are forgotten */
    EBB_STEP_BOUNDARY, /* a step of a known kind ends with this operation (or a little earlier: ebb_step_late) */
    EBB_STEP_LOST,     /* this operation continues no known step */
    EBB_STEP_GIVEN_UP /* no known step has been seen for long: looking for others as well */
} ebb_step_event_t;

typedef struct ebb_step_operation {
    uint64_t stream, thread; /* any numbers that tell them apart */
    uint64_t coarse, fine;
    uint64_t live_bytes; /* the fewest since the operation before */
    bool aside;
    bool turn; /* the program has begun or ended something that it has a name for (NVTX): a likely boundary */
} ebb_step_operation_t;

typedef struct ebb_step_kind {
    uint64_t serial; /* 0: there is no such kind */
    uint64_t
        family; /* the serial of the first kind that this one differs from in sizes only; its own: there is none */
    size_t operations; /* of its word: in the lead */
    uint64_t count;    /* steps of this kind */
    uint64_t extras, missing;
    uint64_t interruptions; /* times it was expected and did not come to its end */
} ebb_step_kind_t;

typedef struct ebb_step_finder ebb_step_finder_t;

/* Steps of up to `longest` operations can be found. NULL: no memory. */
ebb_step_finder_t *ebb_step_finder_new(size_t longest);
void ebb_step_finder_delete(ebb_step_finder_t *finder);

/* FOUND comes at any place in a step; the position is 0 if it is a boundary as well. */
ebb_step_event_t ebb_step_push(ebb_step_finder_t *finder, const ebb_step_operation_t *operation);

/* The kind that ended with the last BOUNDARY or FOUND; -1: none has. */
int ebb_step_ended(const ebb_step_finder_t *finder);
/* How many operations of the lead ago that was, at the event: 0, unless its end was in doubt. */
size_t ebb_step_late(const ebb_step_finder_t *finder);
/* The kind that is under way, as far as one can tell; at a boundary, the one to come. -1: none is known, or what is
 * under way is none of them. */
int ebb_step_expected(const ebb_step_finder_t *finder);
/* The kinds that the operations since the boundary fit, as bits. */
uint32_t ebb_step_possible(const ebb_step_finder_t *finder);
ebb_step_kind_t ebb_step_kind(const ebb_step_finder_t *finder, unsigned kind);

/* Operations of the kind under way, of the last one if there is none; 0: none is known. */
size_t ebb_step_period(const ebb_step_finder_t *finder);
/* How many operations of its word the expected kind has behind it. */
size_t ebb_step_position(const ebb_step_finder_t *finder);

/* Lanes with operations, and how many of them have a step. */
typedef struct ebb_step_lanes {
    unsigned count, recurring;
} ebb_step_lanes_t;
ebb_step_lanes_t ebb_step_lanes(const ebb_step_finder_t *finder);

/* Everything is in order: for tests. */
bool ebb_step_check(const ebb_step_finder_t *finder);

#endif
