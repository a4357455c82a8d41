/* drive.c: the cursor: what is as planned, and what is issued in between; see drive.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

bool ebb_drive_active(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev);
    return drive->active;
}

ebb_drive_pace_t ebb_drive_pace(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev);
    ebb_drive_pace_t pace = drive->pace;
    pace.steps = drive->step > 2 ? drive->step - 2 : 0;
    return pace;
}

/* ---- where contents are ---- */

void ebb_site_claim(drive_t *drive, uint32_t place)
{
    const ebb_place_t *p = &drive->plan->place[place];
    for (uint32_t c = 0; c < p->chunk_count; c++) {
        uint32_t *holder = &drive->holder[drive->plan->chunk[p->first_chunk + c]];
        if (*holder != EBB_NONE && *holder != place)
            drive->site[*holder].device = false;
        *holder = place;
    }
}

/* Its chunks are about to be written: no place has its content there any more. */
static void clear_site(drive_t *drive, uint32_t place)
{
    if (!drive->site[place].device)
        ebb_site_claim(drive, place);
    drive->site[place].device = false;
}

void ebb_site_take(drive_t *drive, uint32_t place)
{
    site_t *s = &drive->site[place];
    clear_site(drive, place);
    s->device = s->written = true;
    s->given_up = false;
}

/* The program, or a replay, writes it. */
static void site_written(drive_t *drive, uint32_t place)
{
    ebb_site_take(drive, place);
    drive->site[place].on_host = false;
}

/* ---- actions ---- */

static ebb_status_t wait_for(drive_t *drive, CUstream stream, uint32_t action)
{
    if (drive->copy[action].bytes)
        EBB_DRIVER(cuStreamWaitEvent, 0, (stream, drive->copy[action].done, 0));
    return 0;
}

/* The copy of the step before, if it is over, which it nearly always is. */
static void time_copy(drive_t *drive, uint32_t index, ebb_direction_t direction)
{
    const ebb_drive_copy_t *c = &drive->copy[index];
    float ms = 0;
    if (!c->bytes || ebb_driver.cuEventQuery(c->done) ||
        ebb_driver.cuEventElapsedTime(&ms, c->begun, c->done) || !(ms > 0))
        return;
    drive->pace.copied_ns[direction] += (double)ms * 1e6;
    drive->pace.copied_bytes[direction] += (double)c->bytes;
}

/* True: the host block has what is in the place; where an operation has written it unseen, the device sees to that. */
static bool is_spared(drive_t *drive, uint32_t buffer, ebb_stream_t *stream)
{
    site_t *s = ebb_site_of(drive, buffer);
    const size_t bytes = ebb_content_bytes(drive, ebb_place_now(drive, buffer));
    void *host = s->host.at; /* for kernels, where its memory is, and all of it in one piece */
    const bool whole = ebb_pinned_piece(drive->device, &host, bytes) == bytes || host == s->host.at;
    const bool spared =
        whole && s->on_host && s->hashed == drive->learned &&
        !ebb_verify_keep(drive->device, drive->learned, buffer, stream, s->range->base, bytes, host);
    if (spared)
        drive->counts->spared_bytes += bytes;
    else
        s->hashed = ebb_verify_copied(drive->device, drive->learned, buffer, stream, s->range->base, bytes)
                        ? NULL
                        : drive->learned;
    return spared;
}

/* What the action copies, behind all that it waits for. */
static ebb_status_t copy(drive_t *drive, const ebb_action_t *a, ebb_stream_t *stream)
{
    const uint32_t place = ebb_place_now(drive, a->place);
    site_t *s = &drive->site[place];
    if (a->kind == EBB_EVICT && drive->spares[a->place] && is_spared(drive, a->place, stream))
        return 0;
    if (a->kind == EBB_EVICT && !drive->spares[a->place])
        s->hashed = NULL; /* of what another plan has copied */
    if (a->kind == EBB_FETCH)
        clear_site(drive, place); /* a part of the copy may be under way when the driver refuses another */
    EBB_TRY(ebb_copy_issue(drive->device, a->kind == EBB_EVICT ? EBB_OUT : EBB_IN, s->range->base, s->host.at,
                           ebb_content_bytes(drive, place)));
    if (a->kind == EBB_FETCH)
        ebb_site_take(drive, place);
    s->on_host = true;
    return 0;
}

