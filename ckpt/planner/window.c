/* window.c: see internal.h. The cheapest replays for a few operations in a row, by A* (Hart, Nilsson, Raphael: A formal basis for the heuristic
 * determination of minimum cost paths, 1968). A state is the next operation and what is resident. From there at least everything must be
 * replayed that is wanted later and is not there, with what that reads and is not there either: each once.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

enum { SLOTS = 1 << 17, STATES = SLOTS / 2 };

typedef struct state {
    uint64_t items, ns, rest_ns; /* rest: at least, up to the end */
    uint32_t parent;             /* EBB_NONE: the beginning */
    uint16_t at;                 /* the next operation */
    ebb_window_step_t step;      /* that leads here */
    bool done;
} state_t;

typedef struct entry {
    uint64_t ns; /* the whole window, at least */
    uint32_t state;
} entry_t;

/* Owns its arrays. */
typedef struct search {
    const ebb_exchange_window_t *window;
    state_t *state;
    entry_t *heap;
    uint32_t *slot; /* of states, by what they are; EBB_NONE */
    uint32_t state_count, state_room, heap_count, heap_room, most;
    uint64_t below_ns; /* only less is of use */
    bool failed;
} search_t;

static bool comes_first(const search_t *s, const entry_t *a, const entry_t *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    return s->state[a->state].at > s->state[b->state].at; /* of equal ones, what is nearer to the end */
}

