/* internal.h: what the files of ckpt/run itself share: the step variants, their profiling passes and plans. Guarded by ebb_lock(). */
#ifndef EBB_RUN_INTERNAL_H
#define EBB_RUN_INTERNAL_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/checker/checker.h"
#include "ckpt/plan/plan.h"
#include "ckpt/planner/planner.h"
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

/* What is asked for: a plan for so many bytes of device and of pinned host memory, and the link. With ebb_lock() held. */
ebb_plan_request_t ebb_planning_request(ebb_device_t *dev, const ebb_check_limits_t *limits,
                                        const ebb_rates_t *rates);

/* A plan that has passed the checker; it agrees with the request's boundary; the caller's. NULL: there is none, `why` says in one
 * line why not. A function of its arguments and the options: any thread. */
ebb_plan_t *ebb_planning(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                         size_t why_bytes);

/* The plan, if it passes the checker and agrees with the request's boundary; else it is deleted, and NULL. Any thread. */
ebb_plan_t *ebb_planning_check(const ebb_trace_t *trace, const ebb_plan_request_t *request, ebb_plan_t *plan,
                               char *why, size_t why_bytes);

/* What keeping everything takes; 0: `why` says why that is not known. With ebb_lock() held. */
uint64_t ebb_planning_peak(ebb_device_t *dev, const ebb_trace_t *trace, char *why, size_t why_bytes);

/* The program has waited for copies longer than the plan foresaw, by more than 3% of a step, and they were slower than the rates
 * that it was made with, by more than a tenth: those become what was measured. With ebb_lock() held. */
bool ebb_planning_is_late(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_plan_t *plan,
                          const ebb_drive_pace_t *pace, ebb_rates_t *rates);

/* ---- planning beside the program (plan_job.c) ---- */

/* A step of 10,000 launches takes seconds to plan. A thread of ebb's does it without ebb_lock(); the program goes on, with the plan that it
 * has or reactively. At a boundary the runner takes what has come of it, if it still suits (runner_plan.c).
 *
 * Looking for better plans takes most of that. Of steps of up to 1,000 operations what is found first is good enough to go on with, and is
 * driven while the rest is looked for. What comes of it replaces it at a boundary, if it is faster by a hundredth.
 *
 * A job is a question with its answer. It owns all that the planner reads: a copy of the trace, the request, its boundary. So nothing that
 * the program does changes it, and the same question has the same answer in the thread and in the call. Which step is the first one
 * driven depends on time, unless the call waits for the answer (EBB_PLAN_WAIT).
 *
 * One thread works, on the job that is asked first. Where there is no thread, whoever asks does the job. A job that is ended while it is
 * worked on is the thread's to delete, and the planner gives up before its next walk. In the child of a fork there is no thread and ebb
 * sleeps (thread.h).
 *
 * ebb_lock() held, but for ebb_run_stop (run.h). The thread takes a lock of rank EBB_RANK_POOL and no other, so that a call can wait for it with
 * ebb_lock() held. The answer is the thread's until ebb_job_is_done. */

typedef struct ebb_plan_job {
    /* The question. */
    bool floor;                 /* the smallest device bytes with a plan; else a plan */
    ebb_trace_t *trace;         /* owned */
    ebb_boundary_t *boundary;   /* owned; NULL: none */
    ebb_plan_request_t request; /* its boundary is the one above */
    /* A first answer, while a better one is looked for: ebb_job_first. */
    _Atomic(ebb_plan_t *) first;
    uint64_t begun_ns, first_ns; /* when it was begun, and what the first answer took */
    /* The answer. */
    ebb_plan_t *plan;     /* owned, until it is taken (set to NULL); NULL: there is none */
    char why[256];        /* not */
    double gap;           /* ebb_plan_gap, where the log tells it; below 0: not known */
    uint64_t floor_bytes; /* 0: there is none */
    uint64_t took_ns;     /* planning, gap or floor included */
    bool waited;          /* the call that has asked waited until it was done */
    /* plan_job.c's */
    sem_t end;
    atomic_bool done, given_up;
    bool ended;
    struct ebb_plan_job *next;
} ebb_plan_job_t;

/* Asks about a copy of the trace. The boundary (NULL: none) is the job's, in any case. The caller waits EBB_PLAN_WAIT at most. NULL: no host memory. */
ebb_plan_job_t *ebb_job_ask(ebb_t *ebb, bool floor, const ebb_trace_t *trace,
                            const ebb_plan_request_t *request, ebb_boundary_t *boundary);
