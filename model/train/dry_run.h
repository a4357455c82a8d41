/* dry_run.h: --dry-run: what a run will need, without a device and before anything is allocated.
 *
 * Memory is not estimated: one step is rehearsed. The code of the passes runs as it does in training, and its allocations are
 * counted; only the calls of CUDA and cuBLAS are left out (check.h: rehearsing). So the peak is, to the byte, what a
 * run's log says of its steps (peak_bytes), as long as the device has all of cuBLASLt's epilogues (linear.c: bf16's biases
 * take a little more workspace elsewhere), and --attention auto stands for flash (tensor, which a GPU may take instead, needs
 * less). Not counted there nor here: the CUDA context, what the libraries allocate themselves, and what a memory pool
 * rounds up. */
#ifndef EBB_MODEL_DRY_RUN_H
#define EBB_MODEL_DRY_RUN_H

#include "model/options/options.h"

/* On stdout, and as a record of the log (log.h: "dry_run"). */
void dry_run(const options_t *options);

#endif
