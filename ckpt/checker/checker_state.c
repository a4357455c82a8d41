/* checker_state.c: places, chunks, host blocks and clocks; see checker_parts.h.
 *
 * What a place holds follows from the order of issue, because every two accesses of a chunk of which one
 * writes must be ordered by the streams, waits and joins (vector clocks, in the epoch form of FastTrack:
 * Flanagan and Freund, PLDI 2009), and a later one is never ordered before an earlier one.
 */
#include "checker_parts.h"

static const char *const stream_name[] = {"compute", "out", "in"};

void ebb_reach_join(reach_t *reach, const reach_t *other)
{
    for (int s = 0; s < STREAMS; s++)
        if (other->at[s] > reach->at[s])
            reach->at[s] = other->at[s];
}

void ebb_check_tick(walk_t *w, stream_t stream)
{
    w->now[stream].at[stream]++;
}

static const uint32_t *chunks_of(const walk_t *w, uint32_t place)
{
    return w->plan->chunk + w->plan->place[place].first_chunk;
}

static bool comes_after(const walk_t *w, stream_t stream, stream_t other, uint32_t event)
{
    return w->now[stream].at[other] >= event;
}

/* ---- what is where ---- */

void ebb_check_drop(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->content != EBB_NO_CONTENT)
        ebb_hand_note(w, h->content);
    h->content = EBB_NO_CONTENT;
}

void ebb_check_drop_host(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content != EBB_NO_CONTENT)
        ebb_hand_note(w, h->host_content);
    h->host_content = EBB_NO_CONTENT;
}

static void take(walk_t *w, uint32_t place, uint32_t content)
{
    const uint32_t *chunk = chunks_of(w, place);
    ebb_check_drop(w, place);
    for (uint32_t i = 0; i < w->plan->place[place].chunk_count; i++) {
        uint32_t *owner = &w->cell[chunk[i]].owner;
        if (*owner != EBB_TRACE_NEVER && *owner != place)
            ebb_check_drop(w, *owner);
        *owner = place;
    }
    w->place[place].content = content;
    /* An older version is one on the way to what was given up. */
    if (place >= w->plan->buffer_count || content == EBB_NO_CONTENT || content >= w->current[w->of[place]])
        w->place[place].given_up = false;
    ebb_hand_note(w, content);
}

/* ---- accesses ---- */

bool ebb_check_read(walk_t *w, stream_t stream, uint32_t place, uint32_t content)
{
    const uint32_t *chunk = chunks_of(w, place);
    if (content != EBB_NO_CONTENT && w->place[place].content != content) {
        uint32_t b = w->facts->owner[content];
        return ebb_check_fails(w, "place %u does not hold buffer %u in version %u", place, b,
                               content - w->facts->first_content[b]);
    }
    for (uint32_t i = 0; i < w->plan->place[place].chunk_count; i++) {
        cell_t *c = &w->cell[chunk[i]];
        if (!comes_after(w, stream, c->writer, c->written_at))
            return ebb_check_fails(w, "the read of place %u is not ordered after the write of chunk %u on %s",
                                   place, chunk[i], stream_name[c->writer]);
        c->read_at[stream] = w->now[stream].at[stream];
    }
    return true;
}

bool ebb_check_write(walk_t *w, stream_t stream, uint32_t place, uint32_t content)
{
    const uint32_t *chunk = chunks_of(w, place);
    for (uint32_t i = 0; i < w->plan->place[place].chunk_count; i++) {
        cell_t *c = &w->cell[chunk[i]];
        if (!comes_after(w, stream, c->writer, c->written_at))
            return ebb_check_fails(w,
                                   "the write of place %u is not ordered after the write of chunk %u on %s",
                                   place, chunk[i], stream_name[c->writer]);
        for (int s = 0; s < STREAMS; s++)
            if (!comes_after(w, stream, (stream_t)s, c->read_at[s]))
                return ebb_check_fails(
                    w, "the write of place %u is not ordered after the read of chunk %u on %s", place,
                    chunk[i], stream_name[s]);
        c->writer = stream;
        c->written_at = w->now[stream].at[stream];
    }
    take(w, place, content);
    return true;
}

bool ebb_check_evict(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->content == EBB_NO_CONTENT)
        return ebb_check_fails(w, "an evict of a place that holds nothing");
    if (!ebb_check_read(w, OUT, place, h->content))
        return false;
    if (!comes_after(w, OUT, IN, h->host_read_at))
        return ebb_check_fails(w, "the host block is not ordered after the fetch that reads it");
    ebb_check_drop_host(w, place);
    h->host_content = h->content;
    h->host_written_at = w->now[OUT].at[OUT];
    ebb_hand_note(w, h->host_content);
    return true;
}

bool ebb_check_fetch(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content == EBB_NO_CONTENT)
        return ebb_check_fails(w, "a fetch of what is not on the host");
    if (!comes_after(w, IN, OUT, h->host_written_at))
        return ebb_check_fails(w, "the fetch is not ordered after its evict");
    h->host_read_at = w->now[IN].at[IN];
    return ebb_check_write(w, IN, place, h->host_content);
}
