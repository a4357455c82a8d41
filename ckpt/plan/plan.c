/* plan.c: plans in memory, what they come to, and writing them. */
#include "ckpt/plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"

const char *const ebb_action_word[EBB_ACTION_KINDS] = {"evict", "fetch", "discard", "replay", "order"};

ebb_plan_t *ebb_plan_new(const ebb_trace_t *trace)
{
    ebb_plan_t *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->chunk_bytes = trace->chunk_bytes;
    p->operation_count = trace->operation_count;
    p->buffer_count = trace->buffer_count;
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        ebb_place_t *place = ebb_plan_add_place(p);
        if (!place) {
            ebb_plan_delete(p);
            return NULL;
        }
        place->bytes = trace->buffer[i].bytes;
        place->at_start = trace->buffer[i].born == EBB_NONE ? EBB_ON_DEVICE : EBB_NOT_THERE;
    }
    return p;
}

ebb_plan_t *ebb_plan_copy(const ebb_plan_t *p)
{
    ebb_plan_t *copy = calloc(1, sizeof *copy);
    bool good = true;
    if (!copy)
        return NULL;
    *copy = *p;
    copy->place = ebb_array_copy(p->place, copy->place_room = p->place_count, sizeof *p->place, &good);
    copy->action = ebb_array_copy(p->action, copy->action_room = p->action_count, sizeof *p->action, &good);
    copy->chunk = ebb_array_copy(p->chunk, copy->chunk_room = p->chunk_index_count, sizeof *p->chunk, &good);
    copy->wait = ebb_array_copy(p->wait, copy->wait_room = p->wait_count, sizeof *p->wait, &good);
    copy->redirect =
        ebb_array_copy(p->redirect, copy->redirect_room = p->redirect_count, sizeof *p->redirect, &good);
    if (good)
        return copy;
    ebb_plan_delete(copy);
    return NULL;
}

void ebb_plan_delete(ebb_plan_t *p)
{
    if (!p)
        return;
    free(p->place);
    free(p->action);
    free(p->chunk);
    free(p->wait);
    free(p->redirect);
    free(p);
}

ebb_place_t *ebb_plan_add_place(ebb_plan_t *p)
{
    ebb_place_t *place =
        ebb_array_append((void **)&p->place, &p->place_count, &p->place_room, sizeof *p->place);
    if (place) {
        place->first_chunk = p->chunk_index_count;
        place->small_offset = place->until = EBB_NONE;
    }
    return place;
}

ebb_trace_t *ebb_plan_step(const ebb_plan_t *p, const ebb_trace_t *trace)
{
    ebb_trace_t *step = ebb_trace_copy(trace);
    for (uint32_t i = 0; step && i < p->buffer_count; i++)
        if (p->place[i].until != EBB_NONE)
            ebb_trace_dies_later(step, i, p->place[i].until);
    return step;
}

ebb_action_t *ebb_plan_add_action(ebb_plan_t *p, ebb_action_kind_t kind, uint32_t point)
{
    ebb_action_t *a =
        ebb_array_append((void **)&p->action, &p->action_count, &p->action_room, sizeof *p->action);
    if (a) {
        a->kind = kind;
        a->point = point;
        a->place = a->operation = a->join = EBB_NONE;
        a->first_wait = p->wait_count;
        a->first_redirect = p->redirect_count;
        a->after = kind == EBB_EVICT || kind == EBB_FETCH;
        a->joiners = a->after;
    }
    return a;
}

/* Where the next element of a list goes that lies at `first` in an array of `total`: only the array's last
 * list grows, an empty one begins at the end. */
static bool extend(uint32_t *first, uint32_t count, uint32_t total)
{
    if (!count)
        *first = total;
    return *first + count == total;
}

bool ebb_plan_add_chunk(ebb_plan_t *p, ebb_place_t *place, uint32_t chunk)
{
    if (!extend(&place->first_chunk, place->chunk_count, p->chunk_index_count))
        return false;
    uint32_t *c =
        ebb_array_append((void **)&p->chunk, &p->chunk_index_count, &p->chunk_room, sizeof *p->chunk);
    if (!c)
        return false;
    *c = chunk;
    place->chunk_count++;
    return true;
}

bool ebb_plan_add_wait(ebb_plan_t *p, ebb_action_t *action, uint32_t other)
{
    if (!extend(&action->first_wait, action->wait_count, p->wait_count))
        return false;
    uint32_t *w = ebb_array_append((void **)&p->wait, &p->wait_count, &p->wait_room, sizeof *p->wait);
    if (!w)
        return false;
    *w = other;
    action->wait_count++;
    return true;
}

