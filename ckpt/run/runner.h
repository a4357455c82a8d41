/* runner.h: how far the runner is; see runner.c. */
#ifndef EBB_RUNNER_H
#define EBB_RUNNER_H

#include "ckpt/run/drive/drive.h"
#include "ckpt/run/tracker/step.h"

typedef struct ebb_steps {
    uint64_t operations;  /* of the program, so far */
    uint64_t completed;   /* steps that went as known */
    uint64_t interrupted; /* that did not */
    size_t period;        /* operations of the known step; 0: none */
    uint64_t found_after; /* operations until the first one was known; 0: none was */
    ebb_step_kind_t kind[EBB_STEP_KINDS];
    ebb_step_lanes_t lanes;
    uint64_t plans;      /* made and installed for the first time */
    uint64_t replans;    /* given up for another one: copies came late, or there was less memory */
    ebb_plan_sum_t plan; /* of the one made last */
    uint64_t
        predicted_peak_bytes; /* of all chunks: that plan's, those of plans that are installed with it, slabs, and what
                                      plans do not know */
} ebb_steps_t;
ebb_steps_t ebb_steps(ebb_t *ebb);

#endif
