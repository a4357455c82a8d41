/* drive.c: the cursor: what is as planned, and what is issued in between; see drive.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/replay/left.h"
#include "ckpt/run/replay/mismatch.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/tracker/follow.h"
#include "ckpt/run/tracker/leftover.h"
#include "offload/ebb_offload.h"

#define D ebb_drive

bool ebb_drive_active(void)
{
    return D.active;
}

ebb_drive_pace_t ebb_drive_pace(void)
{
    ebb_drive_pace_t pace = D.pace;
    pace.steps = D.step > 2 ? D.step - 2 : 0;
    return pace;
}

/* Of all that are installed: the one before may have changed into this one while its last comparisons were under way. */
void ebb_drive_waited(void)
{
    drive_t *now = ebb_driven;
    for (unsigned slot = 0; D.active && slot < EBB_DRIVES; slot++) {
        ebb_share_select(slot);
        ebb_verify_poll();
        ebb_driven = now;
    }
}

bool ebb_drive_refuted(unsigned slot)
{
    drive_t *d = ebb_share_drive(slot);
    bool refuted = d->refuted;
    d->refuted = false;
    return refuted;
}

void ebb_drive_refute(void)
{
    D.refuted = true;
}

/* ---- where contents are ---- */

/* Its chunks are about to be written: nobody's content is there any more. */
static void clear_site(site_t *s)
{
    if (!s->device)
        for (uint32_t i = 0; i < s->rival_count; i++)
            D.site[s->rival[i]].device = false;
    s->device = false;
}

void ebb_site_take(uint32_t place)
{
    site_t *s = &D.site[place];
    clear_site(s);
    s->device = s->written = true;
    s->given_up = false;
}

/* The program, or a replay, writes it. */
static void site_written(uint32_t place)
{
    ebb_site_take(place);
    D.site[place].on_host = false;
}

/* ---- actions ---- */

static ebb_status_t wait_for(CUstream stream, uint32_t action)
{
    if (D.recorded[action])
        EBB_DRIVER(cuStreamWaitEvent, 0, (stream, D.done[action], 0));
    return 0;
}

/* The copy of the step before, if it is over, which it nearly always is. */
static void time_copy(uint32_t index, ebb_direction_t direction)
{
    float ms = 0;
    if (!D.recorded[index] || ebb_driver.cuEventQuery(D.done[index]) ||
        ebb_driver.cuEventElapsedTime(&ms, D.begun[index], D.done[index]) || !(ms > 0))
        return;
    D.pace.copied_ns[direction] += (double)ms * 1e6;
    D.pace.copied_bytes[direction] += (double)ebb_site_of(D.plan->action[index].place)->host_bytes;
}

/* An evict or a fetch: its stream waits for compute as it is now, on the streams that the plan names, and for its list. */
static ebb_status_t issue_copy(uint32_t index)
{
    const ebb_action_t *a = &D.plan->action[index];
    const uint32_t place = ebb_place_now(a->place);
    site_t *s = &D.site[place];
    ebb_direction_t direction = a->kind == EBB_EVICT ? EBB_OUT : EBB_IN;
    ebb_stream_t *copies = ebb_copy_stream(direction);
    if (!copies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = ebb_stream_handle(copies);
    time_copy(index, direction);
    EBB_TRY(ebb_guard_open(place));
    EBB_TRY(ebb_streams_after(stream, a->after, D.before[index]));
    for (uint32_t i = 0; i < a->wait_count; i++)
        EBB_TRY(wait_for(stream, D.plan->wait[a->first_wait + i]));
    EBB_DRIVER(cuEventRecord, 0, (D.begun[index], stream));
    if (a->kind == EBB_FETCH)
        clear_site(s); /* a part of the copy may be under way when the driver refuses another */
    EBB_TRY(ebb_copy_issue(direction, s->range->base, s->host, s->host_bytes));
    if (a->kind == EBB_FETCH)
        ebb_site_take(place);
    s->on_host = true;
    EBB_DRIVER(cuEventRecord, 0, (D.done[index], stream));
    D.recorded[index] = true;
    return 0;
}

uint32_t ebb_replay_place(const ebb_action_t *a, uint32_t buffer)
{
    return ebb_place_now(ebb_plan_place(D.plan, a, buffer));
}

/* Words that did not lead into ebb's memory when the kernel was issued were no pointers then, whatever was recorded of them. Tensor maps are
 * none, and have one. */
static bool was_pointer(const ebb_issued_t *issued, const ebb_trace_access_t *access)
{
    CUdeviceptr word = 0;
    if (issued->kind == EBB_KERNEL)
        memcpy(&word, issued->params + access->param_offset, sizeof word);
    return issued->kind != EBB_KERNEL || ebb_issued_has_map(issued, access->param_offset) ||
           ebb_address_is_served(ebb_here->ebb, word);
}

/* Where a replay's pointers lead: redirected ones, and those to large buffers, to a place; those to small ones as they did. */
static ebb_status_t relaunch(const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &D.trace->operation[a->operation];
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t i = 0; i < o->access_count && count < EBB_RELAUNCH_POINTERS; i++) {
        const ebb_trace_access_t *access = &D.trace->access[o->first_access + i];
        const ebb_range_t *range = D.site[ebb_replay_place(a, access->buffer)].range;
        if (range && was_pointer(&D.issued[a->operation], access))
            pointer[count++] = (ebb_pointer_t){access->param_offset, range->base + access->offset_bytes};
    }
    return ebb_relaunch(&D.issued[a->operation], ebb_drive_stream(a->stream), pointer, count);
}

