/* plan_oracle.c: executing a plan; see plan_oracle.h. */
#include "plan_oracle_parts.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t oracle_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 29;
    return x * UINT64_C(0x94d049bb133111eb) + 1;
}

bool oracle_wrong(oracle_t *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(o->what, o->what_bytes, format, args);
    va_end(args);
    return false;
}

void *oracle_room(size_t count, size_t size)
{
    void *p = calloc(count + 1, size);
    if (!p)
        abort();
    return p;
}

bool oracle_is_large(const oracle_t *o, uint32_t b)
{
    return o->trace->buffer[b].bytes > o->trace->chunk_bytes / 2;
}

bool oracle_outlives(const oracle_t *o, uint32_t b)
{
    return o->trace->buffer[b].born == EBB_NONE;
}

/* ---- from step to step ---- */

uint32_t oracle_place(const oracle_t *o, uint32_t step, uint32_t place)
{
    const uint32_t buffers = o->trace->buffer_count;
    return place < buffers ? o->at[(size_t)step * buffers + place] : place;
}

void oracle_pass_on(const oracle_t *o, void *item, size_t bytes)
{
    const ebb_trace_t *t = o->trace;
    char *old = oracle_room(t->buffer_count, bytes), *now = item;
    memcpy(old, now, t->buffer_count * bytes);
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (ebb_trace_next(t, b) != EBB_NONE)
            memcpy(now + ebb_trace_next(t, b) * bytes, old + b * bytes, bytes);
    free(old);
}

/* Who is born to outlive the step gets what is left over: the place of him who has died at the end of his line. */
static void find_places(oracle_t *o)
{
    const ebb_trace_t *t = o->trace;
    const uint32_t n = t->buffer_count;
    o->at = oracle_room((size_t)(STEPS + 1) * n, sizeof *o->at);
    for (uint32_t b = 0; b < n; b++)
        o->at[b] = b;
    for (uint32_t s = 1; s <= STEPS; s++) {
        uint32_t *at = o->at + (size_t)s * n;
        memcpy(at, at - n, n * sizeof *at);
        oracle_pass_on(o, at, sizeof *at);
        for (uint32_t b = 0; b < n; b++) {
            uint32_t last = b;
            if (t->buffer[b].born == EBB_NONE || t->buffer[b].dies != EBB_NONE ||
                ebb_trace_next(t, b) == EBB_NONE)
                continue;
            while (t->buffer[last].dies == EBB_NONE)
                last = ebb_trace_next(t, last);
            at[b] = (at - n)[last];
        }
    }
}

/* ---- without a plan ---- */

static void list_uses(oracle_t *o)
{
    const ebb_trace_t *t = o->trace;
    bool *written = oracle_room(t->buffer_count, 1);
    uint32_t n = 0;
    o->use = oracle_room(t->access_count, sizeof *o->use);
    o->first_use = oracle_room(t->operation_count + 1, sizeof *o->first_use);
    for (uint32_t b = 0; b < t->buffer_count; b++)
        written[b] = oracle_outlives(o, b);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *op = &t->operation[i];
        o->first_use[i] = n;
        for (uint32_t k = 0; k < op->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[op->first_access + k];
            bool listed = false;
            for (uint32_t u = o->first_use[i]; u < n; u++)
                listed |= o->use[u].buffer == a->buffer;
            if (!listed)
                o->use[n++] = (use_t){a->buffer, a->mode, written[a->buffer]};
        }
        for (uint32_t u = o->first_use[i]; u < n; u++)
            written[o->use[u].buffer] |= o->use[u].mode != EBB_READS;
    }
    o->first_use[t->operation_count] = n;
    free(written);
}

