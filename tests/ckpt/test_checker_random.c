/* The checker against execution: random traces, plans grown and broken by random edits. Whatever the checker
 * accepts is run on a tiny memory (plan_oracle.h) with random interleavings, and must never read a wrong
 * value, nor be left with a live buffer that cannot be had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/checker/checker.h"
#include "plan_draft.h"
#include "plan_oracle.h"
#include "program.h"

enum { CASES = 80, EDITS = 400, CASES_ON_STREAMS = 30, MOST_STREAMS = 4 };

/* ---- edits ---- */

/* A random gap of a random large buffer: after operation *from, up to *to; wraps if the buffer outlives the
 * step. */
static bool draw_gap(const ebb_trace_t *t, uint32_t *buffer, uint32_t *from, uint32_t *to)
{
    uint32_t use[64], count = 0, b = *buffer = draft_draw(t->buffer_count);
    if (t->buffer[b].bytes <= CHUNK / 2)
        return false;
    for (uint32_t i = 0; i < t->operation_count; i++)
        if (ebb_trace_mode(t, i, b))
            use[count++] = i;
    bool wraps = t->buffer[b].born == EBB_NONE;
    if (count + wraps < 2)
        return false;
    uint32_t k = draft_draw(count - !wraps);
    *from = use[k];
    *to = use[(k + 1) % count];
    return true;
}

static bool edit_offload(draft_t *d, const ebb_trace_t *t)
{
    uint32_t b, from, to;
    if (!draw_gap(t, &b, &from, &to))
        return false;
    bool wraps = to <= from;
    uint32_t out = from + 1 + (draft_draw(3) ? 0 : draft_draw(2)),
             in = to - (to ? draft_draw(to < 3 ? to : 3) : 0);
    if (out > t->operation_count)
        out = t->operation_count;
    draft_action_t *e = draft_insert(d, EBB_EVICT, out);
    if (!e)
        return false;
    uint32_t id = e->id;
    e->a.place = b;
    if (draft_draw(4))
        e->a.join = (out + draft_draw(4)) % t->operation_count;
    draft_action_t *f = draft_insert(d, EBB_FETCH, in);
    if (!f)
        return false;
    f->a.place = b;
    f->a.join = to;
    f->a.wait_count = 1;
    f->wait[0] = id;
    if (wraps)
        d->place[b].at_start = EBB_ON_HOST;
    return true;
}

/* Replays that bring buffer b to what it was before operation `upto`, at `point`; inputs are where they are.
 */
static bool add_chain(draft_t *d, const ebb_trace_t *t, uint32_t b, uint32_t upto, uint32_t point, int depth)
{
    uint32_t w = upto;
    while (w-- > 0 && ebb_trace_mode(t, w, b) < EBB_REPLACES)
        ;
    if (w == UINT32_MAX || depth > 3)
        return false;
    const ebb_trace_operation_t *o = &t->operation[w];
    if (ebb_trace_mode(t, w, b) == EBB_UPDATES && !add_chain(d, t, b, w, point, depth + 1))
        return false;
    for (uint32_t i = 0; i < o->access_count;
         i++) { /* freed inputs, now and then, are rebuilt where they were */
        uint32_t x = t->access[o->first_access + i].buffer;
        if (x != b && ebb_trace_mode(t, w, x) == EBB_READS && t->buffer[x].dies <= point &&
            t->buffer[x].bytes > CHUNK / 2 && draft_draw(2))
            add_chain(d, t, x, w, point, depth + 1);
    }
    draft_action_t *r = draft_insert(d, EBB_REPLAY, point);
    if (!r)
        return false;
    r->a.operation = w;
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *a = &t->access[o->first_access + i];
        bool listed = a->buffer == b || a->mode == EBB_READS;
        for (uint32_t k = 0; k < r->a.redirect_count; k++)
            listed |= r->redirect[k].buffer == a->buffer;
        if (listed || r->a.redirect_count == MOST_REDIRECTS || d->place_count == MOST_PLACES)
            continue;
        r->redirect[r->a.redirect_count++] =
            (ebb_redirect_t){a->buffer, draft_add_place(d, t->buffer[a->buffer].bytes, EBB_NOT_THERE)};
    }
    return true;
}

