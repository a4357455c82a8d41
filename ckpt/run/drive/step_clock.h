/* step_clock.h: how long driven steps take on the device, from before their first action to behind their last operation.
 *
 * An event at either end on the program's stream, read EBB_STEP_CLOCKS steps later, if it has come by then: nothing waits for it. One
 * at a time, everything with ebb_lock() held. What the driver refuses is not measured.
 */
#ifndef EBB_STEP_CLOCK_H
#define EBB_STEP_CLOCK_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum { EBB_STEP_CLOCKS = 16 };

typedef struct ebb_step_clock {
    CUevent event[EBB_STEP_CLOCKS][2]; /* of steps in turns: begin, end */
    bool ended[EBB_STEP_CLOCKS];
    uint64_t ns, count; /* of all steps that were read */
} ebb_step_clock_t;

void ebb_step_clock_begin(ebb_step_clock_t *clock, uint64_t step, CUstream compute);
void ebb_step_clock_end(ebb_step_clock_t *clock, uint64_t step, CUstream compute);
/* The device must be idle: what has ended is read. Sums stay. */
void ebb_step_clock_stop(ebb_step_clock_t *clock);

#endif
