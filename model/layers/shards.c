/* shards.c: what ranks share out of the parameters (parameters.h). */
#include "model/layers/parameters.h"

#include "model/base/check.h"
#include "model/kernels/dtype.h"
#include "model/kernels/launches.h"

static bool is_alone(const parameters_t *parameters)
{
    return parameters->ranks == NULL || parameters->ranks->world.count == 1;
}

/* Elements of a group with all shards filled up. */
static size_t filled(const parameters_t *parameters, const group_t *group)
{
    return is_alone(parameters) ? group->count : group->shard * (size_t)parameters->ranks->world.count;
}

/* ---- values ---- */

static void begin_gather(parameters_t *parameters, group_t *group, const void *own)
{
    ranks_all_gather(parameters->ranks, own, group->value.data,
                     group->shard * dtype_bytes(parameters->dtype));
    ranks_mark(parameters->ranks, group->there);
    group->awaited = true;
}

void parameters_expect(parameters_t *parameters, int index)
{
    group_t *group = &parameters->groups[index];
    if (parameters->zero < 3 || group->value.data != NULL)
        return;
    group->value =
        tensor_new_of(parameters->gpu, MEMORY_WEIGHTS, parameters->dtype, filled(parameters, group));
    begin_gather(parameters, group, group->own_value.data);
}

const tensor_t *parameters_use(parameters_t *parameters, int index)
{
    group_t *group = &parameters->groups[index];
    parameters_expect(parameters, index);
    if (group->awaited)
        CUDA(cudaStreamWaitEvent(parameters->gpu->stream, group->there, 0));
    group->awaited = false;
    return &group->value;
}

void parameters_done(parameters_t *parameters, int index)
{
    if (parameters->zero < 3)
        return;
    (void)parameters_use(parameters, index); /* nobody has waited, perhaps */
    tensor_free(parameters->gpu, &parameters->groups[index].value);
}

void parameters_updated(parameters_t *parameters, int index)
{
    group_t *group = &parameters->groups[index];
    if (parameters->zero == 1 || parameters->zero == 2)
        begin_gather(parameters, group, group_kept_value(group));
}

void parameters_settle(parameters_t *parameters)
{
    if (is_alone(parameters))
        return;
    ranks_join(parameters->ranks);
    for (int i = 0; i < parameters->group_count; i++)
        parameters->groups[i].awaited = false;
}

/* ---- gradients ---- */

/* What fills up the shards is added like the rest. */
static void clear_end(const parameters_t *parameters, const group_t *group)
{
    float *gradient = group->gradient.data;
    const size_t all = filled(parameters, group);
    if (all > group->count) {
        CUDA(cudaMemsetAsync(gradient + group->count, 0, (all - group->count) * sizeof *gradient,
                             parameters->gpu->stream));
        launched();
    }
}

const tensor_t *parameters_gradient(parameters_t *parameters, int index)
{
    group_t *group = &parameters->groups[index];
    if (group->trained && group->gradient.data == NULL) {
        group->gradient =
            tensor_new_of(parameters->gpu, MEMORY_GRADIENTS, DTYPE_FP32, filled(parameters, group));
        clear_end(parameters, group);
    }
    return &group->gradient;
}

/* Waits for the oldest sum under way, and frees what it was made of. */
static void end_sum(parameters_t *parameters)
{
    group_t *oldest = parameters->summing[0];
    if (oldest != NULL) {
        if (parameters->ranks->nccl != NULL)
            CUDA(cudaStreamWaitEvent(parameters->gpu->stream, oldest->summed, 0));
        tensor_free(parameters->gpu, &oldest->gradient);
    }
    for (int i = 1; i < SUMS_UNDER_WAY; i++)
        parameters->summing[i - 1] = parameters->summing[i];
    parameters->summing[SUMS_UNDER_WAY - 1] = NULL;
}

void parameters_sum(parameters_t *parameters, int index)
{
    group_t *group = &parameters->groups[index];
    if (is_alone(parameters) || !group->trained)
        return;
    if (parameters->compression != NULL) {
        compression_sum(parameters->compression, index, group->gradient.data);
        return;
    }
    ranks_reduce_scatter(parameters->ranks, group->gradient.data, group_own_gradient(group), group->shard);
    if (parameters->zero == 0)
        ranks_all_gather(parameters->ranks, group_own_gradient(group), group->gradient.data,
                         group->shard * sizeof(float));
    if (parameters->zero < 2)
        return;
    end_sum(parameters);
    ranks_mark(parameters->ranks, group->summed);
    parameters->summing[SUMS_UNDER_WAY - 1] = group;
}

void parameters_summed(parameters_t *parameters)
{
    if (is_alone(parameters))
        return;
    ranks_join(parameters->ranks);
    for (int i = 0; i < SUMS_UNDER_WAY; i++)
        end_sum(parameters);
}

/* ---- masters and moments ---- */

const float *parameters_all(const parameters_t *parameters, const group_t *group, const float *kept,
                            tensor_t *room)
{
    *room = (tensor_t){0};
    if (parameters->zero == 0)
        return kept;
    *room = tensor_new(parameters->gpu, DTYPE_FP32, filled(parameters, group));
    ranks_all_gather(parameters->ranks, kept, room->data, group->shard * sizeof(float));
    ranks_join(parameters->ranks);
    return room->data;
}
