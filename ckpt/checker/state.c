/* state.c: places, chunks, host blocks and clocks; see internal.h.
 *
 * What a place holds follows from the order of issue, because every two accesses of a chunk of which one
 * writes must be ordered by the streams, events, waits and joins (vector clocks: Mattern, 1989; with single accesses as epochs,
 * as in FastTrack: Flanagan and Freund, PLDI 2009), and a later one is never ordered before an earlier one.
 */
#include <stdio.h>
#include <string.h>

#include "ckpt/checker/internal.h"

void ebb_reach_join(const walk_t *w, uint32_t *reach, const uint32_t *other)
{
    for (uint32_t s = 0; s < w->width; s++)
        if (other[s] > reach[s])
            reach[s] = other[s];
}

void ebb_reach_join_streams(const walk_t *w, uint32_t *reach, uint32_t streams)
{
    for (uint32_t s = 0; streams >> s && s < w->streams; s++)
        if (streams >> s & 1)
            ebb_reach_join(w, reach, now_of(w, s));
}

void ebb_check_tick(walk_t *w, uint32_t stream)
{
    now_of(w, stream)[stream]++;
}

/* A place without chunks has one cell of its own. */
static uint32_t cells_of(const walk_t *w, uint32_t place)
{
    const uint32_t chunks = w->plan->place[place].chunk_count;
    return chunks ? chunks : 1;
}

static uint32_t cell_of(const walk_t *w, uint32_t place, uint32_t i)
{
    const ebb_place_t *p = &w->plan->place[place];
    return p->chunk_count ? w->plan->chunk[p->first_chunk + i] : w->plan->chunk_count + place;
}

static uint32_t *reach_of(const walk_t *w, uint32_t cell, uint32_t which)
{
    return w->cell + ((size_t)cell * CELL_REACHES + which) * w->width;
}

static bool comes_after(const walk_t *w, uint32_t stream, uint32_t other, uint32_t event)
{
    return now_of(w, stream)[other] >= event;
}

/* Which of the streams has done something that this one does not know; none: `width`. */
static uint32_t unknown(const walk_t *w, uint32_t stream, const uint32_t *reach)
{
    uint32_t s = 0;
    while (s < w->width && comes_after(w, stream, s, reach[s]))
        s++;
    return s;
}

/* ---- what is where ---- */

void ebb_check_drop(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->content != EBB_NONE)
        ebb_recovery_note(w, h->content);
    h->content = EBB_NONE;
}

void ebb_check_drop_host(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content != EBB_NONE)
        ebb_recovery_note(w, h->host_content);
    h->host_content = EBB_NONE;
}

/* What was done to the cell by its owner's operations was done by others now. */
static void change_owner(walk_t *w, uint32_t cell, uint32_t place)
{
    if (w->owner[cell] != EBB_NONE)
        ebb_check_drop(w, w->owner[cell]);
    w->owner[cell] = place;
    for (uint32_t which = OWN_WRITES; which < CELL_REACHES; which += OWN_READS - OWN_WRITES) {
        uint32_t *own = reach_of(w, cell, which);
        ebb_reach_join(w, reach_of(w, cell, which + OTHER_WRITES - OWN_WRITES), own);
        memset(own, 0, w->width * sizeof *own);
    }
}

static void take(walk_t *w, uint32_t place, uint32_t content)
{
    ebb_check_drop(w, place);
    for (uint32_t i = 0; i < w->plan->place[place].chunk_count; i++)
        if (w->owner[cell_of(w, place, i)] != place)
            change_owner(w, cell_of(w, place, i), place);
    w->place[place].content = content;
    /* An older version is one on the way to what was given up. */
    if (place >= w->plan->buffer_count || content == EBB_NONE || content >= w->current[w->of[place]])
        w->place[place].given_up = false;
    ebb_recovery_note(w, content);
}

/* ---- accesses ---- */

static const char *name_of(const walk_t *w, uint32_t stream, char name[24])
{
    if (stream < w->streams && w->streams > 1)
        snprintf(name, 24, "stream %u", stream);
    else
        strcpy(name, stream == out_of(w) ? "out" : stream == in_of(w) ? "in" : "compute");
    return name;
}

static bool is_unordered(walk_t *w, uint32_t place, uint32_t cell, uint32_t other, bool writes, bool written)
{
    char name[24];
    name_of(w, other, name);
    if (cell < w->plan->chunk_count)
        return ebb_check_fails(w, "the %s of place %u is not ordered after the %s of chunk %u on %s",
                               writes ? "write" : "read", place, written ? "write" : "read", cell, name);
    return ebb_check_fails(w, "the %s of small buffer %u is not ordered after the %s of it on %s",
                           writes ? "write" : "read", place, written ? "write" : "read", name);
}

