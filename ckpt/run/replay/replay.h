/* replay.h: launching operations of the program again: contents that were dropped are rebuilt by the launches that made them, with this step's
 * arguments, and compared with what they were.
 *
 * Threads and locks: ebb_lock() held.
 */
#ifndef EBB_REPLAY_H
#define EBB_REPLAY_H

#include "alloc/ebb_alloc.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/trace/trace.h"
#include "offload/ebb_offload.h"

/* ---- one launch again (relaunch.c) ---- */

/* An operation of the program as it was issued, and issuing it again.
 *
 * Learning (profile/internal.h) repeats launches on copies, the drive (drive.h) replays them in its places, and a
 * recipe (replay.h) wherever there is room. All keep the argument bytes of this very launch and exchange
 * pointers. */

enum { EBB_RELAUNCH_PARAM_BYTES = 4096, EBB_RELAUNCH_POINTERS = EBB_RELAUNCH_PARAM_BYTES / 8 };

typedef struct ebb_issued {
    ebb_operation_t op;   /* if it was kept, with what it points to in `block`; stream and buffers may be gone */
    size_t operand_bytes; /* of the buffers that its pointers lead to */
    unsigned char *block; /* [room] owned; NULL: a view */
    size_t room;
    bool left_out; /* by this step: nothing is issued in its place either */
} ebb_issued_t;

/* The operation itself, borrowed: valid as long as it is. */
ebb_issued_t ebb_issued_view(const ebb_operation_t *operation);
/* Keeps a copy in `issued`, which is zeroed or kept something before. False: no host memory. */
bool ebb_issued_keep(ebb_issued_t *issued, const ebb_operation_t *operation);
void ebb_issued_forget(ebb_issued_t *issued);

/* Whether a tensor map is at so many bytes of its arguments, and no word. */
bool ebb_issued_has_map(const ebb_issued_t *issued, uint32_t param_offset);

/* Where in its buffer that operand was in this very launch: where steps are of any size, not always where it was recorded. */
size_t ebb_issued_offset(const ebb_issued_t *issued, const ebb_trace_access_t *recorded);

/* A pointer that leads elsewhere this time: where it stands (ebb_access_t.param_offset), and to what. */
typedef struct ebb_pointer {
    uint32_t param_offset;
    CUdeviceptr to;
} ebb_pointer_t;

/* Issues it again on `stream`, unless it was left out. Kernels with at most EBB_RELAUNCH_PARAM_BYTES of arguments (else
 * CUDA_ERROR_INVALID_VALUE), copies within the device, memsets. */
ebb_status_t ebb_relaunch(ebb_device_t *dev, const ebb_issued_t *issued, ebb_stream_t *stream,
                          const ebb_pointer_t *pointer, unsigned count);

/* ---- contents that may be dropped (recipe.c, recipe_make.c) ---- */

/* Contents that the reactive half may drop, because they can be made again.
 *
 * While the program is followed through a recorded step (tracker.h), every buffer's content is known as the work of certain
 * operations of this step: the last one that replaced it, and those that updated it since. If all of these are proven, and
 * what they read is alive and has not been written since, they are its recipe: launched again in order, with the argument
 * bytes of this step, they give the same bits. What they write beside it goes to private scratch. What they read may itself
 * be dropped, and is made first.
 *
 * What a plan has dropped when the program departs from it has recipes as well (replay.h).
 *
 * Where steps are of any size, nothing else is dropped: a launch that was seen to fill a buffer may leave a part of it as it was, and what
 * that is, is known only in a plan's places (drive.c).
 *
 * A recipe holds as long as that is so. Before an operation that may write what a dropped buffer's recipe reads, before
 * that is freed, at the end of the step and when the program is not followed any more, the dropped buffer is made.
 * Possible writers: every operation that is not the recorded one on the recorded buffers; and of those the arguments that
 * learning has not found to be read only.
 *
 * Checking: the first times of every operation the host keeps a copy, as far as it has memory, and waits for the comparison: other
 * bits are replaced by the copy, and nothing is lost. Later EBB_VERIFY says which are compared.
 *
 * With ebb_lock() held; for tracker.c. */