/* An evict or a fetch: its stream waits for compute as it is now, on the streams that the plan names, and for its list. */
static ebb_status_t issue_copy(drive_t *drive, uint32_t index)
{
    const ebb_action_t *a = &drive->plan->action[index];
    const uint32_t place = ebb_place_now(drive, a->place);
    ebb_drive_copy_t *c = &drive->copy[index];
    ebb_direction_t direction = a->kind == EBB_EVICT ? EBB_OUT : EBB_IN;
    ebb_stream_t *copies = ebb_copy_stream(drive->device, direction);
    if (!copies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = ebb_stream_handle(copies);
    if (direction == EBB_IN || !drive->spares[a->place])
        time_copy(drive, index, direction);
    EBB_TRY(ebb_guard_open(drive, place));
    EBB_TRY(ebb_streams_after(drive, stream, a->after, c->before));
    for (uint32_t i = 0; i < a->wait_count; i++)
        EBB_TRY(wait_for(drive, stream, drive->plan->wait[a->first_wait + i]));
    EBB_DRIVER(cuEventRecord, 0, (c->begun, stream));
    EBB_TRY(copy(drive, a, copies));
    EBB_DRIVER(cuEventRecord, 0, (c->done, stream));
    c->bytes = ebb_content_bytes(drive, place);
    return 0;
}

uint32_t ebb_replay_place(const drive_t *drive, const ebb_action_t *a, uint32_t buffer)
{
    return ebb_place_now(drive, ebb_plan_place(drive->plan, a, buffer));
}

/* Words that did not lead into ebb's memory when the kernel was issued were no pointers then, whatever was recorded of them. Tensor maps are
 * none, and have one. */
static bool was_pointer(ebb_device_t *dev, const ebb_issued_t *issued, const ebb_trace_access_t *access)
{
    CUdeviceptr word = 0;
    if (issued->op.kind == EBB_KERNEL)
        memcpy(&word, issued->op.params + access->param_offset, sizeof word);
    return issued->op.kind != EBB_KERNEL || ebb_issued_has_map(issued, access->param_offset) ||
           ebb_address_is_served(dev->ebb, word);
}

/* Where a replay's pointers lead: redirected ones, and those to large buffers, to a place; those to small ones as they did. */
static ebb_status_t relaunch(drive_t *drive, const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[a->operation];
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t i = 0; i < o->access_count && count < EBB_RELAUNCH_POINTERS; i++) {
        const ebb_trace_access_t *access = &drive->trace->access[o->first_access + i];
        const ebb_range_t *range = drive->site[ebb_replay_place(drive, a, access->buffer)].range;
        if (range && was_pointer(drive->device, &drive->issued[a->operation], access))
            pointer[count++] = (ebb_pointer_t){
                access->param_offset, range->base + ebb_issued_offset(&drive->issued[a->operation], access)};
    }
    return ebb_relaunch(drive->device, &drive->issued[a->operation], ebb_drive_stream(drive, a->stream),
                        pointer, count);
}

static ebb_status_t zero(drive_t *drive, uint32_t place, uint32_t stream)
{
    const size_t bytes = ebb_content_bytes(drive, place);
    EBB_DRIVER(
        cuMemsetD8Async, bytes,
        (drive->site[place].range->base, 0, bytes, ebb_stream_handle(ebb_drive_stream(drive, stream))));
    return 0;
}

/* A large buffer that the operation replaces, and may have left a part of as it was. */
static bool replaces(drive_t *drive, uint32_t operation, uint32_t access)
{
    const ebb_trace_access_t *a = &drive->trace->access[access];
    return a->mode == EBB_REPLACES && ebb_site_of(drive, a->buffer)->range &&
           ebb_trace_is_first(drive->trace, operation, access);
}

/* One of those has been given up, or its memory is another's by now. */
static bool has_lost_old(drive_t *drive, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    for (uint32_t i = o->first_access;
         drive->learned->operation[operation].replaces && i < o->first_access + o->access_count; i++)
        if (drive->first_touch[drive->trace->access[i].buffer] != operation &&
            replaces(drive, operation, i) && !ebb_site_of(drive, drive->trace->access[i].buffer)->device)
            return true;
    return false;
}

/* What the program's own launch leaves as it was of what it replaces, as padding, must be what it was when that was shown: there or zeros, all
 * of it together. What it is the first to touch since that was born holds anything; but where steps are of any size that must be the same when
 * it is launched again, by the plan or by a recipe when it is left. */
