/* recovery.c: what could be rebuilt if the plan were left now; see internal.h.
 *
 * A content is `recoverable` if it is the last version of a live buffer and lies in the buffer's own place or
 * host block (a small one: always). It is `good` if it is recoverable, or if the operation that made it has run
 * in this step, has proofs, and all that it read is good. Contents that are left in places of freed buffers
 * or in scratch don't count: falling back takes the places apart. What a live large buffer has been
 * written to hold must always be good.
 *
 * Operations and contents form a graph without cycles; `lacking` counts for each operation the inputs that
 * are not good, so that a change costs no more than what it changes.
 */
#include <stdlib.h>

#include "ckpt/checker/internal.h"

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
        w->changed[w->changed_count] = content;
    w->changed_count++; /* beyond the room: settle says so */
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
            return ebb_check_fails(w, "no memory");
        w->stack[(*count)++] = u->after;
    }
    return true;
}

static bool lost(walk_t *w, uint32_t content)
{
    uint32_t b = w->facts->owner[content], version = content - w->facts->first_content[b];
    return ebb_check_fails(w, "buffer %u in version %u, which is given up, cannot be rebuilt any more", b,
                           version);
}

/* The content has become good, or bad; so do others that need it. */
static bool spread(walk_t *w, uint32_t content, bool good)
{
    const lists_t *readers = &w->facts->readers;
    uint32_t count = 1;
    if (!grow(&w->stack, &w->stack_room, 1))
        return ebb_check_fails(w, "no memory");
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
        return ebb_check_fails(w, "buffer %u in version %u is lost and was not given up", b,
                               content - w->facts->first_content[b]);
    return can_run(w, w->facts->producer[content]) || spread(w, content, now);
}

bool ebb_recovery_check(walk_t *w)
{
    uint32_t count = w->changed_count;
    if (count > w->changed_room)
        return ebb_check_fails(w, "no memory");
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

void ebb_recovery_begin(walk_t *w)
{
    w->issued = 0;
    for (uint32_t c = 0; c < w->facts->content_count; c++)
        w->recoverable[c] = is_recoverable(w, c);
}
