/* profile.h: what is learned of a step while the program goes on: a trace of it, how long operations take, what they write, and which launches
 * may be replayed. Profiling passes: learn.c has the table of them; record.c, times.c, writes.c, proofs.c; pieces.c and facts.c are what
 * these share. Beside them: what ebb's own work costs (prices.c); hashes of memory (hash.c, tiles.c); names that the program gives to
 * its work (nvtx.c).
 *
 * Threads and locks: ebb_lock() held, but for NVTX's.
 */
#ifndef EBB_PROFILE_H
#define EBB_PROFILE_H

#include <stdint.h>

#include "alloc/ebb_alloc.h"
#include "ckpt/run/profile/kernels/tiles.h"
#include "ckpt/trace/trace.h"

/* ---- a recording: the trace of one step (record.c) ---- */

/* Makes a trace of one step, while it runs.
 *
 * Fed with everything that happens between two step boundaries, allocations and frees included. What operations
 * do to buffers is not seen here: every access counts as an update, but those of copies and memsets, which do what
 * they say. One recording at a time; with ebb_lock() held throughout. */

enum { EBB_RECORD_STREAMS = 64 };

/* A trace, and what it stands for in this process. */
typedef struct ebb_recording {
    ebb_trace_t *trace;
    struct {
        CUfunction function; /* ebb_record_function */
        uint64_t attributes; /* of the launch, as ebb_operation_t has them */
        uint32_t tables_at;  /* from this word of its block on, what tables lead to; 0: nothing */
        bool replaces; /* a kernel: what buffers hold, and not only those that it is the first to touch */
        bool doubted;  /* with other arguments than those that were tried */
    } * operation;     /* [operations] */
    struct {
        uint64_t generation; /* of the buffer that was recorded */
        CUdeviceptr address;
        uint64_t left; /* of what the last step that was followed or driven has left behind; 0: it was freed */
        CUdeviceptr left_at;
        uint8_t keeps; /* how often the program has kept it within steps (drive_keep.c) */
    } * buffer;        /* [buffers] */
    struct ebb_verify *verify; /* replay.h; NULL: none yet */
    /* [as trace->args] Of launches that replace: arguments of the first trial, and not 0 for words that were others in a later one, or are
     * pointers. */
    unsigned char *tried, *varies;
    ebb_stream_t
        *stream; /* the first operation's; trace->operation[i].stream is 0 for all if it is the only one */
    ebb_stream_t *streams[EBB_RECORD_STREAMS]; /* by number */
    uint32_t stream_count;
    double alone_ns; /* that its operations take without ebb, once it is learned */
    bool refuted;    /* what a plan relied on has turned out wrong: proofs, or that a buffer does not change */
    bool concluded;  /* the trace says what may be replayed; until then it is good for the order of things */
    /* Operations reach buffers that may leave through a table of pointers that no copy has brought: the trace is only to be looked at. */
    bool hidden;
    /* Its steps are of any size (tracker.h). What is recorded of geometry and times is one step's; a buffer has the most bytes that it
     * was seen to have (ebb_profile_grow), and in a step no more than these. */
    bool any_size;
    uint32_t key; /* of such steps: the buffer whose bytes tell how large one is, as soon as it is allocated; EBB_NONE: none does */
} ebb_recording_t;

/* Whether one of its kernels is from this CUmodule or CUlibrary. */
bool ebb_recording_launches_from(ebb_device_t *dev, const ebb_recording_t *recording, const void *module);

/* What an operation is recorded as: its kernel, or what else tells it from others; NULL for copies and sets. */
CUfunction ebb_record_function(const ebb_operation_t *operation);

/* A kernel that waits for more than its stream, and may then touch what its arguments don't name: it communicates, and no call has told what
 * it touches (hook/nccl.c), or it has been launched as a cooperative one, as persistent kernels are. */
bool ebb_record_is_resident(ebb_device_t *dev, const ebb_operation_t *operation);

/* How an operation differs from one of the recording in its kernel and its geometry, unless that may be any; NULL: in nothing. */
const char *ebb_record_other_launch(const ebb_recording_t *recording, uint32_t index,
                                    const ebb_operation_t *operation);