static void push(search_t *s, uint32_t state)
{
    const entry_t now = {s->state[state].ns + s->state[state].rest_ns, state};
    if (!ebb_array_append((void **)&s->heap, &s->heap_count, &s->heap_room, sizeof *s->heap)) {
        s->failed = true;
        return;
    }
    uint32_t at = s->heap_count - 1;
    for (; at && comes_first(s, &now, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = now;
}

static uint32_t pop(search_t *s)
{
    const entry_t first = s->heap[0], last = s->heap[--s->heap_count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < s->heap_count; at = child) {
        child += child + 1 < s->heap_count && comes_first(s, &s->heap[child + 1], &s->heap[child]);
        if (!comes_first(s, &s->heap[child], &last))
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return first.state;
}

/* What cannot be had any more from a state: UINT64_MAX. */
static uint64_t rest_of(const ebb_exchange_window_t *w, uint32_t at, uint64_t items)
{
    uint64_t missing = w->wanted[at] & ~items & w->made[at], seen = missing, ns = 0;
    while (missing) {
        const uint32_t replay = w->replay_of[__builtin_ctzll(missing)];
        if (replay == EBB_NONE || at > w->replay[replay].until)
            return UINT64_MAX;
        ns += w->replay[replay].ns;
        seen |= w->replay[replay].out; /* one replay makes all of them */
        missing &= ~w->replay[replay].out;
        missing |= w->replay[replay].in & ~items & ~seen;
        seen |= w->replay[replay].in;
    }
    return ns;
}

static uint32_t chunks_of(const ebb_exchange_window_t *w, uint64_t items)
{
    uint32_t chunks = 0;
    for (; items; items &= items - 1)
        chunks += w->chunks[__builtin_ctzll(items)];
    return chunks;
}

static uint32_t *slot_of(const search_t *s, uint32_t at, uint64_t items)
{
    uint64_t hash = (items + at * UINT64_C(0x632BE59BD9B4E019)) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t slot = (uint32_t)(hash >> 32) % SLOTS;
    while (s->slot[slot] != EBB_NONE &&
           (s->state[s->slot[slot]].items != items || s->state[s->slot[slot]].at != at))
        slot = (slot + 1) % SLOTS;
    return &s->slot[slot];
}

static void reach(search_t *s, uint32_t parent, uint32_t at, uint64_t items, uint64_t ns,
                  ebb_window_step_t step)
{
    uint32_t *slot = slot_of(s, at, items);
    if (*slot == EBB_NONE) {
        const uint64_t rest_ns = rest_of(s->window, at, items);
        if (rest_ns == UINT64_MAX || (at == s->window->length && items & ~s->window->wanted[at]) ||
            ns + rest_ns >= s->below_ns || s->failed)
            return;
        if (s->state_count == s->most ||
            !ebb_array_append((void **)&s->state, &s->state_count, &s->state_room, sizeof *s->state)) {
            s->failed = true;
            return;
        }
        *slot = s->state_count - 1;
        s->state[*slot] = (state_t){.items = items, .ns = UINT64_MAX, .rest_ns = rest_ns, .at = (uint16_t)at};
    }
    state_t *state = &s->state[*slot];
    if (state->done || state->ns <= ns || ns + state->rest_ns >= s->below_ns)
        return;
    state->ns = ns;
    state->parent = parent;
    state->step = step;
    push(s, *slot);
}

/* All that can come next. Nothing is given up as long as all of it fits. */
static void expand(search_t *s, uint32_t from)
{
    const ebb_exchange_window_t *w = s->window;
    const state_t now = s->state[from];
    const uint32_t at = now.at, held = chunks_of(w, now.items);
    const ebb_window_operation_t *o = &w->operation[at];
    bool all_fit = true;
    if (!(o->in & ~now.items)) {
        if (held + chunks_of(w, o->out & ~now.items) <= o->room)
            reach(s, from, at + 1, (now.items | o->out) & ~w->useless[at + 1], now.ns,
                  (ebb_window_step_t){EBB_WINDOW_OPERATION, (uint16_t)at});
        else
            all_fit = false;
    }
    for (uint32_t i = 0; i < w->replay_count; i++) {
        const ebb_window_replay_t *r = &w->replay[i];
        if (at < r->from || at > r->until || (r->in & ~now.items) || !(r->out & ~now.items & ~w->useless[at]))
            continue;
        if (held + chunks_of(w, r->out) + r->beside <= o->room_before)
            reach(s, from, at, (now.items | r->out) & ~w->useless[at], now.ns + r->ns,
                  (ebb_window_step_t){EBB_WINDOW_REPLAY, (uint16_t)i});
        else
            all_fit = false;
    }
    for (uint64_t left = all_fit ? 0 : now.items & o->may_go; left; left &= left - 1)
        reach(s, from, at, now.items & ~(left & -left), now.ns,
              (ebb_window_step_t){EBB_WINDOW_DROP, (uint16_t)__builtin_ctzll(left)});
}

/* The steps that lead to a state, into window->step. */
static bool tell(search_t *s, ebb_exchange_window_t *w, uint32_t state)
{
    uint32_t count = 0;
    for (uint32_t i = state; s->state[i].parent != EBB_NONE; i = s->state[i].parent)
        count++;
    w->step = malloc(((size_t)count + 1) * sizeof *w->step);
    w->step_count = w->step ? count : 0;
    for (uint32_t i = state; w->step && count; i = s->state[i].parent)
        w->step[--count] = s->state[i].step;
    return w->step;
}

uint64_t ebb_window_search(ebb_exchange_window_t *w, uint64_t below_ns, uint32_t *states, bool *enough)
{
    search_t s = {.window = w, .below_ns = below_ns, .most = *states < STATES ? *states : STATES};
    uint64_t ns = UINT64_MAX;
    s.slot = malloc(SLOTS * sizeof *s.slot);
    s.failed = !s.slot;
    if (s.slot) {
        memset(s.slot, 0xff, SLOTS * sizeof *s.slot);
        reach(&s, EBB_NONE, 0, w->begin & ~w->useless[0], 0, (ebb_window_step_t){0});
    }
    while (s.heap_count && !s.failed && ns == UINT64_MAX) {
        const uint32_t next = pop(&s);
        if (s.state[next].done)
            continue;
        s.state[next].done = true;
        if (s.state[next].at < w->length)
            expand(&s, next);
        else if (tell(&s, w, next)) /* with all that is wanted at the end: nothing can be replayed there */
            ns = s.state[next].ns;
        else
            s.failed = true;
    }
    *states -= s.state_count;
    *enough = !s.failed;
    free(s.state);
    free(s.heap);
    free(s.slot);
    return ns;
}
