/* stages.c: passes by the memory that is alive, borders by the data that goes over. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"

enum { LONGEST_STAGE = 64 }; /* operations, as far as a border between two thinner ones is passed over */

static uint64_t bytes_of(const ebb_model_t *m, uint32_t buffer)
{
    return m->trace->buffer[buffer].bytes;
}

/* ---- passes ---- */

static bool add_pass(ebb_stages_t *s, uint32_t begin, uint32_t peak)
{
    ebb_pass_t *p = ebb_array_append((void **)&s->pass, &s->pass_count, &s->pass_room, sizeof *p);
    if (!p)
        return false;
    if (s->pass_count > 1)
        s->pass[s->pass_count - 2].end = begin;
    *p = (ebb_pass_t){.begin = begin, .peak = peak};
    return true;
}

/* Bytes born in the step that are alive at each operation. */
static void alive_at(const ebb_model_t *m, uint64_t *alive)
{
    const ebb_trace_t *t = m->trace;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (!m->buffer[i].persistent && t->buffer[i].dies > t->buffer[i].born) {
            alive[t->buffer[i].born] += bytes_of(m, i);
            alive[t->buffer[i].dies] -= bytes_of(m, i); /* differences, modulo 2^64 */
        }
    for (uint32_t i = 1; i <= t->operation_count; i++)
        alive[i] += alive[i - 1];
}

/* A pass is over when half of what has been alive at most in the step is gone from its peak, and the next one is there when as
 * much has come again. */
static bool find_passes(ebb_stages_t *s, const ebb_model_t *m, uint64_t *alive)
{
    const uint32_t n = m->trace->operation_count;
    uint64_t most = 0;
    uint32_t low = 0, high = 0;
    bool falling = false;
    alive_at(m, alive);
    for (uint32_t i = 0; i < n; i++)
        most = alive[i] > most ? alive[i] : most;
    for (uint32_t i = 0; i <= n; i++) {
        if (falling && alive[i] < alive[low])
            low = i;
        if (falling && alive[i] - alive[low] > most / 2) {
            falling = false;
            high = i;
        }
        if (falling)
            continue;
        high = alive[i] > alive[high] || high < low ? i : high;
        if (alive[high] - alive[i] <= most / 2)
            continue;
        if (!add_pass(s, s->pass_count ? low : 0, high))
            return false;
        falling = true;
        low = i;
    }
    if (s->pass_count)
        s->pass[s->pass_count - 1].end = n;
    for (uint32_t i = 0; i < n; i++)
        s->pass_of[i] = s->stage_of[i] = EBB_NONE;
    for (uint32_t p = 0; p < s->pass_count; p++)
        for (uint32_t i = s->pass[p].begin; i < s->pass[p].end; i++)
            s->pass_of[i] = p;
    return true;
}

/* ---- what goes over ---- */

/* The last operation in the content's forward that reads it, else the one that makes it. */
static uint32_t last_forward_use(const ebb_stages_t *s, const ebb_model_t *m, uint32_t content)
{
    const ebb_content_t *c = &m->content[content];
    const ebb_model_buffer_t *b = &m->buffer[c->buffer];
    const uint32_t peak = s->pass[s->pass_of[c->producer]].peak;
    uint32_t last = c->producer;
    for (uint32_t i = b->first_use; i < b->first_use + b->use_count && m->use[i].operation < peak; i++)
        if (m->use[i].before == content && m->use[i].mode != EBB_REPLACES)
            last = m->use[i].operation;
    return last;
}

static bool is_of_forward(const ebb_stages_t *s, const ebb_model_t *m, uint32_t content)
{
    const ebb_content_t *c = &m->content[content];
    return c->producer != EBB_NONE && !m->buffer[c->buffer].persistent &&
           s->pass_of[c->producer] != EBB_NONE && !ebb_stages_is_backward(s, c->producer);
}

/* Bytes that go over the point before each operation, those of small buffers too. */
static void flow(const ebb_stages_t *s, const ebb_model_t *m, uint64_t *over)
{
    for (uint32_t i = 0; i < m->content_count; i++)
        if (is_of_forward(s, m, i)) {
            over[m->content[i].producer + 1] += bytes_of(m, m->content[i].buffer);
            over[last_forward_use(s, m, i) + 1] -= bytes_of(m, m->content[i].buffer);
        }
    for (uint32_t i = 1; i <= m->trace->operation_count; i++)
        over[i] += over[i - 1];
}