static bool edit_drop(draft_t *d, const ebb_trace_t *t)
{
    uint32_t b, from, to;
    if (!draw_gap(t, &b, &from, &to) || to <= from)
        return false;
    uint32_t first = from + 1, point = to - draft_draw(2);
    draft_action_t *x = draft_insert(d, EBB_DISCARD, first);
    if (!x || point < first)
        return false;
    x->a.place = b;
    return add_chain(d, t, b, to, point, 0);
}

/* Of a buffer that the program frees in the step, now and then to no good. */
static bool edit_put_off(draft_t *d, const ebb_trace_t *t)
{
    const uint32_t b = draft_draw(t->buffer_count), dies = t->buffer[b].dies;
    if (dies == EBB_NONE)
        return false;
    d->place[b].until = draft_draw(4) ? dies + draft_draw(t->operation_count - dies + 1) : EBB_NONE;
    d->place[b].until -= draft_draw(30) == 0;
    return true;
}

static bool edit_share(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    uint32_t a = draft_draw(d->place_count), b = draft_draw(d->place_count);
    if (!d->place[a].chunk_count || !d->place[b].chunk_count)
        return false;
    for (uint32_t i = 0; i < d->place[a].chunk_count && i < d->place[b].chunk_count; i++)
        d->chunk[a][i] = d->chunk[b][d->place[b].chunk_count - 1 - i];
    return true;
}

static bool edit_one_chunk(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    uint32_t a = draft_draw(d->place_count), b = draft_draw(d->place_count);
    if (!d->place[a].chunk_count || !d->place[b].chunk_count)
        return false;
    d->chunk[a][draft_draw(d->place[a].chunk_count)] = d->chunk[b][draft_draw(d->place[b].chunk_count)];
    return true;
}

static draft_action_t *draw_copy(draft_t *d)
{
    draft_action_t *x = d->action_count ? &d->action[draft_draw(d->action_count)] : NULL;
    return x && (x->a.kind == EBB_EVICT || x->a.kind == EBB_FETCH) ? x : NULL;
}

static bool edit_drop_wait(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    draft_action_t *x = draw_copy(d);
    if (!x || !x->a.wait_count)
        return false;
    x->wait[draft_draw(x->a.wait_count)] = x->wait[x->a.wait_count - 1];
    x->a.wait_count--;
    return true;
}

static bool edit_add_wait(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    draft_action_t *x = draw_copy(d), *y = draw_copy(d);
    if (!x || !y || x->a.wait_count == MOST_WAITS)
        return false;
    x->wait[x->a.wait_count++] = y->id;
    return true;
}

static bool edit_join(draft_t *d, const ebb_trace_t *t)
{
    draft_action_t *x = draw_copy(d);
    if (!x)
        return false;
    x->a.join = draft_draw(3) && x->a.join != EBB_NONE
                    ? (x->a.join + t->operation_count + draft_draw(3) - 1) % t->operation_count
                : draft_draw(2) ? EBB_NONE
                                : draft_draw(t->operation_count);
    return true;
}

static void remove_action(draft_t *d, uint32_t at)
{
    memmove(d->action + at, d->action + at + 1, (d->action_count - at - 1) * sizeof *d->action);
    d->action_count--;
}

static bool edit_remove(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    if (!d->action_count)
        return false;
    uint32_t at = draft_draw(d->action_count), id = d->action[at].id;
    remove_action(d, at);
    for (uint32_t i = 0; i < d->action_count; i++)
        for (uint32_t k = 0; k < d->action[i].a.wait_count; k++)
            if (d->action[i].wait[k] == id)
                d->action[i].wait[k--] = d->action[i].wait[--d->action[i].a.wait_count];
    return true;
}

