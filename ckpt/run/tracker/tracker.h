/* tracker.h: where the program is in its step, and which of its buffers is which of the recorded ones.
 *
 *   step.c, step_*.c   finds the step in the sequence of operations, and tells step variants apart
 *   tracker.c          follows a recorded step while no plan is driven; match.c: which operation; numbers.c: which buffers; ahead.c: what comes next
 *   stale.c         words of arguments that the host has not filled in; layout.c: structures that say which these are
 *   foreign_word.c             what else a word of an argument may be
 */
#ifndef EBB_TRACKER_H
#define EBB_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/table.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/trace/trace.h"
#include "offload/ebb_offload.h"

/* Its hashes, of neither addresses nor the values of scalars: the coarse one of its function and the shape of its arguments, the fine one of its
 * geometry and sizes as well. The geometry is packed within what devices allow (CUDA C++ Programming Guide, "Technical Specifications per
 * Compute Capability": blocks of 1024 x 1024 x 64 threads at most). */
static inline void ebb_operation_identify(ebb_operation_t *op)
{
    const void *what = op->kind == EBB_OTHER ? (const void *)op->name : (const void *)op->function;
    /* How many words of a kernel's arguments lead into buffers may be chance, and so what tables these lead to. */
    const uint64_t words = op->named_at ? op->named_at : (op->param_bytes + 7) / 8 * 8,
                   shape = op->kind == EBB_KERNEL ? words : op->access_count;
    op->coarse = ebb_mix(ebb_mix(op->kind + 1, (uint64_t)(uintptr_t)what), shape);
    op->fine = ebb_mix(op->coarse, (uint64_t)op->grid[1] << 32 | op->grid[0]);
    op->fine = ebb_mix(op->fine, (uint64_t)op->block[2] << 54 | (uint64_t)op->block[1] << 43 |
                          (uint64_t)op->block[0] << 32 | op->grid[2]);
    op->fine = ebb_mix(op->fine, op->kind == EBB_KERNEL ? op->shared_bytes : op->bytes);
}

/* ---- finding the step (step.c) ---- */

/* Finds the training step in the sequence of operations, and follows it from then on.
 *
 * Seen of an operation are two hashes (ebb_operation_identify): the coarse one finds the step and the place in it, the fine one
 * tells step variants apart: another batch size, say. Of memory, the fewest bytes that were alive since the operation before, and
 * where the operation's oldest operand lies: in which allocation, and where in it.
 *
 * Glossary
 *   stream      the operations of one stream; where several threads issue into it, of one thread and stream as well.
 *             Streams are looked at one by one, because their interleaving may differ from step to step. The lead is the
 *             one with the most operations among those that have a step; its steps are the program's
 *   signature      what the steps of one variant have in common, from boundary to boundary
 *   variant      steps with about the same signature; numbered from 0. Numbers of forgotten ones are given again, serials not
 *   family    variants whose steps differ in geometry and sizes only. A program has few batch sizes, and a variant for each; or the
 *             sizes follow the lengths of documents and never come again: of a family of more than EBB_STEP_SIZES variants the one with
 *             the most steps stays, and stands for steps of any size, unless nearly all steps are its own
 *   stretch   what lies between two known steps. One that recurs becomes a variant: an evaluation, a save
 *   extra     an operation of a step that is not in its signature; missing: one of the signature that was left out
 *   aside     an operation that may stand anywhere and counts for nothing: a copy to the host, which logs or saves
 *
 * What is a step. A stretch that repeats at once, but for a few extra and missing operations, gives back all that
 * it allocates, and comes back to the same places. Layers repeat too, and so does an optimizer's loop over its tensors, but
 * each time with other weights; a forward pass also keeps allocating. Other loops end, and what has ended once must repeat
 * for longer the next time. Operations count by how surprising they are: long runs of one function prove nothing. A longer
 * period replaces a shorter one if it explains what stands between the shorter one's occurrences: micro-batches and their
 * optimizer, which touches memory that they do not, or comes every few of them. What is logged now and then does neither. The boundary is put where the fewest bytes are alive, and where that is so everywhere, as in one large allocation,
 * where data comes from the host. What persists and is elsewhere in each step, as tensors are that move within an allocation,
 * makes no step. Where the program marks its steps, only a period that contains a mark is one, and the boundary is put at a
 * mark; what was found before the first is forgotten.
 *
 * Following. At a boundary every variant is possible; those that the operations do not fit drop out. Which one is
 * expected is predicted from how variants followed one another, until only one is left.
 *
 * Cost: a comparison per variant that is still possible while all goes as known; a look-up in a table, and one comparison
 * per repetition under trial, while a step is looked for. Everything else is paid for by the operations before it.
 *
 * A finder is a value without outside references but its own memory; any thread, one at a time. */