static ebb_status_t zero(uint32_t place, uint32_t stream)
{
    EBB_DRIVER(cuMemsetD8Async, D.plan->place[place].bytes,
               (D.site[place].range->base, 0, D.plan->place[place].bytes,
                ebb_stream_handle(ebb_drive_stream(stream))));
    return 0;
}

static ebb_status_t issue_replay(const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &D.trace->operation[a->operation];
    EBB_TRY(ebb_guard_open_operation(a, a->operation));
    EBB_TRY(ebb_streams_order(a->stream, a->after));
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *access = &D.trace->access[i];
        uint32_t place = ebb_replay_place(a, access->buffer);
        if (access->mode == EBB_READS || !D.site[place].range ||
            !ebb_trace_is_first(D.trace, a->operation, i))
            continue;
        site_written(place);
        if (access->mode == EBB_REPLACES && D.first_touch[access->buffer] != a->operation)
            EBB_TRY(zero(place, a->stream));
    }
    EBB_TRY(relaunch(a));
    D.counts.replays++;
    return 0;
}

/* A replay that was refused leaves what it should have made as it was: given up, and not there. */
static void undo_replay(const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &D.trace->operation[a->operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        site_t *s = &D.site[ebb_replay_place(a, D.trace->access[i].buffer)];
        if (D.trace->access[i].mode != EBB_READS && s->range) {
            s->device = false;
            s->given_up = true;
        }
    }
}

static ebb_status_t issue_action(uint32_t index)
{
    const ebb_action_t *a = &D.plan->action[index];
    switch (a->kind) {
    case EBB_EVICT:
    case EBB_FETCH:
        return issue_copy(index);
    case EBB_DISCARD:
        ebb_verify_discard(index);
        ebb_site_of(a->place)->given_up = true;
        return 0;
    case EBB_ORDER:
        return ebb_streams_order(a->stream, a->after);
    default:
        if (issue_replay(a)) {
            undo_replay(a);
            return CUDA_ERROR_LAUNCH_FAILED;
        }
        ebb_verify_replay(index);
        return 0;
    }
}

static ebb_status_t issue_actions(uint32_t point)
{
    while (D.next_action < D.plan->action_count && D.plan->action[D.next_action].point <= point)
        EBB_TRY(issue_action(D.next_action++));
    return 0;
}

/* ---- joins, and what they cost ---- */

static CUevent *stall_events(uint32_t operation, uint64_t step)
{
    return &D.stall[4 * (size_t)operation + 2 * (step & 1)];
}

/* The pair was recorded two steps ago, or never. */
static void count_stall(CUevent *pair)
{
    float ms = 0;
    if (D.step >= 2 && !ebb_driver.cuEventQuery(pair[1]) &&
        !ebb_driver.cuEventElapsedTime(&ms, pair[0], pair[1]) && ms > 0) {
        D.counts.stall_ns += (uint64_t)((double)ms * 1e6);
        D.pace.stall_ns += (uint64_t)((double)ms * 1e6);
    }
}

/* The operation's own stream waits, and what that costs is measured. */
static ebb_status_t join_here(uint32_t operation, uint32_t stream)
{
    CUstream compute = ebb_stream_handle(ebb_drive_stream(stream));
    CUevent *pair = stall_events(operation, D.step);
    count_stall(pair);
    EBB_DRIVER(cuEventRecord, 0, (pair[0], compute));
    for (uint32_t i = D.join_first[operation]; i < D.join_first[operation + 1]; i++)
        if (D.plan->action[D.join_action[i]].joiners >> stream & 1)
            EBB_TRY(wait_for(compute, D.join_action[i]));
    EBB_DRIVER(cuEventRecord, 0, (pair[1], compute));
    return 0;
}

