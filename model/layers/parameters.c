#include "model/layers/parameters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/kernels/kernels.h"

/* With stochastic rounding eight elements have a random number in common. */
group_shard_t parameters_shard(size_t elements, int ranks, int rank)
{
    const size_t eights = 8 * (size_t)ranks;
    group_shard_t shard = {.size = ranks == 1 ? elements : (elements + eights - 1) / eights * 8};
    shard.first = (size_t)rank * shard.size;
    const size_t rest = shard.first < elements ? elements - shard.first : 0;
    shard.count = rest < shard.size ? rest : shard.size;
    return shard;
}

static void share_out(group_t *group, const parameters_t *parameters)
{
    const ranks_t *ranks = parameters->ranks;
    const group_shard_t own = parameters_shard(group->count, ranks != NULL ? ranks->world.count : 1,
                                               ranks != NULL ? ranks->world.rank : 0);
    group->shard = own.size;
    group->first = own.first;
    group->mine = own.count;
    group->start = parameters->zero > 0 ? group->first : 0;
    group->kept = parameters->zero > 0 ? group->mine : group->count;
}

static void allocate(parameters_t *parameters, group_t *group)
{
    gpu_t *gpu = parameters->gpu;
    const int zero = parameters->zero;
    const size_t ranks = parameters->ranks != NULL ? (size_t)parameters->ranks->world.count : 1,
                 all = ranks * group->shard, kept = zero > 0 ? group->shard : all;
    if (zero < 3)
        group->value = tensor_new_permanent(gpu, MEMORY_WEIGHTS, parameters->dtype, all);
    else
        group->own_value = tensor_new_permanent(gpu, MEMORY_WEIGHTS, parameters->dtype, group->shard);
    if (zero > 0) {
        CUDA(cudaEventCreateWithFlags(&group->there, cudaEventDisableTiming));
        CUDA(cudaEventCreateWithFlags(&group->summed, cudaEventDisableTiming));
    }
    if (!group->trained)
        return;
    if (parameters->dtype != DTYPE_FP32)
        group->master = tensor_new_permanent(gpu, MEMORY_MASTERS, DTYPE_FP32, kept);
    if (zero < 2)
        group->gradient = tensor_new_permanent(gpu, MEMORY_GRADIENTS, DTYPE_FP32, all);
    else
        group->own_gradient = tensor_new_permanent(gpu, MEMORY_GRADIENTS, DTYPE_FP32, group->shard);
    group->m = tensor_new_permanent(gpu, MEMORY_MOMENTS, DTYPE_FP32, kept);
    group->v = tensor_new_permanent(gpu, MEMORY_MOMENTS, DTYPE_FP32, kept);
}

void parameters_open(parameters_t *parameters, gpu_t *gpu, ranks_t *ranks, int zero, const layout_t *layout,
                     dtype_t dtype, bool trained)
{
    *parameters = (parameters_t){.gpu = gpu,
                                 .ranks = ranks,
                                 .zero = ranks != NULL && ranks->world.count > 1 ? zero : 0,
                                 .dtype = dtype,
                                 .group_count = layout->group_count};
    parameters->groups = calloc((size_t)layout->group_count, sizeof *parameters->groups);
    if (parameters->groups == NULL)
        fatal("no memory for %d parameter groups", layout->group_count);
    for (int i = 0; i < layout->group_count; i++) {
        group_t *group = &parameters->groups[i];
        group->count = layout->groups[i].count;
        group->decayed = layout->groups[i].decayed;
        share_out(group, parameters);
        group->trained = trained && layout->groups[i].trained;
        allocate(parameters, group);
    }
}

void parameters_close(parameters_t *parameters)
{
    compression_close(parameters->compression);
    for (int i = 0; i < parameters->group_count; i++) {
        group_t *group = &parameters->groups[i];
        if (group->there != NULL) {
            CUDA(cudaEventDestroy(group->there));
            CUDA(cudaEventDestroy(group->summed));
        }
        tensor_free_permanent(parameters->gpu, &group->value);
        tensor_free_permanent(parameters->gpu, &group->own_value);
        tensor_free_permanent(parameters->gpu, &group->master);
        tensor_free_permanent(parameters->gpu, &group->gradient);
        tensor_free_permanent(parameters->gpu, &group->own_gradient);
        tensor_free_permanent(parameters->gpu, &group->m);
        tensor_free_permanent(parameters->gpu, &group->v);
    }
    free(parameters->groups);
    *parameters = (parameters_t){0};
}

