/* state.h: what this folder remembers: parts, each known to the file (or the few) that it is of, which alone say what is in it. A part is
 * one for the process, or [EBB_STATES] of them by the number of the device. Guarded by ebb_lock() but for what is atomic.
 */
#ifndef EBB_RUN_STATE_H
#define EBB_RUN_STATE_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* X(part, how many) */
#define EBB_RUN_PARTS(X)                                                                                     \
    X(runner, 1)               /* internal.h */                                                              \
    X(file_names, 1)           /* output_files.c */                                                          \
    X(plan_jobs, 1)            /* plan_job.c */                                                              \
    X(scratch, EBB_STATES)     /* state.c */                                                                 \
    X(pins, 1)                 /* pin.c */                                                                   \
    X(drives, 1)               /* drive/internal.h */                                                        \
    X(drive_share, 1)          /* drive/drive_share.c */                                                     \
    X(hash_module, EBB_STATES) /* profile/hash.c */                                                          \
    X(tile_kernels, EBB_STATES)                                                                              \
    X(knowledge, 1)                                                                                          \
    X(pass, 1)                                                                                               \
    X(price_list, EBB_STATES)                                                                                \
    X(proofs, 1)                                                                                             \
    X(record, 1)                                                                                             \
    X(event_pool, EBB_STATES) /* profile/times.c */                                                          \
    X(times, 1)                                                                                              \
    X(writes, 1)                                                                                             \
    X(recipes, 1)        /* replay/ */                                                                       \
    X(clean, EBB_STATES) /* residence/ */                                                                    \
    X(leaving, EBB_STATES)                                                                                   \
    X(deferred_frees, EBB_STATES)                                                                            \
    X(reserve, 1)                                                                                            \
    X(shortage, EBB_STATES)                                                                                  \
    X(live_page, 1) /* stats/ */                                                                             \
    X(planned, 1)                                                                                            \
    X(tracked, 1) /* tracker/ */                                                                             \
    X(stale, 1)                                                                                              \
    X(words, 1)

struct ebb_run {
#define EBB_RUN_PART(part, count) struct ebb_##part *part;
    EBB_RUN_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART
};

/* ---- memory of this folder's own (state.c) ---- */

/* Memory of this folder's own: hashes, verdicts, scratch for learning. It counts against the budgets, and is none of the
 * program's buffers: statistics leave it out of live_bytes and host_bytes. ebb_lock() held. */

/* Device memory that stays where it is (held), for use in the order of a stream; of none (NULL): at once. NULL: there is
 * none. */
ebb_buffer_t *ebb_scratch_alloc(ebb_device_t *dev, size_t bytes, ebb_stream_t *stream);
/* Behind what was issued into the stream; of none (NULL): no work is under way that uses it. NULL: nothing. */
void ebb_scratch_free(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* Pinned host memory. NULL: there is none. */
void *ebb_scratch_pinned_alloc(ebb_device_t *dev, size_t bytes);
void ebb_scratch_pinned_free(ebb_device_t *dev, void *p, size_t bytes);

/* So much of either there is now. */
size_t ebb_scratch_bytes(ebb_device_t *dev);
size_t ebb_scratch_pinned_bytes(ebb_device_t *dev);

/* ebb_live_bytes() without it: what the program itself has. */
size_t ebb_program_bytes(ebb_device_t *dev);

#endif
