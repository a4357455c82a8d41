/* uses.h: when the buffers of a recorded step are touched: what a trace says about the future, for any place in it.
 *
 * A value of its own beside the trace, which it borrows. Pure C, any thread, one at a time.
 */
#ifndef EBB_USES_H
#define EBB_USES_H

#include "ckpt/trace/trace.h"

typedef struct ebb_uses {
    const ebb_trace_t *trace;    /* borrowed */
    uint32_t *first, *operation; /* [buffers + 1], [accesses]: the operations that touch buffer i are
                                      operation[first[i]] .. operation[first[i + 1] - 1], ascending, each once */
    uint64_t *begin_ns;          /* [operations + 1]: when each would begin, one behind the other */
    uint64_t *born; /* [operations + 1]: chunks of large buffers that are allocated just before */
    uint32_t *first_death,
        *death; /* [operations + 2], [buffers]: those that are freed just before operation i are
                                        death[first_death[i]] .. death[first_death[i + 1] - 1] */
} ebb_uses_t;

/* False: no memory; nothing is owned then. */
bool ebb_uses_make(ebb_uses_t *out, const ebb_trace_t *trace);
void ebb_uses_free(ebb_uses_t *uses);

/* The first operation at or behind `at` that touches the buffer, or where it dies untouched; counted on into the next step
 * (operations + i) for a buffer that outlives this one. NEVER: no more. */
uint32_t ebb_uses_next(const ebb_uses_t *uses, uint32_t buffer, uint32_t at);
/* The last one before `at`, as how many operations that was ago (1: the one just before). NEVER: none; a buffer
 * that outlives the step counts back into the one before. */
uint32_t ebb_uses_behind(const ebb_uses_t *uses, uint32_t buffer, uint32_t at);
/* Chunks of a buffer; small ones have none. */
uint32_t ebb_uses_chunks(const ebb_trace_buffer_t *buffer);
/* Device time from the beginning of operation `at` to that of `to` (>= at; both may lie in the next step). */
uint64_t ebb_uses_ns(const ebb_uses_t *uses, uint32_t at, uint32_t to);

#endif
