#include "model/train/optimizer.h"

#include <math.h>

#include "model/base/check.h"
#include "model/base/ranges.h"
#include "model/base/rng.h"
#include "model/kernels/kernels.h"

/* Each group's partial sums start at a multiple of 16 bytes. */
static size_t partials_of(const group_t *group)
{
    return !group->trained ? 0 : (sum_squares_partials(group->shard) + 3) / 4 * 4;
}

/* Philox counters that a group's stochastic rounding takes: eight elements each. */
static uint64_t rounding_counters_of(const group_t *group)
{
    return !group->trained ? 0 : (group->count + 7) / 8;
}

static uint64_t rounding_counters(const parameters_t *parameters)
{
    uint64_t count = 0;
    for (int g = 0; g < parameters->group_count; g++)
        count += rounding_counters_of(&parameters->groups[g]);
    return count;
}

void optimizer_open(optimizer_t *optimizer, parameters_t *parameters, const options_t *options)
{
    *optimizer = (optimizer_t){
        .parameters = parameters,
        .beta1 = (float)options->beta1,
        .beta2 = (float)options->beta2,
        .eps = (float)options->eps,
        .decay = (float)options->decay,
        .decay_outer = (float)(options->decay_embeddings >= 0 ? options->decay_embeddings : options->decay),
        .clip = (float)options->clip,
        .stochastic = options->rounding == ROUNDING_STOCHASTIC,
        .seed = rng_at(options->seed, RNG_ROUNDING)};
    for (int g = 0; g < parameters->group_count; g++)
        optimizer->partial_count += partials_of(&parameters->groups[g]);
    optimizer->partials =
        tensor_new_permanent(parameters->gpu, MEMORY_WORKSPACE, DTYPE_FP32,
                             optimizer->partial_count * (size_t)parameters->ranks->world.count);
    optimizer->threshold = (float)options->skip_outliers;
    if (options->skip_outliers > 0)
        optimizer->past = tensor_new_permanent(parameters->gpu, MEMORY_OTHER, DTYPE_FP32, OUTLIER_FLOATS);
}

void optimizer_close(optimizer_t *optimizer)
{
    tensor_free_permanent(optimizer->parameters->gpu, &optimizer->partials);
    tensor_free_permanent(optimizer->parameters->gpu, &optimizer->past);
    *optimizer = (optimizer_t){0};
}

/* Of one step; the offset is that of the first group. */
static adamw_t settings_of(const optimizer_t *optimizer, double rate, int step)
{
    return (adamw_t){.learning_rate = (float)rate,
                     .beta1 = optimizer->beta1,
                     .beta2 = optimizer->beta2,
                     .eps = optimizer->eps,
                     .step = step,
                     .stochastic = optimizer->stochastic,
                     .seed = optimizer->seed,
                     .offset = (uint64_t)(step - 1) * rounding_counters(optimizer->parameters)};
}

/* result[0], result[1], and with outliers result[2]. */
static void measure(optimizer_t *optimizer, float *result, const float *loss)
{
    const parameters_t *parameters = optimizer->parameters;
    cudaStream_t stream = parameters->gpu->stream;
    const size_t ranks = (size_t)parameters->ranks->world.count;
    float *own = optimizer->partials.data; /* what it does not fill is zero */
    own += (size_t)parameters->ranks->world.rank * optimizer->partial_count;
    for (int g = 0; g < parameters->group_count; g++) {
        const group_t *group = &parameters->groups[g];
        float *partials = own;
        own += partials_of(group);
        if (group->trained && group->mine > 0)
            CUDA(sum_squares(partials, group_own_gradient(group), group->mine, stream));
    }
    own -= optimizer->partial_count;
    ranks_all_gather(parameters->ranks, own, optimizer->partials.data,
                     optimizer->partial_count * sizeof *own);
    ranks_join(parameters->ranks);
    CUDA(gradient_scale(result, optimizer->partials.data, ranks * optimizer->partial_count, optimizer->clip,
                        stream));
    if (optimizer->past.data != NULL)
        CUDA(outlier_check(optimizer->past.data, result, loss, optimizer->threshold, stream));
}

/* scalars: NULL, or on the device (optimizer_scalars). */
static void update(optimizer_t *optimizer, adamw_t settings, const float *scale,
                   const adamw_scalars_t *scalars)
{
    parameters_t *parameters = optimizer->parameters;
    for (int g = 0; g < parameters->group_count; g++) {
        const group_t *group = &parameters->groups[g];
        if (!group->trained)
            continue;
        void *copy = group->master.data != NULL ? group_kept_value(group) : NULL;
        adamw_t its = settings;
        its.weight_decay = g == 0 ? optimizer->decay_outer : optimizer->decay;
        its.scalars = scalars != NULL ? scalars + (g > 0) : NULL;
        its.offset += group->start / 8;
        const size_t decayed = group->decayed > group->start ? group->decayed - group->start : 0;
        if (group->kept > 0)
            CUDA(adamw(group_masters(group), group->m.data, group->v.data, copy, group_kept_gradient(group),
                       group->kept, decayed < group->kept ? decayed : group->kept, scale, its,
                       parameters->gpu->stream));
        parameters_updated(parameters, g);
        settings.offset += rounding_counters_of(group);
    }
}

void optimizer_step(optimizer_t *optimizer, float *result, const float *loss, double rate, int step)
{
    range_begin("optimizer");
    measure(optimizer, result, loss);
    update(optimizer, settings_of(optimizer, rate, step), result + 1, NULL);
    range_end();
}

void optimizer_scalars(const optimizer_t *optimizer, double rate, int step,
                       adamw_scalars_t scalars[OPTIMIZER_SCALARS])
{
    adamw_t settings = settings_of(optimizer, rate, step);
    for (int i = 0; i < OPTIMIZER_SCALARS; i++) {
        settings.weight_decay = i == 0 ? optimizer->decay_outer : optimizer->decay;
        scalars[i] = adamw_scalars_of(settings);
    }
}

void optimizer_any_step(optimizer_t *optimizer, float *result, const float *loss,
                        const adamw_scalars_t *scalars)
{
    range_begin("optimizer");
    measure(optimizer, result, loss);
    update(optimizer, settings_of(optimizer, 0, 1), result + 1, scalars);
    parameters_settle(optimizer->parameters);
    range_end();
}

/* What part of the way from rate * final_rate (0) to rate (1) step number `done` of `after` steps is at. */
static double height(const options_t *options, int done, int after)
{
    double x = (double)done / after;
    int cooldown = (int)lround(options->cooldown * options->steps);
    int stable = after > cooldown ? after - cooldown : 0;
    switch ((schedule_t)options->schedule) {
    case SCHEDULE_COSINE:
        return 0.5 * (1.0 + cos(3.14159265358979323846 * x));
    case SCHEDULE_LINEAR:
        return 1.0 - x;
    case SCHEDULE_WSD:
        return done <= stable ? 1.0 : 1.0 - sqrt((double)(done - stable) / (after - stable));
    case SCHEDULE_CONSTANT:
        break;
    }
    return 1.0;
}

double optimizer_rate(const options_t *options, int step)
{
    int warmup = (int)lround(options->warmup * options->steps);
    if (step <= warmup)
        return options->rate * step / warmup;
    double part = height(options, step - warmup, options->steps - warmup);
    return options->rate * (options->final_rate + (1.0 - options->final_rate) * part);
}
