/* report.h: what becomes of a step's memory and time under a plan, and why, as facts gathered into one value; and the forms in
 * which people and programs read it. `ebb report` is made of it; it is no part of libebb.so.
 *
 * The source is a trace with a plan, gone through by the simulator (plan.h): times are what the plan is predicted to take
 * on given hardware. What a run has measured (measured.h) stands beside that and changes nothing in it.
 *
 * Glossary
 *   class     what memory in use belongs to: buffers that are kept, offloaded or dropped; scratch that replays write; the region
 *             of small buffers
 *   gap       between two uses of a buffer (plan.h). A wrap-around gap ends in the next step: `to` is not behind `from`
 *   decisive  of a buffer's gaps, the longest in which it leaves the device; if it never does, the longest of all. Its fate is the
 *             buffer's
 *   exposed   of the time that compute waits for a copy: while that copy runs
 *   queued    the rest of it: while that copy still waits for others
 *   cost      of a gap: the replays that rebuild the buffer, and the waits for its copies. Replays of what others are rebuilt
 *             from count for the next buffer that is rebuilt
 *
 * Everything is deterministic: the same input gives the same bytes. Value functions: any thread.
 */
#ifndef EBB_REPORT_H
#define EBB_REPORT_H

#include "ckpt/plan/plan.h"
#include "cli/report/curve.h"
#include "cli/report/measured.h"

typedef enum ebb_report_class {
    EBB_CLASS_KEPT,
    EBB_CLASS_OFFLOADED,
    EBB_CLASS_CLEAN, /* offloaded, but not copied out: the host has it (ebb_plan_spared) */
    EBB_CLASS_DROPPED,
    EBB_CLASS_SCRATCH,
    EBB_CLASS_SMALL
} ebb_report_class_t;
enum { EBB_CLASSES = EBB_CLASS_SMALL + 1 };
extern const char *const ebb_class_word[EBB_CLASSES];

/* Where the time goes that a step takes longer than its operations. The sum of all is the whole of it. */
typedef enum ebb_cause {
    EBB_CAUSE_REPLAYS,     /* replayed compute */
    EBB_CAUSE_HOST,        /* compute waits for the host's calls, or a copy of the program's for the link */
    EBB_CAUSE_EXPOSED_OUT, /* copies out */
    EBB_CAUSE_EXPOSED_IN,
    EBB_CAUSE_QUEUED_OUT,
    EBB_CAUSE_QUEUED_IN,
    EBB_CAUSE_SLOWED, /* operations and replays beside copies */
    EBB_CAUSE_CHECKS  /* hashing and comparing what is recomputed */
} ebb_cause_t;
enum { EBB_CAUSES = EBB_CAUSE_CHECKS + 1 };
extern const char *const ebb_cause_word[EBB_CAUSES];

typedef struct ebb_report_input {
    const ebb_trace_t *trace;
    const ebb_plan_t *plan; /* for this trace; NULL: everything is kept */
    ebb_hardware_t hardware;
    bool hardware_assumed;          /* the link was neither given nor measured */
    uint64_t budget_bytes;          /* for the plan; 0: unknown */
    uint64_t min_buffer;            /* smaller ones are kept */
    const char *title, *policy;     /* policy: NULL, unknown */
    const char *command;            /* that runs it again; NULL: unknown */
    const ebb_curve_t *curve;       /* of this step; NULL: there is none */
    const ebb_measured_t *measured; /* NULL: nothing is */
} ebb_report_input_t;

typedef struct ebb_report_gap {
    uint32_t from, to; /* operations */
    ebb_report_class_t fate;
    double ns;             /* long */
    double cost_ns;        /* of what is done */
    double out_ns, in_ns;  /* the copies, if it is offloaded, or were */
    double replay_ns;      /* rebuilding it from what is there; < 0: impossible */
    uint32_t replays;      /* of the plan, that rebuild it */
    const char *why;       /* the fate; owned */
    const char *no_replay; /* why not; NULL: it is possible, or it is not known. Not owned */
} ebb_report_gap_t;

typedef struct ebb_report_buffer {
    uint32_t first_gap, gap_count; /* those in which it leaves the device, else the longest; in report->gap */
    uint32_t decisive;             /* in report->gap; EBB_NONE: none, it has no gap */
    uint32_t maker;                /* the operation that touches it first; EBB_NONE: none does */
    ebb_report_class_t fate;
    const char *why; /* owned by the gap, or constant */
} ebb_report_buffer_t;

/* Compute waits for a copy. */
typedef struct ebb_report_wait {
    uint32_t action;
    double begin_ns, end_ns, copy_begin_ns; /* the latter may lie before the step */
} ebb_report_wait_t;

/* From a moment on, so many bytes of each class are in use. */
typedef struct ebb_report_level {
    double ns;
    uint64_t bytes[EBB_CLASSES];
} ebb_report_level_t;

typedef struct ebb_report {
    ebb_report_input_t in; /* borrowed */
    ebb_plan_t *all_kept;  /* in.plan, if none was given; owned */
    ebb_simulation_t simulation;
    ebb_plan_sum_t sum;
    double overhead_ns[EBB_CAUSES];
    double operations_ns; /* what the step would take without the plan */
    double
        above_best; /* how much longer than the best possible within its budget the plan takes at most: 0.01 is 1%; below 0: it is not known */
    uint64_t everything_peak_bytes; /* of everything_bytes */
    uint64_t *
        everything_bytes; /* [operations]: alive when each is issued, in whole chunks, as if nothing ever left */
    double *begin_ns, *end_ns;   /* [operations]: in the simulation */
    ebb_report_buffer_t *buffer; /* [buffers] of the trace */
    ebb_report_gap_t *gap;
    ebb_report_wait_t *wait;
    ebb_report_level_t *level;
    uint32_t gap_count, gap_room, wait_count, wait_room, level_count, level_room;
    uint32_t copies_out, copies_in, checks, host_waits;
    char refusal[256]; /* why there can be no plan; "": there can */
} ebb_report_t;

/* NULL: no memory. The input must outlive it. */
ebb_report_t *ebb_report_make(const ebb_report_input_t *input);
void ebb_report_delete(ebb_report_t *report);

/* False: the file could not be written; errno tells.
 * JSON: the format is described in report_json.c. Perfetto: the Trace Event Format, which ui.perfetto.dev and
 * chrome://tracing open. HTML: one page that loads nothing. */
bool ebb_report_write_json(const ebb_report_t *report, FILE *out);
bool ebb_report_write_perfetto(const ebb_report_t *report, FILE *out);
bool ebb_report_write_html(const ebb_report_t *report, FILE *out);

#endif