static ebb_status_t zero_replaced(drive_t *drive, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    const bool old = has_lost_old(drive, operation);
    for (uint32_t i = o->first_access;
         (old || drive->learned->any_size) && i < o->first_access + o->access_count; i++) {
        const uint32_t buffer = drive->trace->access[i].buffer;
        const bool fresh = drive->first_touch[buffer] == operation;
        if (replaces(drive, operation, i) &&
            (fresh ? drive->learned->any_size && drive->again[buffer] : old)) {
            EBB_TRY(zero(drive, drive->at[buffer], o->stream));
            ebb_site_of(drive, buffer)->device = false; /* until it is launched */
        }
    }
    return 0;
}

/* The operation is about to write on chunks that are another's as yet. */
static void take_written(drive_t *drive, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    const ebb_trace_access_t *a = &drive->trace->access[o->first_access], *end = a + o->access_count;
    for (; a < end; a++) {
        if (a->mode == EBB_READS)
            continue;
        const uint32_t place = drive->at[a->buffer];
        if (drive->site[place].range && !drive->site[place].device)
            ebb_site_claim(drive, place);
    }
}

/* Whether the replay makes what was discarded in a place (a buffer's own), be it as the last of several. */
static bool completes(const drive_t *drive, uint32_t replay, uint32_t place)
{
    uint32_t i = drive->check_at[replay];
    while (i != EBB_NONE && drive->check[i].buffer != place)
        i = drive->check[i].next;
    return i != EBB_NONE;
}

/* Until the replay that completes it a content is an older version of what was discarded: it stays given up, and who leaves the plan
 * makes it anew. */
static void site_replayed(drive_t *drive, uint32_t replay, uint32_t planned_place)
{
    const uint32_t place = ebb_place_now(drive, planned_place);
    site_t *s = &drive->site[place];
    const bool partial = s->given_up && !completes(drive, replay, planned_place);
    site_written(drive, place);
    s->given_up = partial;
    s->device = !partial;
}

/* The program has left out the operation, an update: what it would have completed is complete as it is. */
static void settle_left_out(drive_t *drive, uint32_t replay)
{
    for (uint32_t i = drive->check_at[replay]; i != EBB_NONE; i = drive->check[i].next) {
        const uint32_t place = ebb_place_now(drive, drive->check[i].buffer);
        if (drive->site[place].given_up)
            ebb_site_take(drive, place);
    }
}

static ebb_status_t issue_replay(drive_t *drive, uint32_t index)
{
    const ebb_action_t *a = &drive->plan->action[index];
    const ebb_trace_operation_t *o = &drive->trace->operation[a->operation];
    EBB_TRY(ebb_guard_open_operation(drive, a, a->operation));
    EBB_TRY(ebb_streams_order(drive, a->stream, a->after));
    if (drive->issued[a->operation].left_out) {
        settle_left_out(drive, index);
        return 0; /* what comes behind on that stream relies on its wait all the same */
    }
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *access = &drive->trace->access[i];
        const uint32_t planned = ebb_plan_place(drive->plan, a, access->buffer),
                       place = ebb_place_now(drive, planned);
        if (access->mode == EBB_READS || !drive->site[place].range ||
            !ebb_trace_is_first(drive->trace, a->operation, i))
            continue;
        site_replayed(drive, index, planned);
        if (access->mode == EBB_REPLACES &&
            (drive->first_touch[access->buffer] != a->operation || drive->learned->any_size))
            EBB_TRY(zero(drive, place, a->stream));
    }
    EBB_TRY(relaunch(drive, a));
    drive->counts->replays++;
    return 0;
}

/* A replay that was refused leaves what it should have made as it was: given up, and not there. */
static void undo_replay(drive_t *drive, const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[a->operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        site_t *s = &drive->site[ebb_replay_place(drive, a, drive->trace->access[i].buffer)];
        if (drive->trace->access[i].mode != EBB_READS && s->range) {
            s->device = false;
            s->given_up = true;
        }
    }
}

/* Most operations have none: out of their way. */
__attribute__((noinline)) static ebb_status_t issue_action(drive_t *drive, uint32_t index)
{
    const ebb_action_t *a = &drive->plan->action[index];
    switch (a->kind) {
    case EBB_EVICT:
    case EBB_FETCH:
        return issue_copy(drive, index);
    case EBB_DISCARD:
        ebb_drive_verify_discard(drive, index);
        ebb_site_of(drive, a->place)->given_up = true;
        return 0;
    case EBB_ORDER:
        return ebb_streams_order(drive, a->stream, a->after);
    default:
        if (issue_replay(drive, index)) {
            undo_replay(drive, a);
            return CUDA_ERROR_LAUNCH_FAILED;
        }
        ebb_drive_verify_replay(drive, index);
        return 0;
    }
}

