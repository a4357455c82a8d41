/* gpus.h: GPUs by name: what a plan for another one needs to know. */
#ifndef EBB_CLI_GPUS_H
#define EBB_CLI_GPUS_H

#include <stdbool.h>

#include "ckpt/trace/trace.h"

typedef struct ebb_gpu {
    const char *name;
    double tensor_tflops;   /* BF16, dense, sums in FP32 */
    double memory_gbs;      /* bytes of its memory, 1e9 a second */
    double out_gbs, in_gbs; /* to the host and from it, 1e9 bytes a second: what copies reach */
    unsigned memory_gib;    /* as sold; of models of two sizes the larger one */
    unsigned multiprocessors;
} ebb_gpu_t;

/* By the beginning of a name, letters of either case, spaces and hyphens ignored. NULL: there is none. */
const ebb_gpu_t *ebb_gpu_find(const char *name);
/* By the name of a device, of which its own is a part. NULL: none is. */
const ebb_gpu_t *ebb_gpu_of_device(const char *device);
/* The memory of a device, by its name; a size in the name, "80GB", counts first. 0: its name is not known. */
uint64_t ebb_gpu_device_bytes(const char *device);
/* "A100, H100, ..." */
const char *ebb_gpu_names(void);

/* Times of a trace of one GPU as they would be on another: matrix products by the tensor cores' rates, everything else by that
 * of the memory, also what the trace says of work of ebb's own. */
void ebb_gpu_rescale(ebb_trace_t *trace, const ebb_gpu_t *from, const ebb_gpu_t *to);

#endif
