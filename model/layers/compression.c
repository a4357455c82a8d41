#include "model/layers/compression.h"

#include <stdlib.h>

#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/kernels/kernels.h"
#include "model/kernels/launches.h"
#include "model/layers/linear.h"

/* What of a group is sent alike. */
typedef struct part {
    size_t offset; /* in the group */
    int rows, columns;
    size_t p,
        q; /* a matrix that goes as P and Q: where they are in all P, all Q; one that goes as it is: LAYOUT_NONE */
} part_t;

typedef struct compressed {
    size_t count;
    tensor_t lost; /* [count]; while it is summed, with what there is of this step */
    part_t *parts; /* owns [part_count] */
    int part_count;
    tensor_t p, q; /* of COMPRESS_POWERSGD */
    size_t p_count, q_count;
    size_t k; /* of COMPRESS_TOP */
} compressed_t;

struct compression {
    gpu_t *owner; /* of the memory */
    gpu_t gpu;    /* the same, but products are computed on the ranks' stream, with a handle of its own */
    ranks_t *ranks;
    compress_t how;
    int rank;
    compressed_t *groups; /* owns [group_count] */
    int group_count;
    tensor_t scratch, own, all; /* of COMPRESS_TOP: [2 k], places and values, and those of all ranks */
};

static size_t elements(const part_t *part)
{
    return (size_t)part->rows * (size_t)part->columns;
}

static tensor_t numbers(const compression_t *compression, memory_t memory, size_t count)
{
    return tensor_new_permanent(compression->owner, memory, DTYPE_FP32, count);
}

/* ---- PowerSGD ---- */

static bool is_worth_it(const layout_tensor_t *tensor, int rank)
{
    const size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
    return !tensor->vector && 2 * (size_t)rank * (rows + columns) <= rows * columns;
}

/* The group's tensors: matrices one by one, what lies side by side and goes as it is in one. */
static void divide(compressed_t *group, const layout_t *layout, int number, int rank)
{
    group->parts = calloc((size_t)layout->tensor_count, sizeof *group->parts);
    if (group->parts == NULL)
        fatal("no host memory for a table of %d tensors", layout->tensor_count);
    for (int i = 0; i < layout->tensor_count; i++) {
        const layout_tensor_t *tensor = &layout->tensors[i];
        if (tensor->group != number)
            continue;
        part_t *last = group->part_count > 0 ? &group->parts[group->part_count - 1] : NULL;
        const bool whole = !is_worth_it(tensor, rank);
        if (whole && last != NULL && last->p == LAYOUT_NONE) {
            last->columns += (int)layout_elements(tensor);
            continue;
        }
        part_t *part = &group->parts[group->part_count++];
        *part = (part_t){
            .offset = tensor->offset, .rows = 1, .columns = (int)layout_elements(tensor), .p = LAYOUT_NONE};
        if (whole)
            continue;
        *part = (part_t){tensor->offset, tensor->rows, tensor->columns, group->p_count, group->q_count};
        group->p_count += (size_t)rank * (size_t)tensor->rows;
        group->q_count += (size_t)rank * (size_t)tensor->columns;
    }
}

static void open_factors(compression_t *compression, compressed_t *group, uint64_t key)
{
    if (group->q_count == 0)
        return;
    group->p = numbers(compression, MEMORY_GRADIENTS, group->p_count);
    group->q = numbers(compression, MEMORY_GRADIENTS, group->q_count);
    float *first = malloc(group->q_count * sizeof *first);
    if (first == NULL)
        fatal("no host memory for %zu random numbers", group->q_count);
    for (size_t i = 0; i < group->q_count; i += 2) {
        double normals[2];
        rng_normal_pair(key, i / 2, normals);
        first[i] = (float)normals[0];
        if (i + 1 < group->q_count)
            first[i + 1] = (float)normals[1];
    }
    cudaStream_t stream = compression->owner->stream; /* on which it has been zeroed */
    CUDA(cudaMemcpyAsync(group->q.data, first, group->q_count * sizeof *first, cudaMemcpyHostToDevice,
                         stream));
    CUDA(cudaStreamSynchronize(stream));
    free(first);
}

static void sum_factors(compression_t *compression, compressed_t *group, float *gradient)
{
    ranks_t *ranks = compression->ranks;
    gpu_t *gpu = &compression->gpu;
    const int r = compression->rank;
    float *const lost = group->lost.data, *const p = group->p.data, *const q = group->q.data;
    for (int i = 0; i < group->part_count; i++) {
        const part_t *part = &group->parts[i];
        if (part->p == LAYOUT_NONE) {
            ranks_all_reduce(ranks, gradient + part->offset, elements(part));
            continue;
        }
        CUDA(add_scaled(lost + part->offset, gradient + part->offset, 1, elements(part), ranks->stream));
        batched_matmul(gpu, DTYPE_FP32, DTYPE_FP32,
                       (batched_t){1, part->rows, r, part->columns, 0, 0, .scale = 1}, p + part->p,
                       lost + part->offset, q + part->q);
    }
    if (group->q_count == 0)
        return;
    ranks_all_reduce(ranks, p, group->p_count);
    for (int i = 0; i < group->part_count; i++) {
        const part_t *part = &group->parts[i];
        if (part->p == LAYOUT_NONE)
            continue;
        CUDA(orthonormalize(p + part->p, part->rows, r, ranks->stream));
        batched_matmul(gpu, DTYPE_FP32, DTYPE_FP32,
                       (batched_t){1, part->columns, r, part->rows, 1, 0, .scale = 1}, q + part->q,
                       lost + part->offset, p + part->p);
    }
    ranks_all_reduce(ranks, q, group->q_count);
    for (int i = 0; i < group->part_count; i++) {
        const part_t *part = &group->parts[i];
        if (part->p == LAYOUT_NONE)
            continue;
        batched_matmul(gpu, DTYPE_FP32, DTYPE_FP32,
                       (batched_t){1, part->rows, part->columns, r, 0, 1, .scale = 1},
                       gradient + part->offset, p + part->p, q + part->q);
        CUDA(add_scaled(lost + part->offset, gradient + part->offset, -1.0f / (float)ranks->world.count,
                        elements(part), ranks->stream));
    }
}