/* Whether an actor that reads or writes a cell of the place knows all that it has to. */
static bool knows(walk_t *w, actor_t actor, uint32_t place, uint32_t cell, bool writes)
{
    const bool own = !actor.is_plan && w->owner[cell] == place;
    for (uint32_t which = 0; which < (writes ? CELL_REACHES : OWN_READS); which++) {
        if (own && (which == OWN_WRITES || which == OWN_READS))
            continue;
        const uint32_t other = unknown(w, actor.stream, reach_of(w, cell, which));
        if (other < w->width)
            return is_unordered(w, place, cell, other, writes, which < OWN_READS);
    }
    return true;
}

static bool is_ordered(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    for (uint32_t i = 0; i < cells_of(w, place); i++)
        if (!knows(w, actor, place, cell_of(w, place, i), writes))
            return false;
    return true;
}

/* After the place has taken its chunks, if it was written. */
static void note(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    for (uint32_t i = 0; i < cells_of(w, place); i++) {
        const uint32_t cell = cell_of(w, place, i);
        const bool own = !actor.is_plan && w->owner[cell] == place;
        const uint32_t which = writes ? (own ? OWN_WRITES : OTHER_WRITES) : own ? OWN_READS : OTHER_READS;
        reach_of(w, cell, which)[actor.stream] = now_of(w, actor.stream)[actor.stream];
    }
}

bool ebb_check_small(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    if (!is_ordered(w, actor, place, writes))
        return false;
    note(w, actor, place, writes);
    return true;
}

bool ebb_check_holds(walk_t *w, uint32_t place, uint32_t content)
{
    const uint32_t b = w->facts->owner[content];
    return w->place[place].content == content ||
           ebb_check_fails(w, "place %u does not hold buffer %u in version %u", place, b,
                           content - w->facts->first_content[b]);
}

bool ebb_check_read(walk_t *w, actor_t actor, uint32_t place)
{
    if (!is_ordered(w, actor, place, false))
        return false;
    note(w, actor, place, false);
    return true;
}

/* ---- resident operations ---- */

bool ebb_check_resident(walk_t *w, uint32_t stream)
{
    char name[24];
    const uint32_t other = unknown(w, stream, w->handed);
    w->resident[stream] = now_of(w, stream)[stream];
    return other == w->width ||
           ebb_check_fails(w, "a resident kernel may run while a chunk changes hands on %s",
                           name_of(w, other, name));
}

/* The event takes the place's chunks: from others? */
static bool may_take(walk_t *w, uint32_t stream, uint32_t place)
{
    char name[24];
    uint32_t i = 0, other;
    const uint32_t count = w->plan->place[place].chunk_count;
    while (i < count &&
           (w->owner[cell_of(w, place, i)] == place || w->owner[cell_of(w, place, i)] == EBB_NONE))
        i++;
    if (i == count)
        return true;
    w->handed[stream] = now_of(w, stream)[stream];
    other = unknown(w, stream, w->resident);
    return other == w->width ||
           ebb_check_fails(w, "place %u takes chunk %u while a resident kernel may be running on %s", place,
                           cell_of(w, place, i), name_of(w, other, name));
}

bool ebb_check_write(walk_t *w, actor_t actor, uint32_t place, uint32_t content)
{
    if (!is_ordered(w, actor, place, true) || !may_take(w, actor.stream, place))
        return false;
    take(w, place, content);
    note(w, actor, place, true);
    return true;
}

bool ebb_check_evict(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->content == EBB_NONE)
        return ebb_check_fails(w, "an evict of a place that holds nothing");
    if (!ebb_check_read(w, (actor_t){out_of(w), true}, place))
        return false;
    if (!comes_after(w, out_of(w), in_of(w), h->host_read_at))
        return ebb_check_fails(w, "the host block is not ordered after the fetch that reads it");
    ebb_check_drop_host(w, place);
    h->host_content = h->content;
    h->host_written_at = now_of(w, out_of(w))[out_of(w)];
    ebb_recovery_note(w, h->host_content);
    return true;
}

bool ebb_check_fetch(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content == EBB_NONE)
        return ebb_check_fails(w, "a fetch of what is not on the host");
    if (!comes_after(w, in_of(w), out_of(w), h->host_written_at))
        return ebb_check_fails(w, "the fetch is not ordered after its evict");
    h->host_read_at = now_of(w, in_of(w))[in_of(w)];
    return ebb_check_write(w, (actor_t){in_of(w), true}, place, h->host_content);
}
