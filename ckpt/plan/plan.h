/* plan.h: what is done to the buffers of a step so that it fits the budget, as data.
 *
 * A plan belongs to one trace (trace.h). It says where every buffer lies (the overlay: places
 * on chunks) and what is done between the operations (actions). It is made by a planner (planner.h), proven
 * by the checker (checker.h, which shares nothing with any planner), and driven by the runner. The same plan
 * serves every step: it is periodic.
 *
 * Glossary
 *   place    an address range of its own, on certain chunks; fixed while the plan is driven. Places that
 *            share chunks hold something at different times. Place i < buffer_count is buffer i's; further
 *            places are scratch, for what replays write beside what they are for
 *   content  (buffer, version): what a place holds. Whatever writes to a place takes its chunks: other places
 *            that share one have lost what they held
 *   point    an operation's index p: just before operation p is issued. p = operation_count: after the last
 *            one, which is not the same as point 0 of the next step: it comes before that, and before what
 *            the program frees behind its last operation
 *   gap      between two consecutive operations that touch a buffer; the last gap of a buffer that outlives
 *            the step goes on in the next step, up to the first operation there
 *
 * How it is executed. The program's streams are compute, by their numbers in the trace; two more are ebb's: out and in, one for each
 * direction. Operations are issued in the order of the trace, also those of different streams: a program that does otherwise
 * leaves the plan for this step. Before operation p is issued, the actions with point p are, in their order in the list; then
 * the streams that are to (`joiners`) wait for the actions whose `join` is p; then p is issued, on its stream. Nothing waits for
 * anything else but by these rules, and the program's own events:
 *   evict    on `out`: waits for everything that the program's streams in `after` have been given so far, and for the
 *            actions in its wait list; copies the place to its host block, or only looks whether that still has the content
 *            (ebb_plan_spared). Content in the place stays good until something takes its chunks
 *   fetch    on `in`: waits like an evict; copies the host block to the place
 *   discard  executes nothing: says that the place's content is given up here, and will be replayed if it is
 *            needed again
 *   replay   on `stream`, which first waits for everything that those in `after` have been given so far: launches operation
 *            `operation` again, with the arguments it had in this step; pointers to a buffer lead to that buffer's place, or
 *            where a redirection says so to another place. Places that it replaces (EBB_REPLACES) are zeroed before, as in the
 *            proof, but for those of buffers that it is the first to touch since they were born: these hold whatever they held,
 *            as a fresh allocation does, whose content no program can count on (ebb_trace_first_touches). So are those of an
 *            operation of the program's own, if one of them does not hold its content any more: what a launch leaves as it was, as
 *            padding, came out of zeros in the proof
 *   order    `stream` waits for everything that those in `after` have been given so far: chunks go from one stream's hands into
 *            another's
 * Where there are several streams, all of them wait for each other when a step begins: before the first action and operation.
 * Of the program's own order a plan counts on the events that the trace shows as recorded and waited for within the step, and
 * on the program ordering its accesses to one buffer among themselves, whatever it does that by. Actions at a point come behind
 * the events there; those behind the last operation before them.
 * With one stream all of this is stream 0 (`after` and `joiners` are {0} where they mean anything), and nothing is ordered.
 * A wait on an action with a lower index means this step's, on itself or a higher one the step before's (none
 * in the first step). Joins are operations (below operation_count). A join below the action's own point means
 * the next step's operation; EBB_NONE: the compute stream never waits for it.
 * At the beginning of every step the places of buffers that outlive it hold their content (`at_start`
 * EBB_ON_DEVICE) or do not and the host block does (EBB_ON_HOST); what the end of the step leaves must agree
 * with that.
 *
 * Large buffers that are others in the next step (`next` is another number) take turns with their places (below): in the first step
 * of a plan buffer i lies in place i; in the next one buffer next[i] lies where i does in this one, and the one that is born at
 * the beginning of such a chain where the one that died at its end did. The number of such a place, in an action or a redirection,
 * means that buffer's place in the step under way. Planners keep these buffers on the device.
 *
 * A buffer that is born and dies in the step may be freed later than the program does (`until`, not before `dies`), because what is
 * discarded is made from what it holds, which nothing could make again: weights that were gathered, say. Up to there it is like one that is
 * alive, and what it holds is not lost. Where nothing discarded needs it any more it may be freed sooner.
 *
 * Small buffers (up to half a chunk) have no chunks of their own: those born in the step lie in the small
 * region, at `small_offset`, packed by their lifetimes, if they die in it; all others are elsewhere on the device (trace.h:
 * ebb_trace_is_unplaced). A replay may read a small buffer that is alive and holds the right version, and
 * never writes one.
 *
 * The file is JSON lines, version EBB_PLAN_VERSION in the first (readers ignore keys that they do not know
 * and refuse other versions):
 *   {"ebb_plan": 1, "chunk_bytes": .., "chunks": .., "small_bytes": .., "operations": .., "buffers": ..,
 *    "places": .., "actions": .., "predicted_ns": ..}     "anew": true in it, or missing
 *   {"place": i, "bytes": .., "chunks": [..], "start": "device|host|none", "small_offset": ..|null}     "until": p in it, or missing
 *   {"action": i, "kind": "evict|fetch|discard|replay|order", "point": p, "place": ..|null, "operation": ..|null,
 *    "join": ..|null, "waits": [..], "redirect": [[buffer, place], ..], "stream": s, "after": [s, ..], "joiners": [s, ..]}
 * The last three may be missing: 0, [0], [0].
 */
