#include "hook/mentions.h"

#include <stdlib.h>

#include "ckpt/run/pin.h"

void ebb_mentions_all(ebb_mentions_t *m)
{
    if (!m->all)
        ebb_keep_everything("a graph may mention any of it");
    m->all = true;
}

ebb_status_t ebb_mentions_add(ebb_mentions_t *m, ebb_buffer_t *b)
{
    bool added;
    if (ebb_table_find(&m->refs, sizeof(ebb_pinned_ref_t), b->generation))
        return 0;
    EBB_TRY(ebb_buffer_pin(b));
    ebb_pinned_ref_t *ref = ebb_table_add(&m->refs, sizeof *ref, b->generation, &added);
    if (ref)
        *ref = ebb_pinned_ref(b);
    else
        ebb_mentions_all(m);
    return 0;
}

ebb_buffer_t *ebb_mentions_next(const ebb_mentions_t *m, size_t *at)
{
    const ebb_pinned_ref_t *ref = m->refs.at;
    ebb_buffer_t *b = NULL;
    for (; !b && *at < m->refs.room; ++*at)
        b = ref[*at].generation ? ebb_pinned_get(ref[*at]) : NULL;
    return b;
}

void ebb_mentions_add_all(ebb_mentions_t *to, const ebb_mentions_t *from)
{
    if (to == from)
        return;
    size_t at = 0;
    for (ebb_buffer_t *b = ebb_mentions_next(from, &at); b; b = ebb_mentions_next(from, &at))
        ebb_mentions_add(to, b);
    to->alloc_bytes += from->alloc_bytes;
    to->all |= from->all;
}

void ebb_mentions_clear(ebb_mentions_t *m)
{
    size_t at = 0;
    for (ebb_buffer_t *b = ebb_mentions_next(m, &at); b; b = ebb_mentions_next(m, &at))
        ebb_buffer_release(b);
    free(m->refs.at);
    *m = (ebb_mentions_t){0};
}

void ebb_mentions_list(const ebb_mentions_t *m, ebb_operation_t *op)
{
    size_t at = 0;
    for (ebb_buffer_t *b = ebb_mentions_next(m, &at); b; b = ebb_mentions_next(m, &at)) {
        op->access[op->access_count] = (ebb_access_t){.buffer = b, .param_offset = op->access_count};
        op->access_count++;
    }
    op->opaque |= m->all;
}
