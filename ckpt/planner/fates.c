/* fates.c: which checkpoints each strategy holds, and what meets what is not held. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

/* For the dynamic program: its time goes with the third power of the stages of a pass. */
enum { STAGES = 96 };

/* ---- segments ---- */

/* Cuts a pass after each stage with which a segment would hold more than `most` bytes; into `segment` if it is given. The
 * number of bytes that all checkpoints hold. */
static uint64_t cut_by_bytes(const ebb_stages_t *s, const ebb_pass_t *p, uint64_t most, uint32_t *segment,
                             uint32_t *largest)
{
    uint64_t held = 0, now = 0, top = 0;
    uint32_t number = 0;
    for (uint32_t k = p->first_stage; k < p->first_stage + p->stage_count; k++) {
        if (k > p->first_stage && now + s->saved[k] > most) {
            number++;
            held += s->border[k];
            now = 0;
        }
        now += s->saved[k];
        top = now > top ? now : top;
        if (segment)
            segment[k] = number;
    }
    *largest = number + 1;
    return held + top;
}

/* The segments of a pass whose checkpoints and largest segment together take least; of equal ones the fewest. */
static uint32_t cut_best(const ebb_stages_t *s, const ebb_pass_t *p, uint32_t *segment)
{
    uint64_t all = 0, least = UINT64_MAX, chosen = 0;
    uint32_t segments;
    for (uint32_t k = p->first_stage; k < p->first_stage + p->stage_count; k++)
        all += s->saved[k];
    for (uint32_t count = 1; count <= p->stage_count; count++) {
        const uint64_t most = all / count + (all % count != 0),
                       bytes = cut_by_bytes(s, p, most, NULL, &segments);
        if (bytes < least) {
            least = bytes;
            chosen = most;
        }
    }
    cut_by_bytes(s, p, chosen, segment, &segments);
    return segments;
}

/* What is known of a border, and of the stage behind it; in `checkpoints`, which is not needed yet. */
enum { GOES_OVER = 1, IS_HELD = 2, DROPS_INSIDE = 4 };

static void look_at_borders(ebb_fates_t *f)
{
    const ebb_stages_t *s = &f->stages;
    for (uint32_t i = 0; i < f->model->content_count; i++) {
        const bool dropped = f->fate[i] == EBB_DROP;
        if (s->home[i] == EBB_NONE)
            continue;
        f->checkpoints[s->home[i]] |= s->home[i] == s->far[i] && dropped ? DROPS_INSIDE : 0;
        for (uint32_t k = s->home[i] + 1; k <= s->far[i]; k++)
            f->checkpoints[k] |= dropped ? GOES_OVER : GOES_OVER | IS_HELD;
    }
}

/* So many borders from this one on need be no checkpoints: all that goes over them is named, and the stage in front has nothing else
 * that is dropped, so that it would save all that it makes. */
static uint32_t row_of_named(const ebb_fates_t *f, const ebb_pass_t *p, uint32_t from)
{
    uint32_t to = from;
    while (to < p->stage_count &&
           (f->checkpoints[p->first_stage + to] & (GOES_OVER | IS_HELD)) == GOES_OVER &&
           !(f->checkpoints[p->first_stage + to - 1] & DROPS_INSIDE))
        to++;
    return to - from;
}

/* Of such borders in a row the root of their number stay. */
static uint32_t cut_by_names(ebb_fates_t *f, const ebb_pass_t *p)
{
    uint32_t number = 0, root = 1;
    for (uint32_t k = 1; k < p->stage_count;) {
        const uint32_t row = row_of_named(f, p, k);
        if (!row)
            f->segment[p->first_stage + k++] = ++number;
        for (root = 1; root * root < row;)
            root++;
        for (uint32_t i = 1; i <= row; i++)
            f->segment[p->first_stage + k++] = number += i % (root + 1) == 0;
    }
    return number + 1;
}

static void find_segments(ebb_fates_t *f)
{
    const ebb_stages_t *s = &f->stages;
    for (uint32_t i = 0; i < s->pass_count; i++) {
        const ebb_pass_t *p = &s->pass[i];
        const uint32_t first = f->segments;
        const bool cut = f->strategy == EBB_POLICY_SQRT || f->names;
        if (cut)
            f->segments += f->names ? cut_by_names(f, p) : cut_best(s, p, f->segment);
        for (uint32_t k = 0; k < p->stage_count; k++) {
            uint32_t *segment = &f->segment[p->first_stage + k];
            *segment = first + (cut ? *segment : f->strategy == EBB_POLICY_UNIFORM ? k / f->number : k);
            if (!cut && k + 1 == p->stage_count)
                f->segments = *segment + 1;
        }
    }
}

/* ---- checkpoints ---- */

