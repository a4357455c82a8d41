/* prove.h: what one operation does to the buffers that it touches, and whether it may be replayed.
 *
 * Around the operation of the program, while ebb learns: before it, everything that it touches is hashed and
 * copied; after it, what has another hash was written. Then the same launch is issued again on copies,
 * several times: as it was, and with one written buffer zeroed at a time. Equal hashes prove that the launch
 * gives the same bits again; equal hashes in spite of a zeroed buffer prove that it replaces that buffer.
 * Nothing but zeros and what was there ever reaches a kernel.
 *
 * Only qualified launches are tried: kernels without launch attributes, whose arguments are known and point
 * to no memory of CUDA's outside ebb's arena (mapped host, managed, peer memory), directly or through a table
 * of pointers in a small buffer. Copies within the device and memsets need no trial. What does not fit into
 * the budget beside its copies is not proven; then the writes are known, and nothing more.
 *
 * The host waits for every operation. One at a time; with ebb_lock() held from _before to _after.
 */
#ifndef EBB_PROVE_H
#define EBB_PROVE_H

#include "ebb_alloc.h"
#include "trace.h"

typedef struct ebb_proof {
    uint64_t duration_ns; /* of the operation on the device */
    uint32_t agreed;      /* replays that gave the same bits */
    bool refuted;         /* one did not */
    ebb_verdict_t verdict;
    const ebb_mode_t *mode; /* of each of the operation's accesses; valid until the next operation */
} ebb_proof_t;

/* After its buffers are resident and held, before it is issued. */
void ebb_prove_before(const ebb_operation_t *operation);
/* After it was issued, its buffers still held. False: nothing is known about it (logged once). */
bool ebb_prove_after(const ebb_operation_t *operation, ebb_proof_t *out);

/* Instead of _after: the operation was refused by the driver. */
void ebb_prove_abandon(const ebb_operation_t *operation);

/* Frees what is kept between operations. */
void ebb_prove_end(void);

#endif
