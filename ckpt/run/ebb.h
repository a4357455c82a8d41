/* ebb.h: what a program may ask of ebb, and what it may tell it. No program has to: ebb learns by itself. It is for trainers that show memory in their
 * logs, that know when their memory may be had by others, or where a step begins.
 *
 * All of these are weak references, nothing is linked: in a process that is not under ebb they are NULL.
 *
 *     if (ebb_step_mark)
 *         ebb_step_mark();
 *
 * In position-independent code, that is; other code is linked with NULL for good, and uses dlsym.
 *
 * Threads: any, at any time after main has begun; but not functions that the driver calls (cuLaunchHostFunc, cuStreamAddCallback), which may call
 * nothing that waits. Streams: none is ordered by a call. Nothing here changes a bit of what the program computes.
 *
 * Errors: 0, or one of errno.h's numbers, negative:
 *   -EINVAL  an argument means nothing
 *   -ENODEV  ebb serves no such device, or none yet: a device is served from its first context on
 *   -ENOENT  no memory of the program's, or none that ebb serves, lies there
 *   -ENOMEM  said with the function
 */
#ifndef EBB_H
#define EBB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef EBB_FUNCTION
#define EBB_FUNCTION __attribute__((weak))
#endif

/* Of the library, as "1.2.3". */
EBB_FUNCTION const char *ebb_version(void);

/* How many devices ebb serves in this process by now. */
EBB_FUNCTION unsigned ebb_device_count(void);

/* ---- statistics ---- */

/* X(key, meaning). Of all devices together. Bytes on the device are those of whole chunks where not said otherwise. New keys go to the end.
 * What is called the last plan's is its summary. */
// clang-format off
#define EBB_STATISTICS(X)                                                                                    \
    X(budget_bytes, "device memory that ebb may hold: EBB_BUDGET less what it does not own")                 \
    X(overhead_bytes, "device memory that ebb does not own: context, modules, EBB_RESERVE")                  \
    X(mapped_bytes, "device memory in use now")                                                              \
    X(peak_bytes, "device memory held at most, since the budget was set")                                    \
    X(live_bytes, "in the program's buffers now, as requested, wherever they are")                           \
    X(live_peak_bytes, "the same at most")                                                                   \
    X(operations, "launches, copies and memsets of the program")                                             \
    X(step_operations, "of them in a step; 0: no step was found")                                            \
    X(steps, "completed steps")                                                                              \
    X(steps_interrupted, "steps that went another way")                                                      \
    X(steps_driven, "steps that followed a plan from beginning to end")                                      \
    X(fallbacks, "times the program left the plan")                                                          \
    X(unplanned, "operations and allocations that were none of the plan's and did it no harm") \
    X(replans, "plans given up for another one: copies came late, there was less memory, or a better one") \
    X(plans, "plans made")                                                                                   \
    X(evictions, "buffers copied out when memory ran out")                                                   \
    X(fetches, "buffers copied back when they were touched")                                                 \
    X(bytes_out, "copied from device to host, by plans as well")                                             \
    X(bytes_in, "copied from host to device, by plans as well")                                              \
    X(stall_ns, "host time spent waiting for copies")                                                        \
    X(driven_stall_ns, "time the program's stream waited for planned copies")                                \
    X(in_flight_peak_bytes, "evictions under way at once, at most")                                          \
    X(host_bytes, "pinned host memory in use now, for buffers")                                              \
    X(host_peak_bytes, "pinned host memory held at most")                                                    \
    X(host_budget_bytes, "pinned host memory that ebb may hold")                                             \
    X(pageable_bytes, "pageable host memory in use now, because no more could be pinned")                    \
    X(pageable_peak_bytes, "the same at most")                                                               \
    X(replays, "launches repeated to recompute buffers")                                                     \
    X(verified, "recomputed contents that were compared")                                                    \
    X(mismatches, "of them with other bits")                                                                 \
    X(rebuilt, "contents rebuilt, but by plans")                                                             \
    X(kept, "buffers that the last plan keeps")                                                              \
    X(offloaded, "buffers that it copies out and back")                                                      \
    X(dropped, "buffers that it drops and recomputes")                                                       \
    X(kept_bytes, "as requested")                                                                            \
    X(offloaded_bytes, "as requested")                                                                       \
    X(dropped_bytes, "as requested")                                                                         \
    X(predicted_peak_bytes, "device memory at most, by that plan")                                           \
    X(driven_peak_bytes, "device memory held at most while driving")                                         \
    X(clean_evictions, "evictions that copied nothing: the host had the same bytes")                               \
    X(step_found_after, "operations until a step was known for the first time")                              \
    X(step_variants, "step variants that are known")                                                            \
    X(step_extras, "operations that steps had beyond those of their variant")                                   \
    X(step_missing, "operations of their variant that steps left out")                                          \
    X(step_streams, "streams, and threads in streams that several issue into, that were told apart")           \
    X(step_streams_recurring, "of them with a step")                                                           \
    X(ahead, "of the fetches, those before the buffer was touched")                                          \
    X(reactive_drops, "buffers dropped when memory ran out, to be recomputed")                               \
    X(reactive_replays, "launches repeated for those, and for what a plan has left behind")                  \
    X(foreign_bytes, "of overhead_bytes, what the driver serves the program: managed memory, arrays, mappings") \
    X(driven_ns, "device time of those driven steps whose time is known; the first two, where contents are compared at once, left out") \
    X(driven_timed, "how many these are") \
    X(changes, "times a step of another kind or size followed its own plan at once") \
    X(stale_words, "pointers in arguments that were not taken for operands, because the host has not filled in these words") \
    X(obscure, "launches that counted as touching everything, because nothing is known of what they reach") \
    X(spared_bytes, "of planned copies out that were spared, because the host has had the same bytes") \
    X(disk_bytes, "in the file of `EBB_DISK` now, because host memory was short") \
    X(disk_peak_bytes, "the same at most") \
    X(disk_reserved_bytes, "what `EBB_DISK` has reserved, on which plans count") \
    X(disk_written_bytes, "written to it") \
    X(disk_read_bytes, "read from it")
