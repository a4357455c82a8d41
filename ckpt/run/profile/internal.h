/* internal.h: profiling passes: the table of them (learn.c), its rows (record.c, times.c, writes.c, proofs.c), and what these share (pieces.c,
 * facts.c). */
#ifndef EBB_RUN_PROFILE_INTERNAL_H
#define EBB_RUN_PROFILE_INTERNAL_H

#include "alloc/device.h"
#include "ckpt/run/profile/profile.h"

/* ---- the table of passes (learn.c) ---- */

/* A kind of profiling pass: a row of the table in learn.c. Its functions are called by one loop, which alone knows the order. Each kind is
 * given while it is needed, `most` times at most; then it is the next one's turn. Behind the last one the step is learned. A pass that
 * is lost is given again.
 *
 * The first kind makes the recording. The others are matched with it (tracker.h): that numbers their operations, and tells whether
 * the step is the recorded one. Until there is one all operations are strays.
 *
 * ebb_lock() held; which pass is under way: struct ebb_pass. */
typedef struct ebb_pass_kind {
    const char *name;
    unsigned most;       /* times that it is given, but for lost ones */
    unsigned most_again; /* times that all begins anew because its step lacks something of the recording */
    /* Whether it has something left to show (NULL: yes); asked when it would be its turn, between steps. */
    bool (*is_needed)(ebb_device_t *dev, ebb_profile_t *profile);
    /* A step begins. False: it cannot be a pass; nothing is kept of it. */
    bool (*begin)(ebb_device_t *dev);
    /* Around an operation of the recording, with its number: its buffers are resident and held. `after`: it was issued. What is issued
     * then, on its stream, may use its buffers too. */
    void (*before)(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
    void (*after)(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
    /* Behind an operation of which the recording tells nothing, or its place only. NULL: nothing to do. */
    void (*stray)(ebb_device_t *dev, const ebb_operation_t *op);
    /* The step has ended; the host may wait. `good`: it was the recorded one, the profile is told what was seen; else that is thrown
     * away. False: it was no step. */
    bool (*end)(ebb_device_t *dev, bool good);
} ebb_pass_kind_t;

/* The pass under way. */
struct ebb_pass {
    ebb_profile_t *profile; /* NULL: none */
    ebb_stream_t *stream;   /* the first operation's */
    /* learn.c */
    bool timed;                  /* its beginning was marked */
    bool spoiled;                /* it teaches nothing */
    bool strays;                 /* the operation between before and after is a stray */
    uint32_t operation;          /* its number; EBB_NONE: none */
    CUevent mark[EBB_STATES][2]; /* begin and end; made once, they stay from pass to pass */
};

/* Of an operation, as far as it is known. */
typedef struct ebb_fact {
    bool wanted;      /* to be proven */
    bool refuted;     /* a replay gave other bits */
    uint8_t rounds;   /* steps in which it was replayed */
    uint32_t agreed;  /* replays that gave the same bits */
    unsigned written; /* distinct buffers that it wrote when it was replayed */
    uint64_t
        zeroed; /* of its written buffers (proofs.c counts them): those that came out the same from zeros */
    ebb_verdict_t why;  /* not PROVEN: it cannot be tried */
    uint64_t bytes, ns; /* scratch and time that a proof takes */
} ebb_fact_t;

enum { EBB_LEAST_PROOFS = 3 };

/* What the passes have shown of a step so far. */
struct ebb_profile {
    ebb_recording_t recorded; /* of no trace: there is none yet */
    unsigned kind, turn;      /* of the next pass: its row, and how often that was given */
    bool all;                 /* what is hardly worth it is proven as well */
    unsigned given, lost_in_a_row;
    unsigned earlier;     /* given before what is recorded now */
    unsigned again;       /* times that a recording was given up because it had something extra */
    uint64_t unloaded;    /* modules, when it was recorded: the functions of others are no more */
    ebb_fact_t *fact;     /* [operations] */
    uint32_t *extent;     /* [accesses] tiles from the pointer's to the next pointer's into its buffer */
    uint32_t *first_tile; /* [accesses] */
    bool *arena;          /* [buffers] reached by several pointers */
    bool *
        wide; /* [buffers] an arena with writes beyond the next pointer: known writers may write up to its end */
    bool *crossed;       /* [buffers] used on several streams */
    uint64_t *left;      /* [buffers] generation that the last step has left behind; 0: it was freed */
    uint32_t *first_use; /* [buffers] access */
    double step_ns;      /* of the step as it is: when it was recorded */
    double cost_ns, cost_before_ns; /* that all passes have cost beside it; those of earlier kinds */
    double proofs_guessed_ns;       /* of the device for proofs, as was thought */
};

/* ---- the rows ---- */

void ebb_record_allocated(const ebb_buffer_t *buffer, ebb_stream_t *stream);
void ebb_record_freed(const ebb_buffer_t *buffer, ebb_stream_t *stream);
bool ebb_record_begin(ebb_device_t *dev);
void ebb_record_operation(ebb_device_t *dev, const ebb_operation_t *op);
bool ebb_record_end(ebb_device_t *dev, bool good);

bool ebb_times_begin(ebb_device_t *dev);
void ebb_times_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_times_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
bool ebb_times_end(ebb_device_t *dev, bool good);

bool ebb_writes_is_needed(ebb_device_t *dev, ebb_profile_t *profile);
bool ebb_writes_begin(ebb_device_t *dev);
void ebb_writes_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_writes_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_writes_stray(ebb_device_t *dev, const ebb_operation_t *op);
bool ebb_writes_end(ebb_device_t *dev, bool good);

bool ebb_proofs_is_needed(ebb_device_t *dev, ebb_profile_t *profile);
bool ebb_proofs_begin(ebb_device_t *dev);
void ebb_proofs_before(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
void ebb_proofs_after(ebb_device_t *dev, uint32_t operation, const ebb_operation_t *op);
bool ebb_proofs_end(ebb_device_t *dev, bool good);

/* ---- watching (writes.c) ---- */

/* How watching works.
 *
 * Behind each operation, on its stream, one launch hashes what it has touched, tile by tile, and compares with the
 * hashes of before, which are in a table on the device: those that the operation in front of it has left, or where
 * there are none, those of another launch just before the operation. From a pointer on, tiles up to the next pointer
 * into the same buffer are its own, so that large shared buffers cost what is touched.
 *
 * Memory not written since it was allocated holds nothing to compare: the first operation that touches it counts
 * as writing it.
 *
 * In a buffer with several pointers an operation may write beyond its own tiles. So tiles of such buffers are also
 * compared just before an operation, if another one has touched the buffer since they were hashed, and all of them when
 * the step has used it last: a change that no operation accounts for makes all of them writers of the whole buffer.
 *
 * Of a buffer that several streams use, hashes are taken before and behind every operation, and kept apart, so that no
 * stream relies on what another one has left, and none waits for another.
 *
 * Small buffers are searched for words that look like pointers while they are hashed. */

/* ---- proving (proofs.c) ---- */

/* How proving works.
 *
 * Right behind an operation of the program the same launch is issued again, on copies of all that it touches, in
 * scratch memory that starts as the bytes were before it, and again with all that it writes zeroed. What comes out is
 * compared on the device with what the program's own operation has left. Equal bits prove that the launch gives them
 * again; equal bits in spite of zeros, that it replaces what it writes. Three agreeing replays over two steps are
 * asked for. Nothing but zeros and what was there ever reaches a kernel; where nothing was, in a buffer that the operation is
 * the first to touch, a plan's replay may find anything (plan.h).
 *
 * Everything is ordered on the operation's stream; the host does not wait. Large buffers that many pointers share
 * are not copied where the operation is known only to read them.
 *
 * Only qualified launches are tried: kernels whose launch attributes, if any, name no events or memory, whose arguments
 * are known and point to no memory of CUDA's outside ebb's arena, directly or through a table of pointers in a small
 * buffer; not of modules of which the program has looked up a variable, nor NCCL's or NVSHMEM's. What does not fit
 * into the budget together with its copies is not proven.
 *
 * Work is spread over steps: a step is slowed down only so far, and the next one goes on from there. */

/* ---- what is found about operations (facts.c) ---- */

/* Of a kernel's access, by what is known of the word. */
bool ebb_profile_may_write(ebb_device_t *dev, const ebb_profile_t *profile, uint32_t operation,
                           uint32_t access);

/* Whether an operation may write the buffer, by any of its accesses. */
bool ebb_profile_writes(ebb_device_t *dev, const ebb_profile_t *profile, uint32_t operation, uint32_t buffer);

/* Chooses what is proven. False: no memory. */
bool ebb_facts_select(ebb_device_t *dev, ebb_profile_t *profile);
/* More replays are wanted of it. */
bool ebb_fact_is_open(const ebb_fact_t *fact);
/* The trace says what is known by now. */
void ebb_facts_conclude(ebb_device_t *dev, ebb_profile_t *profile);

/* ---- what of its buffers an operation reaches (pieces.c) ---- */

/* Tiles of one buffer that an operation touches. */
typedef struct piece {
    uint32_t buffer, first, count;
    uint32_t hash;   /* of its first tile, in the table */
    uint32_t result; /* of its first tile: changed behind the operation; tiles of `early` follow */
    uint32_t early;  /* changed before it; EBB_NONE: never asked */
    uint32_t found;
    bool assumed; /* not written before: the operation counts as its writer */
    bool asked_early;
    bool done_early; /* asked together with the operation in front of it */
    bool is_ready;   /* hashed together with it */
} piece_t;

typedef enum tile_state { VIRGIN, STALE, FRESH } tile_state_t;

struct ebb_writes {
    ebb_profile_t *profile;
    bool all;
    ebb_tiles_t *tiles;
    piece_t *piece;
    uint32_t piece_count, piece_room;
    uint32_t *first_piece;          /* [operations + 1] */
    bool *chosen;                   /* [operations] */
    bool *seen;                     /* [operations] in this step */
    uint32_t *hash_at, *rest_at;    /* [buffers] of its first tile; rest: EBB_NONE: no arena */
    uint32_t *first_use, *last_use; /* [buffers] by watched operations */
    uint32_t *touched;              /* [buffers] 1 + the operation that touched it last */
    unsigned char *state;           /* [hashes] tile_state_t */
    unsigned char *rest;            /* [hashes] its last comparison was issued */
    uint32_t *hashed_by;            /* [hashes] 1 + operation */
    uint32_t hashes, results, founds;
    bool failed;
    bool interrupted;       /* since the last operation */
    uint32_t steps_watched; /* in this process: a number for each */
};

/* Hashes stay in the table from one operation to the next. */
static inline bool ebb_piece_is_kept(const struct ebb_writes *writes, uint32_t buffer)
{
    return (writes->all || writes->profile->wide[buffer]) && !writes->profile->crossed[buffer];
}

/* The shape of a step that has been recorded: the profile's arrays. False: no memory. */
bool ebb_pieces_measure(ebb_profile_t *profile);
/* Which pieces the pass that begins watches, and their places in table and results. False: no memory. */
bool ebb_pieces_lay_out(ebb_device_t *dev);

#endif
