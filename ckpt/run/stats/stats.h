/* stats.h: what has happened, for people and programs: one table of numbers. It makes EBB_STATS=FILE (one JSON
 * object with these keys, "variants", "obscure_kernels", and with EBB_TRACE "planned", written when the process ends; a %p in the name becomes
 * the process's number), the page that `ebb top` reads (live.h), and the table of docs/statistics.md (`ebb top --keys`).
 */
#ifndef EBB_STATS_H
#define EBB_STATS_H

#include <stdint.h>
#include <stdio.h>

#include "alloc/ebb_alloc.h"
#include "ckpt/planner/planner.h"

#define EBB_FUNCTION __attribute__((visibility("default"))) /* here they are */
#include "ckpt/run/ebb.h"

/* ---- of each device (devices.c) ---- */

/* The figures of each device, beside those of the process (stats.h, where what is counted on devices is the
 * sum of these). In EBB_STATS and `ebb top --json` they are the list "devices", an object for each. */

enum { EBB_MOST_DEVICES = 16 };

/* X(key, meaning), as in stats.h. Where a device has had several contexts one after the other, counts are of all of
 * them and peaks the highest, the rest is the last one's. */
// clang-format off
#define EBB_DEVICE_STATISTICS(X)                                                                             \
    X(device, "the driver's number")                                                                         \
    X(budget_bytes, "device memory that ebb may hold: EBB_BUDGET less what it does not own")                 \
    X(overhead_bytes, "device memory that ebb does not own: context, modules, EBB_RESERVE")                  \
    X(mapped_bytes, "device memory in use now")                                                              \
    X(peak_bytes, "device memory held at most, since the budget was set")                                    \
    X(live_bytes, "in the program's buffers now, as requested, wherever they are")                           \
    X(live_peak_bytes, "the same at most")                                                                   \
    X(evictions, "buffers copied out when memory ran out")                                                   \
    X(clean_evictions, "evictions that copied nothing")                                                            \
    X(fetches, "buffers copied back when they were touched")                                                 \
    X(bytes_out, "copied from device to host")                                                               \
    X(bytes_in, "copied from host to device")                                                                \
    X(stall_ns, "host time spent waiting for copies")                                                        \
    X(in_flight_peak_bytes, "evictions under way at once, at most")                                          \
    X(host_bytes, "pinned host memory in use now, for buffers")                                               \
    X(foreign_bytes, "of overhead_bytes, what the driver serves the program: managed memory, arrays, mappings") \
    X(step_operations, "launches, copies and memsets of a step; 0: no step was found")                       \
    X(steps, "completed steps")                                                                              \
    X(steps_driven, "steps that followed a plan from beginning to end")                                      \
    X(fallbacks, "times the program left the plan")                                                          \
    X(predicted_peak_bytes, "device memory at most, by the last plan")                                       \
    X(driven_peak_bytes, "device memory held at most while driving")                                         \
    X(wanted_bytes, "EBB_BUDGET from which on the largest steps so far have a plan, in whole MiB; 0: it is that large, or this is not known") \
    X(wanted_double_bytes, "the same for steps of ever other sizes, twice as large")

/* X(key): of them, what the statistics of all have the sum of. */
#define EBB_SUMMED_STATISTICS(X)                                                                             \
    X(budget_bytes) X(overhead_bytes) X(mapped_bytes) X(peak_bytes) X(live_bytes) X(live_peak_bytes)         \
    X(evictions) X(clean_evictions) X(fetches) X(bytes_out) X(bytes_in) X(stall_ns) X(in_flight_peak_bytes)  \
    X(host_bytes) X(foreign_bytes) X(step_operations) X(steps) X(steps_driven) X(fallbacks)                  \
    X(predicted_peak_bytes) X(driven_peak_bytes)
// clang-format on

typedef struct ebb_device_statistics {
#define X(key, meaning) uint64_t key;
    EBB_DEVICE_STATISTICS(X)
#undef X
} ebb_device_statistics_t;

typedef struct ebb_device_list {
    uint32_t count, spare;
    ebb_device_statistics_t device[EBB_MOST_DEVICES];
} ebb_device_list_t;

