/* rebuild.h: brings back what a plan has dropped, when the plan is left in the middle of a step.
 *
 * Works on reactive memory (offload/): nothing is planned, everything that a launch needs is fetched for it,
 * and what the program has freed meanwhile is rebuilt in buffers of ebb's own. A content is made by the last
 * operation before the cursor that replaced its buffer, and those that updated it since; what these read is
 * there with the same version, or is rebuilt first. Contents are taken in the order in which they were made,
 * so that the later ones find the earlier.
 */
#ifndef EBB_REBUILD_H
#define EBB_REBUILD_H

#include "drive_state.h"

/* A buffer of the step, at the moment of the fall-back. */
struct ebb_rebuilt {
    ebb_buffer_t *buffer; /* the program's, NULL: not alive */
    bool dropped;         /* cleared when it is rebuilt */
    bool known;           /* `hash` is what it must come to */
    uint64_t hash;
    void *copy; /* pinned, owned until it is rebuilt; NULL: there is none */
};

typedef struct ebb_rebuild {
    ebb_trace_t *trace;         /* an operation may lose its proofs */
    const ebb_issued_t *issued; /* of operations before `cursor` */
    ebb_stream_t *stream;
    uint32_t cursor;
    ebb_hashes_t *hashes; /* slot 0 is used */
    ebb_rebuilt_t *of;    /* [buffers] */
} ebb_rebuild_t;

/* Rebuilds all that is dropped; how many that were. What cannot be rebuilt, or comes out with other bits, is
 * taken from its copy; without one it is logged, and the program is told. */
uint64_t ebb_rebuild(const ebb_rebuild_t *rebuild);

#endif
