#include "model/layers/parameters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/kernels/kernels.h"

void parameters_open(parameters_t *parameters, gpu_t *gpu, const layout_t *layout, dtype_t dtype,
                     bool trained)
{
    *parameters = (parameters_t){.gpu = gpu, .dtype = dtype, .group_count = layout->group_count};
    parameters->groups = calloc((size_t)layout->group_count, sizeof *parameters->groups);
    if (parameters->groups == NULL)
        fatal("no memory for %d parameter groups", layout->group_count);
    for (int i = 0; i < layout->group_count; i++) {
        group_t *group = &parameters->groups[i];
        group->count = layout->groups[i].count;
        group->decayed = layout->groups[i].decayed;
        group->value = tensor_new_permanent(gpu, MEMORY_WEIGHTS, dtype, group->count);
        if (!trained)
            continue;
        if (dtype != DTYPE_FP32)
            group->master = tensor_new_permanent(gpu, MEMORY_MASTERS, DTYPE_FP32, group->count);
        group->gradient = tensor_new_permanent(gpu, MEMORY_GRADIENTS, DTYPE_FP32, group->count);
        group->m = tensor_new_permanent(gpu, MEMORY_MOMENTS, DTYPE_FP32, group->count);
        group->v = tensor_new_permanent(gpu, MEMORY_MOMENTS, DTYPE_FP32, group->count);
    }
}

void parameters_close(parameters_t *parameters)
{
    for (int i = 0; i < parameters->group_count; i++) {
        group_t *group = &parameters->groups[i];
        tensor_free_permanent(parameters->gpu, &group->value);
        tensor_free_permanent(parameters->gpu, &group->master);
        tensor_free_permanent(parameters->gpu, &group->gradient);
        tensor_free_permanent(parameters->gpu, &group->m);
        tensor_free_permanent(parameters->gpu, &group->v);
    }
    free(parameters->groups);
    *parameters = (parameters_t){0};
}

tensor_t *group_master(group_t *group)
{
    return group->master.data != NULL ? &group->master : &group->value;
}

size_t parameters_count(const parameters_t *parameters)
{
    size_t count = 0;
    for (int i = 0; i < parameters->group_count; i++)
        count += parameters->groups[i].count;
    return count;
}

void parameters_upload(parameters_t *parameters, int group, const float *values)
{
    group_t *to = &parameters->groups[group];
    const tensor_t *value = group_master(to);
    cudaStream_t stream = parameters->gpu->stream;
    CUDA(cudaMemcpyAsync(value->data, values, value->bytes, cudaMemcpyHostToDevice, stream));
    if (to->master.data != NULL)
        CUDA(round_bf16(to->value.data, to->master.data, to->count, stream));
    CUDA(cudaStreamSynchronize(stream));
}

/* Reads one array back into `host`, hashes it, and writes it to `file` unless that is NULL. */
static uint64_t dump_tensor(const gpu_t *gpu, const tensor_t *tensor, float *host, uint64_t hash, FILE *file)
{
    CUDA(cudaMemcpyAsync(host, tensor->data, tensor->bytes, cudaMemcpyDeviceToHost, gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    for (size_t i = 0; i < tensor->bytes / sizeof(float); i += 2) {
        uint64_t word;
        memcpy(&word, host + i, sizeof word);
        hash = rng_hash(hash, word);
    }
    if (file != NULL)
        fwrite(host, 1, tensor->bytes, file); /* errors are seen at the end, by ferror */
    return hash;
}

uint64_t parameters_dump(const parameters_t *parameters, const char *path)
{
    FILE *file = path != NULL ? fopen(path, "wb") : NULL;
    if (path != NULL && file == NULL)
        fatal("--dump %s: %s", path, strerror(errno));
    size_t largest = 0;
    for (int i = 0; i < parameters->group_count; i++)
        if (parameters->groups[i].m.bytes > largest)
            largest = parameters->groups[i].m.bytes;
    float *host = malloc(largest);
    if (host == NULL)
        fatal("no host memory for a copy of %zu bytes of parameters", largest);

    uint64_t hash = 0;
    for (int i = 0; i < parameters->group_count; i++) {
        group_t *group = &parameters->groups[i];
        hash = dump_tensor(parameters->gpu, group_master(group), host, hash, file);
        hash = dump_tensor(parameters->gpu, &group->m, host, hash, file);
        hash = dump_tensor(parameters->gpu, &group->v, host, hash, file);
    }
    free(host);
    if (file != NULL && (ferror(file) | fclose(file)) != 0)
        fatal("--dump %s: not written to its end; is the disk full?", path);
    return hash;
}
