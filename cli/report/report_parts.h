/* report_parts.h: what the files that gather a report share. */
#ifndef EBB_REPORT_PARTS_H
#define EBB_REPORT_PARTS_H

#include "ckpt/planner/planner.h"
#include "cli/report/report.h"

/* A copy of a place, one way. */
double ebb_report_copy_ns(const ebb_report_t *report, uint32_t place, bool in);

/* report_buffers.c: fills in `buffer` and `gap`; the times are there. False: no memory. */
bool ebb_report_find_buffers(ebb_report_t *report);

/* report_why.c: in words, why a gap has its fate, as far as facts tell: sizes, times, proofs, and whether memory was short at
 * all. Allocated; NULL: no memory. */
char *ebb_report_why(const ebb_report_t *report, uint32_t buffer, const ebb_report_gap_t *gap);
/* Of a buffer that has no gap; constant. */
const char *ebb_report_why_alone(const ebb_report_t *report, uint32_t buffer);
/* Why launches cannot rebuild a content at the end of its gap; constant. */
const char *ebb_report_obstacle(const ebb_model_t *model, uint32_t content);

#endif