#define EBB_STEP_VARIANTS 8u
#define EBB_STEP_SIZES    4u

typedef enum ebb_step_event {
    EBB_STEP_NONE,  /* nothing to report */
    EBB_STEP_FOUND, /* one more step variant is known; variants that its signature contains are forgotten */
    EBB_STEP_BOUNDARY, /* a step of a known variant ends with this operation (or a little earlier: ebb_step_late) */
    EBB_STEP_LOST,    /* this operation continues no known step */
    EBB_STEP_GIVEN_UP /* no known step has been seen for long: looking for others as well */
} ebb_step_event_t;

typedef struct ebb_step_operation {
    uint64_t stream, thread; /* any numbers that tell them apart */
    uint64_t coarse, fine;
    uint64_t live_bytes; /* the fewest since the operation before */
    uint64_t place;      /* of its oldest operand: any number but 0; 0: it has none */
    /* Allocations of the program: up to that operand's own, and so far. */
    uint64_t born, allocations;
    uint64_t idle; /* of its operands that may leave the device one was touched last, or allocated, so many operations ago */
    bool aside;
    bool
        input; /* it brings data from memory that is not ebb's, as a rule the host's: a batch, as steps begin */
    bool turn; /* the program has begun or ended something that it has a name for (NVTX): a likely boundary */
    /* The program says that a step begins (ebb_step_mark): with it, and the next operation of each stream. */
    bool mark;
} ebb_step_operation_t;

typedef struct ebb_step_variant {
    uint64_t serial; /* 0: there is no such variant */
    uint64_t
        family; /* the serial of the first variant that this one differs from in sizes only; its own: there is none */
    bool any_size;     /* its steps may have any geometry */
    size_t operations; /* of its signature: in the lead */
    uint64_t count;    /* steps of this variant */
    uint64_t extras, missing;
    uint64_t renewed;       /* how often its signature was, and so begins elsewhere */
    uint64_t interruptions; /* times it was expected and did not come to its end */
} ebb_step_variant_t;

typedef struct ebb_step_finder ebb_step_finder_t;

/* Steps of up to `longest` operations can be found. NULL: no memory. */
ebb_step_finder_t *ebb_step_finder_new(size_t longest);
void ebb_step_finder_delete(ebb_step_finder_t *finder);

/* FOUND comes at any place in a step; the position is 0 if it is a boundary as well. */
ebb_step_event_t ebb_step_push(ebb_step_finder_t *finder, const ebb_step_operation_t *operation);

/* Before an operation or an allocation, so many bytes having been alive at the fewest since the last operation. True: a BOUNDARY, behind that
 * operation. Where a step may have ended or be the beginning of a longer one (an evaluation, whose operations are a training step's forward
 * pass), it has ended if what it allocated is gone, and no more than that, and the longer one would still have most of it. */
bool ebb_step_settle(ebb_step_finder_t *finder, uint64_t live_bytes);

/* The variant that ended with the last BOUNDARY or FOUND; -1: none has. */
int ebb_step_ended(const ebb_step_finder_t *finder);
/* How many operations of the lead ago that was, at the event: 0, unless its end was in doubt. */
size_t ebb_step_late(const ebb_step_finder_t *finder);
/* The variant that is under way, as far as one can tell; at a boundary, the one to come. -1: none is known, or what is
 * under way is none of them. */
int ebb_step_expected(const ebb_step_finder_t *finder);
ebb_step_variant_t ebb_step_variant(const ebb_step_finder_t *finder, unsigned variant);