typedef struct ebb_recipe_counts {
    uint64_t dropped, rebuilt, replays, verified, mismatches;
} ebb_recipe_counts_t;
ebb_recipe_counts_t ebb_recipe_counts(ebb_device_t *dev);

void ebb_recipe_begin(ebb_device_t *dev);
void ebb_recipe_end(ebb_device_t *dev);
void ebb_recipe_step_ends(ebb_device_t *dev);
ebb_status_t ebb_recipe_before(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_recipe_after(ebb_device_t *dev, const ebb_operation_t *operation, bool issued);
void ebb_recipe_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream); /* on the stream; NULL: now */

/* ---- for residence/ ---- */

/* Whether the content can be made again, and how long that would take the device. */
bool ebb_recipe_can_rebuild(const ebb_buffer_t *buffer, uint64_t *cost_ns);
/* The content, which can be made again, is about to be dropped: behind `ready` and all that touched it its bytes may be looked at, until `looked`.
 * `keep_copy`: the host shall keep them as well, if it has memory for that. False: no host memory, it must not be dropped. */
bool ebb_recipe_dropping(ebb_buffer_t *buffer, ebb_mark_t ready, bool *keep_copy, ebb_mark_t *looked);
/* Whether that may be so. */
bool ebb_recipe_may_keep_copy(const ebb_buffer_t *buffer);
/* It is dropped (true), or is not after all (false). */
void ebb_recipe_dropped(ebb_buffer_t *buffer, bool dropped);
/* Makes the content of a DROPPED buffer, for `stream`, by ebb_residence_blank and launches behind that. On failure nothing has changed, but
 * what was fetched for it. */
ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* After that, of a buffer that the host has a copy of: whether it is the same. The host waits. */
bool ebb_recipe_agrees(ebb_buffer_t *buffer);

/* ---- what a plan leaves behind (recipe_orphans.c) ---- */

/* What a plan leaves behind when the program departs from it in the middle of a step (drive.h), for tracker and
 * recipes, which go on from there (tracker.h, replay.h).
 *
 * A plan's contents are in three places: on the device, on the host, or nowhere, because they were given up and would have
 * been replayed. The first two are residence's at once (ebb_residence_put). What was given up becomes DROPPED, with a recipe,
 * and is made like everything else that is dropped: when it is touched, if it ever is; before what its recipe reads changes or
 * is freed; at the end of the step. Whatever the options say of dropping: it has happened.
 *
 * Such a recipe may be longer than those of replay.h: what its operations read may have been freed since, or overwritten.
 * That is made as well, by the operations that made it, in memory of ebb's own, for as long as they need it. So a recipe is
 * the list, in order, of all operations of this step that are needed to get from what is there to the content. That there
 * is one for everything, at every point, the plan's checker has proven (ckpt/checker/contents.c), as long as all operations keep
 * their proofs.
 *
 * Memory. The checker has also proven that everything alive fits into device and host together. Making a content later needs
 * no more than making it at once, as long as that is so for what is alive then. An allocation that might end it
 * comes behind the making of everything that is still dropped (ebb_recipe_allocating).
 *
 * Checking: as for all that is dropped; a content that the plan has hashed is compared when it is made. */

typedef struct ebb_given_up {
    uint32_t id;     /* its buffer; alive, not mapped */
    ebb_host_t copy; /* with the content, pinned, where there is one */
} ebb_given_up_t;

/* A buffer that an operation has written which is not in the recording, before the operation `before` of it. */
typedef struct ebb_stray {
    uint32_t before, id;
} ebb_stray_t;

typedef struct ebb_orphans {
    ebb_recording_t *learned; /* of the step; borrowed as by ebb_tracker_boundary */
    /* The next operation; all before it were the recorded ones, on the recorded buffers, but for kernels that were not kept in
     * `issued`, and those that it says were left out. */
    uint32_t cursor;
    const ebb_stray_t
        *stray; /* [stray_count] in order; what a recipe of `given_up` needs is not among them */
    uint32_t stray_count;
    ebb_buffer_t **buffer;    /* [buffers] those that are alive; else NULL */
    ebb_issued_t *issued;     /* [operations] as issued in this step, those before the cursor; taken */
    ebb_given_up_t *given_up; /* [given_up_count] the copies are taken */
    uint32_t given_up_count;
} ebb_orphans_t;

