/* hardware.h: what work takes on a device and its link, and of the host: as measured where a trace was recorded, and what plans are
 * simulated with. Pure data.
 */
#ifndef EBB_HARDWARE_H
#define EBB_HARDWARE_H

#include <stdbool.h>

/* Rates in bytes per nanosecond, times in nanoseconds. 0, but of the link's rates: nothing of the kind takes any time. */
#define EBB_HARDWARE(X)                                                                                      \
    X(out_bytes_per_ns) /* the link, each way alone */                                                       \
    X(in_bytes_per_ns)                                                                                       \
    X(out_ns) /* of a copy, beside its bytes */                                                              \
    X(in_ns)                                                                                                 \
    X(out_both) /* part of its rate that each way keeps while both are in use (link_measure.h); 0: all */    \
    X(in_both)                                                                                               \
    X(slowdown) /* operations take 1 + slowdown times as long while a copy runs, once for each direction */  \
    X(zero_ns)  /* what a replay replaces is zeroed before: a launch, and its bytes */                       \
    X(zero_bytes_per_ns)                                                                                     \
    X(hash_ns) /* a hash: a launch, and its bytes */                                                         \
    X(hash_bytes_per_ns)                                                                                     \
    X(checked) /* part of what is recomputed that is hashed, before and after, and compared */               \
    X(call_ns) /* of the host: a call of the driver */

typedef struct ebb_hardware {
#define FIELD(name) double name;
    EBB_HARDWARE(FIELD)
#undef FIELD
} ebb_hardware_t;

/* The part of its rate that a way has (0 out, 1 in); `both`: the other one is in use as well. */
static inline double ebb_hardware_part(const ebb_hardware_t *hardware, int way, bool both)
{
    const double part = way ? hardware->in_both : hardware->out_both;
    return both && part > 0 ? part : 1;
}

#endif