/* Binomials that do not fit are as large as can be. */
static uint64_t binomial(uint64_t n, uint64_t k)
{
    uint64_t b = 1;
    for (uint64_t i = 1; i <= k; i++) {
        if (b > (UINT64_C(1) << 40))
            return b;
        b = b * (n - k + i) / i;
    }
    return b;
}

uint64_t ebb_revolve_cost(uint32_t length, uint32_t checkpoints)
{
    uint64_t rounds = 0;
    while (binomial(checkpoints + rounds, rounds) < length)
        rounds++;
    return rounds ? rounds * length - binomial(checkpoints + rounds, rounds - 1) : 0;
}

/* Where the next checkpoint goes that makes reversing `length` stages cheapest. In what is behind it, every stage may be gone
 * through as often as in all of them; in what is in front of it, once less. */
static uint32_t revolve_split(uint32_t length, uint32_t checkpoints)
{
    uint64_t rounds = 0;
    while (binomial(checkpoints + rounds, rounds) < length)
        rounds++;
    const uint64_t behind = rounds ? binomial(checkpoints - 1 + rounds, rounds) : 1,
                   least = rounds > 1 ? binomial(checkpoints + rounds - 2, rounds - 2) : 1;
    const uint64_t at = length > behind ? length - behind : 1;
    return (uint32_t)(at > least ? at : least);
}

/* The checkpoints while stage `k` of `n` is reversed: held[c] for the border in front of stage c. */
static void hold_nested(const ebb_fates_t *f, uint32_t n, uint32_t k, uint32_t *held)
{
    uint32_t low = 0, high = n, left = f->number;
    while (high - low > 1 && (f->strategy == EBB_POLICY_RECURSIVE || left > 1)) {
        const uint32_t middle =
            low + (f->strategy == EBB_POLICY_RECURSIVE ? (high - low) / 2 : revolve_split(high - low, left));
        if (k < middle) {
            high = middle;
            continue;
        }
        held[middle] = 1;
        low = middle;
        left--;
    }
}

static void find_checkpoints(ebb_fates_t *f, const ebb_pass_t *p)
{
    uint32_t *held = f->checkpoints + p->first_stage;
    memset(f->checkpoints, 0, f->stages.stage_count * sizeof *held);
    if (f->strategy == EBB_POLICY_AUTO) {
        memset(f->kept, 0, f->stages.stage_count);
        ebb_reversal_hold(&f->reversal, (uint32_t)(p - f->stages.pass), f->chunks, f->stage - p->first_stage,
                          held, f->kept + p->first_stage);
    } else if (f->strategy == EBB_POLICY_RECURSIVE || f->strategy == EBB_POLICY_REVOLVE)
        hold_nested(f, p->stage_count, f->stage - p->first_stage, held);
    else
        for (uint32_t k = 1; k < p->stage_count; k++)
            held[k] = f->segment[p->first_stage + k] != f->segment[p->first_stage + k - 1];
    for (uint32_t k = 1; k < f->stages.stage_count; k++)
        f->checkpoints[k] += f->checkpoints[k - 1];
}

/* ---- what becomes of a content ---- */

static bool is_named(const char *names, const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    for (const char *at = names; *at; at += strspn(at, ",")) {
        char name[EBB_TRACE_NAME];
        size_t length = strcspn(at, ",");
        if (length && length < sizeof name) {
            memcpy(name, at, length);
            name[length] = 0;
            if (strstr(o->name, name) || strstr(ebb_trace_nvtx(t, o), name))
                return true;
        }
        at += length;
    }
    return false;
}

/* Time a byte of what a forward saves, all together. */
static double mean_price(const ebb_fates_t *f)
{
    double ns = 0, bytes = 0;
    for (uint32_t i = 0; i < f->model->content_count; i++)
        if (f->stages.home[i] != EBB_NONE) {
            ns += (double)f->model->content[i].cost_ns;
            bytes += (double)f->model->trace->buffer[f->model->content[i].buffer].bytes;
        }
    return bytes > 0 ? ns / bytes : 0;
}

static ebb_fate_t fate_of(const ebb_fates_t *f, uint32_t content, double price)
{
    const ebb_content_t *c = &f->model->content[content];
    const ebb_trace_t *t = f->model->trace;
    if (f->stages.home[content] == EBB_NONE || !f->model->buffer[c->buffer].movable ||
        f->strategy == EBB_POLICY_KEEP)
        return EBB_KEEP;
    if (f->strategy == EBB_POLICY_OFFLOAD)
        return f->model->request->offload ? EBB_OFFLOAD : EBB_KEEP;
    if (!f->model->request->recompute || !c->rebuild)
        return EBB_KEEP;
    if (f->strategy != EBB_POLICY_SELECTIVE)
        return EBB_DROP;
    if (f->names)
        return is_named(f->names, t, &t->operation[c->producer]) ? EBB_DROP : EBB_KEEP;
    return (double)c->cost_ns < price * (double)t->buffer[c->buffer].bytes ? EBB_DROP : EBB_KEEP;
}