/* For tracker.c, when it follows the step with these buffers: from here on recipes are kept as if it had all along. What
 * has no recipe is taken from its copy, or is lost (replay.h). */
void ebb_recipe_resume(ebb_device_t *dev, ebb_orphans_t *left);
/* It cannot be followed: copies are all that counts. */
void ebb_recipe_abandon(ebb_orphans_t *left);

/* The program is about to allocate: what was left behind is made before that would take the memory that it needs. */
void ebb_recipe_allocating(ebb_device_t *dev, size_t bytes);

/* ---- whether what was made again is what was dropped (verify.c) ---- */

/* Contents of the large buffers of a recorded step that are given up and made again, by a plan or when residence wants them: hashed when
 * they are given up, and hashed again and compared on the device when they are made. The host looks at the verdict when that is over, or
 * waits for it. Other bits refute all operations that make contents of the buffer: they are launched again no more, and a plan that
 * relies on them is no good (ebb_recording_t.refuted). Of each buffer one content at a time.
 *
 * What stays of it belongs to the recording: so a content that a plan has given up may be made by a recipe. */

typedef struct ebb_verify ebb_verify_t;

/* Takes what it needs on the device, once; before a plan is made, so that the plan leaves room for it. False: there is no memory. */
bool ebb_verify_open(ebb_device_t *dev, ebb_recording_t *learned);
void ebb_verify_close(ebb_device_t *dev, ebb_recording_t *learned); /* waits for what is under way */
/* The context is gone, and all that was there with it. */
void ebb_verify_abandon(ebb_recording_t *learned);

/* What the operation makes of that buffer has not been the same often enough to be believed; or, where steps are of any size, not with about so many
 * bytes of operands. */
bool ebb_verify_is_trial(const ebb_recording_t *learned, uint32_t operation, uint32_t id, size_t operand_bytes);

/* A content that is about to be given up, and which operation completes it when it is made again. */
typedef struct ebb_dropping {
    uint32_t id, operation;
    CUdeviceptr address;
    size_t bytes;
    size_t operand_bytes; /* of the launch that completes it (ebb_issued_t) */
    uint64_t step; /* which part is compared goes on with it (EBB_VERIFY); all of it, if it is on trial */
    bool trial;
} ebb_dropping_t;
/* In the stream's order. On failure, and where EBB_VERIFY says so, it is not compared. */
ebb_status_t ebb_verify_dropping(ebb_device_t *dev, ebb_recording_t *learned, const ebb_dropping_t *dropping,
                                 ebb_stream_t *stream);
bool ebb_verify_is_hashed(const ebb_recording_t *learned, uint32_t id);
/* It was made, there, in the stream's order: compared, if it was hashed. */
ebb_status_t ebb_verify_made(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                             CUdeviceptr address, size_t bytes);
/* Right after that: whether it is the same. The host waits. False: it is not, or was not compared. */
bool ebb_verify_agrees(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id);
/* It was not given up, or is gone. */
void ebb_verify_forget(const ebb_recording_t *learned, uint32_t id);
/* What is copied to pinned memory of the host, right behind this in the stream, is hashed: a buffer that is not made again meanwhile. */
ebb_status_t ebb_verify_copied(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                               CUdeviceptr address, size_t bytes);
/* After that: what has other bits now is copied there again, by the device, and the host hears of it later: copies of that buffer are
 * spared no more (`changes`), and plans that rely on it are no good. */
ebb_status_t ebb_verify_keep(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                             CUdeviceptr address, size_t bytes, void *host);
/* What is known by now of contents without a copy: EBB_ON_MISMATCH says whether the program is told of other bits. `wait`: of all. */
void ebb_verify_poll(ebb_device_t *dev, ebb_recording_t *learned, bool wait);

/* The content of a buffer of the step is lost for another reason: the program is told. */
void ebb_content_lost(ebb_device_t *dev, uint32_t buffer, const char *why);

#endif
