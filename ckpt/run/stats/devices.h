/* devices.h: the figures of each device, beside those of the process (stats.h, where what is counted on devices is the
 * sum of these). In EBB_STATS and `ebb top --json` they are the list "devices", an object for each.
 */
#ifndef EBB_DEVICES_H
#define EBB_DEVICES_H

#include <stdint.h>
#include <stdio.h>

#include "alloc/ebb_alloc.h"

enum { EBB_MOST_DEVICES = 16 };

/* X(key, meaning), as in stats.h. Where a device has had several contexts one after the other, counts are of all of
 * them and peaks the highest, the rest is the last one's. */
// clang-format off
#define EBB_DEVICE_STATISTICS(X)                                                                             \
    X(device, "the driver's number")                                                                         \
    X(budget_bytes, "device memory that ebb may hold: EBB_BUDGET less what it does not own")                 \
    X(overhead_bytes, "device memory that ebb does not own: context, modules, EBB_RESERVE")                  \
    X(mapped_bytes, "device memory in use now")                                                              \
    X(peak_bytes, "device memory held at most")                                                              \
    X(live_bytes, "in the program's buffers now, as requested, wherever they are")                           \
    X(live_peak_bytes, "the same at most")                                                                   \
    X(evictions, "buffers copied out when memory ran out")                                                   \
    X(unchanged, "evictions that copied nothing")                                                            \
    X(fetches, "buffers copied back when they were touched")                                                 \
    X(bytes_out, "copied from device to host")                                                               \
    X(bytes_in, "copied from host to device")                                                                \
    X(stall_ns, "host time spent waiting for copies")                                                        \
    X(in_flight_peak_bytes, "evictions under way at once, at most")                                          \
    X(host_bytes, "pinned host memory in use now, for buffers")                                               \
    X(foreign_bytes, "of overhead_bytes, what the driver serves the program: managed memory, arrays, mappings")
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
/* `, "devices": [...]`: the last member of a JSON object (devices_print.c, of libebb.so and the command). */
void ebb_devices_print(const ebb_device_list_t *list, FILE *out);

#endif