bool ebb_plan_add_redirect(ebb_plan_t *p, ebb_action_t *action, uint32_t buffer, uint32_t place)
{
    if (!extend(&action->first_redirect, action->redirect_count, p->redirect_count))
        return false;
    ebb_redirect_t *r =
        ebb_array_append((void **)&p->redirect, &p->redirect_count, &p->redirect_room, sizeof *p->redirect);
    if (!r)
        return false;
    *r = (ebb_redirect_t){buffer, place};
    action->redirect_count++;
    return true;
}

uint32_t ebb_plan_streams(const ebb_trace_t *t)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        last = t->operation[i].stream > last ? t->operation[i].stream : last;
    for (uint32_t i = 0; last && i < t->sync_count; i++)
        if ((t->sync[i].what == EBB_SYNC_RECORD || t->sync[i].what == EBB_SYNC_WAIT) &&
            t->sync[i].stream > last)
            last = t->sync[i].stream;
    return last == UINT32_MAX ? last : last + 1;
}

static void note_streams(uint32_t *used, const ebb_plan_t *p, const ebb_trace_t *t)
{
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            used[t->access[k].buffer] |= UINT32_C(1) << o->stream % EBB_PLAN_STREAMS;
    }
    for (uint32_t i = 0; i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        const ebb_trace_operation_t *o = a->kind == EBB_REPLAY ? &t->operation[a->operation] : NULL;
        for (uint32_t k = 0; o && k < o->access_count; k++)
            used[ebb_plan_place(p, a, t->access[o->first_access + k].buffer)] |=
                UINT32_C(1) << a->stream % EBB_PLAN_STREAMS;
    }
}

uint32_t *ebb_plan_place_streams(const ebb_plan_t *p, const ebb_trace_t *t, bool shared)
{
    uint32_t *used = calloc((size_t)p->place_count + 1, sizeof *used);
    uint32_t *of_chunk = calloc((size_t)p->chunk_count + 1, sizeof *of_chunk);
    if (used && of_chunk) {
        note_streams(used, p, t);
        for (uint32_t i = 0; shared && i < p->place_count; i++)
            for (uint32_t c = 0; c < p->place[i].chunk_count; c++)
                of_chunk[p->chunk[p->place[i].first_chunk + c]] |= used[i];
        for (uint32_t i = 0; shared && i < p->place_count; i++)
            for (uint32_t c = 0; c < p->place[i].chunk_count; c++)
                used[i] |= of_chunk[p->chunk[p->place[i].first_chunk + c]];
    } else {
        free(used);
        used = NULL;
    }
    free(of_chunk);
    return used;
}

/* ---- what it comes to ---- */

enum { OFFLOADED = 1, DROPPED = 2 };

static void count_action(ebb_plan_sum_t *sum, const ebb_plan_t *p, const ebb_trace_t *trace, bool spared,
                         const ebb_action_t *a)
{
    switch (a->kind) {
    case EBB_EVICT:
        *(spared ? &sum->spared_bytes : &sum->bytes_out) += p->place[a->place].bytes;
        break;
    case EBB_FETCH:
        sum->bytes_in += p->place[a->place].bytes;
        break;
    case EBB_REPLAY:
        sum->replays++;
        sum->replay_ns += trace->operation[a->operation].duration_ns;
        break;
    case EBB_DISCARD:
    case EBB_ORDER:
        break;
    }
}

/* What an action makes of its place. A discard that no replay completes is nothing: its content is not needed again. */
static uint8_t fate_of(const ebb_action_t *a, uint32_t completion)
{
    if (a->kind == EBB_DISCARD)
        return completion == EBB_NONE ? 0 : DROPPED;
    return OFFLOADED;
}