static ebb_status_t issue_actions(drive_t *drive, uint32_t point)
{
    while (drive->next_action < drive->plan->action_count &&
           drive->plan->action[drive->next_action].point <= point)
        EBB_TRY(issue_action(drive, drive->next_action++));
    return 0;
}

/* ---- joins, and what they cost ---- */

static CUevent *stall_events(drive_t *drive, uint32_t operation, uint64_t step)
{
    return &drive->stall[4 * (size_t)operation + 2 * (step & 1)];
}

/* The pair was recorded two steps ago, or never. */
static void count_stall(drive_t *drive, CUevent *pair)
{
    float ms = 0;
    if (drive->step >= 2 && !ebb_driver.cuEventQuery(pair[1]) &&
        !ebb_driver.cuEventElapsedTime(&ms, pair[0], pair[1]) && ms > 0) {
        drive->counts->stall_ns += (uint64_t)((double)ms * 1e6);
        drive->pace.stall_ns += (uint64_t)((double)ms * 1e6);
    }
}

/* The operation's own stream waits, and what that costs is measured. */
static ebb_status_t join_here(drive_t *drive, uint32_t operation, uint32_t stream)
{
    CUstream compute;
    EBB_TRY(ebb_streams_handle(drive, stream, &compute));
    CUevent *pair = stall_events(drive, operation, drive->step);
    count_stall(drive, pair);
    EBB_DRIVER(cuEventRecord, 0, (pair[0], compute));
    for (uint32_t i = drive->join_at[operation]; i != EBB_NONE; i = drive->join_next[i])
        if (drive->plan->action[i].joiners >> stream & 1)
            EBB_TRY(wait_for(drive, compute, i));
    EBB_DRIVER(cuEventRecord, 0, (pair[1], compute));
    return 0;
}

static ebb_status_t join(drive_t *drive, uint32_t operation)
{
    const uint32_t own = drive->trace->operation[operation].stream;
    uint32_t joiners = 0;
    for (uint32_t i = drive->join_at[operation]; i != EBB_NONE; i = drive->join_next[i]) {
        joiners |= drive->plan->action[i].joiners;
        for (uint32_t s = 0; s < drive->streams; s++)
            if (s != own && drive->plan->action[i].joiners >> s & 1 &&
                !ebb_stream_is_gone(ebb_drive_stream(drive, s)))
                EBB_TRY(wait_for(drive, ebb_stream_handle(ebb_drive_stream(drive, s)), i));
    }
    return joiners >> own & 1 ? join_here(drive, operation, own) : 0;
}

/* ---- is it the planned one? ---- */

/* Where in its buffer it begins may be elsewhere in each step, as a batch does in data that lies on the device: a plan moves buffers as a whole, and
 * what is launched again has this step's words. But what replaces a buffer must do so as recorded, and that a kernel does so follows from all its
 * operands; and of operations behind the cursor only where operands begin may tell layers in one large buffer apart. */
static bool may_begin_anywhere(const drive_t *drive, uint32_t at)
{
    return at == drive->cursor && !drive->learned->operation[at].replaces;
}

static bool is_planned_access(const drive_t *drive, bool anywhere, const ebb_trace_access_t *a,
                              const ebb_access_t *x)
{
    return x->buffer->number == a->buffer + 1 && x->param_offset == a->param_offset &&
           ((anywhere && a->mode != EBB_REPLACES) ||
            ebb_record_may_be_at(drive->learned, a, x->offset_bytes));
}

bool ebb_drive_plans(drive_t *drive, const ebb_access_t *x)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[drive->cursor];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (is_planned_access(drive, may_begin_anywhere(drive, drive->cursor), &drive->trace->access[i], x))
            return true;
    return false;
}

bool ebb_drive_makes(drive_t *drive, const ebb_operation_t *op, const ebb_trace_access_t *a)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (is_planned_access(drive, may_begin_anywhere(drive, drive->cursor), a, &op->access[i]))
            return true;
    return false;
}

/* The planned ones, word by word, but for what was recorded of words that have turned out to be stale. */
static bool is_on_planned_buffers(drive_t *drive, const ebb_operation_t *op, uint32_t at)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[at];
    const ebb_trace_access_t *a = &drive->trace->access[o->first_access], *end = a + o->access_count;
    const ebb_access_t *next = op->access, *last = next + op->access_count;
    const bool anywhere = may_begin_anywhere(drive, at);
    for (; a < end; a++) {
        if (next < last && is_planned_access(drive, anywhere, a, next))
            next++;
        else if (o->kind != EBB_TRACE_KERNEL || a->mode == EBB_REPLACES ||
                 !ebb_stale_is(drive->device, a->param_offset))
            return false;
    }
    return next == last;
}

