/* internal.h: what the files of ckpt/run itself share: the step variants, their profiling passes and plans. Guarded by ebb_lock(). */
#ifndef EBB_RUN_INTERNAL_H
#define EBB_RUN_INTERNAL_H

#include <stddef.h>

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/checker/checker.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "ckpt/trace/trace.h"
#include "offload/ebb_offload.h"

/* ---- plans for a learned step (planning.c) ---- */

/* The plan for a learned step, by what the options say: EBB_PLAN's, or that of the planner that EBB_POLICY names. */

/* What copies get of the link; 0: as it is when nothing else uses it (ebb_link). */
typedef struct ebb_rates {
    double out, in; /* bytes per ns */
} ebb_rates_t;

/* The trace says on what device and link it was recorded; they are measured, if they have not been. With ebb_lock() held. */
void ebb_planning_describe(ebb_device_t *dev, ebb_trace_t *trace);

/* A plan that has passed the checker, for so many bytes of device and of pinned host memory, and the link; it agrees
 * with the boundary, if one is given; the caller's. NULL: there is none, `why` says in one line why not. With ebb_lock() held. */
ebb_plan_t *ebb_planning(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                         const ebb_rates_t *rates, const ebb_boundary_t *boundary, char *why,
                         size_t why_bytes);

/* How far a plan of ebb_planning's is from the best one at most, as ebb_plan_gap. With ebb_lock() held. */
double ebb_planning_gap(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                        const ebb_rates_t *rates, const ebb_plan_t *plan);

/* The smallest device bytes for which the planner has a plan; 0: for none. Takes as long as a few plans. With ebb_lock() held. */
uint64_t ebb_planning_floor(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                            const ebb_rates_t *rates);

/* What keeping everything takes; 0: `why` says why that is not known. With ebb_lock() held. */
uint64_t ebb_planning_peak(ebb_device_t *dev, const ebb_trace_t *trace, char *why, size_t why_bytes);

/* The program has waited for copies longer than the plan foresaw, by more than 3% of a step, and they were slower than the rates
 * that it was made with, by more than a tenth: those become what was measured. With ebb_lock() held. */
bool ebb_planning_is_late(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_plan_t *plan,
                          const ebb_drive_pace_t *pace, ebb_rates_t *rates);

/* ---- how far the runner is (runner.c) ---- */

typedef struct ebb_steps {
    uint64_t operations;  /* of the program, so far */
    uint64_t completed;   /* steps that went as known */
    uint64_t interrupted; /* that did not */
    size_t period;        /* operations of the known step; 0: none */
    uint64_t found_after; /* operations until the first one was known; 0: none was */
    ebb_step_variant_t variant[EBB_STEP_VARIANTS];
    ebb_step_streams_t streams;
    uint64_t plans;      /* made and installed for the first time */
    uint64_t replans;    /* given up for another one: copies came late, or there was less memory */
    ebb_plan_sum_t plan; /* of the one made last */
    uint64_t
        predicted_peak_bytes; /* of all chunks: that plan's, those of plans that are installed with it, slabs, and what
                                      plans do not know */
    uint64_t variant_peak_bytes[EBB_STEP_VARIANTS]; /* the same of each variant's last plan */
} ebb_steps_t;
ebb_steps_t ebb_steps(ebb_t *ebb);

/* ---- what runner.c, runner_variant.c and runner_plan.c share ---- */

/* What runner.c (the program's operations), runner_variant.c (what is known of a step variant) and runner_plan.c (its
 * plan) share. Guarded by ebb_lock(). */

/* A step variant. */
typedef struct ebb_variant {
    uint64_t serial; /* of the variant in the finder that this is about; 0: none */
    enum { EBB_PHASE_OBSERVE, EBB_PHASE_LEARN, EBB_PHASE_DRIVE, EBB_PHASE_REACTIVE } phase;
    unsigned fruitless;       /* installations in a row without a driven step */
    unsigned failures;        /* installations that failed */
    unsigned unknown;         /* boundaries in a row at which it was not known which buffers there are */
    size_t refused;           /* REACTIVE because there was no plan for so many bytes; 0: it was not that */
    unsigned refused_steps;   /* steps since */
    unsigned interruptions;   /* of learning and driving */
    uint64_t driven_before;   /* steps driven when the plan was installed last */
    ebb_profile_t *profile;   /* NULL: none yet */
    ebb_recording_t *learned; /* the profiling passes', when all is learned */
    ebb_plan_t *plan;
    bool untold;               /* it has not been driven yet */
    ebb_check_limits_t limits; /* that a plan was made for, or refused, last; zeros: none was */
    size_t reserved_bytes;     /* chunks that no plan could have then */
    size_t floor_bytes;        /* the smallest for which there is a plan; 0: not looked for, or none */
    ebb_rates_t rates;         /* of the link, as plans that came late have shown */
    unsigned replans;          /* plans that were given up for another one */
    unsigned install_failures; /* of them, those that could not be installed for want of memory */
    unsigned rest,
        rested; /* REACTIVE because the program did not keep to the plan: for so many steps, and how many have passed; 0: not that */
    bool alone; /* none agrees with those of other variants */
} ebb_variant_t;