/* Whether a copy is from a buffer to itself; whether a copy or memset writes all of its first operand's buffer, and reads none of it. */
bool ebb_record_is_within(const ebb_operation_t *operation);
bool ebb_record_is_whole(const ebb_operation_t *operation);
/* Whether it is the same but for sizes. */
bool ebb_record_is_like(const ebb_recording_t *recording, uint32_t index, const ebb_operation_t *operation);
/* Whether an operand, recorded as this access, may begin so many bytes behind its buffer's beginning. Where steps are of any size, so may what
 * lies behind others in a buffer that a step allocates. */
bool ebb_record_may_be_at(const ebb_recording_t *recording, const ebb_trace_access_t *access, size_t offset_bytes);
/* How an operation differs from one of the recording in all but its stream and its buffers; NULL: in nothing. */
const char *ebb_record_difference(const ebb_recording_t *recording, uint32_t index,
                                  const ebb_operation_t *operation);

/* A kernel may replace what a buffer holds with some arguments and add to it with others: a factor that is 0 as long as the step is learned.
 * `tried`: it was tried with these, for the first time or once more. `is_tried`: it replaces nothing that it does not touch first, or has those that
 * have not varied while it was tried, but for addresses of ebb's memory that are no operands. `doubt`: one launch has others, and none of that
 * kernel counts as replacing such buffers any more: in the trace once it is settled, between steps, as what the step under way has made so far
 * goes by it. */
void ebb_record_tried(ebb_device_t *dev, ebb_recording_t *recording, uint32_t index, const ebb_operation_t *operation,
                      bool first);
bool ebb_record_is_tried(ebb_device_t *dev, const ebb_recording_t *recording, uint32_t index,
                         const ebb_operation_t *operation);
void ebb_record_doubt(ebb_recording_t *recording, uint32_t index);
void ebb_record_settle(ebb_recording_t *recording);

/* What orders streams and host; noted while a step is recorded. */
void ebb_record_order(ebb_device_t *dev, const ebb_order_t *order);

void ebb_recording_delete(ebb_recording_t *recording);

/* ---- profiling passes (learn.c) ---- */

/* Learns a step, over several of them, while the program goes on.
 *
 * Each step that the program takes while ebb learns is a profiling pass:
 *   record  what happens: operations, buffers, order. Nothing is issued; the step's own time is what others are
 *           measured by
 *   times   how long operations take: events around three of each kind, nothing else
 *   writes  what is written, twice: everything that an operation touches is hashed behind it, by tiles, and compared with the
 *           hash of before; then what seemed to be read only, once more, in some launches of each kernel
 *   proofs  launches that are worth it are replayed on copies; as many steps as it takes. The rest of what a plan could use
 *           only when none fits without (ebb_profile_ask_more)
 * Their order, and what each does when, is a table (learn.c; internal.h says what its columns mean).
 *
 * The first profiling pass is what the others are matched with (tracker.h). A step that turns out to be another one is a profiling pass
 * lost: it is given again. The host waits once, at the end of a profiling pass.
 *
 * What profiling passes have taught of one step variant is a value; several may exist. One profiling pass at a time. What is known of
 * kernels is shared by all (know.c). */

typedef struct ebb_profile ebb_profile_t;

ebb_profile_t *ebb_profile_new(void); /* NULL: no memory */
void ebb_profile_delete(ebb_device_t *dev, ebb_profile_t *profile);

typedef enum ebb_learned {
    EBB_LEARNED_NOT,  /* another profiling pass is needed */
    EBB_LEARNED,      /* all is known */
    EBB_LEARNED_NEVER /* the program's steps differ from one another, or cannot be recorded (logged) */
} ebb_learned_t;

/* A step begins here, and is a profiling pass. False: it cannot be (logged). */
bool ebb_learn_begin(ebb_device_t *dev, ebb_profile_t *profile);
/* The step under way turns out to be of the kind that these profiling passes are about. False: it has begun as one of another
 * kind and is no good for this one. */
bool ebb_learn_give(ebb_device_t *dev, ebb_profile_t *profile);
/* It has ended. The host waits for the device. */
ebb_learned_t ebb_learn_end(ebb_device_t *dev);
/* Something came in between: this step teaches nothing. */
void ebb_learn_abandon(ebb_device_t *dev);
bool ebb_learn_running(ebb_device_t *dev);
/* What the step under way is matched with, if it is a profiling pass (tracker.h); NULL: nothing. */
ebb_recording_t *ebb_learn_recording(ebb_device_t *dev);
/* Memory is short: gives back what learning holds of it and does not use just now. False: nothing. */
bool ebb_learn_relieve(ebb_device_t *dev);