/* In all but its buffers. */
static const char *launch_differs(drive_t *drive, const ebb_operation_t *op, uint32_t at)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[at];
    const char *difference = ebb_record_other_launch(drive->learned, at, op);
    if (difference)
        return difference;
    if (op->stream != ebb_drive_stream(drive, o->stream))
        return "an operation that was not planned";
    if (o->proofs && op->kind == EBB_KERNEL && !op->plain)
        return "a launch of another geometry than planned";
    if (at == drive->cursor && drive->next_birth < drive->trace->buffer_count &&
        drive->trace->buffer[drive->next_birth].born <= at)
        return "a buffer was not allocated";
    return NULL;
}

const char *ebb_drive_differs(drive_t *drive, const ebb_operation_t *op, uint32_t at)
{
    const char *difference = launch_differs(drive, op, at);
    return difference || is_on_planned_buffers(drive, op, at) ? difference : "other buffers";
}

/* ---- the step ---- */

uint32_t ebb_first_birth(const drive_t *drive, uint32_t from)
{
    while (from < drive->trace->buffer_count && drive->trace->buffer[from].born == EBB_NONE)
        from++;
    return from;
}

/* Those that are others now. */
static void turn(drive_t *drive)
{
    ebb_rotation_turn(drive->trace, drive->at);
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (ebb_trace_rotates(drive->trace, i) && ebb_site_of(drive, i)->buffer)
            ebb_site_of(drive, i)->buffer->number = i + 1;
}

/* False: the program is not where a step begins. */
bool ebb_drive_begin_step(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev);
    const char *why = drive->step ? ebb_unplanned_end_step(drive) : NULL;
    if (!why && drive->learned->refuted)
        why = "what it relies on has been refuted";
    if (why) {
        ebb_drive_leave(dev, why);
        return false;
    }
    if (drive->step && drive->period > 1)
        turn(drive);
    ebb_drive_receive(drive);
    ebb_streams_begin_step(drive);
    drive->cursor = drive->next_action = drive->strays = drive->stray_count = 0;
    drive->resized = false;
    dev->run->drives->key_bytes = 0;
    drive->next_birth = ebb_first_birth(drive, 0);
    return true;
}

/* One that the plan has no place for: it may have been left to make room. NULL: there is none. */
static ebb_buffer_t *allocate_unplaced(drive_t *drive, const ebb_request_t *q)
{
    ebb_request_t unplanned = *q;
    ebb_buffer_t *b = NULL;
    unplanned.planned = true;
    return ebb_heap_alloc(drive->device, &unplanned, &b) ? NULL : b;
}

/* NULL: no host memory, or another small buffer has the place until the very point at which this one gets it and has not been freed yet, be
 * it late or in another thread. Large ones have addresses of their own. */
static ebb_buffer_t *place(drive_t *drive, uint32_t id, const ebb_request_t *q)
{
    site_t *s = ebb_site_of(drive, id);
    const bool unplaced = ebb_trace_is_unplaced(drive->trace, id);
    ebb_buffer_t *b = unplaced   ? allocate_unplaced(drive, q)
                      : s->range ? ebb_buffer_place(s->range, q)
                                 : ebb_buffer_place_small(drive->small_slab,
                                                          drive->plan->place[drive->at[id]].small_offset, q);
    if (!b || !drive->active)
        return b;
    b->number = id + 1;
    b->held++;
    s->buffer = b;
    s->found = unplaced;
    s->written = s->device = s->on_host = s->given_up = false;
    drive->living += !unplaced;
    drive->resized |= q->bytes != drive->trace->buffer[id].bytes && ebb_is_large(&drive->trace->buffer[id]);
    while (drive->next_birth < drive->trace->buffer_count &&
           drive->trace->buffer[drive->next_birth].born == drive->cursor &&
           ebb_site_of(drive, drive->next_birth)->buffer && !ebb_site_of(drive, drive->next_birth)->late)
        drive->next_birth = ebb_first_birth(drive, drive->next_birth + 1);
    return b;
}