struct ebb_runner {
    ebb_variant_t variant[EBB_STEP_VARIANTS];
    ebb_variant_t *driving; /* whose plan is driven; NULL: none is */
    unsigned device_number; /* the device that is followed */
    bool bound;             /* what learning and driving keep is that device's: no other will be followed */
    bool sized;             /* the budget is a share of a step's peak, and that is known */
    bool over;              /* its context is gone: nothing is followed any more */
    uint64_t operations[EBB_STATES]; /* of each device */
    ebb_step_finder_t *finder;
    ebb_steps_t steps;
    size_t fewest_live;          /* bytes of the program's, since the last operation */
    uint64_t turns;              /* of NVTX ranges, at the last operation */
    bool boundary;               /* the step has ended, nothing has happened since */
    bool trailing;               /* the operation under way is behind the boundary, and the last step's */
    bool driven;                 /* the operation under way is a planned one */
    bool views;                  /* operations of this step are seen without what is stale of them */
    const ebb_operation_t *view; /* of the one under way, if it is not driven */
};

static inline unsigned ebb_variant_number(ebb_t *ebb, const ebb_variant_t *k)
{
    struct ebb_runner *runner = ebb->run->runner;
    return (unsigned)(k - runner->variant);
}

/* ---- runner_variant.c ---- */

/* By the finder's number; NULL: below 0. */
ebb_variant_t *ebb_variant_of(ebb_device_t *dev, int number);
/* What is known of one variant; a recording under way may be of any. */
void ebb_variant_forget(ebb_device_t *dev, ebb_variant_t *variant);
/* The plan that is driven, and all that are installed beside it: at a boundary, or when it is of no interest where the program is. */
void ebb_run_leave(ebb_device_t *dev, const char *why);
bool ebb_run_is_worth_learning(ebb_device_t *dev);
/* A profiling pass begins, for a step that is expected to be of this variant; it has ended, in a step of this variant. */
void ebb_variant_begin_pass(ebb_device_t *dev, ebb_variant_t *variant);
void ebb_variant_learn(ebb_device_t *dev, ebb_variant_t *variant);

/* ---- runner_plan.c ---- `present`: the buffers with which the step begins (ebb_tracker_present) ---- */

/* Its plan was refused for want of memory, of which there is more now. */
bool ebb_variant_has_more_room(ebb_device_t *dev, ebb_variant_t *variant, ebb_buffer_t *const *present);
/* The program did not keep to its plan, and is tried again. */
bool ebb_variant_is_rested(ebb_variant_t *variant);
/* Makes a plan if there is none and installs it, if it is known which buffers a step begins with. */
void ebb_variant_drive(ebb_device_t *dev, ebb_variant_t *variant, ebb_buffer_t *const *present);
/* What is driven is looked at now and then, at the end of a step. */
void ebb_variant_revise_pace(ebb_device_t *dev, ebb_variant_t *variant);
/* A plan was installed: those that have agreed with it before are, too. */
void ebb_run_install_others(ebb_device_t *dev);
/* Another variant is expected than the one whose plan is driven; NULL: none. */
void ebb_run_turn_to(ebb_device_t *dev, ebb_variant_t *next);

/* ---- what is written for others while the program runs (output_files.c) ---- */

/* What libebb writes for others while the program runs: the trace (EBB_TRACE) and the plan (EBB_SAVE_PLAN) of each
 * step variant.
 *
 * The variant that has something written first has the names that the options give; another one's files end in a dot and its
 * number, as the statistics give it. What a variant has written before is replaced. What cannot be written is logged. The statistics
 * list both (stats.h). */

void ebb_files_trace(ebb_t *ebb, unsigned variant, const ebb_trace_t *trace);
void ebb_files_plan(ebb_t *ebb, unsigned variant, const ebb_plan_t *plan);
/* There is no such variant any more: the names that it had are free. */
void ebb_files_forget(ebb_t *ebb, unsigned variant);

#endif
