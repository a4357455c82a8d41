/* facts.c: what follows from the trace alone; see internal.h. */
#include <stdlib.h>

#include "ckpt/checker/internal.h"

static uint32_t *numbers(size_t count)
{
    return calloc(count + 1, sizeof(uint32_t));
}

/* Each operation's accesses, one per buffer; leaves the versions for later. */
static bool list_touches(facts_t *f)
{
    const ebb_trace_t *t = f->trace;
    uint32_t *seen = numbers(t->buffer_count), count = 0;
    f->touch = calloc((size_t)t->access_count + 1, sizeof *f->touch);
    f->first_touch = numbers((size_t)t->operation_count + 1);
    if (!seen || !f->touch || !f->first_touch) {
        free(seen);
        return false;
    }
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        f->first_touch[i] = count;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            uint32_t b = t->access[k].buffer;
            if (seen[b] != i + 1)
                f->touch[count++] = (touch_t){.buffer = b, .mode = t->access[k].mode};
            seen[b] = i + 1;
        }
    }
    f->first_touch[t->operation_count] = count;
    free(seen);
    return true;
}

/* Numbers the contents: for every buffer one, and one more for each operation that writes it. */
static bool number_contents(facts_t *f)
{
    const ebb_trace_t *t = f->trace;
    uint32_t touches = f->first_touch[t->operation_count];
    uint32_t *current = numbers(t->buffer_count);
    f->first_content = numbers((size_t)t->buffer_count + 1);
    if (!current || !f->first_content) {
        free(current);
        return false;
    }
    for (uint32_t i = 0; i < touches; i++)
        f->first_content[f->touch[i].buffer + 1] += f->touch[i].mode != EBB_READS;
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        f->first_content[b + 1] += f->first_content[b] + 1;
        current[b] = f->first_content[b];
    }
    f->content_count = f->first_content[t->buffer_count];
    f->owner = numbers(f->content_count);
    f->producer = numbers(f->content_count);
    bool good = f->owner && f->producer;
    for (uint32_t b = 0; good && b < t->buffer_count; b++) {
        f->owner[current[b]] = b;
        f->producer[current[b]] = EBB_NONE;
    }
    for (uint32_t i = 0; good && i < t->operation_count; i++)
        for (touch_t *u = f->touch + f->first_touch[i]; u < f->touch + f->first_touch[i + 1]; u++) {
            u->before = u->after = current[u->buffer];
            if (u->mode == EBB_READS)
                continue;
            u->after = ++current[u->buffer];
            f->owner[u->after] = u->buffer;
            f->producer[u->after] = i;
        }
    free(current);
    return good;
}

/* Counting sort: `first` holds how many each key has, shifted by one; then where each key's list begins. */
static bool begin_lists(lists_t *l, uint32_t keys)
{
    for (uint32_t k = 0; k < keys; k++)
        l->first[k + 1] += l->first[k];
    l->item = numbers(l->first[keys]);
    return l->item;
}

/* After the lists are filled through first[k]++: back to where they begin. */
static void end_lists(lists_t *l, uint32_t keys)
{
    for (uint32_t k = keys; k > 0; k--)
        l->first[k] = l->first[k - 1];
    l->first[0] = 0;
}

static bool list_readers(facts_t *f)
{
    lists_t *l = &f->readers;
    uint32_t touches = f->first_touch[f->trace->operation_count];
    if (!(l->first = numbers((size_t)f->content_count + 1)))
        return false;
    for (uint32_t i = 0; i < touches; i++)
        l->first[f->touch[i].before + 1] += f->touch[i].mode != EBB_REPLACES;
    if (!begin_lists(l, f->content_count))
        return false;
    for (uint32_t i = 0; i < f->trace->operation_count; i++)
        for (uint32_t k = f->first_touch[i]; k < f->first_touch[i + 1]; k++)
            if (f->touch[k].mode != EBB_REPLACES)
                l->item[l->first[f->touch[k].before]++] = i;
    end_lists(l, f->content_count);
    return true;
}

static bool list_lives(facts_t *f, lists_t *l, bool births)
{
    const ebb_trace_t *t = f->trace;
    uint32_t points = t->operation_count + 1;
    if (!(l->first = numbers((size_t)points + 1)))
        return false;
    for (int fill = 0; fill < 2; fill++) {
        if (fill && !begin_lists(l, points))
            return false;
        for (uint32_t b = 0; b < t->buffer_count; b++) {
            uint32_t p = births ? t->buffer[b].born : t->buffer[b].dies;
            if (p == EBB_NONE)
                continue;
            if (fill)
                l->item[l->first[p]++] = b;
            else
                l->first[p + 1]++;
        }
    }
    end_lists(l, points);
    return true;
}

/* Follows each ring from the buffer that is born, or from any of a cycle. */
static bool list_rings(facts_t *f)
{
    const ebb_trace_t *t = f->trace;
    f->period = 1;
    if (!(f->whose = numbers(t->buffer_count)))
        return false;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        f->whose[b] = b;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].dies == EBB_NONE)
            f->whose[ebb_trace_next(t, b)] = b;
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        if (!ebb_trace_rotates(t, b))
            continue;
        uint32_t length = 1, last = b, steps = f->period;
        while (t->buffer[last].dies == EBB_NONE && ebb_trace_next(t, last) != b) {
            last = ebb_trace_next(t, last);
            length++;
        }
        if (t->buffer[b].born != EBB_NONE)
            f->whose[b] = last;
        else if (t->buffer[last].dies != EBB_NONE)
            continue; /* in the middle of a chain */
        while (f->period % length && f->period < MOST_STEPS)
            f->period += steps;
    }
    return true;
}

bool ebb_facts_make(facts_t *f, const ebb_trace_t *trace)
{
    *f = (facts_t){.trace = trace};
    if (list_touches(f) && number_contents(f) && list_readers(f) && list_lives(f, &f->births, true) &&
        list_lives(f, &f->deaths, false) && list_rings(f))
        return true;
    ebb_facts_delete(f);
    return false;
}

void ebb_facts_delete(facts_t *f)
{
    free(f->touch);
    free(f->first_touch);
    free(f->first_content);
    free(f->owner);
    free(f->producer);
    free(f->readers.first);
    free(f->readers.item);
    free(f->births.first);
    free(f->births.item);
    free(f->deaths.first);
    free(f->deaths.item);
    free(f->whose);
}