static void run_freely(oracle_t *o)
{
    const ebb_trace_t *t = o->trace;
    uint32_t buffers = t->buffer_count, uses = o->first_use[t->operation_count];
    uint64_t *value = oracle_room(buffers, sizeof *value);
    o->expected = oracle_room((size_t)STEPS * uses, sizeof *o->expected);
    o->kept = oracle_room((size_t)(STEPS + 1) * buffers, sizeof *o->kept);
    for (uint32_t b = 0; b < buffers; b++)
        value[b] = oracle_mix(7, b);
    for (uint32_t s = 0; s < STEPS; s++) {
        memcpy(o->kept + (size_t)s * buffers, value, buffers * sizeof *value);
        for (uint32_t i = 0; i < t->operation_count; i++) {
            uint64_t h = oracle_mix(s, i);
            for (uint32_t u = o->first_use[i]; u < o->first_use[i + 1]; u++) {
                const use_t *x = &o->use[u];
                uint64_t seen = x->defined ? value[x->buffer] : UNDEFINED;
                o->expected[(size_t)s * uses + u] = seen;
                if (x->mode != EBB_REPLACES)
                    h = oracle_mix(h, seen);
            }
            for (uint32_t u = o->first_use[i]; u < o->first_use[i + 1]; u++)
                if (o->use[u].mode != EBB_READS)
                    value[o->use[u].buffer] = oracle_mix(h, o->use[u].buffer);
        }
        oracle_pass_on(o, value, sizeof *value);
    }
    memcpy(o->kept + (size_t)STEPS * buffers, value, buffers * sizeof *value);
    free(value);
}

/* ---- memory ---- */

/* Cell `part` of a buffer that lies in a place; `place` is the buffer's own or where it is redirected. */
static cell_t *cell_of(oracle_t *o, uint32_t place, uint32_t part)
{
    const ebb_place_t *p = &o->plan->place[place];
    if (p->chunk_count)
        return &o->chunk[o->plan->chunk[p->first_chunk + part]];
    return p->small_offset == EBB_NONE ? &o->outliving[place]
                                       : &o->small[p->small_offset / SMALL_GRAIN + part];
}

static uint32_t parts_of(const oracle_t *o, uint32_t place, uint64_t bytes)
{
    const ebb_place_t *p = &o->plan->place[place];
    uint64_t unit = p->chunk_count ? o->plan->chunk_bytes : SMALL_GRAIN;
    return !p->chunk_count && p->small_offset == EBB_NONE ? 1 : (uint32_t)((bytes + unit - 1) / unit);
}

static uint64_t value_of(const cell_t *const *cells, uint32_t count)
{
    uint64_t sum = 0;
    bool whole = true;
    for (uint32_t i = 0; i < count; i++) {
        whole &= cells[i]->part == i && cells[i]->value == cells[0]->value;
        sum = oracle_mix(oracle_mix(sum, cells[i]->value), cells[i]->part);
    }
    return whole ? cells[0]->value : oracle_mix(sum, 99);
}

uint64_t oracle_read_value(oracle_t *o, uint32_t place, uint32_t buffer)
{
    uint32_t n = parts_of(o, place, o->trace->buffer[buffer].bytes);
    const cell_t **cells = oracle_room(n, sizeof *cells);
    for (uint32_t i = 0; i < n; i++)
        cells[i] = cell_of(o, place, i);
    uint64_t v = value_of(cells, n);
    free(cells);
    return v;
}

uint64_t oracle_read_host(oracle_t *o, uint32_t place)
{
    uint32_t n = o->plan->place[place].chunk_count ? o->plan->place[place].chunk_count : 1;
    const cell_t **cells = oracle_room(n, sizeof *cells);
    for (uint32_t i = 0; i < n; i++)
        cells[i] = &o->host[place][i];
    uint64_t v = value_of(cells, n);
    free(cells);
    return v;
}

uint32_t oracle_target_of(const oracle_t *o, const task_t *t, uint32_t buffer)
{
    for (uint32_t i = 0; t->action && i < t->action->redirect_count; i++)
        if (o->plan->redirect[t->action->first_redirect + i].buffer == buffer)
            return oracle_place(o, t->step, o->plan->redirect[t->action->first_redirect + i].place);
    return oracle_place(o, t->step, buffer);
}

static void fill_memory(oracle_t *o)
{
    const ebb_plan_t *p = o->plan;
    o->chunk = oracle_room(p->chunk_count, sizeof *o->chunk);
    o->small = oracle_room(p->small_bytes / SMALL_GRAIN, sizeof *o->small);
    o->outliving = oracle_room(p->buffer_count, sizeof *o->outliving);
    o->host = oracle_room(p->place_count, sizeof *o->host);
    for (uint32_t i = 0; i < p->place_count; i++) {
        uint32_t chunks = p->place[i].chunk_count;
        o->host[i] = oracle_room(chunks, sizeof **o->host);
        if (i >= p->buffer_count || !oracle_outlives(o, i))
            continue;
        cell_t first = {o->kept[i], 0};
        if (!oracle_is_large(o, i))
            *cell_of(o, i, 0) = first;
        else if (p->place[i].at_start == EBB_ON_HOST)
            o->host[i][0] = first; /* one without chunks, too */
        for (uint32_t k = 0; oracle_is_large(o, i) && k < chunks; k++)
            *(p->place[i].at_start == EBB_ON_HOST ? &o->host[i][k] : cell_of(o, i, k)) =
                (cell_t){o->kept[i], k};
    }
}