/* The buffer of the plan that this request is for, of those that are due. NULL: none. */
static ebb_buffer_t *serve_birth(drive_t *drive, const ebb_request_t *q)
{
    ebb_buffer_t *b = NULL;
    for (uint32_t id = drive->next_birth;
         drive->active && !b && id < drive->trace->buffer_count &&
         drive->trace->buffer[id].born == drive->cursor &&
         (id == drive->next_birth || !drive->learned->any_size); /* then only their order tells them apart */
         id = ebb_first_birth(drive, id + 1))
        if (!ebb_site_of(drive, id)->buffer && ebb_birth_has_room(drive, id, q->bytes) &&
            (!q->stream || ebb_drive_stream_number(drive, q->stream) < drive->streams))
            b = place(drive, id, q);
    return b;
}

ebb_buffer_t *ebb_drive_serve(ebb_device_t *dev, const ebb_request_t *q)
{
    if (!ebb_driven(dev)->active || (ebb_is_between_steps(ebb_driven(dev)) && !ebb_drive_begin_step(dev)))
        return NULL;
    ebb_drive_fit(dev, q);
    ebb_buffer_t *b = serve_birth(ebb_driven(dev), q);
    if (!b && ebb_driven(dev)->active && ebb_drive_change_over(dev, q, NULL)) /* no room may have ended it */
        b = serve_birth(ebb_driven(dev), q);
    drive_t *drive = ebb_driven(dev); /* it stays from here on */
    if (!b && drive->active && ebb_drive_skip(drive, q, NULL))
        b = serve_birth(drive, q);
    if (b || !drive->active)
        return b;
    if (ebb_birth_is_outgrown(drive, q)) {
        /* How large it is beside all before is seen where no plan is driven. */
        if (drive->next_birth != drive->learned->key) {
            drive->outgrown = drive->next_birth;
            drive->outgrown_bytes = q->bytes;
        }
        ebb_drive_leave(dev, "a buffer that is larger than planned");
    } else if (ebb_unplanned_allocation(dev, q)) {
        drive->counts->unplanned++;
    } else {
        ebb_drive_leave(dev, "an allocation that was not planned");
    }
    return NULL;
}

/* The plan knows no longer of its buffer. */
static void part_with(drive_t *drive, uint32_t id)
{
    site_t *s = ebb_site_of(drive, id);
    drive->late -= s->late;
    drive->living -= !ebb_trace_is_unplaced(drive->trace, id);
    s->buffer->held--;
    s->buffer->number = 0;
    s->buffer = NULL;
    s->found = s->late = false;
}

/* Where it lies another buffer may be next, on the stream on which it is freed: behind replays that read it, on whichever stream these are. */
static ebb_status_t wait_for_replays(drive_t *drive, uint32_t id, ebb_stream_t *stream)
{
    const uint32_t number = stream ? ebb_drive_stream_number(drive, stream) : drive->streams;
    if (!ebb_trace_is_unplaced(drive->trace, id) || !drive->source[id] ||
        (drive->streams == 1 && stream == drive->stream))
        return 0;
    return number < drive->streams ? ebb_streams_order(drive, number, EBB_ALL_STREAMS)
                                   : ebb_wait_for_device(drive->device->ebb);
}

bool ebb_drive_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    drive_t *drive = ebb_driven(dev);
    ebb_unplanned_forget(dev, b);
    if (!drive->active || !b->number)
        return false;
    if (b->number == EBB_INACTIVE) {
        ebb_drive_leave(dev, "a buffer that outlives steps of another variant was freed");
        return false;
    }
    uint32_t id = b->number - 1;
    site_t *s = ebb_site_of(drive, id);
    if (ebb_trace_stays_itself(drive->trace, id)) {
        ebb_drive_leave(dev, "a buffer that outlives the step was freed");
        return false;
    }
    if (ebb_unplanned_needs(drive, id)) {
        if (ebb_unplanned_put_off(drive, b, stream))
            return true;
        ebb_drive_leave(dev, "a buffer was freed early that is still needed");
        return false;
    }
    if (wait_for_replays(drive, id, stream)) {
        ebb_drive_leave(dev, "the driver refused to let a stream wait");
        return false;
    }
    const bool found = s->found, placed = !found || s->range;
    part_with(drive, id);
    if (found && s->range)
        ebb_residence_forget(b, NULL);
    if (placed)
        ebb_buffer_displace(b);
    return placed;
}

/* What the program writes now. */
static void note_writes(drive_t *drive)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[drive->cursor];
    const ebb_trace_access_t *a = &drive->trace->access[o->first_access], *end = a + o->access_count;
    for (; a < end; a++) {
        const uint32_t place = drive->at[a->buffer];
        const site_t *s = &drive->site[place];
        if (!s->range)
            continue;
        if (a->mode != EBB_READS) {
            site_written(drive, place);
        } else if (s->written && !s->device) { /* too late for anything but to say so */
            EBB_ASSERT(s->device);
            ebb_fail_program(drive->device->ebb);
        }
    }
}