static inline bool ebb_job_is_done(const ebb_plan_job_t *job)
{
    return atomic_load_explicit(&job->done, memory_order_acquire);
}
/* A plan to go on with until the job is done, the caller's; first_ns belongs to it. NULL: none yet, or it was taken. */
static inline ebb_plan_t *ebb_job_first(ebb_plan_job_t *job)
{
    return atomic_exchange_explicit(&job->first, NULL, memory_order_acquire);
}
/* Done or not: its answer is not wanted any more. NULL: nothing. */
void ebb_job_end(ebb_t *ebb, ebb_plan_job_t *job);

/* ---- how far the runner is (runner.c) ---- */

enum { EBB_AHEAD = 2 };

typedef struct ebb_steps {
    uint64_t operations;  /* of the program, so far */
    uint64_t completed;   /* steps that went as known */
    uint64_t interrupted; /* that did not */
    size_t period;        /* operations of the known step; 0: none */
    uint64_t found_after; /* operations until the first one was known; 0: none was */
    ebb_step_variant_t variant[EBB_STEP_VARIANTS];
    ebb_step_streams_t streams;
    uint64_t plans;   /* made and installed for the first time */
    uint64_t replans; /* given up for another one: copies came late, there was less memory, or a better one */
    ebb_plan_sum_t plan; /* of the last of these */
    uint64_t
        predicted_peak_bytes; /* of all chunks: that plan's, those of plans that are installed with it, slabs, and what
                                      plans do not know */
    uint64_t variant_peak_bytes[EBB_STEP_VARIANTS]; /* the same of each variant's last plan */
    size_t variant_ahead_bytes[EBB_STEP_VARIANTS][EBB_AHEAD];
    unsigned variant_size_plans[EBB_STEP_VARIANTS]; /* of its size classes, as far as they have one */
} ebb_steps_t;
ebb_steps_t ebb_steps(ebb_device_t *dev);

/* ---- what runner.c, runner_variant.c and runner_plan.c share ---- */

/* What runner.c (the program's operations), runner_variant.c (what is known of a step variant) and runner_plan.c (its
 * plan) share. Guarded by ebb_lock(). */

/* Of the last sixteen or so. */
typedef struct ebb_mean {
    double is;
    unsigned of; /* values; 0: not known */
} ebb_mean_t;

/* Whether steps of any size need their plan (runner_sizes.c). */
typedef struct ebb_sparing {
    unsigned seen;     /* steps that were looked at, up to as many as there are bits: */
    uint32_t short_of; /* whether more was alive in them than there is room for, the last one in the lowest */
    uint32_t dear;     /* and whether the plan that drove them cost much */
    ebb_mean_t driven; /* what plans cost in a step, in ns */
    ebb_mean_t copied; /* what copies cost in a step without one */
    unsigned spared;   /* steps since then, and 1: most have room, so no plan is driven; 0: plans are */
} ebb_sparing_t;

/* A step variant; or a size class of one whose steps are of any size: what is planned for those that are no larger than so much
 * (runner_sizes.c). A class has the recording of its variant, and no profile of its own. */
typedef struct ebb_variant {
    uint64_t serial; /* of the variant in the finder that this is about; 0: none */
    enum { EBB_PHASE_OBSERVE, EBB_PHASE_LEARN, EBB_PHASE_DRIVE, EBB_PHASE_REACTIVE } phase;
    unsigned fruitless;       /* installations in a row without a driven step */
    unsigned failures;        /* installations that failed */
    unsigned unknown;         /* boundaries in a row at which it was not known which buffers there are */
    size_t refused;           /* REACTIVE because there was no plan for so many bytes; 0: it was not that */
    unsigned refused_steps;   /* steps since */
    unsigned interruptions;   /* of learning and driving */
    uint64_t renewed;         /* its signature had been, so often, when it was learned */
    uint64_t driven_before;   /* steps driven when the plan was installed last */
    ebb_profile_t *profile;   /* NULL: none yet */
    ebb_recording_t *learned; /* the profiling passes', when all is learned */
    ebb_plan_t *plan;
    ebb_plan_request_t request; /* for it; its pointers are its job's, which is over */
    bool untold; /* it has not been driven yet */
    ebb_plan_job_t *
        job; /* a question that has not been answered yet, or whose answer has not been heard; owned; NULL: none */
    double gap;        /* of the plan, as its job has told it */
    uint64_t took_ns;  /* that the plan took to make */
    bool waited;       /* for that the program waited */
    char refusal[256]; /* why there is none */
    double
        late_ns; /* a step's waits for copies, when another plan was asked for because of them; 0: it was not */
    ebb_check_limits_t limits; /* that a plan was made for, or refused, last; zeros: none was */
    unsigned terms;            /* the runner's, when one was asked for last */
    size_t reserved_bytes;     /* chunks that no plan could have then */
    size_t floor_bytes;        /* the smallest for which there is a plan; 0: not looked for, or none */
    ebb_rates_t rates;         /* of the link, as plans that came late have shown */
    unsigned replans;          /* plans that were given up for another one */
    unsigned install_failures; /* of them, those that could not be installed for want of memory */
    unsigned rest,
        rested; /* REACTIVE because the program did not keep to the plan: for so many steps, and how many have passed; 0: not that */
    bool alone; /* none agrees with those of other variants; of a size class also: there is none, or steps do not keep to it */
    struct ebb_variant *of; /* a size class: the variant; NULL: this is one */
    unsigned size;          /* of the steps that it is planned for (runner_sizes.c); 0: the largest, and all others */
    ebb_trace_t *sized;     /* one of these; owned; NULL: the recording's, or none has been asked for */
    double sized_ns;        /* that its operations take */
    /* Of steps of any size: the smallest budgets with a plan, for 1 and 2 times what varies, so many of them; 0: there is none. */
    size_t ahead_bytes[EBB_AHEAD];
    unsigned ahead_count;
    ebb_plan_job_t *ahead; /* looking for the next one; owned; NULL: none */
    ebb_sparing_t sparing;
} ebb_variant_t;