float *group_masters(const group_t *group)
{
    return group->master.data != NULL ? group->master.data : group_kept_value(group);
}

void *group_kept_value(const group_t *group)
{
    return group->own_value.data != NULL
               ? group->own_value.data
               : (char *)group->value.data + group->start * dtype_bytes(group->value.dtype);
}

float *group_kept_gradient(const group_t *group)
{
    return group->own_gradient.data != NULL ? group->own_gradient.data
                                            : (float *)group->gradient.data + group->start;
}

float *group_own_gradient(const group_t *group)
{
    return group->own_gradient.data != NULL ? group->own_gradient.data
                                            : (float *)group->gradient.data + group->first;
}

/* Of a frozen group, which has no masters that could be rounded. */
static void upload_rounded(const parameters_t *parameters, const group_t *group, const float *values)
{
    gpu_t *gpu = parameters->gpu;
    const bool whole = group->own_value.data == NULL;
    const size_t count = whole ? group->count : group->mine;
    if (count == 0)
        return;
    tensor_t room = tensor_new_of(gpu, MEMORY_WORKSPACE, DTYPE_FP32, count);
    CUDA(cudaMemcpyAsync(room.data, values + (whole ? 0 : group->first), count * sizeof *values,
                         cudaMemcpyHostToDevice, gpu->stream));
    CUDA(round_bf16(whole ? group->value.data : group->own_value.data, room.data, count, gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &room);
}

void parameters_upload(parameters_t *parameters, int index, const float *values)
{
    group_t *group = &parameters->groups[index];
    cudaStream_t stream = parameters->gpu->stream;
    if (!group->trained && parameters->dtype == DTYPE_BF16) {
        upload_rounded(parameters, group, values);
        return;
    }
    const bool whole = group->master.data == NULL && group->value.data != NULL;
    const size_t start = whole ? 0 : group->start, count = whole ? group->count : group->kept;
    if (count > 0)
        CUDA(cudaMemcpyAsync(whole ? group->value.data : group_masters(group), values + start,
                             count * sizeof *values, cudaMemcpyHostToDevice, stream));
    if (group->master.data != NULL && count > 0)
        CUDA(round_bf16(group_kept_value(group), group->master.data, count, stream));
    if (!whole)
        parameters_updated(parameters, index);
    CUDA(cudaStreamSynchronize(stream));
}

/* Reads one array back into `host`, hashes it, and writes it to `file` unless that is NULL. */
static uint64_t dump_array(const parameters_t *parameters, const group_t *group, const float *kept,
                           float *host, uint64_t hash, FILE *file)
{
    tensor_t room;
    cudaStream_t stream = parameters->gpu->stream;
    const float *all = parameters_all(parameters, group, kept, &room);
    CUDA(cudaMemcpyAsync(host, all, group->count * sizeof *host, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    tensor_free(parameters->gpu, &room);
    for (size_t i = 0; i < group->count; i += 2) {
        uint64_t word;
        memcpy(&word, host + i, sizeof word);
        hash = rng_hash(hash, word);
    }
    if (file != NULL)
        fwrite(host, sizeof *host, group->count, file); /* errors are seen at the end, by ferror */
    return hash;
}

uint64_t parameters_dump(const parameters_t *parameters, const char *path)
{
    FILE *file = path != NULL ? fopen(path, "wb") : NULL;
    if (path != NULL && file == NULL)
        fatal("--dump %s: %s", path, strerror(errno));
    size_t largest = 0;
    for (int i = 0; i < parameters->group_count; i++)
        if (parameters->groups[i].count > largest)
            largest = parameters->groups[i].count;
    float *host = malloc(largest * sizeof *host);
    if (host == NULL)
        fatal("no host memory for a copy of %zu parameters", largest);

    uint64_t hash = 0;
    for (int i = 0; i < parameters->group_count; i++) {
        const group_t *group = &parameters->groups[i];
        if (!group->trained)
            continue;
        hash = dump_array(parameters, group, group_masters(group), host, hash, file);
        hash = dump_array(parameters, group, group->m.data, host, hash, file);
        hash = dump_array(parameters, group, group->v.data, host, hash, file);
    }
    free(host);
    if (file != NULL && (ferror(file) | fclose(file)) != 0)
        fatal("--dump %s: not written to its end; is the disk full?", path);
    return hash;
}