static uint32_t first_stream(drive_t *drive)
{
    return drive->trace->operation[0].stream;
}

/* All streams meet. */
static ebb_status_t begin_on_device(drive_t *drive)
{
    EBB_TRY(ebb_streams_order(drive, first_stream(drive), EBB_ALL_STREAMS));
    ebb_step_clock_begin(drive);
    return ebb_streams_scatter(drive, first_stream(drive), EBB_ALL_STREAMS);
}

/* As it came, or as it was tried: without what its structures do not fill in. */
static bool is_tried(drive_t *drive, const ebb_operation_t *op)
{
    return ebb_record_is_tried(drive->device, drive->learned, drive->cursor, op) ||
           ebb_record_is_tried(drive->device, drive->learned, drive->cursor,
                               ebb_stale_view(drive->device, op));
}

/* Everything that comes before the operation at the cursor; NULL: which is left out. NULL, or why not. */
const char *ebb_drive_arrange(drive_t *drive, const ebb_operation_t *op)
{
    const char *why = ebb_unplanned_late_frees(drive);
    if (!why)
        why = ebb_streams_before(drive, drive->cursor);
    if (why)
        return why;
    if (op && !is_tried(drive, op)) {
        ebb_record_doubt(drive->learned, drive->cursor);
        return "arguments that were the same until now";
    }
    if (op && !ebb_issued_keep(&drive->issued[drive->cursor], op))
        return "no host memory";
    if (!drive->cursor && begin_on_device(drive))
        return "the driver refused to let streams wait for each other";
    if (!issue_actions(drive, drive->cursor) && !join(drive, drive->cursor) &&
        !ebb_guard_open_operation(drive, NULL, drive->cursor)) {
        if (op)
            take_written(drive, drive->cursor);
        if (!op || !zero_replaced(drive, drive->cursor))
            return NULL;
    }
    ebb_log(EBB_WARN, "%s", ebb_last_failure());
    return "the driver refused an action";
}

void ebb_drive_receive(drive_t *drive)
{
    const ebb_recording_t *learned = drive->learned;
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        const uint32_t next = ebb_is_passing(drive->trace, i) ? ebb_trace_next(drive->trace, i) : EBB_NONE;
        ebb_buffer_t *b = next != EBB_NONE && ebb_is_passing(drive->trace, next) &&
                                  !drive->site[next].buffer && learned->buffer[i].left
                              ? ebb_buffer_at(drive->device->ebb, learned->buffer[i].left_at)
                              : NULL;
        if (!b || b->generation != learned->buffer[i].left || b->number || b->pinned ||
            ebb_buffer_is_large(b))
            continue;
        drive->site[next] = (site_t){.buffer = b, .found = true};
        b->number = next + 1;
        b->held++;
    }
}

void ebb_drive_dismiss(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (ebb_is_passing(drive->trace, i) && drive->trace->buffer[i].born == EBB_NONE &&
            drive->site[i].buffer)
            part_with(drive, i);
}

/* Passing buffers are nobody's until the next step of the recording begins, whichever plan that has. */
static void pass_on(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        if (!ebb_is_passing(drive->trace, i))
            continue;
        const ebb_buffer_t *b = drive->site[i].buffer;
        drive->learned->buffer[i].left = b ? b->generation : 0;
        drive->learned->buffer[i].left_at = b ? b->address : 0;
        if (b)
            part_with(drive, i);
    }
}

void ebb_drive_end_step(drive_t *drive)
{
    const char *why = ebb_unplanned_takes_late(drive, UINT32_MAX - 1);
    if (why) {
        ebb_drive_leave(drive->device, why);
        return;
    }
    if (issue_actions(drive, UINT32_MAX - 1) ||
        ebb_streams_order(drive, first_stream(drive), EBB_ALL_STREAMS)) {
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
        ebb_drive_leave(drive->device, "the driver refused an action");
        return;
    }
    if (!ebb_is_first_step(drive) && !drive->resized)
        ebb_step_clock_end(drive);
    pass_on(drive);
    ebb_verify_poll(drive->device, drive->learned, false);
    drive->step++;
    drive->counts->steps++;
}

/* ---- the operations ---- */

static const char *differs_now(ebb_device_t *dev, const ebb_operation_t *op)
{
    return ebb_drive_differs(ebb_driven(dev), op, ebb_driven(dev)->cursor);
}

