/* gpu.h: the device as the trainer uses it: one compute stream, one cuBLAS handle, memory with its bytes
 * counted.
 *
 * Memory. What lives as long as the run (parameters, moments) is allocated once, outside the stream.
 * Everything else is allocated in stream order by the operation that produces it, and freed in stream order
 * as soon as its last reader has been issued: the host runs ahead, the memory is reused in the order of the
 * stream. The default pool keeps what is freed (release threshold UINT64_MAX), so that after the first step
 * no allocation reaches the operating system.
 *
 * In a rehearsal (check.h) nothing is allocated, only counted: a tensor's data is an address that may not be used.
 *
 * Out of memory ends the program: one line that says how many bytes were asked for and which flags need less.
 *
 * Threads: one. Everything is ordered on `stream`.
 */
#ifndef EBB_MODEL_GPU_H
#define EBB_MODEL_GPU_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "model/kernels/dtype.h"

/* What memory is for. */
typedef enum memory {
    MEMORY_WEIGHTS,     /* what the passes compute with */
    MEMORY_MASTERS,     /* in a bf16 run, their values in fp32 */
    MEMORY_GRADIENTS,   /* of parameters */
    MEMORY_MOMENTS,     /* AdamW's two */
    MEMORY_ACTIVATIONS, /* of a pass, kept or not, and their gradients */
    MEMORY_LOGITS,      /* and their gradients */
    MEMORY_WORKSPACE,   /* scratch of kernels and products */
    MEMORY_OTHER,       /* batches, results, tables */
    MEMORY_COUNT
} memory_t;

/* "weights", "masters", ... */
extern const char *const memory_names[MEMORY_COUNT];

typedef struct gpu {
    int device;
    char name[256];
    size_t total_bytes; /* of the device */
    int driver_version, runtime_version;
    cudaStream_t stream;
    cublasHandle_t blas;
    struct linear_plans *linear;   /* linear.c's, between linear_open and linear_close */
    size_t live_bytes, peak_bytes; /* what the trainer itself has allocated: now, and at most so far */
    size_t span_peak_bytes;        /* at most since it was set to live_bytes */
    size_t live_by[MEMORY_COUNT],
        peak_by[MEMORY_COUNT]; /* the same by kind; peak_by: when the peak was first reached */
} gpu_t;

/* A dense array in device memory; owns it. Empty: data NULL, bytes 0. */
typedef struct tensor {
    void *data; /* of float or bf16 */
    size_t bytes;
    dtype_t dtype;
    memory_t memory;
} tensor_t;

void gpu_open(gpu_t *gpu, int device);
void gpu_close(gpu_t *gpu);

/* An uninitialised tensor of `count` elements, usable by work issued on the stream from now on; tensor_new's are
 * activations. */
tensor_t tensor_new(gpu_t *gpu, dtype_t dtype, size_t count);
tensor_t tensor_new_of(gpu_t *gpu, memory_t memory, dtype_t dtype, size_t count);
/* Frees it behind the work issued so far and empties it; an empty one is left alone. */
void tensor_free(gpu_t *gpu, tensor_t *tensor);
/* Moves the ownership out of `from`, which is empty afterwards. */
tensor_t tensor_take(tensor_t *from);

/* For the whole run: zeroed, not stream-ordered; freed by tensor_free_permanent. */
tensor_t tensor_new_permanent(gpu_t *gpu, memory_t memory, dtype_t dtype, size_t count);
void tensor_free_permanent(gpu_t *gpu, tensor_t *tensor);

#endif
