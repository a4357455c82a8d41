/* step_clock.c: see internal.h. */
#include "ckpt/run/drive/internal.h"

#include <stddef.h>

#include "alloc/base/driver.h"

static void read_pair(drive_t *drive, unsigned turn)
{
    ebb_step_clock_t *c = &drive->clock;
    float ms = 0;
    if (!c->ended[turn] || ebb_driver.cuEventQuery(c->event[turn][1]))
        return;
    c->ended[turn] = false;
    if (ebb_driver.cuEventElapsedTime(&ms, c->event[turn][0], c->event[turn][1]))
        return;
    drive->counts->ns += (uint64_t)((double)ms * 1e6);
    drive->counts->alone_ns += drive->alone_ns;
    drive->counts->timed++;
}

void ebb_step_clock_begin(drive_t *drive)
{
    ebb_step_clock_t *c = &drive->clock;
    const unsigned turn = drive->step % EBB_STEP_CLOCKS;
    read_pair(drive, (turn + EBB_STEP_CLOCKS - 2) % EBB_STEP_CLOCKS); /* what has ended by now, most often */
    read_pair(drive, turn);
    c->ended[turn] = false;
    for (int i = 0; i < 2; i++)
        if (!c->event[turn][i] && ebb_driver.cuEventCreate(&c->event[turn][i], CU_EVENT_DEFAULT))
            c->event[turn][i] = NULL;
    if (c->event[turn][0] && ebb_driver.cuEventRecord(c->event[turn][0], ebb_stream_handle(drive->stream))) {
        ebb_driver.cuEventDestroy_v2(c->event[turn][0]);
        c->event[turn][0] = NULL;
    }
}

void ebb_step_clock_end(drive_t *drive)
{
    ebb_step_clock_t *c = &drive->clock;
    const unsigned turn = drive->step % EBB_STEP_CLOCKS;
    c->ended[turn] = c->event[turn][0] && c->event[turn][1] &&
                     !ebb_driver.cuEventRecord(c->event[turn][1], ebb_stream_handle(drive->stream));
}

void ebb_step_clock_stop(drive_t *drive)
{
    ebb_step_clock_t *c = &drive->clock;
    for (unsigned turn = 0; turn < EBB_STEP_CLOCKS; turn++) {
        read_pair(drive, turn);
        c->ended[turn] = false;
        for (int i = 0; i < 2; i++)
            if (c->event[turn][i])
                ebb_driver.cuEventDestroy_v2(c->event[turn][i]);
        c->event[turn][0] = c->event[turn][1] = NULL;
    }
}
