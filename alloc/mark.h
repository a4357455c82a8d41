/* mark.h: the side of streams and marks that only this folder uses; see ebb_alloc.h and mark.c. */
#ifndef EBB_MARK_H
#define EBB_MARK_H

#include <stdatomic.h>

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* `stream` continues only after all that other streams of the device, or of all, have been given so far; or
 * the host does. */
ebb_status_t ebb_streams_join(ebb_device_t *dev, CUstream stream, bool abroad);
ebb_status_t ebb_streams_wait(ebb_device_t *dev, bool abroad);

/* The device's context is at its end, its work done: every mark of its streams is reached. */
void ebb_streams_end(ebb_device_t *dev);

/* Makes sure that how far each stream of every device is can be asked later without recording an event on it. */
void ebb_streams_record(ebb_t *ebb);

/* The program itself has waited for a stream up to a number. */
void ebb_stream_synchronised(ebb_stream_t *stream, uint64_t number);

/* The program is about to destroy the stream. */
void ebb_stream_forget(ebb_device_t *dev, ebb_stream_t *stream);

/* Like ebb_mark_reached, but asks the driver at most once about each stream until ebb_marks_ask_again: for
 * walks over many marks. May say no a little longer than need be. */
bool ebb_mark_reached_lately(ebb_mark_t mark);
void ebb_marks_ask_again(ebb_t *ebb);

/* May `stream` use now what is in use until the mark? NULL: may every stream? */
static inline bool ebb_mark_suits(ebb_mark_t mark, const ebb_stream_t *stream)
{
    return !mark.stream || mark.stream == stream || ebb_mark_reached_lately(mark);
}

/* Both marks are reached where the later is; false if neither is known to be the later one. */
bool ebb_mark_later(ebb_mark_t *mark, ebb_mark_t other);

/* After ebb_fail_program. Any thread. */
bool ebb_program_has_failed(const ebb_t *ebb);

/* ---- streams that are captured into graphs ---- */

/* Any thread. */
static inline bool ebb_captures_under_way(const ebb_t *ebb)
{
    return atomic_load_explicit(&ebb->captures, memory_order_relaxed) != 0;
}

/* Whether a stream takes part in a capture. Asks the driver; lock not wanted. */
bool ebb_is_capturing(CUstream stream);

#endif
