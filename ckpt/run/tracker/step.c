/* step.c: the streams, and which of them leads; see tracker.h. */

#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum { LANES = 16, FIRST_ROOM = 4096 };

typedef struct stream {
    uint64_t stream;
    bool of_thread;  /* one thread's part of a stream that several issue into */
    bool shared;     /* of a whole stream: several issue into it */
    uint64_t thread; /* the one, or the first that was seen */
    past_t past;
    search_t search;
    follow_t follow;
    uint64_t fewest;  /* live bytes since the stream's last operation */
    uint64_t used_at; /* operation of the program */
    uint64_t marks;   /* of the program's, that it has had an operation behind */
    bool searching;
} stream_t;

struct ebb_step_finder {
    size_t longest_room;
    stream_t stream[LANES];
    unsigned streams;
    stream_t *last; /* used last */
    stream_t *lead; /* NULL: no stream has a step */
    uint64_t serials, operations, marks;
};

ebb_step_finder_t *ebb_step_finder_new(size_t longest)
{
    ebb_step_finder_t *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->longest_room = FIRST_ROOM;
    while (f->longest_room < 2 * longest)
        f->longest_room *= 2;
    return f;
}

static void close_stream(stream_t *l)
{
    free(l->past.entry);
    free(l->search.pairs.at);
    follow_close(&l->follow);
    memset(l, 0, sizeof *l);
}

static void forget(ebb_step_finder_t *f)
{
    for (unsigned i = 0; i < f->streams; i++)
        close_stream(&f->stream[i]);
    f->streams = 0;
    f->last = f->lead = NULL;
}

void ebb_step_finder_delete(ebb_step_finder_t *f)
{
    if (!f)
        return;
    forget(f);
    free(f);
}

/* ---- streams ---- */

static bool open_stream(ebb_step_finder_t *f, stream_t *l, const ebb_step_operation_t *op, bool of_thread)
{
    *l = (stream_t){.stream = op->stream,
                    .thread = op->thread,
                    .of_thread = of_thread,
                    .past = {.entry = malloc(FIRST_ROOM * sizeof *l->past.entry), .room = FIRST_ROOM},
                    .follow = follow_nothing(&f->serials),
                    .fewest = UINT64_MAX};
    return l->past.entry;
}

/* A new one, in place of the one that was used least recently if there are too many; never the lead. */
static stream_t *new_stream(ebb_step_finder_t *f, const ebb_step_operation_t *op, bool of_thread)
{
    stream_t *l = &f->stream[f->streams];
    if (f->streams == LANES) {
        l = NULL;
        for (unsigned i = 0; i < LANES; i++)
            if (&f->stream[i] != f->lead && (!l || f->stream[i].used_at < l->used_at))
                l = &f->stream[i];
        close_stream(l);
    }
    if (!open_stream(f, l, op, of_thread))
        return NULL;
    if (f->streams < LANES)
        f->streams++;
    return l;
}

static bool is_stream_of(const stream_t *l, const ebb_step_operation_t *op, bool of_thread)
{
    return l->stream == op->stream && l->of_thread == of_thread && (!of_thread || l->thread == op->thread) &&
           l->past.entry;
}

static stream_t *stream_of(ebb_step_finder_t *f, const ebb_step_operation_t *op, bool of_thread)
{
    if (f->last && is_stream_of(f->last, op, of_thread))
        return f->last;
    for (unsigned i = 0; i < f->streams; i++)
        if (is_stream_of(&f->stream[i], op, of_thread))
            return &f->stream[i];
    return new_stream(f, op, of_thread);
}

/* ---- one stream ---- */

static ebb_step_event_t push(const ebb_step_finder_t *f, stream_t *l, const ebb_step_operation_t *op)
{
    const bool searching = follow_is_searching(&l->follow, &l->past);
    if (searching && !l->searching)
        search_reset(&l->search);
    l->searching = searching;
    if (searching && l->past.count >= l->past.room && l->past.room < f->longest_room && !past_grow(&l->past))
        l->searching = false;
    past_push(&l->past, op, f->operations, l->fewest, l->marks != f->marks);
    l->marks = f->marks;
    l->fewest = UINT64_MAX;
    l->used_at = f->operations;
    const ebb_step_event_t event = follow_take(&l->follow, &l->past);
    const size_t period = l->searching ? search_take(&l->search, &l->past, &l->follow, f->marks) : 0;
    return period && follow_adopt(&l->follow, &l->past, period) ? EBB_STEP_FOUND : event;
}