#ifndef EBB_PLAN_H
#define EBB_PLAN_H

#include <stdlib.h>
#include <string.h>

#include "ckpt/trace/trace.h"

enum { EBB_PLAN_VERSION = 1, EBB_PLAN_STREAMS = 32 /* of the program's, at most */ };

typedef enum ebb_action_kind { EBB_EVICT, EBB_FETCH, EBB_DISCARD, EBB_REPLAY, EBB_ORDER } ebb_action_kind_t;
enum { EBB_ACTION_KINDS = EBB_ORDER + 1 };
extern const char *const ebb_action_word[EBB_ACTION_KINDS];

typedef struct ebb_redirect {
    uint32_t buffer, place;
} ebb_redirect_t;

typedef struct ebb_action {
    ebb_action_kind_t kind;
    uint32_t point;
    uint32_t place;                          /* evict, fetch, discard; else EBB_NONE */
    uint32_t operation;                      /* replay; else EBB_NONE */
    uint32_t join;                           /* evict, fetch; else EBB_NONE */
    uint32_t first_wait, wait_count;         /* in plan->wait; evict, fetch */
    uint32_t first_redirect, redirect_count; /* in plan->redirect; replay */
    uint32_t stream;                         /* replay, order: one of the program's; else 0 */
    uint32_t after;   /* evict, fetch, replay, order: bit s for stream s of the program's */
    uint32_t joiners; /* evict, fetch: the streams that wait where `join` says */
} ebb_action_t;

typedef enum ebb_start { EBB_NOT_THERE, EBB_ON_DEVICE, EBB_ON_HOST } ebb_start_t;

typedef struct ebb_place {
    uint64_t bytes;
    uint32_t first_chunk,
        chunk_count;       /* in plan->chunk; 0 chunks: small, or never touched and on the host throughout */
    ebb_start_t at_start;  /* EBB_NOT_THERE: born in the step, or scratch */
    uint32_t small_offset; /* in the small region, a multiple of 512; EBB_NONE: not small, or unplaced */
    uint32_t until;        /* its buffer's free is put off until before this operation; EBB_NONE: it is not */
} ebb_place_t;

typedef struct ebb_plan {
    uint64_t chunk_bytes;
    uint32_t chunk_count;                   /* that the places lie on: numbers 0 .. chunk_count - 1 */
    uint64_t small_bytes;                   /* of the small region: whole chunks, beside chunk_count */
    uint32_t operation_count, buffer_count; /* of the trace */
    uint64_t predicted_ns;                  /* of a step */
    bool anew; /* all copies out are made, whatever the host has already (ebb_plan_spared) */

    ebb_place_t *place;
    ebb_action_t *action; /* by point */
    uint32_t *chunk, *wait;
    ebb_redirect_t *redirect;
    uint32_t place_count, action_count, chunk_index_count, wait_count, redirect_count;
    uint32_t place_room, action_room, chunk_room, wait_room, redirect_room;
} ebb_plan_t;

/* An empty plan for a trace: a place without chunks for every buffer. NULL: no memory. */
ebb_plan_t *ebb_plan_new(const ebb_trace_t *trace);
/* NULL: no memory. */
ebb_plan_t *ebb_plan_copy(const ebb_plan_t *plan);
void ebb_plan_delete(ebb_plan_t *plan);

/* Append; the new element, zeroed (indices that are not used: EBB_NONE), or NULL: no memory. Waits,
 * redirections and chunks belong to the action or place given, which must be the one that got the last of its
 * kind, or have none yet. An action is as with one stream. */