struct ebb_runner {
    ebb_variant_t variant
        [EBB_DRIVES]; /* as the finder numbers them; behind EBB_STEP_VARIANTS: size classes of any of them */
    ebb_variant_t *driving; /* whose plan is driven; NULL: none is */
    bool learns;            /* some step of it is learned, or was */
    bool sized;             /* the budget is a share of a step's peak, and that is known */
    ebb_step_finder_t *finder;
    ebb_steps_t steps;
    size_t fewest_live;          /* bytes of the program's, since the last operation */
    size_t most_live;            /* and in this step */
    uint64_t bytes_out, bytes_in; /* that had been copied when it began */
    uint64_t turns;              /* of NVTX ranges, at the last operation */
    unsigned terms; /* counts what the program has said since that plans have to provide for: a budget, memory that it keeps no more */
    bool marked;    /* the program says that a step begins with the next operation */
    bool boundary;               /* the step has ended, nothing has happened since */
    bool trailing;               /* the operation under way is behind the boundary, and the last step's */
    bool driven;                 /* the operation under way is a planned one */
    bool views;                  /* operations of this step are seen without what is stale of them */
    const ebb_operation_t *view; /* of the one under way, if it is not driven */
};

/* In files and statistics: numbered through all devices, those of the second from 8 on. */
static inline unsigned ebb_variant_through(const ebb_device_t *dev, unsigned variant)
{
    return dev->number * EBB_STEP_VARIANTS + variant;
}

static inline unsigned ebb_variant_number(ebb_device_t *dev, const ebb_variant_t *k)
{
    struct ebb_runner *runner = dev->run->runner;
    return (unsigned)(k - runner->variant);
}

/* What plans of it are made for, and how long that takes without ebb. */
static inline const ebb_trace_t *ebb_variant_trace(const ebb_variant_t *k)
{
    return k->sized ? k->sized : k->learned->trace;
}
static inline double ebb_variant_alone_ns(const ebb_variant_t *k)
{
    return k->sized ? k->sized_ns : k->learned->alone_ns;
}
/* What is recorded of it, finished or not; NULL: it has no profile. */
static inline ebb_recording_t *ebb_variant_recording(const ebb_variant_t *k)
{
    return k->profile ? ebb_profile_recording(k->profile) : NULL;
}
/* Whose steps these are. */
static inline ebb_variant_t *ebb_variant_itself(ebb_variant_t *k)
{
    return k && k->of ? k->of : k;
}

/* ---- runner_variant.c ---- */

/* Another budget: what is beyond it leaves now, as far as it may. */
void ebb_variant_take_budget(ebb_device_t *dev, size_t bytes);

/* By the finder's number; NULL: below 0. */
ebb_variant_t *ebb_variant_of(ebb_device_t *dev, int number);
/* What is known of one variant; a recording under way may be of any. */
void ebb_variant_forget(ebb_device_t *dev, ebb_variant_t *variant);
/* What has come up is no part of any plan, so the step is learned again, a few times. */
void ebb_variant_interrupt(ebb_device_t *dev, ebb_variant_t *variant, const char *why);
/* The plan that is driven, and all that are installed beside it: at a boundary, or when it is of no interest where the program is. */
void ebb_run_leave(ebb_device_t *dev, const char *why);
bool ebb_run_is_worth_learning(ebb_device_t *dev);
/* A profiling pass begins, for a step that is expected to be of this variant; it has ended, in a step of this variant. */
void ebb_variant_begin_pass(ebb_device_t *dev, ebb_variant_t *variant);
void ebb_variant_learn(ebb_device_t *dev, ebb_variant_t *variant);