/* A step that the tracker has followed to its end: a buffer has been larger in it than in any before. From now on the recording has the
 * new sizes, with some headroom if that was so in the step followed before as well, and times in proportion to what operations touch.
 * Steps like it are not followed any more; no plan of the old sizes may be in use. */
bool ebb_profile_grow(ebb_device_t *dev, ebb_profile_t *profile);
/* A copy of the trace in which every buffer that has had more than one size is so many times as large as the largest; the caller's. NULL:
 * no host memory. */
ebb_trace_t *ebb_profile_enlarged(const ebb_profile_t *profile, unsigned times);

/* Of a recording whose steps are of any size. Bytes of the key in the largest step, and the fewest that it has had; 0: it has had one size
 * only. */
size_t ebb_profile_key_bytes(const ebb_profile_t *profile, size_t *fewest);
/* A copy of the trace as it is when the key has so large a share of these: each large buffer has what lies evenly between the least and the most
 * bytes that it has had, rounded up as all its sizes were, times in proportion; the caller's. Small ones have the most: their region is there
 * anyway, and so each lies where it does in the plan for the largest step. NULL: no host memory. */
ebb_trace_t *ebb_profile_sized(const ebb_profile_t *profile, double share);
/* In a step of such a share a buffer was larger than in that copy: `bytes`. Later copies have twice the difference more for it, in proportion,
 * and for all but the key that have had about as many times the least. False: it is small, or has all that it ever had already, or no host
 * memory. */
bool ebb_profile_note_above(ebb_profile_t *profile, double share, uint32_t buffer, size_t bytes);

/* What happens in it. `before`: its buffers are resident and held; after `after` they need not be. */
void ebb_learn_before(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *operation, CUresult result);
/* The buffer has been allocated, or is freed (EBB_SYNC_ALLOC, EBB_SYNC_FREE). */
void ebb_learn_lifetime(const ebb_buffer_t *buffer, ebb_sync_kind_t what, ebb_stream_t *stream);

/* What was learned is not enough: for a plan (`all`), or because buffers have grown. True: further profiling passes may prove what was
 * left out because it would hardly be worth it, or was not worth it then; what was learned is no result any more until they have
 * ended. */
bool ebb_profile_ask_more(ebb_device_t *dev, ebb_profile_t *profile, bool all);

/* After EBB_LEARNED: the step. The profiling passes' own. */
ebb_recording_t *ebb_profile_recording(ebb_profile_t *profile);
/* Its steps are of any size (ebb_recording_t), if one is recorded. */
void ebb_profile_is_any_size(ebb_profile_t *profile);

/* ---- what is known of kernels (know.c) ---- */

/* What is known of kernels whatever the step: through which words of their arguments they write.
 *
 * One observed write makes a word a writer for ever. A word counts as read-only once the memory that it points to has
 * stayed unchanged in several launches over two steps; equality in fewer proves nothing. Kept across profiling passes and
 * step variants; forgotten when modules are unloaded, because functions may then be others. */

typedef enum ebb_word { EBB_WORD_UNKNOWN, EBB_WORD_READS, EBB_WORD_WRITES } ebb_word_t;

void ebb_know_write(ebb_device_t *dev, CUfunction function, uint32_t param_offset);
/* It stayed as it was in a launch, in a step with this number (of all steps that were watched). */
void ebb_know_unchanged(ebb_device_t *dev, CUfunction function, uint32_t param_offset, uint32_t step);
ebb_word_t ebb_know_word(ebb_device_t *dev, CUfunction function, uint32_t param_offset);

/* A kernel's name, asked of the driver once. Never NULL. */
const char *ebb_know_name(ebb_device_t *dev, CUfunction function);

/* ---- what ebb's own work takes (prices.c) ---- */

/* What work of ebb's own takes on this device, measured: filling and hashing memory, and what copies take from compute;
 * and the host's time for a call of the driver.
 *
 * Measured once a process, with a few MiB of device memory and no work of the program's under way (the host waits, about a
 * millisecond). Events are read behind work that keeps the device busy until the host has issued what is timed: so they tell the
 * device's time, not the host's. */