static ebb_status_t join(uint32_t operation)
{
    const uint32_t own = D.trace->operation[operation].stream;
    uint32_t joiners = 0;
    for (uint32_t i = D.join_first[operation]; i < D.join_first[operation + 1]; i++) {
        const uint32_t action = D.join_action[i];
        joiners |= D.plan->action[action].joiners;
        for (uint32_t s = 0; s < D.streams; s++)
            if (s != own && D.plan->action[action].joiners >> s & 1)
                EBB_TRY(wait_for(ebb_stream_handle(ebb_drive_stream(s)), action));
    }
    return joiners >> own & 1 ? join_here(operation, own) : 0;
}

/* ---- is it the planned one? ---- */

static bool is_planned_access(const ebb_trace_access_t *a, const ebb_access_t *x)
{
    return x->buffer->tag == a->buffer + 1 && x->offset_bytes == a->offset_bytes &&
           x->param_offset == a->param_offset;
}

bool ebb_drive_plans(const ebb_access_t *x)
{
    const ebb_trace_operation_t *o = &D.trace->operation[D.cursor];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (is_planned_access(&D.trace->access[i], x))
            return true;
    return false;
}

bool ebb_drive_makes(const ebb_operation_t *op, const ebb_trace_access_t *a)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (is_planned_access(a, &op->access[i]))
            return true;
    return false;
}

/* The planned ones, word by word, but for what was recorded of words that have turned out to be left over. */
static bool is_on_planned_buffers(const ebb_operation_t *op, const ebb_trace_operation_t *o)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *a = &D.trace->access[o->first_access + i];
        if (next < op->access_count && is_planned_access(a, &op->access[next]))
            next++;
        else if (o->kind != EBB_TRACE_KERNEL || a->mode == EBB_REPLACES || !ebb_leftover_is(a->param_offset))
            return false;
    }
    return next == op->access_count;
}

/* In all but its buffers. */
static const char *launch_differs(const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &D.trace->operation[D.cursor];
    const char *difference = ebb_record_other_launch(D.learned, D.cursor, op);
    if (difference)
        return difference;
    if (op->stream != ebb_drive_stream(o->stream))
        return "another operation";
    if (o->proofs && op->kind == EBB_KERNEL && !op->plain)
        return "another geometry";
    if (D.next_birth < D.trace->buffer_count && D.trace->buffer[D.next_birth].born <= D.cursor)
        return "a buffer was not allocated";
    return NULL;
}

const char *ebb_drive_differs(const ebb_operation_t *op)
{
    const char *difference = launch_differs(op);
    return difference                                                 ? difference
           : is_on_planned_buffers(op, &D.trace->operation[D.cursor]) ? NULL
                                                                      : "other buffers";
}

/* ---- the step ---- */

uint32_t ebb_first_birth(uint32_t from)
{
    while (from < D.trace->buffer_count && D.trace->buffer[from].born == EBB_NONE)
        from++;
    return from;
}

/* Those that are others now. */
static void turn(void)
{
    ebb_rotation_turn(D.trace, D.at);
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (ebb_trace_rotates(D.trace, i) && ebb_site_of(i)->buffer)
            ebb_site_of(i)->buffer->tag = i + 1;
}

/* False: the program is not where a step begins. */
bool ebb_drive_begin_step(void)
{
    if (D.living != D.outliving + D.late) {
        ebb_drive_leave("a buffer was not freed");
        return false;
    }
    if (D.refuted) {
        ebb_drive_leave("a recomputed buffer had other bits");
        return false;
    }
    if (D.step && D.period > 1)
        turn();
    ebb_tolerate_begin_step();
    ebb_streams_begin_step();
    D.cursor = D.next_action = 0;
    D.next_birth = ebb_first_birth(0);
    return true;
}

/* The buffer of the plan that this request is for, of those that are due. EBB_NONE: none. */
static uint32_t find_birth(const ebb_request_t *q)
{
    for (uint32_t id = D.next_birth; id < D.trace->buffer_count && D.trace->buffer[id].born == D.cursor;
         id = ebb_first_birth(id + 1))
        if (!ebb_site_of(id)->buffer && ebb_is_of_size(&D.trace->buffer[id], q->bytes) &&
            (!q->stream || ebb_drive_stream_number(q->stream) < D.streams) &&
            (ebb_site_of(id)->range || ebb_tolerate_small_birth(D.at[id])))
            return id;
    return EBB_NONE;
}