ebb_plan_sum_t ebb_plan_sum(const ebb_plan_t *p, const ebb_trace_t *trace)
{
    ebb_plan_sum_t sum = {.peak_bytes = p->chunk_count * p->chunk_bytes + p->small_bytes};
    uint8_t *fate = calloc(p->place_count + (size_t)1, 1);
    uint32_t *completion = ebb_plan_completions(p, trace);
    bool *spared = trace->hardware.clean > 0 ? ebb_plan_spared(p, trace) : NULL;
    for (uint32_t i = 0; i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        count_action(&sum, p, trace, spared && spared[i], a);
        if (fate && completion && a->place != EBB_NONE)
            fate[a->place] |= fate_of(a, completion[i]);
    }
    for (uint32_t i = 0; fate && completion && i < p->buffer_count; i++) {
        uint64_t bytes = trace->buffer[i].bytes;
        sum.late_buffers += p->place[i].until != EBB_NONE;
        sum.late_bytes += p->place[i].until != EBB_NONE ? bytes : 0;
        if (bytes <= p->chunk_bytes / 2)
            continue;
        if (p->place[i].at_start == EBB_ON_HOST)
            fate[i] |= OFFLOADED;
        sum.kept_buffers += !fate[i];
        sum.kept_bytes += fate[i] ? 0 : bytes;
        sum.offloaded_buffers += !!(fate[i] & OFFLOADED);
        sum.offloaded_bytes += fate[i] & OFFLOADED ? bytes : 0;
        sum.dropped_buffers += !!(fate[i] & DROPPED);
        sum.dropped_bytes += fate[i] & DROPPED ? bytes : 0;
    }
    free(fate);
    free(spared);
    free(completion);
    return sum;
}

/* ---- writing ---- */

static void write_index(FILE *out, const char *key, uint32_t index)
{
    if (index == EBB_NONE)
        fprintf(out, ", \"%s\": null", key);
    else
        fprintf(out, ", \"%s\": %" PRIu32, key, index);
}

/* list[first, first + count); of a list that is NULL there are none. */
static void write_list(FILE *out, const char *key, const uint32_t *list, uint32_t first, uint32_t count)
{
    fprintf(out, ", \"%s\": [", key);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%" PRIu32, i ? "," : "", list[first + i]);
    fputc(']', out);
}

static void write_streams(FILE *out, const char *key, uint32_t streams)
{
    const char *between = "";
    fprintf(out, ", \"%s\": [", key);
    for (uint32_t s = 0; s < EBB_PLAN_STREAMS; s++)
        if (streams >> s & 1) {
            fprintf(out, "%s%" PRIu32, between, s);
            between = ",";
        }
    fputc(']', out);
}

static void write_place(FILE *out, const ebb_plan_t *p, uint32_t index)
{
    static const char *const start_name[] = {"none", "device", "host"};
    const ebb_place_t *place = &p->place[index];
    fprintf(out, "{\"place\": %" PRIu32 ", \"bytes\": %" PRIu64, index, place->bytes);
    write_list(out, "chunks", p->chunk, place->first_chunk, place->chunk_count);
    fprintf(out, ", \"start\": \"%s\"", start_name[place->at_start]);
    write_index(out, "small_offset", place->small_offset);
    if (place->until != EBB_NONE)
        write_index(out, "until", place->until);
    fputs("}\n", out);
}

static void write_action(FILE *out, const ebb_plan_t *p, uint32_t index)
{
    const ebb_action_t *a = &p->action[index];
    fprintf(out, "{\"action\": %" PRIu32 ", \"kind\": \"%s\", \"point\": %" PRIu32, index,
            ebb_action_word[a->kind], a->point);
    write_index(out, "place", a->place);
    write_index(out, "operation", a->operation);
    write_index(out, "join", a->join);
    write_list(out, "waits", p->wait, a->first_wait, a->wait_count);
    fputs(", \"redirect\": [", out);
    for (uint32_t i = 0; i < a->redirect_count; i++) {
        const ebb_redirect_t *r = &p->redirect[a->first_redirect + i];
        fprintf(out, "%s[%" PRIu32 ",%" PRIu32 "]", i ? "," : "", r->buffer, r->place);
    }
    fputc(']', out);
    const uint32_t usual = a->kind == EBB_EVICT || a->kind == EBB_FETCH;
    if (a->stream || a->after != usual || a->joiners != usual) {
        write_index(out, "stream", a->stream);
        write_streams(out, "after", a->after);
        write_streams(out, "joiners", a->joiners);
    }
    fputs("}\n", out);
}

bool ebb_plan_write(const ebb_plan_t *p, FILE *out)
{
    fprintf(out,
            "{\"ebb_plan\": %d, \"chunk_bytes\": %" PRIu64 ", \"chunks\": %" PRIu32
            ", \"small_bytes\": %" PRIu64 ", \"operations\": %" PRIu32 ", \"buffers\": %" PRIu32
            ", \"places\": %" PRIu32 ", \"actions\": %" PRIu32 ", \"predicted_ns\": %" PRIu64 "%s}\n",
            EBB_PLAN_VERSION, p->chunk_bytes, p->chunk_count, p->small_bytes, p->operation_count,
            p->buffer_count, p->place_count, p->action_count, p->predicted_ns,
            p->anew ? ", \"anew\": true" : "");
    for (uint32_t i = 0; i < p->place_count; i++)
        write_place(out, p, i);
    for (uint32_t i = 0; i < p->action_count; i++)
        write_action(out, p, i);
    return !fflush(out) && !ferror(out);
}

