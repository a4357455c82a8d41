/* given.c: a plan that somebody else has made. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt/planner/planner.h"

static bool fits_trace(const ebb_plan_t *p, const ebb_trace_t *t, char *why, size_t why_bytes)
{
    if (p->chunk_bytes != t->chunk_bytes || p->operation_count != t->operation_count ||
        p->buffer_count != t->buffer_count) {
        snprintf(why, why_bytes,
                 "it is for a step of %" PRIu32 " operations on %" PRIu32 " buffers, this one has %" PRIu32
                 " on %" PRIu32,
                 p->operation_count, p->buffer_count, t->operation_count, t->buffer_count);
        return false;
    }
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (p->place[i].bytes != t->buffer[i].bytes) {
            snprintf(why, why_bytes,
                     "it has buffer %" PRIu32 " with %" PRIu64 " bytes, in this step it has %" PRIu64, i,
                     p->place[i].bytes, t->buffer[i].bytes);
            return false;
        }
    return true;
}

ebb_plan_t *ebb_plan_given(const char *path, const ebb_trace_t *trace, const ebb_hardware_t *hardware,
                           char *why, size_t why_bytes)
{
    FILE *f = fopen(path, "r");
    ebb_plan_t *p = f ? ebb_plan_read(f, why, why_bytes) : NULL;
    if (!f)
        snprintf(why, why_bytes, "%s", strerror(errno));
    else
        fclose(f);
    if (p && fits_trace(p, trace, why, why_bytes)) {
        p->predicted_ns = ebb_simulate_ns(p, trace, hardware);
        return p;
    }
    ebb_plan_delete(p);
    return NULL;
}
