/* prove.h: how proving works; the functions are in learn_state.h.
 *
 * Right behind an operation of the program the same launch is issued again, on copies of all that it touches, in
 * scratch memory that starts as the bytes were before it, and again with all that it writes zeroed. What comes out is
 * compared on the device with what the program's own operation has left. Equal bits prove that the launch gives them
 * again; equal bits in spite of zeros, that it replaces what it writes. Three agreeing replays over two steps are
 * asked for. Nothing but zeros and what was there ever reaches a kernel; where nothing was, in a buffer that the operation is
 * the first to touch, a plan's replay may find anything (plan.h).
 *
 * Everything is ordered on the operation's stream; the host does not wait. Large buffers that many pointers share
 * are not copied where the operation is known only to read them.
 *
 * Only qualified launches are tried: kernels whose launch attributes, if any, name no events or memory, whose arguments
 * are known and point to no memory of CUDA's outside ebb's arena, directly or through a table of pointers in a small
 * buffer; not of modules of which the program has looked up a variable, nor NCCL's or NVSHMEM's. What does not fit into the budget beside its
 * copies is not proven.
 *
 * Work is spread over steps: a step is slowed down only so far, and the next one goes on from there.
 */
#ifndef EBB_PROVE_H
#define EBB_PROVE_H

#include "ckpt/run/profile/learn_state.h"

#endif
