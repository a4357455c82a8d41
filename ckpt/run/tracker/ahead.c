/* ahead.c: what comes next, by the step that is followed, as residence/ asks it; see tracker.h. */
#include "ckpt/run/tracker/tracker.h"

#include "alloc/device.h"
#include "ckpt/run/state.h"

static const ebb_trace_t *trace(const ebb_tracked_t *tracked)
{
    return tracked->learned->trace;
}

bool ebb_tracker_known(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    return tracked->learned && tracked->known;
}

ebb_next_use_t ebb_tracker_next_use(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    if (!tracked->learned || !b->number)
        return (ebb_next_use_t){.known = false};
    const uint32_t id = b->number - 1, n = trace(tracked)->operation_count;
    uint32_t next = ebb_uses_next(&tracked->uses, id, tracked->cursor);
    if (next == EBB_NONE) /* as far as can be thought */
        next = 4 * n;
    return (ebb_next_use_t){.known = true,
                            .ahead = next - tracked->cursor,
                            .ns = ebb_uses_ns(&tracked->uses, tracked->cursor, next)};
}

/* Those that die just before an operation, and are on the device or touched before that. */
static size_t freed_chunks(ebb_tracked_t *tracked, uint32_t operation)
{
    size_t chunks = 0;
    for (uint32_t i = tracked->uses.first_death[operation]; i < tracked->uses.first_death[operation + 1];
         i++) {
        const uint32_t id = tracked->uses.death[i];
        const ebb_buffer_t *b = tracked->buffer[id];
        if (!b || b->range->mapped || ebb_uses_next(&tracked->uses, id, tracked->cursor) < operation)
            chunks += ebb_uses_chunks(&trace(tracked)->buffer[id]);
    }
    return chunks;
}

bool ebb_tracker_coming(ebb_device_t *dev, uint32_t ahead, ebb_coming_t *out)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    const uint32_t n = trace(tracked)->operation_count, at = tracked->cursor + ahead;
    if (ahead >= n)
        return false;
    const uint32_t o = at % n;
    *out = (ebb_coming_t){.born_chunks = tracked->uses.born[o],
                          .freed_chunks = freed_chunks(tracked, o) + (o ? 0 : freed_chunks(tracked, n)),
                          .buffers = trace(tracked)->operation[o].access_count};
    return true;
}

ebb_buffer_t *ebb_tracker_touched(ebb_device_t *dev, uint32_t ahead, uint32_t i)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    const uint32_t n = trace(tracked)->operation_count, at = tracked->cursor + ahead;
    const uint32_t id = trace(tracked)->access[trace(tracked)->operation[at % n].first_access + i].buffer;
    return at >= n && trace(tracked)->buffer[id].born != EBB_NONE ? NULL : tracked->buffer[id];
}
