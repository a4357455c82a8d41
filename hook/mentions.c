#include "hook/mentions.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/run/pin.h"

static ebb_pinned_ref_t *place_of(ebb_pinned_ref_t *slots, size_t room, uint64_t generation)
{
    size_t at = (size_t)(generation * 0x9e3779b97f4a7c15u >> 30) & (room - 1);
    while (slots[at].generation && slots[at].generation != generation)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static bool grow(ebb_mentions_t *m)
{
    size_t room = m->room ? 2 * m->room : 32;
    ebb_pinned_ref_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < m->room; i++)
        if (m->slot[i].generation)
            *place_of(slots, room, m->slot[i].generation) = m->slot[i];
    free(m->slot);
    m->slot = slots;
    m->room = room;
    return true;
}

void ebb_mentions_all(ebb_mentions_t *m)
{
    if (!m->all)
        ebb_keep_everything("a graph may mention any of it");
    m->all = true;
}

ebb_status_t ebb_mentions_add(ebb_mentions_t *m, ebb_buffer_t *b)
{
    if (2 * m->count >= m->room && !grow(m)) {
        ebb_mentions_all(m);
        return ebb_buffer_pin(b);
    }
    ebb_pinned_ref_t *slot = place_of(m->slot, m->room, b->generation);
    if (slot->generation)
        return 0;
    EBB_TRY(ebb_buffer_pin(b));
    *slot = ebb_pinned_ref(b);
    m->count++;
    return 0;
}

void ebb_mentions_add_all(ebb_mentions_t *to, const ebb_mentions_t *from)
{
    if (to == from)
        return;
    for (size_t i = 0; i < from->room; i++) {
        ebb_buffer_t *b = from->slot[i].generation ? ebb_pinned_get(from->slot[i]) : NULL;
        if (b)
            ebb_mentions_add(to, b);
    }
    to->alloc_bytes += from->alloc_bytes;
    to->all |= from->all;
}

void ebb_mentions_clear(ebb_mentions_t *m)
{
    for (size_t i = 0; i < m->room; i++)
        if (m->slot[i].generation)
            ebb_pinned_release(m->slot[i]);
    free(m->slot);
    *m = (ebb_mentions_t){0};
}

void ebb_mentions_list(const ebb_mentions_t *m, ebb_operation_t *op)
{
    for (size_t i = 0; i < m->room; i++) {
        ebb_buffer_t *b = m->slot[i].generation ? ebb_pinned_get(m->slot[i]) : NULL;
        if (b) {
            op->access[op->access_count] = (ebb_access_t){.buffer = b, .param_offset = op->access_count};
            op->access_count++;
        }
    }
    op->opaque |= m->all;
}
