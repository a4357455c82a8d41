/* step_clock.c: see internal.h. */
#include "ckpt/run/drive/internal.h"

#include <stddef.h>

#include "alloc/base/driver.h"

static void read_pair(ebb_step_clock_t *c, unsigned turn)
{
    float ms = 0;
    if (!c->ended[turn] || ebb_driver.cuEventQuery(c->event[turn][1]))
        return;
    c->ended[turn] = false;
    if (ebb_driver.cuEventElapsedTime(&ms, c->event[turn][0], c->event[turn][1]))
        return;
    c->ns += (uint64_t)((double)ms * 1e6);
    c->sum_alone_ns += c->alone_ns;
    c->count++;
}

void ebb_step_clock_begin(ebb_step_clock_t *c, uint64_t step, CUstream compute)
{
    const unsigned turn = step % EBB_STEP_CLOCKS;
    read_pair(c, (turn + EBB_STEP_CLOCKS - 2) % EBB_STEP_CLOCKS); /* what has ended by now, most often */
    read_pair(c, turn);
    c->ended[turn] = false;
    for (int i = 0; i < 2; i++)
        if (!c->event[turn][i] && ebb_driver.cuEventCreate(&c->event[turn][i], CU_EVENT_DEFAULT))
            c->event[turn][i] = NULL;
    if (c->event[turn][0] && ebb_driver.cuEventRecord(c->event[turn][0], compute)) {
        ebb_driver.cuEventDestroy_v2(c->event[turn][0]);
        c->event[turn][0] = NULL;
    }
}

void ebb_step_clock_end(ebb_step_clock_t *c, uint64_t step, CUstream compute)
{
    const unsigned turn = step % EBB_STEP_CLOCKS;
    c->ended[turn] =
        c->event[turn][0] && c->event[turn][1] && !ebb_driver.cuEventRecord(c->event[turn][1], compute);
}

void ebb_step_clock_stop(ebb_step_clock_t *c)
{
    for (unsigned turn = 0; turn < EBB_STEP_CLOCKS; turn++) {
        read_pair(c, turn);
        c->ended[turn] = false;
        for (int i = 0; i < 2; i++)
            if (c->event[turn][i])
                ebb_driver.cuEventDestroy_v2(c->event[turn][i]);
        c->event[turn][0] = c->event[turn][1] = NULL;
    }
}