/* ---- what is issued ---- */

/* It may wait for one thing of each stream, and for so many more. */
static uint32_t add_task(oracle_t *o, task_t task, uint32_t most_after)
{
    if (o->task_count == o->task_room) {
        o->task_room = o->task_room ? 2 * o->task_room : 256;
        o->task = realloc(o->task, o->task_room * sizeof *o->task);
        if (!o->task)
            abort();
    }
    task.after = oracle_room(most_after + MOST_STREAMS, sizeof *task.after);
    o->task[o->task_count] = task;
    return o->task_count++;
}

static void add_after(oracle_t *o, uint32_t task, uint32_t plus_one)
{
    if (plus_one)
        o->task[task].after[o->task[task].after_count++] = plus_one - 1;
}

static void add_after_streams(oracle_t *o, uint32_t task, uint32_t streams)
{
    for (uint32_t s = 0; s < o->streams; s++)
        if (streams >> s & 1)
            add_after(o, task, o->newest[s]);
}

/* The stream waits for one thing, or for streams. */
static void issue_wait(oracle_t *o, uint32_t stream, uint32_t step, uint32_t plus_one, uint32_t streams)
{
    uint32_t id = add_task(o, (task_t){.stream = stream, .operation = EBB_NONE, .step = step}, 1);
    add_after(o, id, plus_one);
    add_after_streams(o, id, streams);
    o->newest[stream] = id + 1;
}

static void issue_action(oracle_t *o, uint32_t index, uint32_t step)
{
    const ebb_plan_t *p = o->plan;
    const ebb_action_t *a = &p->action[index];
    if (a->kind == EBB_ORDER)
        issue_wait(o, a->stream, step, 0, a->after);
    if (a->kind == EBB_DISCARD || a->kind == EBB_ORDER)
        return;
    task_t t = {.action = a, .step = step, .operation = a->operation};
    t.place = a->operation == EBB_NONE ? oracle_place(o, step, a->place) : EBB_NONE;
    t.stream = a->kind == EBB_EVICT ? o->streams : a->kind == EBB_FETCH ? o->streams + 1 : a->stream;
    uint32_t id = add_task(o, t, a->wait_count);
    add_after_streams(o, id, a->after);
    o->newest[t.stream] = id + 1;
    if (a->kind == EBB_REPLAY)
        return;
    for (uint32_t i = 0; i < a->wait_count; i++)
        add_after(o, id, o->last_of[p->wait[a->first_wait + i]]);
    o->last_of[index] = id + 1;
}

static void issue_joins(oracle_t *o, uint32_t operation, uint32_t step)
{
    for (uint32_t k = 0; k < o->plan->action_count; k++)
        for (uint32_t s = 0; s < o->streams; s++)
            if (o->plan->action[k].join == operation && o->last_of[k] && o->plan->action[k].joiners >> s & 1)
                issue_wait(o, s, step, o->last_of[k], 0);
}

/* The program's events at a point; one that is waited for before it is recorded in the step is long over. */
static void issue_moments(oracle_t *o, uint32_t *next, uint32_t point, uint32_t step)
{
    const ebb_trace_t *t = o->trace;
    for (; o->streams > 1 && *next < t->sync_count && t->sync[*next].before == point; (*next)++) {
        const ebb_trace_sync_t *m = &t->sync[*next];
        if (m->what == EBB_SYNC_RECORD)
            o->event[m->id] = o->newest[m->stream];
        else if (m->what == EBB_SYNC_WAIT && m->id < t->sync_count)
            issue_wait(o, m->stream, step, o->event[m->id], 0);
    }
}

static void issue_meeting(oracle_t *o, uint32_t step)
{
    if (o->streams == 1)
        return;
    issue_wait(o, 0, step, 0, UINT32_MAX);
    for (uint32_t s = 1; s < o->streams; s++)
        issue_wait(o, s, step, 0, 1);
}