static ebb_buffer_t *place(uint32_t id, const ebb_request_t *q)
{
    site_t *s = ebb_site_of(id);
    ebb_buffer_t *b = s->range
                          ? ebb_buffer_place(s->range, q)
                          : ebb_buffer_place_small(D.small_slab, D.plan->place[D.at[id]].small_offset, q);
    if (!b)
        return NULL;
    b->tag = id + 1;
    b->held++;
    s->buffer = b;
    s->written = s->device = s->on_host = s->given_up = false;
    D.living++;
    while (D.next_birth < D.trace->buffer_count && D.trace->buffer[D.next_birth].born == D.cursor &&
           ebb_site_of(D.next_birth)->buffer && !ebb_site_of(D.next_birth)->late)
        D.next_birth = ebb_first_birth(D.next_birth + 1);
    return b;
}

ebb_buffer_t *ebb_drive_serve(const ebb_request_t *q)
{
    if (!D.active || (ebb_is_between_steps() && !ebb_drive_begin_step()))
        return NULL;
    uint32_t id = find_birth(q);
    if (id == EBB_NONE && ebb_drive_change_over(q, NULL))
        id = find_birth(q);
    if (id == EBB_NONE && D.active && ebb_drive_skip(q, NULL))
        id = find_birth(q);
    if (!D.active)
        return NULL;
    ebb_buffer_t *b = id != EBB_NONE ? place(id, q) : NULL;
    if (id == EBB_NONE && ebb_tolerate_allocation(q))
        D.counts.tolerated++;
    else if (!b)
        ebb_drive_leave(id == EBB_NONE ? "an allocation that was not planned" : "no host memory");
    return b;
}

bool ebb_drive_freeing(ebb_buffer_t *b)
{
    if (!D.active || !b->tag)
        return false;
    if (b->tag == EBB_PARKED) {
        ebb_drive_leave("a buffer that outlives steps of another kind was freed");
        return false;
    }
    uint32_t id = b->tag - 1;
    site_t *s = ebb_site_of(id);
    if (ebb_stays_itself(D.trace, id)) {
        ebb_drive_leave("a buffer that outlives the step was freed");
        return false;
    }
    if (!s->late && !ebb_tolerate_early_free(id)) {
        ebb_drive_leave("a buffer was freed early, from which others would be recomputed");
        return false;
    }
    ebb_tolerate_freed(s);
    const bool found = s->found, placed = !found || s->range;
    s->buffer = NULL;
    s->found = false;
    D.living--;
    b->held--;
    b->tag = 0;
    if (found && s->range)
        ebb_residence_forget(b, NULL);
    if (placed)
        ebb_buffer_displace(b);
    return placed;
}

/* What the program writes now. */
static void note_writes(void)
{
    const ebb_trace_operation_t *o = &D.trace->operation[D.cursor];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *a = &D.trace->access[i];
        const site_t *s = ebb_site_of(a->buffer);
        if (!s->range)
            continue;
        if (a->mode != EBB_READS) {
            site_written(D.at[a->buffer]);
        } else if (s->written && !s->device) { /* too late for anything but to say so */
            EBB_ASSERT(s->device);
            ebb_fail_program();
        }
    }
}

static uint32_t first_stream(void)
{
    return D.trace->operation[0].stream;
}

/* All streams meet. */
static ebb_status_t begin_on_device(void)
{
    EBB_TRY(ebb_streams_gather(first_stream()));
    ebb_step_clock_begin(&D.clock, D.step, ebb_stream_handle(D.stream));
    return ebb_streams_scatter(first_stream());
}

/* Everything that comes before the operation at the cursor; NULL: which is left out. NULL, or why not. */
const char *ebb_drive_arrange(const ebb_operation_t *op)
{
    const char *why = ebb_tolerate_late_frees();
    if (!why)
        why = ebb_streams_before(D.cursor);
    if (why)
        return why;
    if (op && !ebb_issued_keep(&D.issued[D.cursor], op))
        return "no host memory";
    if (!D.cursor && begin_on_device())
        return "the driver refused to let streams wait for each other";
    if (!issue_actions(D.cursor) && !join(D.cursor) && !ebb_guard_open_operation(NULL, D.cursor))
        return NULL;
    ebb_log(EBB_WARN, "%s", ebb_last_failure());
    return "the driver refused an action";
}

