/* runner.c: what libebb does at each of the program's operations. It listens to alloc/, follows the program's
 * steps, and decides who acts: in this form always the reactive half (offload/residence.c).
 */
#include "runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ebb_alloc.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "record.h"
#include "stats.h"
#include "step.h"

enum { LONGEST_STEP = 1 << 18 };

static ebb_step_finder_t *finder;
static ebb_steps_t steps;

ebb_steps_t ebb_steps(void)
{
    steps.period = finder ? ebb_step_period(finder) : 0;
    return steps;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

/* What stays the same from step to step: neither addresses nor the values of scalars. */
static uint64_t signature_of(const ebb_operation_t *op)
{
    uint64_t h = mix(op->kind + 1, (uint64_t)(uintptr_t)op->function);
    for (int i = 0; i < 3; i++)
        h = mix(h, (uint64_t)op->grid[i] << 32 | op->block[i]);
    h = mix(h, (uint64_t)op->shared_bytes << 32 | op->param_bytes);
    h = mix(h, op->bytes);
    return mix(h, op->access_count);
}

static void write_trace(ebb_trace_t *trace)
{
    FILE *f = fopen(ebb_options.trace, "w");
    bool written = f && ebb_trace_write(trace, f);
    if (f && fclose(f))
        written = false;
    if (written)
        ebb_log(EBB_INFO, "the trace of a step of %u operations and %u buffers is in %s",
                trace->operation_count, trace->buffer_count, ebb_options.trace);
    else
        ebb_log(EBB_WARN, "EBB_TRACE=%s: %s", ebb_options.trace, strerror(errno));
    ebb_trace_delete(trace);
}

/* Records from one boundary to the next, if a trace is wanted; once. */
static void record_steps(ebb_step_event_t event)
{
    static bool done;
    if (done || !*ebb_options.trace)
        return;
    if (event == EBB_STEP_BOUNDARY && ebb_record_running()) {
        ebb_trace_t *trace = ebb_record_end();
        done = true;
        if (trace)
            write_trace(trace);
    } else if (event == EBB_STEP_BOUNDARY) {
        ebb_record_begin();
    } else if (event != EBB_STEP_NONE) {
        ebb_record_abandon();
    }
}

static void follow_steps(const ebb_operation_t *op)
{
    if (!finder && !(finder = ebb_step_finder_new(LONGEST_STEP)))
        return;
    steps.operations++;
    ebb_step_event_t event = ebb_step_push(finder, signature_of(op), ebb_usage().live_bytes);
    record_steps(event);
    switch (event) {
    case EBB_STEP_FOUND:
        ebb_log(EBB_INFO, "a step of %zu operations, after %llu", ebb_step_period(finder),
                (unsigned long long)steps.operations);
        break;
    case EBB_STEP_BOUNDARY:
        steps.completed++;
        break;
    case EBB_STEP_LOST:
        steps.interrupted++;
        break;
    default:
        break;
    }
}

static ebb_status_t before(ebb_operation_t *op)
{
    return ebb_residence_acquire(op);
}

static void after(const ebb_operation_t *op, CUresult result)
{
    ebb_residence_release(op);
    if (result)
        return;
    if (ebb_record_running())
        ebb_record_operation(op);
    follow_steps(op);
}

static void allocated(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    (void)stream;
    if (ebb_record_running())
        ebb_record_allocated(buffer);
}

static void freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    if (ebb_record_running())
        ebb_record_freed(buffer);
    ebb_residence_forget(buffer, stream);
}

static const ebb_listener_t listener = {.allocated = allocated,
                                        .freeing = freeing,
                                        .before = before,
                                        .after = after,
                                        .make_room = ebb_residence_make_room,
                                        .finish = ebb_stats_write};

__attribute__((constructor)) static void listen(void)
{
    ebb_listen(&listener);
}