/* Operations of the variant under way, of the last one if there is none; 0: none is known. */
size_t ebb_step_period(const ebb_step_finder_t *finder);
/* How many operations of its signature the expected variant has behind it. */
size_t ebb_step_position(const ebb_step_finder_t *finder);

/* Streams with operations, and how many of them have a step. */
typedef struct ebb_step_streams {
    unsigned count, recurring;
} ebb_step_streams_t;
ebb_step_streams_t ebb_step_streams(const ebb_step_finder_t *finder);

/* Everything is in order: for tests. */
bool ebb_step_check(const ebb_step_finder_t *finder);

/* ---- words that lead into no buffer (foreign_word.c) ---- */

/* What else a word of a launch's arguments may be that leads into no buffer of ebb's. */

/* A pointer to memory of CUDA's that ebb does not serve. */
bool ebb_word_is_foreign(ebb_device_t *dev, CUdeviceptr word);

/* Nothing that a kernel could follow: not NULL, which says something, but no address either; a read there faults. Also where a
 * buffer was that the program has freed: it may not touch it. `asking`: where only the driver knows, it is asked; else that is not
 * called junk. */
bool ebb_word_is_junk(ebb_device_t *dev, CUdeviceptr word, bool asking);

/* What the driver has said of words is asked anew. */
void ebb_words_forget(ebb_t *ebb);

/* ---- structures that say which words are meant (layout.c) ---- */

/* Structures that say themselves which of their words are meant.
 *
 * What the host has not filled in is learned from what it holds (tracker.h). That takes several launches, and cannot tell apart what
 * launches of a kernel have in common but by chance. Where most is stale it need not be learned, because the structure says it. All
 * these are PyTorch's, as its versions 2.4 to 2.11 have them (sources in aten/src/ATen):
 *   - CatArrayBatchedCopy of torch.cat: as many inputs as the grid is high (native/cuda/Shape.cu).
 *   - multi_tensor_apply_kernel of optimizers and clipping: as many tensors as its blocks name (native/cuda/MultiTensorApply.cuh).
 *   - TensorListAddresses of lpnorm_cleanup, clipping's, and of lpmax_cleanup: an address for each block
 *     (native/cuda/ForeachReduceOp.cu).
 *   - OffsetCalculator, alone or as the first member of an elementwise kernel's lambda: as many dimensions as it says, each with the
 *     numbers by which to divide by its size (cuda/detail/OffsetCalculator.cuh, IntegerDivider.cuh, native/cuda/CUDALoops.cuh).
 *   - gpu_index_kernel's lambda in index_elementwise_kernel: an OffsetCalculator first, as many indices as it says, and behind all of it a functor without
 *     members, whose eight bytes the host does not fill in (native/cuda/IndexKernelUtils.cuh, IndexKernel.cu).
 *   - ReduceOp of reduce_kernel, in which there are two of these, and one address or two of outputs (native/cuda/Reduce.cuh).
 *   - TensorInfo of indexing, dropout, sorting: as many dimensions as it says (cuda/detail/TensorInfo.cuh).
 * A kernel is known by its mangled name, a structure of its only if it has the size that follows from the name, and a launch's only if what
 * is in it agrees. So a version that has changed them is not known, rather than known wrongly. What an extension gives to PyTorch's templates
 * is not known where it could matter: a functor of its own may go by other words. (All 21,132 kernels of 2.11 were gone through.)
 *
 * Pure: neither driver nor buffers are asked. */

/* What an aligned word of 8 bytes of a launch's arguments is. */
typedef enum {
    EBB_ROLE_UNKNOWN,
    EBB_ROLE_OPERAND, /* an address that the kernel goes by */
    EBB_ROLE_NUMBER,  /* no address, whatever it looks like */
    EBB_ROLE_UNUSED   /* not filled in */
} ebb_role_t;

enum { EBB_LAYOUT_STRUCTURES = 8, EBB_LAYOUT_ARRAYS = 12 };

typedef struct ebb_layout_parameter {
    uint32_t offset_bytes, size_bytes;
} ebb_layout_parameter_t;