static bool edit_move(draft_t *d, const ebb_trace_t *t)
{
    if (!d->action_count)
        return false;
    uint32_t at = draft_draw(d->action_count);
    draft_action_t x = d->action[at];
    uint32_t by = 1 + (draft_draw(3) ? 0 : draft_draw(4)), point = x.a.point;
    point = draft_draw(2) ? (point < by ? 0 : point - by)
                          : (point + by > t->operation_count ? t->operation_count : point + by);
    remove_action(d, at);
    draft_action_t *y = draft_insert(d, x.a.kind, point);
    x.a.point = point;
    *y = x;
    return true;
}

static bool edit_swap(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    if (d->action_count < 2)
        return false;
    uint32_t at = draft_draw(d->action_count - 1), p = d->action[at].a.point, q = d->action[at + 1].a.point;
    draft_action_t keep = d->action[at];
    d->action[at] = d->action[at + 1];
    d->action[at + 1] = keep;
    d->action[at].a.point = p;
    d->action[at + 1].a.point = q;
    return true;
}

static bool edit_place(draft_t *d, const ebb_trace_t *t)
{
    uint32_t b = draft_draw(t->buffer_count);
    ebb_place_t *p = &d->place[b];
    if (p->small_offset != EBB_NONE)
        p->small_offset = draft_draw(d->small_bytes / 512) * 512;
    else if (t->buffer[b].born == EBB_NONE && p->chunk_count)
        p->at_start = p->at_start == EBB_ON_HOST ? EBB_ON_DEVICE : EBB_ON_HOST;
    else
        return false;
    return true;
}

static bool edit_replay(draft_t *d, const ebb_trace_t *t)
{
    draft_action_t *x = d->action_count ? &d->action[draft_draw(d->action_count)] : NULL;
    if (!x || x->a.kind != EBB_REPLAY)
        return false;
    if (!x->a.redirect_count || !draft_draw(4))
        x->a.operation = (x->a.operation + t->operation_count + draft_draw(3) - 1) % t->operation_count;
    else if (draft_draw(2))
        x->redirect[draft_draw(x->a.redirect_count)].place = draft_draw(d->place_count);
    else {
        x->redirect[draft_draw(x->a.redirect_count)] = x->redirect[x->a.redirect_count - 1];
        x->a.redirect_count--;
    }
    return true;
}

/* Another replay anywhere; where it writes is drawn too. */
static bool edit_add_replay(draft_t *d, const ebb_trace_t *t)
{
    uint32_t operation = draft_draw(t->operation_count);
    const ebb_trace_operation_t *o = &t->operation[operation];
    draft_action_t *x =
        draft_insert(d, EBB_REPLAY, operation + 1 + draft_draw(t->operation_count - operation));
    if (!x)
        return false;
    x->a.operation = operation;
    if (o->access_count && draft_draw(2)) {
        x->a.redirect_count = 1;
        x->redirect[0] = (ebb_redirect_t){t->access[o->first_access + draft_draw(o->access_count)].buffer,
                                          draft_draw(d->place_count)};
    }
    return true;
}

static bool edit_add_copy(draft_t *d, const ebb_trace_t *t)
{
    uint32_t place = draft_draw(d->place_count);
    draft_action_t *x = draft_insert(d,
                                     draft_draw(2)   ? EBB_EVICT
                                     : draft_draw(2) ? EBB_FETCH
                                                     : EBB_DISCARD,
                                     draft_draw(t->operation_count + 1));
    if (!x || !d->place[place].chunk_count)
        return false;
    x->a.place = place;
    if (x->a.kind != EBB_DISCARD && draft_draw(2))
        x->a.join = draft_draw(t->operation_count);
    return true;
}

static bool edit_order(draft_t *d, const ebb_trace_t *t)
{
    const uint32_t point = draft_draw(t->operation_count);
    draft_action_t *x = d->streams > 1 ? draft_insert(d, EBB_ORDER, point) : NULL;
    if (!x)
        return false;
    x->a.stream = t->operation[point].stream;
    return true;
}