static void issue_step(oracle_t *o, uint32_t step)
{
    const ebb_plan_t *p = o->plan;
    uint32_t next = 0, sync = 0;
    memset(o->event, 0, o->trace->sync_count * sizeof *o->event);
    issue_meeting(o, step);
    for (uint32_t i = 0; i <= p->operation_count; i++) {
        if (i < p->operation_count)
            issue_moments(o, &sync, i, step);
        while (next < p->action_count && p->action[next].point == i)
            issue_action(o, next++, step);
        if (i == p->operation_count)
            break;
        issue_joins(o, i, step);
        const uint32_t stream = o->trace->operation[i].stream;
        o->newest[stream] = 1 + add_task(o, (task_t){.stream = stream, .operation = i, .step = step}, 0);
    }
}

static void issue_all(oracle_t *o)
{
    o->last_of = oracle_room(o->plan->action_count, sizeof *o->last_of);
    o->spared = ebb_plan_spared(o->plan, o->trace);
    o->event = oracle_room(o->trace->sync_count, sizeof *o->event);
    for (uint32_t s = 0; s < STEPS; s++)
        issue_step(o, s);
}

/* ---- running ---- */

/* Before the launch: a replay's replaced places are zeroed, which plan.h leaves out where what is there cannot matter; then everything is read. */
static bool begin_launch(oracle_t *o, const task_t *t)
{
    uint32_t first = o->first_use[t->operation], end = o->first_use[t->operation + 1];
    for (uint32_t u = first; t->action && u < end; u++) {
        uint32_t place = oracle_target_of(o, t, o->use[u].buffer);
        if (o->use[u].mode == EBB_REPLACES)
            for (uint32_t k = 0; k < parts_of(o, place, o->plan->place[place].bytes); k++)
                *cell_of(o, place, k) = (cell_t){0, k};
    }
    o->result[t->stream] = oracle_mix(t->step, t->operation);
    if (t->action && !o->trace->operation[t->operation].proofs)
        o->result[t->stream] = oracle_mix(o->result[t->stream], ++o->nonce);
    for (uint32_t u = first; u < end; u++) {
        const use_t *x = &o->use[u];
        if (x->mode == EBB_REPLACES)
            continue;
        uint64_t seen = !t->action && !x->defined
                            ? UNDEFINED
                            : oracle_read_value(o, oracle_target_of(o, t, x->buffer), x->buffer);
        uint64_t expected = o->expected[(size_t)t->step * o->first_use[o->trace->operation_count] + u];
        if (!t->action && seen != expected)
            return oracle_wrong(o, "step %u: operation %u reads buffer %u wrong", t->step, t->operation,
                                x->buffer);
        o->result[t->stream] = oracle_mix(o->result[t->stream], seen);
    }
    return true;
}

uint32_t oracle_pieces_of(const oracle_t *o, const task_t *t)
{
    if (t->operation == EBB_NONE)
        return t->action ? o->plan->place[t->place].chunk_count : 1;
    return 1 + o->first_use[t->operation + 1] - o->first_use[t->operation];
}

bool oracle_run_piece(oracle_t *o, const task_t *t, uint32_t piece)
{
    if (t->operation == EBB_NONE && !t->action)
        return true;
    if (t->operation == EBB_NONE) {
        cell_t *device = cell_of(o, t->place, piece), *host = &o->host[t->place][piece];
        const bool out = t->action->kind == EBB_EVICT;
        if (out && t->step && o->spared && o->spared[t->action - o->plan->action])
            return true;
        *(out ? host : device) = *(out ? device : host);
        return true;
    }
    if (!piece)
        return begin_launch(o, t);
    const use_t *x = &o->use[o->first_use[t->operation] + piece - 1];
    uint32_t place = oracle_target_of(o, t, x->buffer);
    for (uint32_t k = 0; x->mode != EBB_READS && k < parts_of(o, place, o->trace->buffer[x->buffer].bytes);
         k++)
        *cell_of(o, place, k) = (cell_t){oracle_mix(o->result[t->stream], x->buffer), k};
    return true;
}

typedef struct queues {
    uint32_t *task[MOST_STREAMS], count[MOST_STREAMS], head[MOST_STREAMS];
    uint32_t done_pieces[MOST_STREAMS];
    bool *done;
    unsigned seed;
    uint32_t streams;
    int order[MOST_STREAMS]; /* who goes first, if not drawn */
    uint32_t stubborn;       /* of 8 draws, how many go by the order */
} queues_t;

