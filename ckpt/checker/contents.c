/* contents.c: what contents the trace has, what makes and reads them, where they are when a step begins and ends, and what could be made
 * again if the plan were left now; see internal.h. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/internal.h"

/* ---- what follows from the trace alone ---- */

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

static bool list_lives(facts_t *f, const ebb_plan_t *plan, lists_t *l, bool births)
{
    const ebb_trace_t *t = f->trace;
    uint32_t points = t->operation_count + 1;
    if (!(l->first = numbers((size_t)points + 1)))
        return false;
    for (int fill = 0; fill < 2; fill++) {
        if (fill && !begin_lists(l, points))
            return false;
        for (uint32_t b = 0; b < t->buffer_count; b++) {
            uint32_t p = births ? t->buffer[b].born : ebb_plan_dies(plan, t, b);
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
        if (is_large(t, b) && t->buffer[b].dies == EBB_NONE)
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

bool ebb_facts_make(facts_t *f, const ebb_trace_t *trace, const ebb_plan_t *plan)
{
    *f = (facts_t){.trace = trace};
    if (list_touches(f) && number_contents(f) && list_readers(f) && list_lives(f, plan, &f->births, true) &&
        list_lives(f, plan, &f->deaths, false) && list_rings(f))
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

/* ---- what could be rebuilt if the plan were left now ----
 *
 * A content is `recoverable` if it is the last version of a live buffer and lies in the buffer's own place or
 * host block (a small one: always). It is `good` if it is recoverable, or if the operation that made it has run
 * in this step, has proofs, and all that it read is good. Contents that are left in places of freed buffers
 * or in scratch don't count: falling back takes the places apart. What a live large buffer has been
 * written to hold must always be good.
 *
 * Operations and contents form a graph without cycles; `lacking` counts for each operation the inputs that
 * are not good, so that a change costs no more than what it changes. */

static bool is_recoverable(const walk_t *w, uint32_t content)
{
    uint32_t b = w->facts->owner[content];
    if (!w->alive[b] || w->current[b] != content || is_undefined(w->facts, content))
        return false;
    const holding_t *h = &w->place[w->at[b]];
    return !is_large(w->trace, b) || h->content == content || h->host_content == content;
}

static bool is_needed(const walk_t *w, uint32_t content)
{
    uint32_t b = w->facts->owner[content];
    return w->alive[b] && w->current[b] == content && is_large(w->trace, b) &&
           !is_undefined(w->facts, content);
}

static bool can_run(const walk_t *w, uint32_t operation)
{
    return operation < w->issued && w->trace->operation[operation].proofs && !w->lacking[operation];
}

static bool is_good(const walk_t *w, uint32_t content)
{
    return w->recoverable[content] || can_run(w, w->facts->producer[content]);
}

static bool grow(uint32_t **array, uint32_t *room, uint32_t wanted)
{
    if (wanted <= *room)
        return true;
    uint32_t more = *room ? 2 * *room : 64;
    uint32_t *grown = realloc(*array, (more > wanted ? more : wanted) * sizeof *grown);
    if (!grown)
        return false;
    *array = grown;
    *room = more > wanted ? more : wanted;
    return true;
}

void ebb_recovery_note(walk_t *w, uint32_t content)
{
    if (grow(&w->changed, &w->changed_room, w->changed_count + 1))
        w->changed[w->changed_count++] = content;
    else
        w->unnoted = true;
}

/* The operation's results that are not recoverable change with it: onto the stack. */
static bool push_results(walk_t *w, uint32_t operation, uint32_t *count)
{
    const facts_t *f = w->facts;
    for (uint32_t k = f->first_touch[operation]; k < f->first_touch[operation + 1]; k++) {
        const touch_t *u = &f->touch[k];
        if (u->mode == EBB_READS || w->recoverable[u->after])
            continue;
        if (!grow(&w->stack, &w->stack_room, *count + 1))
            return ebb_check_fails(w, EBB_FAULT_MEMORY, "no memory");
        w->stack[(*count)++] = u->after;
    }
    return true;
}

static bool lost(walk_t *w, uint32_t content)
{
    uint32_t b = w->facts->owner[content], version = content - w->facts->first_content[b];
    return ebb_check_fails(w, EBB_FAULT_REBUILD,
                           "buffer %u in version %u, which is given up, cannot be rebuilt any more", b,
                           version);
}

/* The content has become good, or bad; so do others that need it. */
static bool spread(walk_t *w, uint32_t content, bool good)
{
    const lists_t *readers = &w->facts->readers;
    uint32_t count = 1;
    if (!grow(&w->stack, &w->stack_room, 1))
        return ebb_check_fails(w, EBB_FAULT_MEMORY, "no memory");
    w->stack[0] = content;
    while (count) {
        uint32_t c = w->stack[--count];
        if (!good && is_needed(w, c))
            return lost(w, c);
        for (uint32_t i = readers->first[c]; i < readers->first[c + 1]; i++) {
            uint32_t k = readers->item[i];
            if (k >= w->issued)
                break;
            bool could = !w->lacking[k];
            w->lacking[k] += good ? UINT32_MAX : 1;
            if (could != !w->lacking[k] && w->trace->operation[k].proofs && !push_results(w, k, &count))
                return false;
        }
    }
    return true;
}

static bool settle_one(walk_t *w, uint32_t content, bool now)
{
    if (w->recoverable[content] == now || is_recoverable(w, content) != now)
        return true;
    w->recoverable[content] = now;
    uint32_t b = w->facts->owner[content];
    if (!now && is_needed(w, content) && !w->place[w->at[b]].given_up)
        return ebb_check_fails(w, EBB_FAULT_LOSS, "buffer %u in version %u is lost and was not given up", b,
                               content - w->facts->first_content[b]);
    return can_run(w, w->facts->producer[content]) || spread(w, content, now);
}

bool ebb_recovery_check(walk_t *w)
{
    uint32_t count = w->changed_count;
    if (w->unnoted)
        return ebb_check_fails(w, EBB_FAULT_MEMORY, "no memory");
    w->changed_count = 0;
    for (int now = 1; now >= 0; now--) /* what has come can make up for what has gone */
        for (uint32_t i = 0; i < count; i++)
            if (!settle_one(w, w->changed[i], now))
                return false;
    return true;
}

void ebb_recovery_issue(walk_t *w)
{
    const facts_t *f = w->facts;
    uint32_t p = w->issued, lacking = 0;
    for (uint32_t k = f->first_touch[p]; k < f->first_touch[p + 1]; k++)
        lacking += f->touch[k].mode != EBB_REPLACES && !is_good(w, f->touch[k].before);
    w->lacking[p] = lacking;
    w->issued = p + 1;
}

static void recovery_begin(walk_t *w)
{
    w->issued = 0;
    for (uint32_t c = 0; c < w->facts->content_count; c++)
        w->recoverable[c] = is_recoverable(w, c);
}

/* ---- lives ---- */

void ebb_contents_drop(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->content != EBB_NONE)
        ebb_recovery_note(w, h->content);
    h->content = EBB_NONE;
}

void ebb_contents_drop_host(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content != EBB_NONE)
        ebb_recovery_note(w, h->host_content);
    h->host_content = EBB_NONE;
}

bool ebb_contents_free_and_allocate(walk_t *w)
{
    const facts_t *f = w->facts;
    for (uint32_t i = f->deaths.first[w->point]; i < f->deaths.first[w->point + 1]; i++) {
        uint32_t b = f->deaths.item[i];
        w->alive[b] = false;
        ebb_recovery_note(w, w->current[b]);
    }
    for (uint32_t i = f->births.first[w->point]; i < f->births.first[w->point + 1]; i++) {
        uint32_t b = f->births.item[i];
        w->alive[b] = ebb_plan_dies(w->plan, w->trace, b) > w->point;
        w->current[b] = f->first_content[b];
        ebb_contents_drop(w, w->at[b]);
        ebb_contents_drop_host(w, w->at[b]);
    }
    return ebb_recovery_check(w);
}

/* ---- steps ---- */

static uint32_t last_content(const facts_t *f, uint32_t buffer)
{
    return f->first_content[buffer + 1] - 1;
}

bool ebb_contents_check_end(walk_t *w)
{
    for (uint32_t b = 0; b < w->plan->buffer_count; b++) {
        const holding_t *h = &w->place[w->at[b]];
        if (w->trace->buffer[b].dies != EBB_NONE || !is_large(w->trace, b) ||
            is_undefined(w->facts, last_content(w->facts, b)))
            continue;
        ebb_start_t start = w->plan->place[ebb_trace_next(w->trace, b)].at_start;
        if ((start == EBB_ON_DEVICE ? h->content : h->host_content) != last_content(w->facts, b))
            return ebb_check_fails(w, EBB_FAULT_STEP,
                                   "the step ends without buffer %u on the %s, where it begins", b,
                                   start == EBB_ON_DEVICE ? "device" : "host");
    }
    return true;
}

/* The same content under its number in the next step. */
static uint32_t carry_over(const facts_t *f, uint32_t content)
{
    if (content == EBB_NONE)
        return content;
    const uint32_t b = f->owner[content], next = ebb_trace_next(f->trace, b);
    return next != EBB_NONE && content == last_content(f, b) ? f->first_content[next] : EBB_NONE;
}

static void turn_rings(walk_t *w)
{
    uint32_t buffers = w->plan->buffer_count;
    memcpy(w->before, w->at, buffers * sizeof *w->at);
    for (uint32_t b = 0; b < buffers; b++)
        w->at[b] = w->before[w->facts->whose[b]];
    for (uint32_t b = 0; b < buffers; b++)
        w->of[w->at[b]] = b;
}

void ebb_contents_begin_step(walk_t *w)
{
    const facts_t *f = w->facts;
    for (uint32_t i = 0; i < w->plan->place_count; i++) {
        w->place[i].content = carry_over(f, w->place[i].content);
        w->place[i].host_content = carry_over(f, w->place[i].host_content);
    }
    turn_rings(w);
    for (uint32_t b = 0; b < w->plan->buffer_count; b++) {
        w->current[b] = f->first_content[b];
        w->alive[b] = is_persistent(w->trace, b);
    }
    recovery_begin(w);
}

/* A buffer that is there when the step begins is where `at_start` says. */
static bool begin_with(walk_t *w, uint32_t buffer)
{
    const ebb_place_t *place = &w->plan->place[ebb_trace_next(w->trace, buffer)];
    holding_t *h = &w->place[w->at[buffer]];
    if (place->at_start == EBB_ON_HOST) {
        h->host_content = last_content(w->facts, buffer);
        return true;
    }
    h->content = last_content(w->facts, buffer);
    place = &w->plan->place[w->at[buffer]];
    for (uint32_t i = 0; i < place->chunk_count; i++) {
        uint32_t *owner = &w->owner[w->plan->chunk[place->first_chunk + i]];
        if (*owner != EBB_NONE)
            return ebb_check_fails(w, EBB_FAULT_STEP, "places %u and %u share a chunk when the step begins",
                                   *owner, w->at[buffer]);
        *owner = w->at[buffer];
    }
    return true;
}

/* Where a step has ended that was as all are, everything long done. In the first step every buffer is in its own place. */
bool ebb_contents_begin(walk_t *w)
{
    const ebb_plan_t *p = w->plan;
    for (uint32_t i = 0; i < p->chunk_count; i++)
        w->owner[i] = EBB_NONE;
    for (uint32_t i = 0; i < p->place_count; i++) {
        w->place[i] = (holding_t){.content = EBB_NONE, .host_content = EBB_NONE};
        w->owner[p->chunk_count + i] = i;
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        w->redirect[b] = EBB_NONE;
        w->at[w->facts->whose[b]] = b;
    }
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (w->trace->buffer[b].dies == EBB_NONE && is_large(w->trace, b) && !begin_with(w, b))
            return false;
    return true;
}
