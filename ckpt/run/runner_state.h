/* runner_state.h: what runner.c (the program's operations), runner_kind.c (what is known of a kind of step) and runner_plan.c (its
 * plan) share. Guarded by ebb_lock(). */
#ifndef EBB_RUNNER_STATE_H
#define EBB_RUNNER_STATE_H

#include "alloc/device.h"
#include "ckpt/run/planning.h"
#include "ckpt/run/profile/learn.h"
#include "ckpt/run/runner.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/step.h"
#include "offload/ebb_offload.h"

/* A kind of step. */
typedef struct ebb_kind {
    uint64_t serial; /* of the kind in the finder that this is about; 0: none */
    enum { EBB_PHASE_OBSERVE, EBB_PHASE_LEARN, EBB_PHASE_DRIVE, EBB_PHASE_STAY } phase;
    unsigned fruitless;       /* installations in a row without a driven step */
    unsigned failures;        /* installations that failed */
    unsigned unknown;         /* boundaries in a row at which it was not known which buffers there are */
    size_t refused;           /* STAY because there was no plan for so many bytes; 0: it was not that */
    unsigned refused_steps;   /* steps since */
    unsigned interruptions;   /* of learning and driving */
    uint64_t driven_before;   /* steps driven when the plan was installed last */
    ebb_lessons_t *lessons;   /* NULL: none yet */
    ebb_recording_t *learned; /* the lessons', when all is learned */
    ebb_plan_t *plan;
    bool untold;       /* it has not been driven yet */
    ebb_rates_t rates; /* of the link, as plans that came late have shown */
    unsigned replans;  /* plans that were given up for another one */
    unsigned misfits;  /* of them, those that could not be installed for want of memory */
    unsigned rest,
        rested; /* STAY because the program did not keep to the plan: for so many steps, and how many have passed; 0: not that */
    bool alone; /* none agrees with those of other kinds */
} ebb_kind_t;

struct ebb_runner {
    ebb_kind_t kind[EBB_STEP_KINDS];
    ebb_kind_t *driving; /* whose plan is driven; NULL: none is */
    unsigned slot;       /* the device that is followed */
    bool bound;          /* what learning and driving keep is that device's: no other will be followed */
    bool over;           /* its context is gone: nothing is followed any more */
    uint64_t operations[EBB_STATES]; /* of each device */
    ebb_step_finder_t *finder;
    ebb_steps_t steps;
    size_t fewest_live;          /* bytes of the program's, since the last operation */
    uint64_t turns;              /* of NVTX ranges, at the last operation */
    bool boundary;               /* the step has ended, nothing has happened since */
    bool trailing;               /* the operation under way is behind the boundary, and the last step's */
    bool driven;                 /* the operation under way is a planned one */
    bool views;                  /* operations of this step are seen without what is left over of them */
    const ebb_operation_t *view; /* of the one under way, if it is not driven */
};

static inline unsigned ebb_kind_number(ebb_t *ebb, const ebb_kind_t *k)
{
    struct ebb_runner *runner = ebb->run->runner;
    return (unsigned)(k - runner->kind);
}

/* ---- runner_kind.c ---- */

/* By the finder's number; NULL: below 0. */
ebb_kind_t *ebb_kind_of(ebb_device_t *dev, int number);
/* What is known of one kind; a recording under way may be of any. */
void ebb_kind_forget(ebb_device_t *dev, ebb_kind_t *kind);
/* The plan that is driven, and all that are installed beside it: at a boundary, or when it is of no interest where the program is. */
void ebb_run_leave(ebb_device_t *dev, const char *why);
bool ebb_run_is_worth_learning(ebb_device_t *dev);
/* A lesson begins, for a step that is expected to be of this kind; it has ended, in a step of this kind. */
void ebb_kind_begin_lesson(ebb_device_t *dev, ebb_kind_t *kind);
void ebb_kind_learn(ebb_device_t *dev, ebb_kind_t *kind);

/* ---- runner_plan.c ---- `present`: the buffers with which the step begins (ebb_follow_present) ---- */

/* Its plan was refused for want of memory, of which there is more now. */
bool ebb_kind_has_more_room(ebb_device_t *dev, ebb_kind_t *kind, ebb_buffer_t *const *present);
/* The program did not keep to its plan, and is tried again. */
bool ebb_kind_is_rested(ebb_kind_t *kind);
/* Makes a plan if there is none and installs it, if it is known which buffers a step begins with. */
void ebb_kind_drive(ebb_device_t *dev, ebb_kind_t *kind, ebb_buffer_t *const *present);
/* What is driven is looked at now and then, at the end of a step. */
void ebb_kind_revise_pace(ebb_device_t *dev, ebb_kind_t *kind);
/* A plan was installed: those that have agreed with it before are, too. */
void ebb_run_install_others(ebb_device_t *dev);
/* Another kind is expected than the one whose plan is driven; NULL: none. */
void ebb_run_turn_to(ebb_device_t *dev, ebb_kind_t *next);

#endif
