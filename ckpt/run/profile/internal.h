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
    bool timed;      /* its beginning was marked */
    bool spoiled;    /* it teaches nothing */
    bool outgrown;   /* but that a buffer is larger than was known */
    bool strays;     /* the operation between before and after is a stray */
    uint64_t step;   /* of those that the tracker follows */
    CUevent mark[2]; /* begin and end; made once, they stay from pass to pass */
};

/* Of an operation, as far as it is known. */
typedef struct ebb_fact {
    bool wanted;      /* to be proven */
    bool refuted;     /* a replay gave other bits */
    uint8_t rounds;   /* steps in which it was replayed */
    uint32_t agreed;  /* replays that gave the same bits */
    unsigned written; /* distinct buffers that it wrote when it was replayed */
    uint64_t
        zeroed; /* of its written buffers (proofs.c counts them): those that came out the same from zeros, and had no tile of zeros before */
    ebb_verdict_t why; /* not PROVEN: it cannot be tried */
} ebb_fact_t;

enum { EBB_LEAST_PROOFS = 3 };

/* Of an access: tiles from the pointer's to the next pointer's into its buffer; all, where that may be elsewhere (sizes.c). */
typedef struct ebb_reach {
    uint32_t first, count;
} ebb_reach_t;

/* Of a buffer of the step. */
typedef struct ebb_shape {
    uint32_t first_use; /* access */
    bool arena;         /* reached by several pointers */
    bool wide;    /* an arena with writes beyond the next pointer: known writers may write up to its end */
    bool crossed; /* used on several streams */
} ebb_shape_t;

/* Bytes that a buffer has had in steps of any size. */
typedef struct ebb_sizes_seen {
    size_t least, any;  /* 0: none; all of them or'ed, whose lowest bit is what they are multiples of */
    double above; /* so much more, as a share, than the key lets expect */
} ebb_sizes_seen_t;

/* What the passes have shown of a step so far. */
struct ebb_profile {
    ebb_recording_t recorded; /* of no trace: there is none yet */
    unsigned kind, turn;      /* of the next pass: its row, and how often that was given */
    bool all;                 /* what is hardly worth it is proven as well */
    bool grew;                /* in the last step that was followed (sizes.c) */
    double watched_bytes;     /* of all buffers, when all launches were watched last */
    unsigned given, lost_in_a_row;
    unsigned earlier;               /* given before what is recorded now */
    unsigned again;                 /* times that a recording was given up because it had something extra */
    uint64_t unloaded;              /* modules, when it was recorded: the functions of others are no more */
    ebb_fact_t *fact;               /* [operations] */
    ebb_reach_t *reach;             /* [accesses] */
    ebb_shape_t *buffer;            /* [buffers] */
    ebb_sizes_seen_t *seen;         /* [buffers] in all steps that were followed; NULL: in none */
    double step_ns;                 /* of the step as it is: when it was recorded */
    double cost_ns, cost_before_ns; /* that all passes have cost beside it; those of earlier kinds */
    double proofs_guessed_ns;       /* of the device for proofs, as was thought */
};

/* Of all that an operation has pointers to, for each of them (sizes.c). */
double ebb_operand_bytes(const ebb_trace_t *t, uint32_t operation);
/* Whether buffers have grown so much since launches were watched that what these write must be seen again. */
bool ebb_sizes_are_new(const ebb_profile_t *profile);
/* All launches are watched in this step. */
void ebb_sizes_note_watched(ebb_profile_t *profile);

/* ---- the rows ---- */

void ebb_record_lifetime(const ebb_buffer_t *buffer, ebb_sync_kind_t what, ebb_stream_t *stream);
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

/* ---- what is found about operations (facts.c) ---- */

/* The trace, while it is not concluded, says of kernels which buffers they may write, by what is known by now. */
void ebb_facts_note_modes(ebb_device_t *dev, const ebb_profile_t *profile);
/* Among arguments is a pointer to memory of CUDA's that ebb does not serve. */
bool ebb_facts_has_foreign(ebb_device_t *dev, const unsigned char *params, size_t bytes);

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
    uint32_t there; /* of its tiles, in this step */
    bool assumed;   /* not written before: the operation counts as its writer */
    bool asked_early;
    bool done_early; /* asked together with the operation in front of it */
    bool is_ready;   /* hashed together with it */
} piece_t;

/* Whether it is a table that leads an operation to it. */
static inline bool ebb_is_by_table(const ebb_recording_t *recording, uint32_t operation,
                                   const ebb_trace_access_t *access)
{
    const uint32_t at = recording->operation[operation].tables_at;
    return at && access->param_offset >= at;
}

/* What ebb_know_word knows it by: its own word, or one for all that the kernel reaches by tables. */
static inline uint32_t ebb_word_of(const ebb_recording_t *recording, uint32_t operation,
                                   const ebb_trace_access_t *access)
{
    return ebb_is_by_table(recording, operation, access) ? recording->operation[operation].tables_at
                                                         : access->param_offset;
}

/* Memory that an operation reaches beside its arguments (ebb_operation_t.named_at). */
typedef struct ebb_named {
    CUdeviceptr address;
    size_t bytes;
} ebb_named_t;

typedef enum tile_state { VIRGIN, STALE, FRESH } tile_state_t;

typedef struct ebb_tile {
    uint32_t hashed_by; /* 1 + operation */
    tile_state_t state;
    bool rest; /* its last comparison was issued */
} ebb_tile_t;

struct ebb_writes {
    ebb_profile_t *profile;
    bool all;
    ebb_tiles_t *tiles;
    piece_t *piece;
    uint32_t piece_count, piece_room;
    ebb_named_t *named; /* in this step */
    uint32_t named_count, named_room;
    struct {
        uint32_t first_piece;
        uint32_t first_named, named_count;
        bool chosen, seen; /* in this step */
    } * operation;         /* [operations + 1] */
    struct {
        uint32_t hash_at, rest_at;    /* of its first tile; rest: EBB_NONE: no arena */
        uint32_t first_use, last_use; /* by watched operations */
        uint32_t touched;             /* 1 + the operation that touched it last */
    } * buffer;                       /* [buffers] */
    ebb_tile_t *tile;                 /* [hashes] */
    uint32_t hashes, results, founds;
    bool failed;
    bool interrupted;       /* since the last operation */
    uint32_t steps_watched; /* in this process: a number for each */
};

static inline ebb_tile_t *ebb_piece_tile(const struct ebb_writes *writes, uint32_t buffer, uint32_t number)
{
    return &writes->tile[writes->buffer[buffer].hash_at + number];
}

/* Hashes stay in the table from one operation to the next. */
static inline bool ebb_piece_is_kept(const struct ebb_writes *writes, uint32_t buffer)
{
    return (writes->all || writes->profile->buffer[buffer].wide) && !writes->profile->buffer[buffer].crossed;
}

/* The shape of a step that has been recorded: the profile's arrays. False: no memory. */
bool ebb_pieces_measure(ebb_profile_t *profile);
/* Tiles of a buffer have to be hashed before they are compared. */
void ebb_pieces_stale(struct ebb_writes *writes, uint32_t buffer, uint32_t first, uint32_t count);
/* Which pieces the pass that begins watches, and their places in table and results. False: no memory. */
bool ebb_pieces_lay_out(ebb_device_t *dev);

#endif
