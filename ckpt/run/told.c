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
        if (k->phase == EBB_PHASE_REACTIVE && k->learned && (k->refused || k->rest))
            k->phase = EBB_PHASE_DRIVE;
        k->refused = k->rest = k->rested = k->fruitless = k->failures = 0;
        k->alone = false;
        k->sparing = (ebb_sparing_t){.seen = 0};
    }
    if (ebb_drive_active(dev))
        ebb_drive_leave(dev, "the budget is another one");
    ebb_variant_take_budget(dev, bytes);
    ebb_log(EBB_INFO, "the budget is %zu MiB from here on: the program says so", bytes >> 20);
    return !ebb_chunks_excess(dev) && ebb_usage(dev).overhead_bytes <= bytes;
}

/* ---- buffers that are kept ---- */

/* Of what is followed or driven, if it is one of its numbers; what outlives steps is noted when a plan is installed (runner_plan.c). */
static void note_kept(ebb_device_t *dev, ebb_recording_t *learned, uint32_t number)
{
    if (learned && number && number <= learned->trace->buffer_count)
        dev->run->runner->terms += ebb_recording_keep(learned, number - 1);
}

static void note_kept_no_more(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    runner->terms++;
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        ebb_recording_t *r = ebb_variant_recording(&runner->variant[i]);
        if (r && r->trace)
            ebb_recording_keep_nothing(r);
    }
}

/* How many steps have ended, in whatever way. */
static uint64_t steps_of(const ebb_device_t *dev)
{
    const ebb_steps_t *s = &dev->run->runner->steps;
    return s->completed + s->interrupted;
}

/* What a plan that provides for it has in place needs nothing. */
static ebb_status_t bring(ebb_device_t *dev, ebb_buffer_t *b)
{
    if (ebb_drive_active(dev))
        ebb_drive_keep(dev, b);
    return ebb_drive_active(dev) && b->number ? 0 : ebb_buffer_bring(b);
}

ebb_status_t ebb_buffer_keep(ebb_buffer_t *b)
{
    ebb_visit_t visit;
    ebb_device_t *dev = b->range->device;
    if (b->kept++)
        return 0;
    ebb_status_t status = ebb_device_visit(dev, &visit);
    if (!status) {
        const bool drives = ebb_drive_active(dev);
        ebb_recording_t *learned = drives ? ebb_drive_recording(dev) : dev->run->tracked->learned;
        const uint32_t number = b->number;
        b->kept_since = steps_of(dev);
        status = bring(dev, b);
        if (!status)
            note_kept(dev, learned, number);
        ebb_device_return(visit);
    }
    b->kept -= status != 0;
    return status;
}

void ebb_buffer_keep_no_more(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (b->kept && !--b->kept && steps_of(dev) > b->kept_since + 1)
        note_kept_no_more(dev);
}