/* As of now. ebb_lock() held, or at the end of the process; the driver is not called. */
void ebb_devices_gather(ebb_t *ebb, ebb_device_list_t *out);
/* Of all; `device` is their count. */
ebb_device_statistics_t ebb_devices_sum(const ebb_device_list_t *list);
/* `, "devices": [...]`: the last member of a JSON object (shared.c). */
void ebb_devices_print(const ebb_device_list_t *list, FILE *out);

/* ---- of all devices (stats.c) ---- */

/* Of the process: EBB_STATISTICS (ckpt/run/ebb.h). With a new key EBB_LIVE_VERSION is counted up. */

// clang-format off
/* Of one variant of the step, in "variants". */
#define EBB_VARIANT_STATISTICS(X) \
    X(variant, "its number; those of each further device begin at the next multiple of 8") \
    X(period, "operations of such a step, on the stream that leads, copies to the host left out") \
    X(count, "its steps") \
    X(extras, "operations that they had beyond those of the variant") \
    X(missing, "operations of the variant that they left out") \
    X(interruptions, "how often it was expected and something else came") \
    X(driven, "its steps that followed a plan from beginning to end") \
    X(driven_ns, "device time of those whose time is known; the first two, where contents are compared at once, left out") \
    X(driven_timed, "how many these are") \
    X(driven_stall_ns, "time the program's stream waited for planned copies in them") \
    X(predicted_peak_bytes, "device memory at most, by its last plan") \
    X(driven_peak_bytes, "device memory held at most while driving them") \
    X(replays, "launches repeated by its plans") \
    X(fallbacks, "times its plan was left") \
    X(device, "the driver's number of its device") \
    X(any_size, "1: its steps are of ever other sizes, and its plan is made for the largest so far") \
    X(floor_bytes, "then: the smallest budget that has a plan for the largest so far, in whole MiB; 0: not known, or none") \
    X(double_floor_bytes, "and for steps twice as large")                                                    \
    X(size_plans, "of such a variant, plans for its smaller steps, beside that for the largest")
// clang-format on

typedef struct ebb_variant_statistics {
#define X(key, meaning) uint64_t key;
    EBB_VARIANT_STATISTICS(X)
#undef X
} ebb_variant_statistics_t;

/* As of now. ebb_lock() held; the driver is not called. */
void ebb_statistics_gather(ebb_t *ebb, ebb_statistics_t *out, ebb_device_list_t *devices);

/* The end: the file, if wanted, and one line on stderr, if the program has used device memory. Does not call
 * the driver. */
void ebb_stats_finish(ebb_t *ebb);

/* What EBB_STATS writes, on one line but for "planned". ebb_lock() held, or at the end of the process; the driver is not called. */
void ebb_statistics_write(ebb_t *ebb, FILE *out);

/* ---- what was learned and planned (planned.c) ---- */

/* For each step variant that was learned or planned, where its trace is, what its plan was made for, and the plan:
 * behind the numbers in the file of EBB_STATS, so that `ebb report` has all of a run from one name. Kept as text from the time
 * when it is known, since the step may be forgotten before the process ends; only where both EBB_STATS and EBB_TRACE are set.
 *
 *   "planned": [{"variant": .., "trace": "path", "request": {"policy": .., "device_bytes": .., "host_bytes": .., "min_buffer": ..,
 *                "out_bytes_per_s": .., "in_bytes_per_s": ..}, "plan": [the lines of a plan's file (plan.h)]}]
 * variant: as in "variants"; request and plan are missing where nothing was planned. */

void ebb_planned_trace(ebb_device_t *dev, unsigned variant, const char *path);
void ebb_planned_plan(ebb_device_t *dev, unsigned variant, const ebb_plan_t *plan,
                      const ebb_plan_request_t *request);
/* There is no such variant any more. */
void ebb_planned_forget(ebb_device_t *dev, unsigned variant);

/* ", "planned": [..]", on lines of its own; nothing if nothing is known. */
void ebb_planned_print(ebb_t *ebb, FILE *out);

#endif