/* ---- runner_sizes.c ---- */

/* A step of it is over that was followed, and no pass: if it was larger than any before, its plan is none for the next such. */
void ebb_variant_outgrown(ebb_device_t *dev, ebb_variant_t *variant);
/* A step that a plan for such a size class was for had a buffer with more bytes. False: other sizes would not help. */
bool ebb_variant_note_above(const ebb_variant_t *variant, unsigned size, uint32_t buffer, size_t bytes);
/* Its plan is driven, and a step is about to begin: whether there will be one for larger steps is looked into, and said. */
void ebb_variant_look_ahead(ebb_device_t *dev, ebb_variant_t *variant);
void ebb_variant_forget_ahead(ebb_device_t *dev, ebb_variant_t *variant);
/* A step of it has ended, in which so much was alive at once: whether a plan is worth it. */
void ebb_variant_note_need(ebb_device_t *dev, ebb_variant_t *variant, size_t most_live_bytes);
/* At a boundary, one of its plans is driven: that of the next smaller steps, if the last one would have been driven by it. */
void ebb_variant_fit_size(ebb_device_t *dev, ebb_variant_t *variant);
/* It has another plan, with which size classes may agree that did not with the last one. */
void ebb_variant_retry_sizes(ebb_device_t *dev, const ebb_variant_t *variant);
/* Its size classes, with their plans. */
void ebb_variant_forget_sizes(ebb_device_t *dev, ebb_variant_t *variant);
/* What a plan of it is made for, where that is not the largest steps. False: no host memory. */
bool ebb_variant_make_sized(ebb_variant_t *variant);
/* There is no plan for steps as large as it was asked for: the next one is for smaller ones. False: it was asked for the smallest already, or
 * they are all of one size; the next one is for the largest again. */
bool ebb_variant_ask_smaller(ebb_device_t *dev, ebb_variant_t *variant);
void ebb_variant_report_size(const ebb_variant_t *variant);

/* ---- runner_plan.c ---- `present`: the buffers with which the step begins (ebb_tracker_present) ---- */

/* Its plan, what that was made for, and what is asked. */
void ebb_variant_forget_plan(ebb_device_t *dev, ebb_variant_t *variant);
/* The budget with so many bytes for plans of it, in whole MiB, rounded up; 0: none. */
size_t ebb_variant_budget(ebb_device_t *dev, const ebb_variant_t *variant, size_t bytes);
/* The most bytes that are alive at once in a step; in whole chunks, where buffers are. */
uint64_t ebb_run_need(const ebb_trace_t *trace, bool in_chunks);
/* What has come of its job is taken, at a boundary, if that is done. */
void ebb_variant_hear(ebb_device_t *dev, ebb_variant_t *variant, ebb_buffer_t *const *present);
/* Its plan was refused for want of memory, of which there is more now. */
bool ebb_variant_has_more_room(ebb_device_t *dev, ebb_variant_t *variant, ebb_buffer_t *const *present);
/* The program did not keep to its plan, and is tried again. */
bool ebb_variant_is_rested(ebb_variant_t *variant);
/* Makes a plan if there is none and installs it, if it is known which buffers a step begins with. */
void ebb_variant_drive(ebb_device_t *dev, ebb_variant_t *variant, ebb_buffer_t *const *present);
/* What is driven is looked at now and then, at the end of a step. */
void ebb_variant_revise_pace(ebb_device_t *dev, ebb_variant_t *variant);
/* Its plan is installed beside those that are, or asked for. False: it is not driven now; perhaps none is. */
bool ebb_variant_install_beside(ebb_device_t *dev, ebb_variant_t *variant);
/* A plan was installed: those of other variants that have agreed with it before are, too; size classes when their steps come. */
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

void ebb_files_trace(ebb_device_t *dev, unsigned variant, const ebb_trace_t *trace);
void ebb_files_plan(ebb_device_t *dev, unsigned variant, const ebb_plan_t *plan,
                    const ebb_plan_request_t *request);
/* There is no such variant any more: the names that it had are free. */
void ebb_files_forget(ebb_device_t *dev, unsigned variant);

#endif