static uint32_t draw(queues_t *q, uint32_t below)
{
    q->seed = q->seed * 1664525u + 1013904223u;
    return (q->seed >> 8) % below;
}

static bool is_ready(const oracle_t *o, const queues_t *q, int s)
{
    if (q->head[s] == q->count[s])
        return false;
    const task_t *t = &o->task[q->task[s][q->head[s]]];
    for (uint32_t i = 0; i < t->after_count; i++)
        if (!q->done[t->after[i]])
            return false;
    return true;
}

static int choose(const oracle_t *o, queues_t *q)
{
    int ready[MOST_STREAMS], n = 0;
    if (!draw(q, 40)) { /* now and then another order */
        int a = (int)draw(q, q->streams), b = (int)draw(q, q->streams), keep = q->order[a];
        q->order[a] = q->order[b];
        q->order[b] = keep;
    }
    for (uint32_t i = 0; i < q->streams; i++)
        if (is_ready(o, q, q->order[i]))
            ready[n++] = q->order[i];
    return !n ? NOWHERE : draw(q, 8) < q->stubborn ? ready[0] : ready[draw(q, (uint32_t)n)];
}

static bool run_tasks(oracle_t *o, unsigned seed)
{
    queues_t q = {.seed = seed * 2654435761u + 12345, .streams = o->streams + 2};
    bool good = true;
    q.stubborn = draw(&q, 3) * 4;
    q.done = oracle_room(o->task_count, 1);
    for (uint32_t s = 0; s < q.streams; s++) {
        q.order[s] = (int)s;
        q.task[s] = oracle_room(o->task_count, sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < o->task_count; i++)
        q.task[o->task[i].stream][q.count[o->task[i].stream]++] = i;
    for (int s; good && (s = choose(o, &q)) != NOWHERE;) {
        uint32_t id = q.task[s][q.head[s]];
        good = oracle_run_piece(o, &o->task[id], q.done_pieces[s]++);
        if (q.done_pieces[s] == oracle_pieces_of(o, &o->task[id])) {
            q.done[id] = true;
            q.head[s]++;
            q.done_pieces[s] = 0;
        }
    }
    for (uint32_t s = 0; s < q.streams; s++) {
        if (good && q.head[s] != q.count[s])
            good = oracle_wrong(o, "the streams wait for each other for ever");
        free(q.task[s]);
    }
    free(q.done);
    return good;
}

static bool compare_end(oracle_t *o)
{
    for (uint32_t b = 0; b < o->plan->buffer_count; b++) {
        uint64_t expected = o->kept[(size_t)STEPS * o->plan->buffer_count + b];
        if (!oracle_outlives(o, b))
            continue;
        bool on_host = oracle_is_large(o, b) && o->plan->place[b].at_start == EBB_ON_HOST;
        uint32_t place = oracle_place(o, STEPS, b);
        if ((on_host ? oracle_read_host(o, place) : oracle_read_value(o, place, b)) != expected)
            return oracle_wrong(o, "buffer %u is wrong after the last step", b);
    }
    return true;
}

void oracle_set_up(oracle_t *o)
{
    o->streams = ebb_plan_streams(o->trace);
    list_uses(o);
    find_places(o);
    run_freely(o);
    fill_memory(o);
}

void oracle_tear_down(oracle_t *o)
{
    for (uint32_t i = 0; i < o->task_count; i++)
        free(o->task[i].after);
    for (uint32_t i = 0; i < o->plan->place_count; i++)
        free(o->host[i]);
    free(o->use);
    free(o->first_use);
    free(o->expected);
    free(o->kept);
    free(o->at);
    free(o->chunk);
    free(o->small);
    free(o->outliving);
    free(o->host);
    free(o->task);
    free(o->last_of);
    free(o->spared);
    free(o->event);
}

bool oracle_run(const ebb_trace_t *trace, const ebb_plan_t *plan, unsigned seed, char *what,
                size_t what_bytes)
{
    oracle_t o = {.trace = trace, .plan = plan, .what = what, .what_bytes = what_bytes};
    oracle_set_up(&o);
    issue_all(&o);
    bool good = run_tasks(&o, seed) && compare_end(&o);
    oracle_tear_down(&o);
    return good;
}