static bool is_read_in_backward(const ebb_stages_t *s, const ebb_model_t *m, uint32_t content)
{
    const ebb_model_buffer_t *b = &m->buffer[m->content[content].buffer];
    for (uint32_t i = b->first_use; i < b->first_use + b->use_count; i++)
        if (m->use[i].before == content && m->use[i].mode != EBB_REPLACES &&
            ebb_stages_is_backward(s, m->use[i].operation))
            return true;
    return false;
}

/* Bytes that each operation saves. */
static void find_saved(const ebb_stages_t *s, const ebb_model_t *m, uint64_t *saved)
{
    for (uint32_t i = 0; i < m->content_count; i++)
        if (is_of_forward(s, m, i) && m->buffer[m->content[i].buffer].chunks && is_read_in_backward(s, m, i))
            saved[m->content[i].producer] += bytes_of(m, m->content[i].buffer);
}

/* ---- borders ---- */

static bool ranges_change(const ebb_trace_t *t, uint32_t point)
{
    return strcmp(ebb_trace_nvtx(t, &t->operation[point - 1]), ebb_trace_nvtx(t, &t->operation[point])) != 0;
}

static bool is_named(const ebb_trace_t *t, const ebb_pass_t *p)
{
    uint32_t changes = 0;
    for (uint32_t i = p->begin + 1; i < p->peak; i++)
        changes += ranges_change(t, i);
    return changes > 2;
}

/* Points at which no less goes over than at one on either side that is not far: twice as thick is no border. */
static uint32_t thin_out(const uint64_t *over, uint32_t *at, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t left = kept, right = i + 1;
        while (left && over[at[left - 1]] * 5 >= over[at[i]] * 4)
            left--;
        while (right < count && over[at[right]] * 5 >= over[at[i]] * 4)
            right++;
        if (left && right < count && at[right] - at[left - 1] <= LONGEST_STAGE)
            continue;
        at[kept++] = at[i];
    }
    return kept;
}

/* What saves nothing is no stage of its own: it belongs to the next one. */
static uint32_t join_empty(const ebb_pass_t *p, const uint64_t *saved, uint32_t *at, uint32_t count)
{
    uint32_t kept = 0, from = p->begin;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        for (; from < at[i]; from++)
            bytes += saved[from];
        if (bytes)
            at[kept++] = at[i];
    }
    return kept;
}

/* The borders of a pass, into `at`; their number. */
static uint32_t find_borders(const ebb_model_t *m, const ebb_pass_t *p, const uint64_t *over,
                             const uint64_t *saved, uint32_t *at)
{
    const bool named = is_named(m->trace, p);
    uint32_t count = 0;
    for (uint32_t i = p->begin + 1; i < p->peak; i++) {
        const bool thicker_before = i == p->begin + 1 || over[i - 1] >= over[i],
                   thicker_behind = i + 1 == p->peak || over[i + 1] >= over[i];
        if (over[i] && (named ? ranges_change(m->trace, i) : thicker_before && thicker_behind))
            at[count++] = i;
    }
    return join_empty(p, saved, at, thin_out(over, at, count));
}

/* Keeps the thinnest points; of those that are equal, one in so many. `sorted`: memory for their thicknesses. */
static uint32_t keep_thinnest(const uint64_t *over, uint32_t *at, uint32_t count, uint32_t most,
                              uint64_t *sorted)
{
    uint32_t kept = 0, thinner = 0, equal = 0, passed = 0;
    if (count <= most)
        return count;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = over[at[i]];
    qsort(sorted, count, sizeof *sorted, ebb_by_number);
    const uint64_t thickest = sorted[most];
    for (uint32_t i = 0; i < count; i++) {
        thinner += over[at[i]] < thickest;
        equal += over[at[i]] == thickest;
    }
    const uint32_t each = most > thinner ? (equal + most - thinner - 1) / (most - thinner) : count + 1;
    for (uint32_t i = 0; i < count; i++)
        if (over[at[i]] < thickest || (over[at[i]] == thickest && ++passed % each == 0))
            at[kept++] = at[i];
    return kept;
}

/* Every point of a pass that something goes over, of those that have saved something since the one before; or the thinnest. */
static uint32_t find_points(const ebb_pass_t *p, const uint64_t *over, const uint64_t *saved, uint32_t *at,
                            uint32_t most, uint64_t *sorted)
{
    uint32_t count = 0;
    for (uint32_t i = p->begin + 1; i < p->peak; i++)
        if (over[i])
            at[count++] = i;
    return keep_thinnest(over, at, join_empty(p, saved, at, count), most, sorted);
}