/* What could be measured: of zeroing, of hashing, of a call of the driver that issues something, and by how much copies slow down work that lives
 * on the memory's rate; the rest is 0. The device is waited for at the first call. */
ebb_hardware_t ebb_prices(ebb_device_t *dev);

/* Keeps the stream busy for the time that the host takes for so many calls of the driver: then what comes behind is begun when the
 * device can, not when the host gets there. Whatever the stream has to do: it may be about to end. Nothing happens if it cannot be
 * done. */
void ebb_hold(ebb_device_t *dev, ebb_stream_t *stream, unsigned calls);

/* ---- hashes of memory (hash.c) ---- */

/* Whether bytes on the device have changed, without bringing them to the host.
 *
 * Equal hashes (64 bits) are taken for equal bytes. A set has entries; each holds the hash of one stretch of memory, and whether a later
 * one was another; computed in the order of the streams on which they were issued. */

typedef struct ebb_hashes ebb_hashes_t;

/* Loads the kernel at the first call, with a current context. NULL: it could not be loaded, or no memory
 * (logged). */
ebb_hashes_t *ebb_hashes_new(ebb_device_t *dev, unsigned entries);
void ebb_hashes_delete(ebb_device_t *dev, ebb_hashes_t *hashes); /* nothing may be under way */
void ebb_hashes_abandon(ebb_hashes_t *hashes);                   /* its context is gone */

/* Which part of a stretch is hashed: of its pieces of 1 KiB those whose number modulo `every` is `turn`; one at least. */
typedef struct ebb_hash_part {
    uint64_t turn, every;
} ebb_hash_part_t;
#define EBB_HASH_ALL ((ebb_hash_part_t){0, 1})

ebb_status_t ebb_hash_issue(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned entry, ebb_stream_t *stream,
                            CUdeviceptr address, size_t bytes, ebb_hash_part_t part);

/* Hashes the same part of a stretch of the same size, and compares it with the entry's, which stays. */
ebb_status_t ebb_hash_compare(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned entry, ebb_stream_t *stream,
                              CUdeviceptr address, size_t bytes, ebb_hash_part_t part);
/* Whether kernels reach pinned memory at the host's addresses, as ebb_hash_copy takes for granted. What cuMemHostAlloc gives they do,
 * unless it is write-combined (Driver API, Unified Addressing); what cuMemHostRegister has pinned, where the device has the attribute for that. */
bool ebb_hash_may_copy(ebb_device_t *dev);
/* Compares all of a stretch that is in the entry as a whole; what is other goes from there to the same place of `host`, which is pinned, and into
 * the entry: by stretches of 64 KiB or more. */
ebb_status_t ebb_hash_copy(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned entry, ebb_stream_t *stream,
                           CUdeviceptr address, size_t bytes, void *host);
/* One comparison with the entry that is over has found other bytes, since this was cleared. A host that has waited for what was
 * issued behind a comparison sees it: the device writes to host memory. */
bool ebb_hash_differs(const ebb_hashes_t *hashes, unsigned entry);
void ebb_hash_clear(ebb_hashes_t *hashes, unsigned entry);

/* The kernels of ebb's own, all of one module (kernels/). NULL: it could not be loaded (logged). */
typedef enum ebb_own_kernel {
    EBB_TILES_HASH,
    EBB_TILES_MOVE,
    EBB_TILES_COMPARE,
    EBB_HASH,
    EBB_HASH_COPY,
    EBB_HOLD,
    EBB_OWN_KERNELS
} ebb_own_kernel_t;
CUfunction ebb_own_kernel(ebb_device_t *dev, ebb_own_kernel_t which);

enum { EBB_HASH_READS = 16 };
/* Entries [first, first + count), at most EBB_HASH_READS, as issued on the stream so far. The host waits. */
ebb_status_t ebb_hash_read(ebb_hashes_t *hashes, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out);

/* ---- memory by tiles (tiles.c) ---- */

