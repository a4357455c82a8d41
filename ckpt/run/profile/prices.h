/* prices.h: what work of ebb's own takes on this device, measured: filling and hashing memory, and what copies take from compute;
 * and the host's time for a call of the driver.
 *
 * Measured once a process, with a few MiB of device memory and no work of the program's under way (the host waits, about a
 * millisecond). Events are read behind work that keeps the device busy until the host has issued what is timed: so they tell the
 * device's time, not the host's. With ebb_lock() held throughout.
 */
#ifndef EBB_PRICES_H
#define EBB_PRICES_H

#include "alloc/ebb_alloc.h"

/* Nanoseconds a launch, and bytes per nanosecond beside; rates 0: not known. */
typedef struct ebb_prices {
    double zero_ns, zero_bytes_per_ns;
    double hash_ns, hash_bytes_per_ns;
    double
        slowdown; /* of work that lives on the memory's rate, while one copy is under way: it takes 1 + slowdown times as long */
    double call_ns; /* of the host: a call of the driver that issues something */
} ebb_prices_t;

/* What could be measured; the device is waited for at the first call. */
ebb_prices_t ebb_prices(ebb_device_t *dev);

/* Keeps the stream busy for the time that the host takes for so many calls of the driver: then what comes behind is begun when the
 * device can, not when the host gets there. Whatever the stream has to do: it may be about to end. Nothing happens if it cannot be
 * done. */
void ebb_hold(ebb_device_t *dev, ebb_stream_t *stream, unsigned calls);

#endif