/* ---- the largest ---- */

static void sum_top(compression_t *compression, compressed_t *group, float *gradient)
{
    ranks_t *ranks = compression->ranks;
    const size_t k = group->k;
    uint32_t *const place = compression->own.data;
    CUDA(add_scaled(group->lost.data, gradient, 1, group->count, ranks->stream));
    CUDA(take_top(place, (float *)(place + k), group->lost.data, group->count, k, compression->scratch.data,
                  ranks->stream));
    ranks_all_gather(ranks, place, compression->all.data, 2 * k * sizeof *place);
    CUDA(cudaMemsetAsync(gradient, 0, group->count * sizeof *gradient, ranks->stream));
    launched();
    for (int rank = 0; rank < ranks->world.count; rank++) {
        const uint32_t *its = (const uint32_t *)compression->all.data + 2 * k * (size_t)rank;
        CUDA(add_at(gradient, its, (const float *)(its + k), k, ranks->stream));
    }
}

static void open_top(compression_t *compression, double share)
{
    size_t most = 0, k = 0;
    for (int g = 0; g < compression->group_count; g++) {
        compressed_t *group = &compression->groups[g];
        group->k = (size_t)((double)group->count * share);
        if (group->k == 0)
            group->k = 1;
        if (group->count > UINT32_MAX)
            fatal("--compress top: a group of %zu parameters is too large", group->count);
        most = group->count > most ? group->count : most;
        k = group->k > k ? group->k : k;
    }
    compression->scratch = numbers(compression, MEMORY_WORKSPACE, (top_scratch(most) + 3) / 4);
    compression->own = numbers(compression, MEMORY_WORKSPACE, 2 * k);
    compression->all =
        numbers(compression, MEMORY_WORKSPACE, 2 * k * (size_t)compression->ranks->world.count);
}

/* ---- both ---- */

compression_t *compression_open(gpu_t *gpu, ranks_t *ranks, const layout_t *layout, compress_t how, int rank,
                                double share, uint64_t seed)
{
    if (how == COMPRESS_NONE || ranks == NULL || ranks->world.count == 1)
        return NULL;
    compression_t *compression = calloc(1, sizeof *compression);
    compressed_t *groups = calloc((size_t)layout->group_count, sizeof *groups);
    if (compression == NULL || groups == NULL)
        fatal("no host memory for %d groups of gradients", layout->group_count);
    *compression = (compression_t){.owner = gpu,
                                   .gpu = *gpu,
                                   .ranks = ranks,
                                   .how = how,
                                   .rank = rank,
                                   .groups = groups,
                                   .group_count = layout->group_count};
    compression->gpu.stream = ranks->stream;
    BLAS(cublasCreate(&compression->gpu.blas));
    BLAS(cublasSetStream(compression->gpu.blas, ranks->stream));
    for (int g = 0; g < layout->group_count; g++) {
        groups[g].count = layout->groups[g].count;
        groups[g].lost = numbers(compression, MEMORY_GRADIENTS, groups[g].count);
        if (how == COMPRESS_POWERSGD) {
            divide(&groups[g], layout, g, rank);
            open_factors(compression, &groups[g], rng_at(seed, RNG_FACTORS + (uint64_t)g));
        }
    }
    if (how == COMPRESS_TOP)
        open_top(compression, share);
    return compression;
}

void compression_close(compression_t *compression)
{
    if (compression == NULL)
        return;
    for (int g = 0; g < compression->group_count; g++) {
        compressed_t *group = &compression->groups[g];
        tensor_free_permanent(compression->owner, &group->lost);
        tensor_free_permanent(compression->owner, &group->p);
        tensor_free_permanent(compression->owner, &group->q);
        free(group->parts);
    }
    tensor_free_permanent(compression->owner, &compression->scratch);
    tensor_free_permanent(compression->owner, &compression->own);
    tensor_free_permanent(compression->owner, &compression->all);
    BLAS(cublasDestroy(compression->gpu.blas));
    free(compression->groups);
    free(compression);
}

void compression_sum(compression_t *compression, int number, float *gradient)
{
    compressed_t *group = &compression->groups[number];
    ranks_follow(compression->ranks);
    if (compression->how == COMPRESS_TOP)
        sum_top(compression, group, gradient);
    else
        sum_factors(compression, group, gradient);
}

compression_kept_t compression_kept(const compression_t *compression, int group)
{
    const compressed_t *c = &compression->groups[group];
    return (compression_kept_t){&c->lost, &c->q, c->count, c->q_count};
}

compress_t compression_how(const compression_t *compression)
{
    return compression->how;
}

int compression_rank(const compression_t *compression)
{
    return compression->how == COMPRESS_POWERSGD ? compression->rank : 0;
}

size_t compression_bytes(const compression_t *compression)
{
    size_t bytes = 0;
    for (int g = 0; g < compression->group_count; g++) {
        const compressed_t *group = &compression->groups[g];
        bytes += (group->p_count + group->q_count + 2 * group->k) * sizeof(float);
        for (int i = 0; i < group->part_count; i++)
            bytes += group->parts[i].p == LAYOUT_NONE ? elements(&group->parts[i]) * sizeof(float) : 0;
    }
    return bytes;
}