// clang-format on

typedef struct ebb_statistics {
#define EBB_MEMBER(key, meaning) uint64_t key;
    EBB_STATISTICS(EBB_MEMBER)
#undef EBB_MEMBER
} ebb_statistics_t;

/* As of now, the first `bytes` of the structure; what a library that is older than this header does not have becomes 0. `bytes`: sizeof(ebb_statistics_t). */
EBB_FUNCTION void ebb_statistics(ebb_statistics_t *out, size_t bytes);

/* The same, with those of each device and each step variant, as EBB_STATS writes it when the process ends (docs/statistics.md): a JSON object of
 * one line. Returns its length without the NUL, as snprintf does: from `room` on, it is cut off. 0: no host memory. */
EBB_FUNCTION size_t ebb_statistics_json(char *to, size_t room);

/* ---- the budget ---- */

/* Bytes of device memory that the process may hold of this device (the driver's number), everything included. 0: it is not served. */
EBB_FUNCTION size_t ebb_budget(int device);

/* Another one, as EBB_BUDGET has it: "20GiB", "60%" of the device; of all devices and those to come: -1. What is beyond it leaves before the call returns,
 * waiting for the device; a plan that is driven is left, and another one made. -EINVAL: also 0, and a share of a step's peak. -EBUSY: a stream is being captured,
 * so that the device may not be waited for. -ENOMEM: what has to stay on the
 * device is more; the budget holds all the same, and the rest leaves as soon as it may. */
EBB_FUNCTION int ebb_budget_set(int device, const char *budget);

/* ---- decisions ---- */

/* From the end of the step under way on no step is learned, and no plan followed, until as many calls of the other: buffers leave when memory runs out, and
 * come back when they are touched. For what repeats nothing, or is to be measured without plans. What was learned is kept. */
EBB_FUNCTION void ebb_decisions_pause(void);
EBB_FUNCTION void ebb_decisions_resume(void);

/* A step begins with the next operation of each stream. From the first call on, steps begin at such places only, so that no loop inside of one is taken for it.
 * A hint: a place that does not repeat as steps do is passed over. */
EBB_FUNCTION void ebb_step_mark(void);

/* A stretch of what this thread issues gets a name, in reports and for EBB_POLICY=selective; ranges nest, and come between those of NVTX. */
EBB_FUNCTION void ebb_range_push(const char *name);
EBB_FUNCTION void ebb_range_pop(void);

/* The buffers of the program's that the range of addresses touches are on the device when the call returns, and do not leave it until as many calls of
 * the other, or until they are freed. Plans provide for it; one that does not is left at once. What is kept and released in step after step is kept by
 * plans from the second time on. -ENOMEM: the budget has no room for them beside what else must stay; none is kept then. Small buffers (EBB_MIN_BUFFER) never leave. */
EBB_FUNCTION int ebb_memory_keep(const void *address, size_t bytes);
EBB_FUNCTION int ebb_memory_release(const void *address, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