static bool edit_streams(draft_t *d, const ebb_trace_t *t)
{
    (void)t;
    draft_action_t *x = d->streams > 1 && d->action_count ? &d->action[draft_draw(d->action_count)] : NULL;
    if (!x || x->a.kind == EBB_DISCARD)
        return false;
    const bool copies = x->a.kind == EBB_EVICT || x->a.kind == EBB_FETCH;
    const uint32_t bit = UINT32_C(1) << draft_draw(d->streams);
    if (draft_draw(2))
        x->a.after ^= bit;
    else if (copies)
        x->a.joiners ^= bit;
    else
        x->a.stream = draft_draw(d->streams);
    return true;
}

typedef struct edit {
    const char *name;
    bool (*apply)(draft_t *, const ebb_trace_t *);
    unsigned weight, keep; /* of 8: how often it stays when it is accepted */
    unsigned accepted, refused, confirmed;
} edit_t;

static edit_t edits[] = {
    {.name = "offload a gap", .apply = edit_offload, .weight = 6, .keep = 8},
    {.name = "drop a gap", .apply = edit_drop, .weight = 8, .keep = 8},
    {.name = "put off a free", .apply = edit_put_off, .weight = 4, .keep = 6},
    {.name = "share a place's chunks", .apply = edit_share, .weight = 10, .keep = 8},
    {.name = "share one chunk", .apply = edit_one_chunk, .weight = 10, .keep = 8},
    {.name = "remove a wait", .apply = edit_drop_wait, .weight = 3, .keep = 4},
    {.name = "add a wait", .apply = edit_add_wait, .weight = 2, .keep = 4},
    {.name = "change a join", .apply = edit_join, .weight = 4, .keep = 3},
    {.name = "remove an action", .apply = edit_remove, .weight = 3, .keep = 1},
    {.name = "move an action", .apply = edit_move, .weight = 5, .keep = 4},
    {.name = "exchange two actions", .apply = edit_swap, .weight = 3, .keep = 4},
    {.name = "change a start or offset", .apply = edit_place, .weight = 2, .keep = 4},
    {.name = "change a replay", .apply = edit_replay, .weight = 3, .keep = 4},
    {.name = "add a replay", .apply = edit_add_replay, .weight = 2, .keep = 2},
    {.name = "add a copy or discard", .apply = edit_add_copy, .weight = 2, .keep = 2},
    {.name = "add an order", .apply = edit_order, .weight = 4, .keep = 3},
    {.name = "change streams", .apply = edit_streams, .weight = 8, .keep = 3},
};

static edit_t *draw_edit(uint32_t streams)
{
    const size_t count =
        sizeof edits / sizeof *edits - (streams > 1 ? 0 : 2); /* the last two are of several streams */
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += edits[i].weight;
    unsigned at = draft_draw(sum);
    edit_t *e = edits;
    while (at >= e->weight)
        at -= (e++)->weight;
    return e;
}

/* ---- the test ---- */

static const ebb_check_limits_t plenty = {UINT64_C(1) << 40, UINT64_C(1) << 40, 0};

/* What the accepted plans were made of, so that the test is known to test. */
typedef struct tally {
    unsigned plans, evicts, fetches, discards, replays, redirects, shared, orders, late;
} tally_t;

static void count_plan(tally_t *tally, const ebb_plan_t *p)
{
    tally->plans++;
    for (uint32_t i = 0; i < p->action_count; i++) {
        tally->evicts += p->action[i].kind == EBB_EVICT;
        tally->fetches += p->action[i].kind == EBB_FETCH;
        tally->discards += p->action[i].kind == EBB_DISCARD;
        tally->replays += p->action[i].kind == EBB_REPLAY;
        tally->orders += p->action[i].kind == EBB_ORDER;
        tally->redirects += p->action[i].redirect_count;
    }
    for (uint32_t i = 0; i < p->place_count; i++)
        tally->late += p->place[i].until != EBB_NONE;
    for (uint32_t i = 0; i < p->chunk_index_count; i++)
        for (uint32_t k = 0; k < i; k++)
            tally->shared += p->chunk[i] == p->chunk[k];
}