/* How many entries of an array are meant. */
enum ebb_meant {
    EBB_MEANT_ALL,
    EBB_MEANT_WIDTH,        /* as many as the grid is wide, */
    EBB_MEANT_HEIGHT,       /* or high */
    EBB_MEANT_NAMED,        /* tensors: as many as the blocks name, each by a byte */
    EBB_MEANT_DIVIDED,      /* dimensions: a number with as many dividers behind it; */
    EBB_MEANT_SOME_DIVIDED, /* one at least: without, nothing says that this is such a structure */
    EBB_MEANT_SIZES,        /* a number above 0, of as many sizes as there are; */
    EBB_MEANT_SAID,         /* that number */
    EBB_MEANT_FURTHER       /* one less than a number */
};

/* Of which arrays a structure consists; all in bytes from the beginning of the arguments. */
typedef struct ebb_layout_structure {
    uint32_t begin, end;
    uint32_t array_count;
    bool output_in_front; /* and what is behind it are numbers */
    struct ebb_layout_array {
        uint32_t at, entries, entry_bytes;
        uint32_t count_at; /* what says how many are meant, where the structure does */
        bool addresses;
        enum ebb_meant meant;
    } array[EBB_LAYOUT_ARRAYS];
} ebb_layout_structure_t;

/* What may be in a kernel's arguments. */
typedef struct ebb_layout {
    uint32_t count;
    ebb_layout_structure_t structure[EBB_LAYOUT_STRUCTURES];
} ebb_layout_t;

/* Of the kernel with this (mangled) name and these parameters. */
void ebb_layout_make(const char *name, const ebb_layout_parameter_t *parameter, uint32_t count,
                     ebb_layout_t *out);

/* role[bytes / 8] of ebb_role_t: of the words of a launch with these arguments; UNKNOWN what nothing is known of. */
void ebb_layout_roles(const ebb_layout_t *layout, const unsigned char *block, size_t bytes,
                      const unsigned grid[3], uint8_t *role);

/* ---- words that the host has not filled in (stale.c) ---- */

/* Words of a launch's arguments that the host has not filled in.
 *
 * A structure that goes to a kernel by value is often filled in part: so many shapes, strides, pointers, and the kernel goes by no
 * more. What is stale is what the host's stack remembers: also pointers into buffers, others in each step. A scan that only sees
 * words (hook/args.c) takes each of these for an operand, and no two steps for the same. PyTorch does so (OffsetCalculator,
 * CatArrayBatchedCopy, multi_tensor_apply).
 *
 * Some structures say themselves what is meant (tracker.h). Of all others, junk proves. If a word held junk
 * (tracker.h), and the launch succeeded, that launch did not go by it: it would have faulted. So evidence is gathered of each place of a
 * step, which is a launch of this kernel with this geometry and this many bytes of arguments, behind the same launches. A word that
 * held junk at least twice there is stale, in whatever other launch of the place, from the fourth on, it leads into a buffer; but
 * not in one that says something else for the first time: where a small number (a count, a kind, a flag) that had been the same in all
 * launches is another one, the word may be meant by it. From then on it is stale in launches with that number only once it held
 * junk in one. (More than a few such numbers at once are what another call has left on the stack; what was known of words there is
 * forgotten.)
 *
 * What cannot be detected: a kernel that goes by memory (a count on the device) to know which words it goes by, or by a number that has
 * varied all along. So nothing rests on it in silence. Where a plan or a replay does not provide for what the word leads to, the
 * word that is issued leads nowhere (ebb_nowhere): a kernel that goes by it all the same faults and the program is told, instead of
 * going on with other bits. While no plan is driven, and the program's own launches are not planned ones, every word that leads into a
 * buffer has it in place, whatever is known of it.
 *
 * A place is known by a position of its own, a hash of the launches before, and not by a recording's number: evidence comes before any
 * recording, which is made of operations without what is stale, and is kept when steps are recorded anew and while a plan is driven. What
 * all others get is the operation without these accesses, so that the tracker has no mask of them; a plan alone, which has to explain why
 * a recorded access is missing, asks for single words (ebb_stale_is).
 *
 * EBB_STALE_WORDS=0: every word counts. Of each device by itself; with ebb_lock() held. */