/* What the operation writes has another content now. */
static void note_made(const ebb_trace_t *t, uint32_t operation, uint32_t *maker, uint32_t *open)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (t->access[k].mode != EBB_READS) {
            maker[t->access[k].buffer] = operation;
            open[t->access[k].buffer] = EBB_NONE;
        }
}

static void complete(const ebb_plan_t *p, const ebb_trace_t *t, uint32_t action, const uint32_t *maker,
                     uint32_t *open, uint32_t *out)
{
    const ebb_action_t *a = &p->action[action];
    const ebb_trace_operation_t *o = &t->operation[a->operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const uint32_t b = t->access[k].buffer;
        if (t->access[k].mode == EBB_READS || open[b] == EBB_NONE || maker[b] != a->operation ||
            ebb_plan_place(p, a, b) != b)
            continue;
        out[open[b]] = action;
        open[b] = EBB_NONE;
    }
}

uint32_t *ebb_plan_completions(const ebb_plan_t *p, const ebb_trace_t *t)
{
    uint32_t *out = ebb_none_array(p->action_count), *open = ebb_none_array(p->place_count) /* discards */,
             *maker = ebb_none_array(t->buffer_count), before = 0;
    for (uint32_t i = 0; out && open && maker && i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        for (; before < a->point && before < t->operation_count; before++)
            note_made(t, before, maker, open);
        if (a->place != EBB_NONE)
            open[a->place] = a->kind == EBB_DISCARD ? i : EBB_NONE;
        if (a->kind == EBB_REPLAY)
            complete(p, t, i, maker, open, out);
    }
    if (!open || !maker) {
        free(out);
        out = NULL;
    }
    free(maker);
    free(open);
    return out;
}

/* ---- copies that are spared ---- */

/* What the operation writes, launched by the program (NULL) or again, the host does not have. */
static void write_places(bool *has, const ebb_plan_t *p, const ebb_trace_t *t, const ebb_action_t *replay,
                         uint32_t operation)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (t->access[k].mode != EBB_READS)
            has[ebb_plan_place(p, replay, t->access[k].buffer)] = false;
}

/* One step; `has` [places]: whether the host block has what is in the place. */
static void walk_hosts(bool *has, bool *spared, const ebb_plan_t *p, const ebb_trace_t *t)
{
    for (uint32_t i = 0, point = 0; point <= p->operation_count; point++) {
        for (; i < p->action_count && p->action[i].point <= point; i++) {
            const ebb_action_t *a = &p->action[i];
            if (a->kind == EBB_EVICT)
                spared[i] = has[a->place];
            if (a->kind == EBB_EVICT || a->kind == EBB_FETCH)
                has[a->place] = true;
            else if (a->kind == EBB_REPLAY)
                write_places(has, p, t, a, a->operation);
        }
        if (point < p->operation_count)
            write_places(has, p, t, NULL, point);
    }
    for (uint32_t i = 0; i < p->place_count;
         i++) /* what is born holds nothing, and what goes round is elsewhere */
        has[i] &= i < p->buffer_count && t->buffer[i].born == EBB_NONE && !ebb_trace_rotates(t, i);
}

bool *ebb_plan_spared(const ebb_plan_t *p, const ebb_trace_t *t)
{
    bool *spared = calloc((size_t)p->action_count + 1, 1), *has = calloc((size_t)p->place_count + 1, 1),
         *never = calloc((size_t)p->place_count + 1, 1);
    uint32_t *completion = ebb_plan_completions(p, t);
    const bool good = spared && has && never && completion;
    for (int step = 0; good && step < 2; step++)
        walk_hosts(has, spared, p, t);
    for (uint32_t i = 0; good && i < p->action_count; i++)
        if (completion[i] != EBB_NONE)
            never[p->action[i].place] = true;
    for (uint32_t i = 0; good && i < p->action_count; i++) {
        const uint32_t place = p->action[i].place;
        spared[i] &= !p->anew && place < p->buffer_count && !never[place] && !t->buffer[place].changes &&
                     !ebb_trace_rotates(t, place);
    }
    free(has);
    free(never);
    free(completion);
    if (good)
        return spared;
    free(spared);
    return NULL;
}