ebb_place_t *ebb_plan_add_place(ebb_plan_t *plan);
ebb_action_t *ebb_plan_add_action(ebb_plan_t *plan, ebb_action_kind_t kind, uint32_t point);
bool ebb_plan_add_chunk(ebb_plan_t *plan, ebb_place_t *place, uint32_t chunk);
bool ebb_plan_add_wait(ebb_plan_t *plan, ebb_action_t *action, uint32_t other);
bool ebb_plan_add_redirect(ebb_plan_t *plan, ebb_action_t *action, uint32_t buffer, uint32_t place);

/* Before which operation the buffer is freed under the plan; EBB_NONE: it outlives the step. */
static inline uint32_t ebb_plan_dies(const ebb_plan_t *plan, const ebb_trace_t *trace, uint32_t buffer)
{
    const uint32_t until = plan->place[buffer].until;
    return until == EBB_NONE ? trace->buffer[buffer].dies : until;
}

/* The step as it goes under the plan: some frees come later. A copy, the caller's; NULL: no memory. */
ebb_trace_t *ebb_plan_step(const ebb_plan_t *plan, const ebb_trace_t *trace);

/* Where a replay finds a buffer: where a redirection says, else in its own place. NULL: the operation itself. */
static inline uint32_t ebb_plan_place(const ebb_plan_t *plan, const ebb_action_t *replay, uint32_t buffer)
{
    for (uint32_t i = 0; replay && i < replay->redirect_count; i++)
        if (plan->redirect[replay->first_redirect + i].buffer == buffer)
            return plan->redirect[replay->first_redirect + i].place;
    return buffer;
}

/* How many of the program's streams a plan for this trace knows: 0 .. n - 1. One, if all operations are on stream 0. More than
 * EBB_PLAN_STREAMS: there is no plan for it. */
uint32_t ebb_plan_streams(const ebb_trace_t *trace);
/* [places]: the program's streams, one bit for each, on which operations or replays use the place; or, if `shared`, another one on a chunk of
 * its. NULL: no memory. The caller's, by free. */
uint32_t *ebb_plan_place_streams(const ebb_plan_t *plan, const ebb_trace_t *trace, bool shared);

/* What the plan does with the buffers: per fate the gaps and the bytes in them, and what a step costs. */
typedef struct ebb_plan_sum {
    uint32_t kept_buffers, offloaded_buffers,
        dropped_buffers; /* large ones; offloaded and dropped: at least once; dropped: and made again */
    uint64_t kept_bytes, offloaded_bytes, dropped_bytes;
    uint64_t bytes_out, bytes_in; /* a step; what is spared is not counted, where the trace's hardware has it */
    uint64_t spared_bytes;
    uint32_t late_buffers; /* whose free is put off */
    uint64_t late_bytes;
    uint32_t replays;             /* launches a step */
    uint64_t replay_ns;           /* their time, by the trace */
    uint64_t peak_bytes;          /* all chunks, the small region included */
} ebb_plan_sum_t;
ebb_plan_sum_t ebb_plan_sum(const ebb_plan_t *plan, const ebb_trace_t *trace);

/* False: the file could not be written; errno tells. */
bool ebb_plan_write(const ebb_plan_t *plan, FILE *out);
/* NULL: not a plan; `error` then says what is wrong and in which line. Indices are in range in what is
 * returned; whether it is a good plan the checker tells. */
ebb_plan_t *ebb_plan_read(FILE *in, char *error, size_t error_size);

/* [count] of EBB_NONE; NULL: no memory. */
static inline uint32_t *ebb_none_array(size_t count)
{
    uint32_t *array = malloc((count + 1) * sizeof *array);
    return array ? memset(array, 0xff, (count + 1) * sizeof *array) : NULL;
}

/* ---- completions ----
 *
 * Which replay completes what a discard has given up: behind it the content is again what it was.
 */

/* [actions]: of a discard the first replay, in the buffer's own place, of the last operation that wrote it; EBB_NONE: there is none
 * (it is written anew, or freed, before it is wanted again), or the action is none. NULL: no memory. The caller's, by free. */
uint32_t *ebb_plan_completions(const ebb_plan_t *plan, const ebb_trace_t *trace);

/* ---- copies that are spared ----
 *
 * An evict of what came from the host, or went there, and was not written since: the host block has it already, in every step but
 * perhaps the first. So weights that a step only reads are copied out once.
 */