/* A step begins. What a place is counts from here. */
void ebb_stale_begin_step(ebb_device_t *dev);

/* Every operation of a step of which any is viewed, identified, before it is issued: those of a place come behind the same ones. */
void ebb_stale_pass(ebb_device_t *dev, const ebb_operation_t *operation);
/* The operation passed last was not issued. */
void ebb_stale_take_back(ebb_device_t *dev);

/* The operation passed last, without the accesses of words that are stale, and with arguments in which these lead nowhere; all
 * others as they are. The operation itself if there are none. Valid until the next pass. Adds to the evidence. */
const ebb_operation_t *ebb_stale_view(ebb_device_t *dev, const ebb_operation_t *operation);

/* Whether a word of the operation viewed last is stale, wherever it leads, or holds junk in it: this launch does not go by it. */
bool ebb_stale_is(ebb_device_t *dev, uint32_t param_offset);

/* What is known of a word of the operation viewed last, for the log. */
void ebb_stale_describe(ebb_device_t *dev, uint32_t param_offset, char *out, size_t size);

/* The program has been told `result`. If the device has faulted its user is told, once, that a word may have been left out that was meant. */
void ebb_stale_hint(ebb_device_t *dev, CUresult result);

/* Accesses that were left out, in all. */
uint64_t ebb_stale_count(ebb_device_t *dev);

/* Everything: functions may be others. */
void ebb_stale_forget(ebb_device_t *dev);

/* ---- following a recorded step (tracker.c, match.c, numbers.c) ---- */

/* Where the program is in a recorded step, while no plan is driven, and which of its buffers is which of the recorded ones. Learning,
 * recipes and residence/ go by this alone.
 *
 * Of each operation it says which one of the recording it is, and how well it fits. Operations are matched stream by stream, so that
 * the interleaving of streams and threads may differ from step to step. One that is not the one to come is taken for an extra; where two
 * in a row continue the step a little further on, something was left out. Failing both, one that differs from the one to come in sizes,
 * or in where its words lead, stands in its place. Too many strays in a row, and nothing is known until the next boundary.
 *
 * Buffers get their numbers in the trace when operations touch them: a buffer of the recording is one of this step, of the same size
 * (small ones may have other sizes from step to step, and where the variant is of any size all; the trace then says the most, ebb_profile_grow). What was there before the step
 * is the same buffer as recorded, or what the step before has left behind in a certain place: from step to step the same place (trace.h:
 * next). So it has its number from the beginning of the step, as a guess until it is touched.
 *
 * Steps may deviate a little: an operation too many, one that is left out, a free or an allocation that comes early or late.
 * Such a step still tells about the operations that are as recorded. Too much of it, and it is another step (ebb_match_difference).
 *
 * What the cursor says is advice to residence/: next uses, what is allocated and touched next. What is dropped rests on more
 * (replay.h).
 *
 * One step is followed at a time; with ebb_lock() held. */

typedef enum ebb_match {
    EBB_MATCH_EXTRA,   /* it is none of the recording, or the first one behind some that were left out */
    EBB_MATCH_PARTIAL, /* in its place, but it or a buffer of it has another size, or words of it lead elsewhere: what it does is not known */
    EBB_MATCH_EXACT
} ebb_match_t;

typedef struct ebb_tracked {
    ebb_recording_t *learned; /* NULL: nothing is followed */
    ebb_uses_t uses;
    ebb_buffer_t **buffer; /* [buffers] alive, under this number; NULL: none is known */
    bool known;            /* the cursor is right */
    bool resumed;          /* ebb_tracker_resume, until another one begins */
    uint32_t cursor;       /* behind the last operation that was matched; operation_count: the step is over */
    uint64_t step;         /* counts boundaries */
    /* The operation under way. */
    uint32_t at; /* its number; EBB_NONE: an extra one */
    ebb_match_t match;
    bool matches; /* exactly, and none behind it has come yet */
} ebb_tracked_t;