static void show(const ebb_trace_t *t, const ebb_plan_t *p)
{
    ebb_trace_write(t, stderr);
    ebb_plan_write(p, stderr);
}

static void try_edit(draft_t *d, const ebb_trace_t *t, unsigned seed, tally_t *tally)
{
    char why[300] = "", what[200] = "";
    static draft_t next;
    edit_t *e = draw_edit(d->streams);
    next = *d;
    if (!e->apply(&next, t) || next.place_count > MOST_PLACES - MOST_REDIRECTS)
        return;
    ebb_plan_t *p = draft_build(&next, t);
    if (ebb_check_plan(t, p, &plenty, why, sizeof why)) {
        e->accepted++;
        count_plan(tally, p);
        if (!oracle_executes(t, p, (unsigned)rand(), 12, what, sizeof what)) {
            show(t, p);
            fail_msg("seed %u: after \"%s\" the checker accepts what executes wrong: %s", seed, e->name,
                     what);
        }
        if (draft_draw(8) < e->keep)
            *d = next;
    } else {
        e->refused++;
        assert_true(why[0]);
        if (strstr(why, ": step ")) /* refused by the walk: its indices are good */
            e->confirmed += !oracle_executes(t, p, (unsigned)rand(), 12, what, sizeof what);
        else if (getenv("SHOW_REFUSALS"))
            print_message("%s\n", why);
    }
    ebb_plan_delete(p);
}

static void grow_and_break(unsigned seed, uint32_t streams, tally_t *tally)
{
    static draft_t d;
    char why[300] = "";
    srand(seed);
    ebb_trace_t *t = draft_trace(streams);
    draft_begin(&d, t);
    ebb_plan_t *p = draft_build(&d, t);
    if (!ebb_check_plan(t, p, &plenty, why, sizeof why))
        fail_msg("seed %u, %u streams: keeping everything is refused: %s", seed, streams, why);
    ebb_plan_delete(p);
    for (int i = 0; i < EDITS; i++)
        try_edit(&d, t, seed, tally);
    ebb_trace_delete(t);
}

static tally_t grow_and_break_all(uint32_t most_streams, unsigned cases)
{
    tally_t tally = {0};
    unsigned base = getenv("EBB_TEST_SEED") ? (unsigned)atoi(getenv("EBB_TEST_SEED")) : 1, accepted = 0,
             refused = 0, confirmed = 0;
    print_message("seeds %u to %u\n", base, base + cases - 1);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        edits[i].accepted = edits[i].refused = edits[i].confirmed = 0;
    for (unsigned seed = base; seed < base + cases; seed++)
        grow_and_break(seed, most_streams > 1 ? 2 + seed % (most_streams - 1) : 1, &tally);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const edit_t *e = &edits[i];
        print_message("%-26s %6u accepted %6u refused, %6u of them seen to go wrong\n", e->name, e->accepted,
                      e->refused, e->confirmed);
        accepted += e->accepted;
        refused += e->refused;
        confirmed += e->confirmed;
    }
    print_message("in %u accepted plans: %u evicts, %u fetches, %u discards, %u replays, %u redirections, %u "
                  "shared chunks, %u orders, %u frees put off\n",
                  tally.plans, tally.evicts, tally.fetches, tally.discards, tally.replays, tally.redirects,
                  tally.shared, tally.orders, tally.late);
    assert_true(accepted > 1000 && refused > 1000 && confirmed > refused / 4);
    assert_true(tally.evicts > 1000 && tally.fetches > 1000 && tally.discards > 500 && tally.replays > 500);
    assert_true(tally.redirects > 100 && tally.shared > 1000 && tally.late > 1000);
    return tally;
}

static void accepted_plans_execute_right(void **state)
{
    (void)state;
    grow_and_break_all(1, test_is_long() ? CASES : CASES / 2);
}

static void accepted_plans_of_several_streams_execute_right(void **state)
{
    (void)state;
    assert_true(grow_and_break_all(MOST_STREAMS, CASES_ON_STREAMS).orders > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_plans_execute_right),
        cmocka_unit_test(accepted_plans_of_several_streams_execute_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
