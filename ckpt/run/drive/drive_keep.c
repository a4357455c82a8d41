/* drive_keep.c: buffers that the program keeps on the device (ebb.h). A plan that moves one is left. What is learned says so, and plans follow from
 * that: of what is kept when a step begins, and of what is kept within steps for the second time. */
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/state.h"

/* What is kept once within a step need not be in the next one. */
enum { ONCE = 1 };

/* The buffer's number in the recording of an installed plan, as far as it can be told; EBB_NONE: it is none of its. */
static uint32_t number_in(ebb_device_t *dev, const drive_t *drive, const ebb_buffer_t *b)
{
    const ebb_trace_t *t = drive->learned->trace;
    if (drive == ebb_driven(dev) && b->number != EBB_INACTIVE)
        return b->number ? b->number - 1 : EBB_NONE;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (ebb_trace_stays_itself(t, i) && ebb_recorded_buffer(dev, drive->learned, NULL, i) == b)
            return i;
    return EBB_NONE;
}

/* No action of the plan takes it away. */
static bool stays(const ebb_plan_t *p, uint32_t place)
{
    bool moved = p->place[place].at_start == EBB_ON_HOST;
    for (uint32_t i = 0; i < p->action_count; i++)
        moved |= p->action[i].place == place;
    return !moved;
}

ebb_recording_t *ebb_drive_recording(ebb_device_t *dev)
{
    return ebb_driven(dev)->learned;
}

void ebb_drive_keep(ebb_device_t *dev, const ebb_buffer_t *b)
{
    bool kept = true;
    for (unsigned i = 0; i < EBB_DRIVES; i++) {
        const drive_t *drive = &dev->run->drives->of[i];
        const uint32_t number = drive->installed ? number_in(dev, drive, b) : EBB_NONE;
        kept &= number == EBB_NONE || stays(drive->plan, number);
    }
    if (!kept)
        ebb_drive_leave(dev, "the program keeps a buffer that plans move");
}

bool ebb_recording_keep(ebb_recording_t *learned, uint32_t buffer)
{
    ebb_trace_buffer_t *t = &learned->trace->buffer[buffer];
    if (t->kept || learned->buffer[buffer].keeps++ < ONCE)
        return false;
    return t->kept = true;
}

void ebb_recording_keep_nothing(ebb_recording_t *learned)
{
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        learned->trace->buffer[i].kept = false;
        learned->buffer[i].keeps = 0;
    }
}

bool ebb_drive_note_kept(ebb_device_t *dev, ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    bool more = false;
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            t->born == EBB_NONE && !t->kept ? ebb_recorded_buffer(dev, learned, present, i) : NULL;
        if (b && b->kept)
            more = t->kept = true;
    }
    return more;
}
