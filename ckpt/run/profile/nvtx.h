/* nvtx.h: the names that a program gives to what it does, by NVTX ranges.
 *
 * NVTX, the tools extension that frameworks annotate their layers with, loads one tool per process: the library that
 * NVTX_INJECTION64_PATH names (`ebb run` names libebb.so there, unless something else is named already), and calls
 * its InitializeInjectionNvtx2 at the first range. From then on the ranges that a thread pushes and pops are kept
 * here, per thread, as a path. They name launches in traces and reports, and confirm a step that was found without
 * them. Nothing may depend on their being there: without them every path is empty, and that costs a load.
 *
 * Ranges that are started and ended (nvtxRangeStart: across threads) and marks are no part of a path.
 *
 * Threads: every function is about the calling thread; no lock.
 */
#ifndef EBB_NVTX_H
#define EBB_NVTX_H

#include <stdint.h>

/* The ranges that the calling thread has open, the outermost first, with slashes between them:
 * "step/micro-batch/forward/layer 3/attention". "" if there are none. Valid until the thread's next push or pop; at
 * most EBB_NVTX_PATH_BYTES with the final zero: what is deeper or longer is left out. No control characters; other
 * bytes are the program's (UTF-8, as a rule). */
const char *ebb_nvtx_path(void);

enum { EBB_NVTX_PATH_BYTES = 512 };

/* How many outermost ranges the calling thread has begun and ended so far, counting both. */
uint64_t ebb_nvtx_turns(void);

#endif