void ebb_drive_end_step(void)
{
    if (issue_actions(UINT32_MAX - 1) || ebb_streams_gather(first_stream())) {
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
        ebb_drive_leave("the driver refused an action");
        return;
    }
    if (!ebb_verify_is_first())
        ebb_step_clock_end(&D.clock, D.step, ebb_stream_handle(D.stream));
    ebb_verify_step_end();
    D.step++;
    D.counts.steps++;
}

/* ---- the operations ---- */

bool ebb_drive_before(ebb_operation_t *op)
{
    if (!D.active || (ebb_is_between_steps() && !ebb_drive_begin_step()))
        return false;
    const ebb_operation_t *view = op;
    const char *why = ebb_drive_differs(op);
    if (why) {
        view = ebb_leftover_view(op);
        why = ebb_drive_differs(view);
    }
    if (why && ebb_drive_change_over(NULL, view))
        why = ebb_drive_differs(view);
    if (D.active && why && ebb_drive_skip(NULL, view))
        why = ebb_drive_differs(view);
    if (!D.active)
        return false;
    const bool stands_in = why && !launch_differs(view) && ebb_tolerate_may_stand_in(view);
    if (why && !stands_in && ebb_tolerate_operation(op)) {
        D.counts.tolerated++;
        return true;
    }
    if (!why || stands_in) {
        const char *arranged = ebb_drive_arrange(view);
        why = arranged || (stands_in && ebb_tolerate_stand_in(view)) ? arranged : why;
    }
    if (why && op->kind == EBB_KERNEL && !launch_differs(view))
        ebb_drive_say_other_buffers(view);
    if (why)
        ebb_drive_leave(why);
    else if (view != op)
        op->instead = view->params; /* the plan does not provide for where these words lead */
    return !why;
}

void ebb_drive_after(const ebb_operation_t *op, bool issued)
{
    const bool tolerated = D.tolerated;
    D.tolerated = false;
    if (tolerated)
        ebb_residence_release(op);
    if (!issued)
        ebb_drive_leave("an operation failed");
    if (!issued)
        return;
    if (tolerated) {
        if (ebb_streams_scatter(ebb_drive_stream_number(op->stream)))
            ebb_drive_leave("the driver refused to let streams wait for each other");
        ebb_guard_close();
        return;
    }
    D.strays = 0;
    note_writes();
    size_t bytes = ebb_usage(ebb_here).created_bytes;
    if (bytes > D.counts.peak_bytes)
        D.counts.peak_bytes = bytes;
    if (++D.cursor == D.trace->operation_count)
        ebb_drive_end_step();
    if (D.active)
        ebb_guard_close();
}

/* ---- falling back ---- */

void ebb_drive_forget(void)
{
    for (uint32_t i = 0; D.issued && i < D.trace->operation_count; i++)
        ebb_issued_forget(&D.issued[i]);
    free(D.issued);
    D.issued = NULL;
}

/* What is alive, and of that what is neither on the device nor on the host. */
static void list_left(ebb_left_t *left)
{
    *left = D.left;
    D.left = (ebb_left_t){.buffer = NULL};
    left->learned = D.learned;
    left->cursor = D.cursor;
    left->stray = D.stray;
    left->stray_count = D.stray_count;
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        const site_t *s = ebb_site_of(i);
        left->buffer[i] = s->late ? NULL : s->buffer;
        if (!s->buffer || !s->range || !s->written || s->device || s->on_host)
            continue;
        if (!s->given_up)
            ebb_content_lost(i, "its place was taken");
        left->given_up[left->given_up_count] = (ebb_given_up_t){.id = i};
        ebb_verify_hand_over(&left->given_up[left->given_up_count++]);
    }
}

/* Whoever goes on knows where the program is, unless nothing depends on it and a step is about to begin. */
static void hand_over(ebb_left_t *left)
{
    if (!left->given_up_count && left->cursor == D.trace->operation_count && D.period == 1)
        return;
    left->issued = D.issued;
    D.issued = NULL;
    ebb_follow_resume(left);
    D.issued = left->issued; /* unless it was taken */
}

void ebb_drive_leave(const char *why)
{
    ebb_left_t left;
    if (!D.active)
        return;
    ebb_log(EBB_INFO, "leaving the plan at operation %u of %u, in step %llu: %s", D.cursor,
            D.trace->operation_count, (unsigned long long)D.step, why);
    D.active = false; /* allocations from here on are ordinary */
    D.counts.fallbacks++;
    ebb_leftover_hint(ebb_wait_for_device());
    list_left(&left);
    ebb_guard_tear_down();
    ebb_share_dissolve();
    hand_over(&left);
    free(left.buffer);
    free(left.given_up);
    ebb_tolerate_tear_down();
    ebb_drive_forget();
}
