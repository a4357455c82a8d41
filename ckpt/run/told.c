/* told.c: what the program tells ebb itself (ebb.h). */
#include "ckpt/run/internal.h"

#include "alloc/base/status.h"
#include "ckpt/run/run.h"

/* ---- steps, the budget ---- */

void ebb_run_mark_step(ebb_device_t *dev)
{
    dev->run->runner->marked = true;
}

bool ebb_run_budget(ebb_device_t *dev, size_t bytes)
{
    struct ebb_runner *runner = dev->run->runner;
    runner->terms++;
    runner->sized = true;
    for (unsigned i = 0; i < EBB_DRIVES; i++) {
        ebb_variant_t *k = &runner->variant[i];
        k->refused = k->rest = k->rested = k->fruitless = k->failures = 0;
        k->alone = false;
        k->sparing = (ebb_sparing_t){.seen = 0};
        if (k->phase == EBB_PHASE_REACTIVE && k->learned)
            k->phase = EBB_PHASE_DRIVE;
    }
    ebb_variant_take_budget(dev, bytes);
    ebb_log(EBB_INFO, "the budget is %zu MiB from here on: the program says so", bytes >> 20);
    return !ebb_chunks_excess(dev);
}

/* ---- buffers that are kept ---- */

/* In the traces of what is followed and driven, and in others when their plans are installed again (runner_plan.c). */
static void note_kept(ebb_device_t *dev, const ebb_buffer_t *b)
{
    struct ebb_runner *runner = dev->run->runner;
    const ebb_recording_t *followed = dev->run->tracked->learned;
    if (ebb_drive_active(dev)) {
        runner->terms += !ebb_drive_keep(dev, b);
    } else if (followed && b->number) {
        ebb_trace_buffer_t *known = &followed->trace->buffer[b->number - 1];
        runner->terms += !known->kept;
        known->kept = true;
    }
}

static void note_kept_no_more(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    runner->terms++;
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        const ebb_recording_t *r = runner->variant[i].learned;
        for (uint32_t b = 0; r && b < r->trace->buffer_count; b++)
            r->trace->buffer[b].kept = false;
    }
}

/* How many steps have ended, in whatever way. */
static uint64_t steps_of(ebb_device_t *dev)
{
    const ebb_steps_t s = ebb_steps(dev);
    return s.completed + s.interrupted;
}

ebb_status_t ebb_buffer_keep(ebb_buffer_t *b)
{
    ebb_visit_t visit;
    ebb_device_t *dev = b->range->device;
    if (b->kept++)
        return 0;
    ebb_status_t status = ebb_device_visit(dev, &visit);
    if (!status) {
        b->kept_since = steps_of(dev);
        note_kept(dev, b);
        status = ebb_buffer_bring(b);
        ebb_device_return(visit);
    }
    b->kept -= status != 0;
    return status;
}

void ebb_buffer_keep_no_more(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (b->kept && !--b->kept && b->kept_since != steps_of(dev))
        note_kept_no_more(dev);
}