bool ebb_drive_before(ebb_device_t *dev, ebb_operation_t *op)
{
    if (!ebb_driven(dev)->active || (ebb_is_between_steps(ebb_driven(dev)) && !ebb_drive_begin_step(dev)))
        return false;
    const ebb_operation_t *view = op;
    const char *why = differs_now(dev, op);
    if (why) {
        view = ebb_stale_view(dev, op);
        why = differs_now(dev, view);
    }
    if (why && ebb_drive_change_over(dev, NULL, view))
        why = differs_now(dev, view);
    drive_t *drive = ebb_driven(dev); /* it stays from here on */
    if (drive->active && why && ebb_drive_skip(drive, NULL, view))
        why = differs_now(dev, view);
    if (!drive->active)
        return false;
    const bool is_its_launch = !why || !launch_differs(drive, view, drive->cursor),
               partial = why && is_its_launch && ebb_unplanned_may_match_partly(drive, view);
    if (why && !partial && ebb_unplanned_operation(drive, op)) {
        drive->counts->unplanned++;
        return true;
    }
    if (!why || partial) {
        const char *arranged = ebb_drive_arrange(drive, view);
        why = arranged || (partial && ebb_unplanned_partial_match(drive, view)) ? arranged : why;
    }
    if (why && op->kind == EBB_KERNEL && is_its_launch)
        ebb_drive_say_other_buffers(dev, view);
    if (why)
        ebb_drive_leave(dev, why);
    else if (view != op)
        op->instead = view->params; /* the plan does not provide for where these words lead */
    return !why;
}

void ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued)
{
    drive_t *drive = ebb_driven(dev);
    const bool unplanned = drive->unplanned;
    drive->unplanned = false;
    if (unplanned)
        ebb_residence_release(op);
    if (!issued)
        ebb_drive_leave(dev, "an operation failed");
    if (!issued)
        return;
    if (unplanned) {
        if (ebb_streams_scatter(drive, ebb_drive_stream_number(drive, op->stream), EBB_ALL_STREAMS))
            ebb_drive_leave(dev, "the driver refused to let streams wait for each other");
        ebb_guard_close(drive);
        return;
    }
    drive->strays = 0;
    note_writes(drive);
    const size_t bytes = ebb_chunks_created(dev) * EBB_CHUNK_BYTES;
    if (bytes > drive->counts->peak_bytes)
        drive->counts->peak_bytes = bytes;
    if (++drive->cursor == drive->trace->operation_count)
        ebb_drive_end_step(drive);
    if (drive->active)
        ebb_guard_close(drive);
}

/* ---- falling back ---- */

/* What is alive, and of that what is neither on the device nor on the host. */
static void list_orphans(drive_t *drive, ebb_orphans_t *left)
{
    *left = drive->orphans;
    left->learned = drive->learned;
    left->cursor = drive->cursor;
    left->stray = drive->stray;
    left->stray_count = drive->stray_count;
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        const site_t *s = ebb_site_of(drive, i);
        left->buffer[i] = s->late ? NULL : s->buffer;
        if (!s->buffer || !s->range || !s->written || s->device || s->on_host)
            continue;
        if (!s->given_up)
            ebb_content_lost(drive->device, i, "its place was taken");
        left->given_up[left->given_up_count++] = (ebb_given_up_t){i, ebb_drive_verify_copy(drive, i)};
    }
}

/* Gives the tracker the program's position, unless nothing depends on it and a step is about to begin. */
static void hand_over(drive_t *drive, ebb_orphans_t *left)
{
    if (!left->given_up_count && left->cursor == drive->trace->operation_count && drive->period == 1)
        return;
    left->issued = drive->issued;
    drive->issued = NULL;
    ebb_tracker_resume(drive->device, left);
    drive->issued = left->issued; /* unless it was taken */
}

void ebb_drive_leave(ebb_device_t *dev, const char *why)
{
    drive_t *drive = ebb_driven(dev);
    ebb_orphans_t left;
    if (!drive->active)
        return;
    ebb_log(EBB_INFO, "leaving the plan: %s", why);
    ebb_log(EBB_DEBUG, "it was at operation %u of %u, in step %llu since it was installed", drive->cursor,
            drive->trace->operation_count, (unsigned long long)drive->step);
    drive->active = false; /* allocations from here on are ordinary */
    drive->counts->fallbacks++;
    ebb_wait_for_device(dev->ebb);
    list_orphans(drive, &left);
    ebb_guard_tear_down(drive);
    ebb_share_dissolve(dev);
    hand_over(drive, &left);
    ebb_drive_forget(drive);
}
