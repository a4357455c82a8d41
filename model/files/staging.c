#include "model/files/staging.h"

#include <stdlib.h>

#include "model/base/check.h"
#include "model/files/element.h"

void staging_open(staging_t *s, transformer_t *model)
{
    size_t largest = 0;
    for (int g = 0; g < model->layout.group_count; g++)
        largest = model->layout.groups[g].count > largest ? model->layout.groups[g].count : largest;
    *s = (staging_t){.model = model, .values = malloc(largest * sizeof *s->values)};
    if (model->dtype != DTYPE_FP32)
        s->narrow = malloc(largest * sizeof *s->narrow);
    if (s->values == NULL || (model->dtype != DTYPE_FP32 && s->narrow == NULL))
        fatal("no host memory for a copy of %zu parameters", largest);
}

void staging_close(staging_t *s)
{
    free(s->values);
    free(s->narrow);
}

void staging_copy(const staging_t *s, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = s->model->gpu->stream;
    CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream));
    CUDA(cudaStreamSynchronize(stream));
}

group_t *staging_group(const staging_t *s, int group)
{
    return &s->model->parameters.groups[group];
}

void staging_fetch(void *context, int index, float *values)
{
    staging_t *s = context;
    const size_t count = staging_group(s, index)->count;
    s->fetched++;
    const tensor_t *value = parameters_use(&s->model->parameters, index);
    if (value->dtype == DTYPE_FP32) {
        staging_copy(s, values, value->data, count * sizeof *values, cudaMemcpyDeviceToHost);
    } else {
        staging_copy(s, s->narrow, value->data, count * sizeof *s->narrow, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_bf16(s->narrow[i]);
    }
    parameters_done(&s->model->parameters, index);
}

void staging_take(void *context, int index, const float *values)
{
    staging_t *s = context;
    const group_t *group = staging_group(s, index);
    const bool all = group->own_value.data == NULL;
    const tensor_t *to = all ? parameters_use(&s->model->parameters, index) : &group->own_value;
    const float *from = values + (all || group->kept == 0 ? 0 : group->start);
    const size_t count = all ? group->count : group->kept;
    if (to->dtype == DTYPE_FP32) {
        staging_copy(s, to->data, from, count * sizeof *from, cudaMemcpyHostToDevice);
        return;
    }
    for (size_t i = 0; i < count; i++)
        s->narrow[i] = bf16_of_float(from[i]);
    staging_copy(s, to->data, s->narrow, count * sizeof *s->narrow, cudaMemcpyHostToDevice);
}

/* All of the group's, of which it is given what this rank updates. */
static void take_kept(const staging_t *s, const group_t *group, float *kept, const float *values)
{
    if (group->kept > 0)
        staging_copy(s, kept, values + group->start, group->kept * sizeof *values, cudaMemcpyHostToDevice);
}

void staging_take_with_master(void *context, int index, const float *values)
{
    staging_t *s = context;
    const group_t *group = staging_group(s, index);
    staging_take(context, index, values);
    if (group->master.data != NULL)
        take_kept(s, group, group->master.data, values);
}
