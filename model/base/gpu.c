#include "model/base/gpu.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "model/base/bytes.h"
#include "model/base/check.h"

/* A rehearsal's tensors: not NULL, which would mean empty. */
#define NOWHERE ((void *)0x10000)

/* Picks the device; the messages of a machine without one are worth more than the error's name. */
static void choose_device(gpu_t *gpu, int device)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
        (error == cudaSuccess && count == 0))
        fatal("no CUDA device: %s; install NVIDIA's driver, or start with model/quickstart.sh, which needs "
              "none",
              error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
    CUDA(error);
    if (device >= count)
        usage_error("--device %d: this machine has %d CUDA device%s, numbered from 0", device, count,
                    count == 1 ? "" : "s");
    CUDA(cudaSetDevice(device));
    gpu->device = device;
}

void gpu_open(gpu_t *gpu, int device)
{
    *gpu = (gpu_t){0};
    choose_device(gpu, device);

    struct cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, device));
    snprintf(gpu->name, sizeof gpu->name, "%.255s", properties.name);
    gpu->total_bytes = properties.totalGlobalMem;
    CUDA(cudaDriverGetVersion(&gpu->driver_version));
    CUDA(cudaRuntimeGetVersion(&gpu->runtime_version));

    cudaMemPool_t pool;
    uint64_t keep_all = UINT64_MAX;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));

    CUDA(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking));
    BLAS(cublasCreate(&gpu->blas));
    BLAS(cublasSetStream(gpu->blas, gpu->stream));
}

void gpu_close(gpu_t *gpu)
{
    CUDA(cudaStreamSynchronize(gpu->stream));
    BLAS(cublasDestroy(gpu->blas));
    CUDA(cudaStreamDestroy(gpu->stream));
    *gpu = (gpu_t){0};
}

const char *const memory_names[MEMORY_COUNT] = {"weights",     "masters", "gradients", "moments",
                                                "activations", "logits",  "workspace", "other"};

static _Noreturn void out_of_memory(const gpu_t *gpu, size_t bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    bytes_text_t asked, live, left, total;
    fatal("out of device memory: asked for %zu bytes (%s) with %s in use by the trainer and %s of %s free; "
          "use a smaller --batch (and --accumulate for the same step), --context, --width or --layers, or "
          "--attention flash",
          bytes, bytes_text(asked, bytes), bytes_text(live, gpu->live_bytes), bytes_text(left, free_bytes),
          bytes_text(total, total_bytes));
}

static void count_allocation(gpu_t *gpu, const tensor_t *tensor)
{
    gpu->live_bytes += tensor->bytes;
    gpu->live_by[tensor->memory] += tensor->bytes;
    if (gpu->live_bytes > gpu->span_peak_bytes)
        gpu->span_peak_bytes = gpu->live_bytes;
    if (gpu->live_bytes <= gpu->peak_bytes)
        return;
    gpu->peak_bytes = gpu->live_bytes;
    memcpy(gpu->peak_by, gpu->live_by, sizeof gpu->peak_by);
}

static tensor_t allocate(gpu_t *gpu, tensor_t tensor, bool permanent)
{
    cudaError_t error = cudaSuccess;
    if (rehearsing)
        tensor.data = NOWHERE;
    else if (permanent)
        error = cudaMalloc(&tensor.data, tensor.bytes);
    else
        error = cudaMallocAsync(&tensor.data, tensor.bytes, gpu->stream);
    if (error == cudaErrorMemoryAllocation && !checks_held)
        out_of_memory(gpu, tensor.bytes);
    CUDA(error);
    count_allocation(gpu, &tensor);
    return tensor;
}

/* Of a tensor that has been freed. */
static void forget(gpu_t *gpu, tensor_t *tensor)
{
    gpu->live_bytes -= tensor->bytes;
    gpu->live_by[tensor->memory] -= tensor->bytes;
    *tensor = (tensor_t){0};
}

tensor_t tensor_new_of(gpu_t *gpu, memory_t memory, dtype_t dtype, size_t count)
{
    return allocate(gpu, (tensor_t){NULL, count * dtype_bytes(dtype), dtype, memory}, false);
}

tensor_t tensor_new(gpu_t *gpu, dtype_t dtype, size_t count)
{
    return tensor_new_of(gpu, MEMORY_ACTIVATIONS, dtype, count);
}

void tensor_free(gpu_t *gpu, tensor_t *tensor)
{
    if (tensor->data == NULL)
        return;
    CUDA(cudaFreeAsync(tensor->data, gpu->stream));
    forget(gpu, tensor);
}

tensor_t tensor_take(tensor_t *from)
{
    tensor_t taken = *from;
    *from = (tensor_t){0};
    return taken;
}

tensor_t tensor_new_permanent(gpu_t *gpu, memory_t memory, dtype_t dtype, size_t count)
{
    tensor_t tensor = allocate(gpu, (tensor_t){NULL, count * dtype_bytes(dtype), dtype, memory}, true);
    CUDA(cudaMemsetAsync(tensor.data, 0, tensor.bytes, gpu->stream));
    return tensor;
}

void tensor_free_permanent(gpu_t *gpu, tensor_t *tensor)
{
    if (tensor->data == NULL)
        return;
    CUDA(cudaFree(tensor->data));
    forget(gpu, tensor);
}