/* The next operation is the first one of a step like this one, which is borrowed until the next call or ebb_tracker_end.
 * NULL, or without a trace: like the one before, if any. What is dropped is made before another step is followed. */
void ebb_tracker_boundary(ebb_device_t *dev, ebb_recording_t *learned);
/* What is dropped is made, and buffers have no numbers any more: a plan is driven, which gives them its own. Does nothing if nothing is
 * followed. */
void ebb_tracker_end(ebb_device_t *dev);
bool ebb_tracker_follows(ebb_device_t *dev, const ebb_recording_t *learned);

/* At a boundary: [buffers] those with which the next step like this one begins, by their numbers in it, as far as they are
 * known; the caller's to free. NULL: nothing is known. */
ebb_buffer_t **ebb_tracker_present(ebb_device_t *dev, const ebb_recording_t *learned);

/* The program is in the middle of a step, where a plan has left it (replay.h): followed from here on. */
struct ebb_orphans;
void ebb_tracker_resume(ebb_device_t *dev, struct ebb_orphans *left);
/* At a boundary: since then the recorded step has come to its end, and the operation does not begin the next. For a few operations. */
bool ebb_tracker_is_behind(ebb_device_t *dev, const ebb_recording_t *learned, const ebb_operation_t *op);

/* Around every operation. `before` is for the moment when nothing has been done for it yet; an error goes to the
 * program. */
ebb_status_t ebb_tracker_before(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_tracker_after(ebb_device_t *dev, const ebb_operation_t *operation, bool issued);
/* A buffer of the program was allocated. */
void ebb_tracker_allocated(const ebb_buffer_t *buffer);
/* One is about to be freed, on the stream; NULL: now. */
void ebb_tracker_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* ---- the same, for profiling passes (match.c, numbers.c) ---- */

/* The one behind an operation on its stream; EBB_NONE: there is none. */
uint32_t ebb_match_next(ebb_device_t *dev, uint32_t operation);
/* How this step differs from the recorded one, valid until the next call; NULL: it does not so far, and if `whole`, to the end. */
const char *ebb_match_difference(ebb_device_t *dev, bool whole);
/* Operations that were left out, so far. */
uint32_t ebb_match_missing(ebb_device_t *dev);
/* At the end of a step that has matched: the trace's `next`; and what is small and has not been freed in this step outlives it. */
void ebb_match_note_next(ebb_device_t *dev);
/* The most bytes that the buffer had in this step; 0: it was not seen, or its size is another one's. */
size_t ebb_match_bytes(ebb_device_t *dev, uint32_t id);
/* The buffer that was seen to be one of the recording in this step; NULL: none yet. */
ebb_buffer_t *ebb_match_buffer(ebb_device_t *dev, uint32_t id);
/* Whether an operation that is not recorded has touched it since this was asked last. */
bool ebb_match_take_strayed(ebb_device_t *dev, uint32_t id);

/* ---- what comes next, for residence/ (ahead.c) ---- */

typedef struct ebb_next_use {
    bool known; /* else the rest means nothing */
    uint32_t
        ahead; /* operations until it is touched; 0: by the next one. A buffer that is freed untouched: until then */
    uint64_t ns;     /* until then, by what the operations took on the device */
} ebb_next_use_t;

/* One of the next operations, by what it asks of memory. */
typedef struct ebb_coming {
    size_t born_chunks;  /* allocated just before it */
    size_t freed_chunks; /* freed just before it, of those that will be on the device as things are */
    uint32_t buffers;    /* that it touches */
} ebb_coming_t;

/* False: nothing is known at the moment, and the others may not be asked. */
bool ebb_tracker_known(ebb_device_t *dev);
ebb_next_use_t ebb_tracker_next_use(const ebb_buffer_t *buffer);
/* The operation `ahead` operations from now. False: nothing is known that far ahead. */
bool ebb_tracker_coming(ebb_device_t *dev, uint32_t ahead, ebb_coming_t *out);
/* The i-th buffer that it touches. NULL: not allocated yet. */
ebb_buffer_t *ebb_tracker_touched(ebb_device_t *dev, uint32_t ahead, uint32_t i);

#endif
