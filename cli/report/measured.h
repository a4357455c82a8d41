/* measured.h: what the statistics of a run (EBB_STATS) say that a report needs, read from their file.
 *
 * All numbers of the tables in stats.h, and of one variant of the step the trace's file, what the plan was made for, and the plan.
 */
#ifndef EBB_REPORT_MEASURED_H
#define EBB_REPORT_MEASURED_H

#include "ckpt/plan/plan.h"
#include "ckpt/run/stats/stats.h"

/* Owns its texts and its plan. */
typedef struct ebb_measured {
    ebb_statistics_t statistics;
    /* Of the variant of the step that is shown: */
    ebb_variant_statistics_t variant;
    char *trace, *policy;  /* the trace's path; NULL: none is named */
    ebb_plan_t *plan;      /* NULL: none was made */
    bool has_request;      /* the rest is known */
    uint64_t device_bytes; /* that the plan could have */
    uint64_t min_buffer;
    double out_bytes_per_ns, in_bytes_per_ns;
} ebb_measured_t;

/* Whether a file looks like statistics rather than a trace, by its beginning; leaves the file where it was. */
bool ebb_measured_is(FILE *in);
/* Of the variant with this number; below 0: of the one that took the most time under a plan; of those without, of which there were most
 * operations.
 * NULL: it is not good, or there is no such kind; `error` then says what is wrong. */
ebb_measured_t *ebb_measured_read(FILE *in, int variant, char *error, size_t error_size);
/* The program has never been short of memory, and no plan was driven. */
bool ebb_measured_has_fitted(const ebb_measured_t *measured);
void ebb_measured_delete(ebb_measured_t *measured);

#endif
