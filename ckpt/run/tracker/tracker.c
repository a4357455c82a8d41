/* tracker.c: the life of what is followed, and what depends on it: recipes, and the link, which is measured at its beginning; see tracker.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdlib.h>

#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"

bool ebb_tracker_follows(ebb_device_t *dev, const ebb_recording_t *learned)
{
    const ebb_tracked_t *tracked = dev->run->tracked;
    return tracked->learned && tracked->learned == learned;
}

static void begin_step(ebb_device_t *dev)
{
    ebb_recipe_step_ends(dev);
    ebb_match_begin_step(dev);
    ebb_match_find_persistent(dev);
}

void ebb_tracker_resume(ebb_device_t *dev, ebb_orphans_t *left)
{
    ebb_tracker_end(dev);
    if (!ebb_match_open(dev, left->learned)) {
        ebb_recipe_abandon(left);
        return;
    }
    ebb_match_resume(dev, left->buffer, left->cursor);
    ebb_recipe_resume(dev, left);
}

bool ebb_tracker_is_behind(ebb_device_t *dev, const ebb_recording_t *learned, const ebb_operation_t *op)
{
    return ebb_tracker_follows(dev, learned) && dev->run->tracked->resumed && ebb_match_is_behind(dev, op);
}

void ebb_tracker_end(ebb_device_t *dev)
{
    if (!dev->run->tracked->learned)
        return;
    ebb_recipe_end(dev);
    ebb_match_close(dev);
}

void ebb_tracker_boundary(ebb_device_t *dev, ebb_recording_t *learned)
{
    const ebb_tracked_t *tracked = dev->run->tracked;
    const bool other = learned && learned->trace && (!ebb_tracker_follows(dev, learned) || tracked->resumed);
    if (other) {
        ebb_tracker_end(dev);
        ebb_link(
            dev); /* takes memory to measure: what leaves for it would ask for the link, were anything followed */
        if (ebb_match_open(dev, learned))
            ebb_recipe_begin(dev);
    }
    if (tracked->learned && (other || !ebb_match_is_fresh(dev)))
        begin_step(dev);
}

ebb_buffer_t **ebb_tracker_present(ebb_device_t *dev, const ebb_recording_t *learned)
{
    const ebb_tracked_t *tracked = dev->run->tracked;
    if (!ebb_tracker_follows(dev, learned) || !tracked->known ||
        (tracked->cursor && tracked->cursor != learned->trace->operation_count))
        return NULL;
    const ebb_trace_t *t = learned->trace;
    ebb_buffer_t **present = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    for (uint32_t i = 0; present && i < t->buffer_count; i++) {
        const uint32_t number = tracked->cursor ? ebb_trace_next(t, i) : i;
        if (number != EBB_NONE && tracked->buffer[i])
            present[number] = tracked->buffer[i];
    }
    return present;
}

ebb_status_t ebb_tracker_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    const ebb_tracked_t *tracked = dev->run->tracked;
    if (!tracked->learned)
        return 0;
    if (ebb_match_begins(dev, op) && !ebb_learn_recording(dev)) /* there the boundary counts alone */
        begin_step(dev);
    ebb_match_operation(dev, op);
    return ebb_recipe_before(dev, op);
}

void ebb_tracker_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued)
{
    if (!dev->run->tracked->learned)
        return;
    ebb_recipe_after(dev, op, issued);
    ebb_match_done(dev, op, issued);
}

void ebb_tracker_allocated(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (dev->run->tracked->learned)
        ebb_match_allocated(dev, b);
}

void ebb_tracker_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    if (!dev->run->tracked->learned)
        return;
    if (b->number)
        ebb_recipe_freeing(b, stream);
    ebb_match_freed(dev, b);
}
