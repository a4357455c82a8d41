/* state.h: what this folder remembers: parts, each known to the file (or the few) that it is of, which alone say what is in it. A device has
 * parts of its own for as long as its context lives: its step, what was learned of it, its plan. Guarded by ebb_lock() but for what is atomic.
 */
#ifndef EBB_RUN_STATE_H
#define EBB_RUN_STATE_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* X(part): of each device */
#define EBB_RUN_PARTS(X)                                                                                     \
    X(runner)      /* internal.h */                                                                          \
    X(scratch)     /* state.c */                                                                             \
    X(pins)        /* pin.c */                                                                               \
    X(drives)      /* drive/internal.h */                                                                    \
    X(drive_share) /* drive/drive_share.c */                                                                 \
    X(hash_module) /* profile/hash.c */                                                                      \
    X(knowledge)                                                                                             \
    X(pass)                                                                                                  \
    X(price_list)                                                                                            \
    X(proofs)                                                                                                \
    X(record)                                                                                                \
    X(times)                                                                                                 \
    X(writes)                                                                                                \
    X(recipes) /* replay/ */                                                                                 \
    X(clean)   /* residence/ */                                                                              \
    X(leaving)                                                                                               \
    X(deferred_frees)                                                                                        \
    X(reserve)                                                                                               \
    X(shortage)                                                                                              \
    X(planned) /* stats/ */                                                                                  \
    X(tracked) /* tracker/ */                                                                                \
    X(stale)

/* Of the process. */
#define EBB_RUN_SHARED_PARTS(X)                                                                              \
    X(file_names) /* output_files.c */                                                                       \
    X(plan_jobs)  /* plan_job.c */                                                                           \
    X(rest)       /* pin.c */                                                                                \
    X(live_page)  /* stats/ */                                                                               \
    X(words)      /* tracker/ */

#define EBB_RUN_PART(part) struct ebb_##part *part;
struct ebb_run {
    EBB_RUN_PARTS(EBB_RUN_PART)
};
struct ebb_run_shared {
    EBB_RUN_SHARED_PARTS(EBB_RUN_PART)
};
#undef EBB_RUN_PART

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

/* So much of that there is now. */
size_t ebb_scratch_pinned_bytes(ebb_device_t *dev);

/* ebb_live_bytes() without it: what the program itself has. */
size_t ebb_program_bytes(ebb_device_t *dev);

#endif