/* `most`: borders; 0: as they are found. */
static void number_stages(ebb_stages_t *s, const ebb_model_t *m, const uint64_t *over, const uint64_t *saved,
                          uint32_t *at, uint32_t most, uint64_t *sorted)
{
    for (uint32_t i = 0; i < s->pass_count; i++) {
        ebb_pass_t *p = &s->pass[i];
        const uint32_t borders =
            most ? find_points(p, over, saved, at, most, sorted) : find_borders(m, p, over, saved, at);
        p->first_stage = s->stage_count;
        p->stage_count = borders + 1;
        for (uint32_t k = p->begin, b = 0; k < p->peak; k++) {
            if (b < borders && at[b] == k)
                s->border[p->first_stage + ++b] = over[k];
            s->stage_of[k] = p->first_stage + b;
            s->saved[p->first_stage + b] += saved[k];
        }
        s->stage_count += p->stage_count;
    }
}

/* Backward reverses one stage after another: that of what an operation reads from forward; of several the earliest. */
static void number_backward(ebb_stages_t *s, const ebb_model_t *m)
{
    for (uint32_t i = 0; i < s->pass_count; i++) {
        const ebb_pass_t *p = &s->pass[i];
        uint32_t now = p->first_stage + p->stage_count - 1;
        for (uint32_t k = p->peak; k < p->end; k++) {
            for (uint32_t x = m->first_touch[k]; x < m->first_touch[k + 1]; x++) {
                const uint32_t content = m->touch[x].before;
                if (m->touch[x].mode != EBB_REPLACES && s->far[content] != EBB_NONE &&
                    s->far[content] < now && s->far[content] >= p->first_stage)
                    now = s->far[content];
            }
            s->stage_of[k] = now;
        }
    }
}

static void find_homes(ebb_stages_t *s, const ebb_model_t *m)
{
    for (uint32_t i = 0; i < m->content_count; i++) {
        s->home[i] = s->far[i] = EBB_NONE;
        if (!is_of_forward(s, m, i) || !m->buffer[m->content[i].buffer].chunks)
            continue;
        s->home[i] = s->stage_of[m->content[i].producer];
        s->far[i] = s->stage_of[last_forward_use(s, m, i)];
    }
}

static bool find_stages(ebb_stages_t *s, const ebb_model_t *m, uint32_t most)
{
    const size_t n = (size_t)m->trace->operation_count + 2;
    *s = (ebb_stages_t){.stage_of = calloc(n, sizeof *s->stage_of), .pass_of = calloc(n, sizeof *s->pass_of)};
    s->home = calloc((size_t)m->content_count + 1, sizeof *s->home);
    s->far = calloc((size_t)m->content_count + 1, sizeof *s->far);
    s->border = calloc(n, sizeof *s->border);
    s->saved = calloc(n, sizeof *s->saved);
    uint64_t *alive = calloc(n, sizeof *alive) /* later: what is saved */, *over = calloc(n, sizeof *over),
             *sorted = calloc(n, sizeof *sorted);
    uint32_t *at = calloc(n, sizeof *at);
    bool good = s->stage_of && s->pass_of && s->home && s->far && s->border && s->saved && alive && over &&
                sorted && at && find_passes(s, m, alive);
    if (good) {
        flow(s, m, over);
        memset(alive, 0, n * sizeof *alive);
        find_saved(s, m, alive);
        number_stages(s, m, over, alive, at, most, sorted);
        find_homes(s, m);
        number_backward(s, m);
    }
    free(alive);
    free(over);
    free(sorted);
    free(at);
    if (!good)
        ebb_stages_delete(s);
    return good;
}

bool ebb_stages_find(ebb_stages_t *s, const ebb_model_t *m)
{
    return find_stages(s, m, 0);
}

bool ebb_stages_split(ebb_stages_t *s, const ebb_model_t *m, uint32_t most)
{
    return find_stages(s, m, most - 1);
}

void ebb_stages_delete(ebb_stages_t *s)
{
    free(s->pass);
    free(s->stage_of);
    free(s->pass_of);
    free(s->home);
    free(s->far);
    free(s->border);
    free(s->saved);
    *s = (ebb_stages_t){0};
}