/* ---- the lead ---- */

static bool has_step(const stream_t *l)
{
    return l->past.entry && !l->follow.given_up && l->follow.variants.count;
}

/* A stream with a step leads if none does, or if it has a good deal more to it. */
static bool takes_over(const ebb_step_finder_t *f, const stream_t *l)
{
    return !f->lead || !has_step(f->lead) || 2 * l->past.count > 3 * f->lead->past.count;
}

/* The event for the program, of one in a stream. */
static ebb_step_event_t lead(ebb_step_finder_t *f, stream_t *l, ebb_step_event_t event)
{
    if (l == f->lead)
        return event;
    if ((event != EBB_STEP_FOUND && event != EBB_STEP_BOUNDARY) || !has_step(l) || !takes_over(f, l))
        return EBB_STEP_NONE;
    f->lead = l;
    return EBB_STEP_FOUND;
}

/* One stream takes the operation. */
static ebb_step_event_t take(ebb_step_finder_t *f, stream_t *l, const ebb_step_operation_t *op)
{
    if (op->live_bytes < l->fewest)
        l->fewest = op->live_bytes;
    return lead(f, l, push(f, l, op));
}

ebb_step_event_t ebb_step_push(ebb_step_finder_t *f, const ebb_step_operation_t *op)
{
    f->operations++;
    if (op->mark && !f->marks)
        forget(f);
    f->marks += op->mark;
    for (unsigned i = 0; i < f->streams; i++)
        if (op->live_bytes < f->stream[i].fewest)
            f->stream[i].fewest = op->live_bytes;
    stream_t *l = op->aside ? NULL : stream_of(f, op, false);
    if (!l)
        return EBB_STEP_NONE;
    f->last = l;
    l->shared |= l->thread != op->thread;
    const ebb_step_event_t event = take(f, l, op);
    stream_t *own = l->shared ? stream_of(f, op, true) : NULL;
    const ebb_step_event_t of_thread = own ? take(f, own, op) : EBB_STEP_NONE;
    return of_thread ? of_thread : event;
}

bool ebb_step_settle(ebb_step_finder_t *f, uint64_t live_bytes)
{
    return f->lead && f->lead->follow.any_ended &&
           follow_settle(&f->lead->follow, &f->lead->past, live_bytes);
}

/* ---- what is known ---- */

int ebb_step_ended(const ebb_step_finder_t *f)
{
    return f->lead ? f->lead->follow.ended : -1;
}

size_t ebb_step_late(const ebb_step_finder_t *f)
{
    return f->lead ? f->lead->follow.late : 0;
}

int ebb_step_expected(const ebb_step_finder_t *f)
{
    const hypothesis_t *h = f->lead ? follow_likeliest(&f->lead->follow) : NULL;
    return h ? h->variant : -1;
}

size_t ebb_step_position(const ebb_step_finder_t *f)
{
    const hypothesis_t *h = f->lead ? follow_likeliest(&f->lead->follow) : NULL;
    return h ? h->track.next : 0;
}

ebb_step_variant_t ebb_step_variant(const ebb_step_finder_t *f, unsigned variant)
{
    return f->lead && variant < EBB_STEP_VARIANTS ? f->lead->follow.variants.variant[variant].info
                                                  : (ebb_step_variant_t){.serial = 0};
}

size_t ebb_step_period(const ebb_step_finder_t *f)
{
    const int expected = ebb_step_expected(f), variant = expected < 0 ? ebb_step_ended(f) : expected;
    return variant < 0 ? 0 : ebb_step_variant(f, (unsigned)variant).operations;
}

ebb_step_streams_t ebb_step_streams(const ebb_step_finder_t *f)
{
    ebb_step_streams_t streams = {.count = 0};
    for (unsigned i = 0; i < f->streams; i++) {
        streams.count++;
        streams.recurring += has_step(&f->stream[i]);
    }
    return streams;
}

bool ebb_step_check(const ebb_step_finder_t *f)
{
    bool good = true;
    for (unsigned i = 0; i < f->streams; i++)
        good &= f->stream[i].past.room <= f->longest_room && follow_check(&f->stream[i].follow);
    return good;
}