/* All but the stages, which are found. False: no memory, and nothing is owned. */
static bool look_at_contents(ebb_fates_t *f)
{
    const ebb_model_t *m = f->model;
    f->segment = calloc((size_t)f->stages.stage_count + 1, sizeof *f->segment);
    f->checkpoints = calloc((size_t)f->stages.stage_count + 1, sizeof *f->checkpoints);
    f->fate = calloc((size_t)m->content_count + 1, 1);
    f->kept = calloc((size_t)f->stages.stage_count + 1, 1);
    if (!f->segment || !f->checkpoints || !f->fate || !f->kept) {
        ebb_fates_delete(f);
        return false;
    }
    const double price = mean_price(f);
    for (uint32_t i = 0; i < m->content_count; i++)
        f->fate[i] = (uint8_t)fate_of(f, i, price);
    if (f->names)
        look_at_borders(f);
    find_segments(f);
    return true;
}

bool ebb_fates_make(ebb_fates_t *f, const ebb_model_t *m, const ebb_policy_t *policy)
{
    *f = (ebb_fates_t){.model = m,
                       .strategy = policy->code,
                       .number = policy->number,
                       .names = policy->names,
                       .stage = EBB_NONE};
    return ebb_stages_find(&f->stages, m) && look_at_contents(f);
}

bool ebb_fates_make_reversal(ebb_fates_t *f, const ebb_model_t *m, uint32_t chunks)
{
    *f = (ebb_fates_t){.model = m, .strategy = EBB_POLICY_AUTO, .number = 1, .stage = EBB_NONE};
    if (!ebb_stages_split(&f->stages, m, STAGES) || !look_at_contents(f))
        return false;
    if (ebb_reversal_make(&f->reversal, &f->stages, m, chunks))
        return true;
    ebb_fates_delete(f);
    return false;
}

void ebb_fates_delete(ebb_fates_t *f)
{
    ebb_stages_delete(&f->stages);
    free(f->segment);
    free(f->checkpoints);
    free(f->fate);
    free(f->kept);
    ebb_reversal_delete(&f->reversal);
    *f = (ebb_fates_t){0};
}

/* ---- while the walk goes on ---- */

bool ebb_fates_turn(ebb_fates_t *f, uint32_t operation)
{
    const ebb_stages_t *s = &f->stages;
    const uint32_t before = f->stage, pass = s->pass_of[operation];
    if (pass == EBB_NONE)
        return false;
    const ebb_pass_t *p = &s->pass[pass];
    /* Forward holds what the end of it needs. */
    f->stage = operation < p->peak ? p->first_stage + p->stage_count - 1 : s->stage_of[operation];
    if (f->stage == before)
        return false;
    find_checkpoints(f, p);
    return before == EBB_NONE || f->segment[before] != f->segment[f->stage];
}

static bool there_is_time(const ebb_model_t *m, uint32_t buffer, uint32_t operation, uint32_t next)
{
    const uint64_t gap = m->begin_ns[next] - m->begin_ns[operation + 1];
    return gap >= m->request->min_gap_ns &&
           gap >= ebb_model_transfer_ns(m, buffer, false) + ebb_model_transfer_ns(m, buffer, true);
}

ebb_fate_t ebb_fates_of(const ebb_fates_t *f, uint32_t content, uint32_t operation, uint32_t next)
{
    const ebb_stages_t *s = &f->stages;
    if (f->fate[content] == EBB_KEEP || s->pass_of[operation] == EBB_NONE || f->stage == EBB_NONE)
        return EBB_KEEP;
    const ebb_pass_t *p = &s->pass[s->pass_of[operation]];
    const uint32_t home = s->home[content], far = s->far[content];
    const bool other_pass = home < p->first_stage || home >= p->first_stage + p->stage_count;
    if (other_pass || (next != EBB_NONE && next >= p->end))
        return EBB_KEEP;
    if (next != EBB_NONE && (next < p->peak || (f->fate[content] == EBB_OFFLOAD && operation >= p->peak)))
        return EBB_KEEP;
    if (f->fate[content] == EBB_OFFLOAD)
        return next != EBB_NONE && there_is_time(f->model, f->model->content[content].buffer, operation, next)
                   ? EBB_OFFLOAD
                   : EBB_KEEP;
    if (next != EBB_NONE && f->segment[s->stage_of[next]] == f->segment[f->stage])
        return EBB_KEEP;
    if (operation >= p->peak && f->segment[home] == f->segment[f->stage])
        return EBB_KEEP;
    const uint8_t kept = f->kept[home] & (far > home ? EBB_KEPT_OVER : EBB_KEPT_INNER);
    return kept || f->checkpoints[far] > f->checkpoints[home] ? EBB_KEEP : EBB_DROP;
}
