/* checker.h: proves that a plan is safe to drive, or says why not.
 *
 * Shares no code with any planner: it knows only what trace.h and plan.h say. It walks through two
 * consecutive steps (the second one sees what the first has left) and shows that, for every interleaving of
 * the program's streams, out and in that the program's events, waits, joins and orders allow:
 *   - every operation and every replay finds in each place that it reads or updates the content that it had
 *     in the trace (versions, by the modes of the accesses), and writes the same version as there;
 *   - every fetch follows the evict of the same content, and a host block is not overwritten while it is
 *     needed;
 *   - two accesses of one chunk of which one writes are ordered (vector clocks over all streams), unless both are the
 *     program's, to the same buffer in its own place;
 *   - no chunk changes hands (a place takes it that another one had) while a resident operation may be running: each is ordered
 *     after the other's end, or before its beginning (below);
 *   - content that is lost (its chunks taken) is on the host, was given up by a discard, or belongs to a
 *     buffer that the program has freed; what was given up is rebuilt by replays before it is read. A content
 *     that the trace does not read again is not lost for that: a program that leaves the plan may want it;
 *   - only operations with proofs are replayed, with redirections for all that they write beside what they
 *     rebuild;
 *   - the places' chunks and the small region fit the budget, and small buffers do not overlap while alive;
 *   - falling back is possible at every point: what was discarded can be rebuilt from what is there (on
 *     device or host, or itself rebuilt) by proven launches, and everything alive fits into device and host
 *     budgets together, the largest operation's buffers onto the device at once.
 *
 * Places on one chunk are aliases. "Writes to one proxy of the allocation are considered inconsistent and incoherent with any other
 * proxy of the same memory until the writing device operation completes. Grids present on the GPU prior to a writing device operation
 * but reading after the writing device operation completes are also considered to have inconsistent and incoherent proxies" (CUDA
 * Programming Guide, Virtual Aliasing Support; only fence.proxy.alias, PTX ISA, membar/fence, would do within a grid, and the
 * program's kernels have none). So it takes more than the data's being there: what uses a chunk through another address must begin
 * after what wrote it through the first has ended. Of accesses that the trace shows, the order above is just that: from end to
 * beginning. (A launch that may begin early is given that up: hook/work.c. Events that a kernel records before its end are
 * none of the trace's.) What it leaves open is a kernel that was there before and reaches the chunk by other means than its
 * arguments, when a flag in memory tells it to, as kernels that communicate and persistent ones do. Those are the operations that the
 * trace calls resident, and as it is not known what they touch, nothing changes hands beside them. (A kernel of NCCL's whose call ebb has heard
 * touches what that named, and memory of NCCL's own, which is foreign or found through its arguments: its accesses are all among the trace's.)
 */
#ifndef EBB_CHECKER_H
#define EBB_CHECKER_H

#include "ckpt/plan/plan.h"

/* What can be wrong with a plan, and the word with which `why` begins. Each is provoked by test_checker_refusals; docs/checker.md argues
 * why there are no others. */
#define EBB_FAULTS(FAULT)                                                                                    \
    FAULT(MEMORY, "memory")     /* the host has none to check with */                                        \
    FAULT(FORM, "form")         /* the trace or the plan says what cannot be */                              \
    FAULT(DEVICE, "device")     /* more of the device than may be */                                         \
    FAULT(HOST, "host")         /* more of the host than may be */                                           \
    FAULT(SMALL, "small")       /* small buffers in each other's way */                                      \
    FAULT(FALLBACK, "fallback") /* without the plan there is no room */                                      \
    FAULT(CONTENT, "content")   /* what is wanted is not where it is looked for */                           \
    FAULT(ORDER, "order")       /* two accesses of one chunk may come in either order */                     \
    FAULT(RESIDENT, "resident") /* a chunk changes hands beside a resident operation */                      \
    FAULT(LOSS, "loss")         /* a content is gone that was not given up */                                \
    FAULT(REBUILD, "rebuild")   /* a content was given up that cannot be made again */                       \
    FAULT(REPLAY, "replay")     /* an operation is launched again that may not be */                         \
    FAULT(KEPT, "kept")         /* a buffer leaves that the program wants on the device */                   \
    FAULT(STEP, "step")         /* the step does not end as the next one begins */

#define EBB_FAULT(name, word) EBB_FAULT_##name,
typedef enum ebb_fault { EBB_FAULTS(EBB_FAULT) EBB_FAULT_KINDS } ebb_fault_t;
#undef EBB_FAULT
extern const char *const ebb_fault_word[EBB_FAULT_KINDS];

typedef struct ebb_check_limits {
    uint64_t device_bytes; /* for places and small region together */
    uint64_t host_bytes;   /* pinned */
    uint64_t behind_bytes; /* beyond it, for what a program that leaves the plan has alive: no plan copies there */
} ebb_check_limits_t;

/* True: proven. False: `why` says what does not hold, in one line: the fault's word, where (step, point, operation, action), and
 * what. No memory is a reason like any other. A value function: any thread. */
bool ebb_check_plan(const ebb_trace_t *trace, const ebb_plan_t *plan, const ebb_check_limits_t *limits,
                    char *why, size_t why_bytes);

#endif