/* [actions]: whether it is one. None are in a plan that says so (anew), as a look by hash is not always worth its time, nor of buffers that
 * have changed unseen, that go round, or that replays make again. NULL: no memory. The caller's, by free. */
bool *ebb_plan_spared(const ebb_plan_t *plan, const ebb_trace_t *trace);

/* ---- boundary ----
 *
 * What is between two steps, where: the buffers that outlive the step, as they lie while no step is under way.
 *
 * Plans of kinds of step that alternate agree on it: one of them may then begin where another one has ended, and nothing moves.
 * What agrees: the same buffer is on the device, or on the host, when the step begins (and so when it ends), and its
 * place is on the same chunks. Everything else of a plan is its own affair, as nothing else outlives a step: which chunks other
 * places lie on, where such a buffer is in between, and what becomes of chunks of those that are on the host.
 *
 * Chunks of a boundary have numbers of its own: two buffers that have one in common share that chunk.
 *
 * Values; any thread.
 */

typedef struct ebb_boundary {
    uint32_t buffer_count; /* of the trace whose plan is to agree */
    ebb_start_t *start;    /* [buffers]; EBB_NOT_THERE: not agreed on, the plan is free */
    uint32_t *first;       /* [buffers + 1] into `chunk`; none: on the host, and it has no place yet */
    uint32_t *chunk;       /* from 0 on */
    uint32_t chunk_count;  /* different ones */
} ebb_boundary_t;

/* `chunks`: room for so many, of all buffers together. NULL: no memory. */
ebb_boundary_t *ebb_boundary_new(uint32_t buffer_count, uint32_t chunks);
void ebb_boundary_delete(ebb_boundary_t *boundary);

/* Whether a plan can be driven from there. False: `why` (or NULL, 0) says what is elsewhere, in one line. */
bool ebb_boundary_agrees(const ebb_boundary_t *boundary, const ebb_plan_t *plan, char *why, size_t why_bytes);

/* On how many chunks a place must lie, and on which. No boundary (NULL), or no buffer's place: wherever it likes. */
static inline uint32_t ebb_boundary_chunks(const ebb_boundary_t *b, uint32_t place)
{
    return b && place < b->buffer_count ? b->first[place + 1] - b->first[place] : 0;
}
static inline uint32_t ebb_boundary_chunk(const ebb_boundary_t *b, uint32_t place, uint32_t i)
{
    return b->chunk[b->first[place] + i];
}

/* ---- rotation ----
 *
 * Large buffers that are another one of the trace in the next step (trace.h: next).
 *
 * Such buffers form rings. A chain begins with one that is born in the step and outlives it, goes on through those that it is
 * in the steps behind, and ends with one that dies; a cycle is what changes places. A ring of n buffers has n places: in the
 * first step of a plan, buffer i is in place i; with each step every content stays where it is and goes by its next number,
 * and the one that is born gets the place of the one that has died. After n steps all is as in the first one; after the
 * period, the least common multiple of all rings, the whole step is.
 *
 * Values; any thread.
 */

enum { EBB_MOST_TURNS = 12 }; /* the longest period */

/* The period in steps; 1: nothing rotates. 0: what outlives the step forms no rings of equal buffers, or the period is too
 * long, or there is no memory; `why` (or NULL, 0) says which buffer, in one line. */
uint32_t ebb_rotation_period(const ebb_trace_t *trace, char *why, size_t why_bytes);

/* From one step to the next: place [buffers], by the buffers' numbers. The period must not be 0. */
void ebb_rotation_turn(const ebb_trace_t *trace, uint32_t *place);

/* ---- simulation ----
 *
 * What a step comes to that is driven by a plan: its streams as queues, by its rules and the times of
 * the trace, on given hardware.
 *
 * Exact for a device that runs each operation in the time that the trace gives it, and copies at constant rates: one for each way
 * that is used alone, another for each while both are; where copies slow compute down, by the factor given. What the runner does beside
 * the plan's letter is part of it: what is zeroed before a replay, what is hashed to compare it, and the host's calls, which may come
 * too late for a device that has nothing else to do. Not part of it: what is zeroed before operations of the program's own, which they write
 * themselves right behind that. Copies of the program's own between host and device take their turn on
 * the link. Of the host's time only its calls of the driver are known, not what the program does between them. A few steps are
 * gone through, until what one step leaves to the next has settled; the last one is told.
 *
 * Several of the program's streams share the device: their operations, but for what communicates with other ranks and runs beside them,
 * take turns on it, one at a time, the one first that was issued
 * first of those that may begin (an operation of a training step fills a device; small ones that would fit beside it are thought
 * slower than they are). Events that the trace shows, waits of its host threads and the runner's own order them.
 *
 * Knows no planner and no checker: any plan for the trace will do. Value functions: any thread.
 */