/* Memory on the device by tiles of 64 KiB: what has changed since it was hashed last, copies of many
 * pieces at once, and what differs; all without a wait of the host.
 *
 * Every tile has a number in a table of hashes on the device, and every question one in an array of results; the
 * caller numbers both. Jobs are collected and issued as one launch, on the stream of the operation that they
 * are about, ordered by it alone. Results are bytes: 1, the tile has changed (or differs). They are read when a step
 * is over.
 *
 * Table and results are device memory like the program's, under the budget. */

typedef struct ebb_tiles ebb_tiles_t;

/* Room for so many hashes, results and sets of found pointers. NULL: the kernels could not be loaded, or there is no
 * memory (logged). */
ebb_tiles_t *ebb_tiles_new(ebb_device_t *dev, size_t hashes, size_t results, size_t founds);
void ebb_tiles_delete(ebb_device_t *dev, ebb_tiles_t *tiles); /* nothing may be under way */

/* Jobs of one kind to be issued on one stream. */
typedef struct ebb_tile_list {
    ebb_tiles_t *tiles;
    ebb_stream_t *stream;
    ebb_own_kernel_t kind; /* EBB_TILES_ */
    ebb_status_t status;   /* the first failure */
    ebb_tile_jobs_t jobs;
} ebb_tile_list_t;

void ebb_tiles_begin(ebb_tile_list_t *list, ebb_tiles_t *tiles, ebb_stream_t *stream, ebb_own_kernel_t kind);
/* Each may issue what has been collected. `hash`: the number of the first tile's; `result`: of its answer, or
 * EBB_NONE; `found`: where pointers in the first tile are noted, or EBB_NONE. */
void ebb_tiles_hash(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr at, size_t bytes, uint32_t hash,
                    uint32_t result, uint32_t found);
/* From 0: zeros. `result`: of the answers whether it is other than zeros, or EBB_NONE. */
void ebb_tiles_move(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                    uint32_t result);
/* With `other` not 0: that with `a` too, its answers behind those of `b`. */
void ebb_tiles_compare(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr other, size_t bytes, uint32_t result);
/* Issues the rest; the first failure of all. */
ebb_status_t ebb_tiles_end(ebb_device_t *dev, ebb_tile_list_t *list);

/* The host waits for everything that was issued, and for the results. After that they may be asked for. */
ebb_status_t ebb_tiles_read(ebb_tiles_t *tiles, ebb_stream_t *stream);
bool ebb_tiles_result(const ebb_tiles_t *tiles, uint32_t result);
/* [EBB_TILE_FOUND]: words that may lead to the program's buffers, and one elsewhere; 0: none. */
const uint64_t *ebb_tiles_found(const ebb_tiles_t *tiles, uint32_t found);

static inline uint32_t ebb_tile_count(uint64_t bytes)
{
    return (uint32_t)((bytes + EBB_TILE_BYTES - 1) / EBB_TILE_BYTES);
}

/* ---- names of the program's ranges (nvtx.c) ---- */

/* The names that a program gives to what it does, by NVTX ranges.
 *
 * NVTX, the tools extension that frameworks annotate their layers with, loads one tool per process: the library that
 * NVTX_INJECTION64_PATH names (`ebb run` names libebb.so there, unless something else is named already), and calls
 * its InitializeInjectionNvtx2 at the first range. From then on the ranges that a thread pushes and pops are kept
 * here, per thread, as a path. They name launches in traces and reports, and confirm a step that was found without
 * them. Nothing may depend on their being there: without them every path is empty, and that costs a load.
 *
 * Ranges that are started and ended (nvtxRangeStart: across threads) and marks are no part of a path.
 *
 * Threads: every function is about the calling thread; no lock. */

/* The ranges that the calling thread has open, the outermost first, with slashes between them:
 * "step/micro-batch/forward/layer 3/attention". "" if there are none. Valid until the thread's next push or pop; at
 * most EBB_NVTX_PATH_BYTES with the final zero: what is deeper or longer is left out. No control characters; other
 * bytes are the program's (UTF-8, as a rule). */
const char *ebb_nvtx_path(void);

enum { EBB_NVTX_PATH_BYTES = 512 };

/* A range of ebb's own interface (ebb.h): in a domain of its own. */
void ebb_nvtx_push(const char *name);
void ebb_nvtx_pop(void);

/* How many outermost ranges of the program's (not libraries', which have domains of their own) the calling thread has begun and ended so far, counting both. */
uint64_t ebb_nvtx_turns(void);

#endif