/* What is at work; a wait is of compute, for the end of a copy or for the host: where there are several streams, of the one whose
 * operation is the next. */
typedef enum ebb_track {
    EBB_TRACK_OPERATION,
    EBB_TRACK_REPLAY,
    EBB_TRACK_OUT,
    EBB_TRACK_IN,
    EBB_TRACK_WAIT_OUT, /* memory is not free yet: a copy out has not ended */
    EBB_TRACK_WAIT_IN,  /* data is not there yet: a copy in has not ended */
    EBB_TRACK_CHECK,    /* what is given up, or recomputed, is hashed and compared */
    EBB_TRACK_WAIT_HOST /* the host has not issued what comes next, or a copy of the program's own waits for the link; of
                          several streams it is not told */
} ebb_track_t;
enum { EBB_TRACKS = EBB_TRACK_WAIT_HOST + 1 };
extern const char *const ebb_track_word[EBB_TRACKS];

typedef struct ebb_span {
    ebb_track_t track;
    uint32_t
        index; /* operation, also of a wait for the host; else the plan's action: what is replayed, copied,
                                waited for, compared */
    double begin_ns, end_ns; /* since the step's beginning; a copy may end after the step */
} ebb_span_t;

/* From a moment on, so many bytes are in use: of places that hold what the program or the plan needs again, whole chunks, and
 * the small region. Never more than the plan's chunks. */
typedef struct ebb_level {
    double ns;
    uint64_t bytes;
} ebb_level_t;

/* What those bytes are: a place is in use. Levels are the sums of these, in whole chunks, and the small region. What goes over
 * the step's end is two. */
typedef struct ebb_hold {
    uint32_t place;
    double begin_ns, end_ns;
} ebb_hold_t;

typedef struct ebb_simulation {
    double step_ns;
    double
        alone_ns; /* what the step would take without the plan: the operations' time if there is one stream */
    double track_ns[EBB_TRACKS]; /* operations as if nothing slowed them down */
    double slowed_ns;            /* that operations and replays took longer because of copies */
    double hidden_ns;            /* of the copies' time: while compute was at work */
    uint64_t peak_bytes;         /* the plan's chunks and the small region */

    /* If asked for; owned. */
    ebb_span_t *span;   /* in the order in which they were issued */
    ebb_level_t *level; /* by time */
    ebb_hold_t *hold;   /* in no order */
    uint32_t span_count, span_room, level_count, level_room, hold_count, hold_room;
} ebb_simulation_t;

/* False: no memory; nothing is owned then. In detail: with spans, levels and holds. */
bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *plan, const ebb_trace_t *trace,
                  const ebb_hardware_t *hardware, bool in_detail);
void ebb_simulation_delete(ebb_simulation_t *simulation);

/* The same for a trace; 0: no memory. */
double ebb_simulate_alone_ns(const ebb_trace_t *trace);
/* [operations + 1]: a clock for the order of issue, which never goes back: when each operation begins then, and the end. What computes may
 * begin as early as one behind it; what copies, or communicates, begins behind what computes before it and before what does behind it.
 * False: no memory. */
bool ebb_simulate_begins(uint64_t *begin_ns, const ebb_trace_t *trace);

/* The step's time alone, rounded up; at least 1. 0: no memory. */
uint64_t ebb_simulate_ns(const ebb_plan_t *plan, const ebb_trace_t *trace, const ebb_hardware_t *hardware);

/* What zeroing so many bytes takes of compute before a replay, a hash of them all, and one of the part of them that is compared; 0: it is not
 * known, or nothing is compared. */
double ebb_hash_ns(const ebb_hardware_t *hardware, uint64_t bytes);
double ebb_zero_ns(const ebb_hardware_t *hardware, uint64_t bytes);
double ebb_check_ns(const ebb_hardware_t *hardware, uint64_t bytes);

/* Bytes over one copy direction, as a time. */
static inline double ebb_copy_ns(uint64_t bytes, double bytes_per_ns)
{
    return (double)(uint64_t)((double)bytes / (bytes_per_ns > 0 ? bytes_per_ns : 1e-9)) + 1;
}

#endif
