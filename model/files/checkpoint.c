#include "model/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/base/check.h"
#include "model/files/element.h"
#include "model/files/state.h"
#include "model/files/weights.h"
#include "model/kernels/kernels.h"

/* ---- device and host ---- */

/* Space for one group on the host. */
typedef struct staging {
    transformer_t *model; /* borrowed */
    float *values;        /* owned */
    uint16_t *narrow;     /* owned; NULL in an fp32 run */
    int fetched;          /* groups, by fetch_group */
} staging_t;

static void staging_open(staging_t *s, transformer_t *model)
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

static void staging_close(staging_t *s)
{
    free(s->values);
    free(s->narrow);
}

static void copy(const staging_t *s, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaStream_t stream = s->model->gpu->stream;
    CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream));
    CUDA(cudaStreamSynchronize(stream));
}

static group_t *group_of(const staging_t *s, int group)
{
    return &s->model->parameters.groups[group];
}

/* A weights_fetch_fn: what the passes compute with. */
static void fetch_group(void *context, int index, float *values)
{
    staging_t *s = context;
    const size_t count = group_of(s, index)->count;
    s->fetched++;
    const tensor_t *value = parameters_use(&s->model->parameters, index);
    if (value->dtype == DTYPE_FP32) {
        copy(s, values, value->data, count * sizeof *values, cudaMemcpyDeviceToHost);
    } else {
        copy(s, s->narrow, value->data, count * sizeof *s->narrow, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < count; i++)
            values[i] = float_of_bf16(s->narrow[i]);
    }
    parameters_done(&s->model->parameters, index);
}

/* A weights_take_fn: what this rank keeps of them. */
static void take_group(void *context, int index, const float *values)
{
    staging_t *s = context;
    const group_t *group = group_of(s, index);
    const bool all = group->own_value.data == NULL;
    const tensor_t *to = all ? parameters_use(&s->model->parameters, index) : &group->own_value;
    const float *from = values + (all || group->kept == 0 ? 0 : group->start);
    const size_t count = all ? group->count : group->kept;
    if (to->dtype == DTYPE_FP32) {
        copy(s, to->data, from, count * sizeof *from, cudaMemcpyHostToDevice);
        return;
    }
    for (size_t i = 0; i < count; i++)
        s->narrow[i] = bf16_of_float(from[i]);
    copy(s, to->data, s->narrow, count * sizeof *s->narrow, cudaMemcpyHostToDevice);
}

/* All of the group's, of which it is given what this rank updates. */
static void take_kept(const staging_t *s, const group_t *group, float *kept, const float *values)
{
    if (group->kept > 0)
        copy(s, kept, values + group->start, group->kept * sizeof *values, cudaMemcpyHostToDevice);
}

/* The same with masters. */
static void take_group_and_master(void *context, int index, const float *values)
{
    staging_t *s = context;
    const group_t *group = group_of(s, index);
    take_group(context, index, values);
    if (group->master.data != NULL)
        take_kept(s, group, group->master.data, values);
}

/* ---- fields of one number ---- */

/* What becomes of a number that differs from this training's. */
typedef enum rule { RULE_EQUAL, RULE_TELL, RULE_TAKE } rule_t;

typedef struct number {
    const char *name;
    rule_t rule;
    bool real;
    double value;    /* real */
    uint64_t count;  /* not real */
    uint64_t *taken; /* RULE_TAKE: where it goes */
} number_t;

#define NUMBERS_MOST 40
#define MOST_SHARDS  99999 /* as many as names have digits for */

typedef struct numbers {
    number_t list[NUMBERS_MOST];
    int count;
} numbers_t;

static void add_count(numbers_t *n, rule_t rule, const char *name, uint64_t count)
{
    n->list[n->count++] = (number_t){.name = name, .rule = rule, .count = count};
}

static void add_real(numbers_t *n, rule_t rule, const char *name, double value)
{
    n->list[n->count++] = (number_t){.name = name, .rule = rule, .real = true, .value = value};
}

static void add_place(numbers_t *n, const char *name, uint64_t *count)
{
    n->list[n->count++] = (number_t){.name = name, .rule = RULE_TAKE, .count = *count, .taken = count};
}

/* All of them, in the file's order. */
static numbers_t numbers_of(const checkpoint_t *checkpoint, const transformer_t *model, place_t *place)
{
    const shape_t *s = &model->shape;
    const options_t *o = checkpoint->options;
    numbers_t n = {.count = 0};
    add_count(&n, RULE_EQUAL, "family", (uint64_t)s->family);
    add_count(&n, RULE_EQUAL, "layers", (uint64_t)s->layers);
    add_count(&n, RULE_EQUAL, "width", (uint64_t)s->width);
    add_count(&n, RULE_EQUAL, "heads", (uint64_t)s->heads);
    add_count(&n, RULE_EQUAL, "kv_heads", (uint64_t)s->kv_heads);
    add_count(&n, RULE_EQUAL, "hidden", (uint64_t)s->hidden);
    add_count(&n, RULE_EQUAL, "context", (uint64_t)s->context);
    add_count(&n, RULE_EQUAL, "vocab", (uint64_t)s->vocab);
    add_count(&n, RULE_EQUAL, "tied", s->tied);
    add_real(&n, RULE_EQUAL, "norm_eps", s->norm_eps);
    add_real(&n, RULE_EQUAL, "rope_theta", s->rope_theta);
    add_real(&n, RULE_EQUAL, "rope_factor", s->rope_factor);
    add_count(&n, RULE_EQUAL, "dtype", model->dtype == DTYPE_FP32 ? 0 : 1);
    add_place(&n, "step", &place->step);
    add_place(&n, "sequences", &place->sequences);
    add_place(&n, "micro_batches", &place->micro_batches);
    add_place(&n, "shards", &place->shards);
    add_count(&n, RULE_EQUAL, "seed", o->seed);
    add_count(&n, RULE_EQUAL, "data", checkpoint->data);
    add_count(&n, RULE_TELL, "steps", (uint64_t)o->steps);
    add_count(&n, RULE_TELL, "batch", (uint64_t)o->batch);
    add_count(&n, RULE_TELL, "accumulate", (uint64_t)o->accumulate);
    add_real(&n, RULE_TELL, "lr", o->rate);
    add_real(&n, RULE_TELL, "warmup", o->warmup);
    add_real(&n, RULE_TELL, "lr_final", o->final_rate);
    add_count(&n, RULE_TELL, "schedule", (uint64_t)o->schedule);
    add_real(&n, RULE_TELL, "cooldown", o->cooldown);
    add_real(&n, RULE_TELL, "beta1", o->beta1);
    add_real(&n, RULE_TELL, "beta2", o->beta2);
    add_real(&n, RULE_TELL, "eps", o->eps);
    add_real(&n, RULE_TELL, "decay", o->decay);
    add_real(&n, RULE_TELL, "decay_embeddings", o->decay_embeddings);
    add_real(&n, RULE_TELL, "clip", o->clip);
    add_real(&n, RULE_TELL, "skip_outliers", o->skip_outliers);
    add_count(&n, RULE_TELL, "rounding", (uint64_t)o->rounding);
    add_real(&n, RULE_TELL, "dropout", o->dropout);
    return n;
}

static bool put_numbers(state_file_t *state, const numbers_t *numbers, fault_t *fault)
{
    for (int i = 0; i < numbers->count; i++) {
        const number_t *n = &numbers->list[i];
        bool good = n->real ? state_put_real(state, n->name, n->value, fault)
                            : state_put_count(state, n->name, n->count, fault);
        if (!good)
            return false;
    }
    return true;
}

static void print_number(char text[64], const number_t *n, double value, uint64_t count)
{
    if (n->real)
        snprintf(text, 64, "%.12g", value);
    else
        snprintf(text, 64, "%llu", (unsigned long long)count);
}

static bool get_number(state_file_t *state, const number_t *n, fault_t *fault)
{
    double value = n->value;
    uint64_t count = n->count;
    if (!(n->real ? state_get_real(state, n->name, &value, fault)
                  : state_get_count(state, n->name, &count, fault)))
        return false;
    if (n->rule == RULE_TAKE)
        *n->taken = count;
    if (n->rule == RULE_TAKE || (count == n->count && (value == n->value || !n->real)))
        return true;
    char then[64], now[64];
    print_number(then, n, value, count);
    print_number(now, n, n->value, n->count);
    if (n->rule == RULE_EQUAL)
        return fault_set(fault, "--resume %s: field %s is %s, of this training it is %s", state->path,
                         n->name, then, now);
    fprintf(stderr, "note: %s was %s when %s was written, now it is %s\n", n->name, then, state->path, now);
    return true;
}

static bool get_numbers(state_file_t *state, const numbers_t *numbers, fault_t *fault)
{
    for (int i = 0; i < numbers->count; i++)
        if (!get_number(state, &numbers->list[i], fault))
            return false;
    return true;
}

/* ---- the groups ---- */

/* The fp32 arrays of a group in the file; NULL: not in this run. */
typedef struct array_field {
    const char *name;
    const tensor_t *tensor;
} array_field_t;

enum { ARRAYS = 3 };

static void arrays_of(const group_t *group, array_field_t arrays[ARRAYS])
{
    arrays[0] = (array_field_t){"master", group->master.data != NULL ? &group->master : NULL};
    arrays[1] = (array_field_t){"m", &group->m};
    arrays[2] = (array_field_t){"v", &group->v};
}

/* One shard's file, while it is written or read. */
typedef struct shard_file {
    state_file_t state;
    staging_t *staging; /* borrowed */
    int number, count;  /* of how many */
} shard_file_t;

typedef bool (*array_fn)(shard_file_t *file, const char *name, const group_t *group, const tensor_t *kept,
                         fault_t *fault);

/* What this rank keeps is its shard, or, if there is one alone, all. */
static bool put_array(shard_file_t *file, const char *name, const group_t *group, const tensor_t *kept,
                      fault_t *fault)
{
    float *values = file->staging->values;
    copy(file->staging, values, kept->data, group->kept * sizeof *values, cudaMemcpyDeviceToHost);
    return state_put_floats(&file->state, name, values, group->kept, fault);
}

/* Of the elements [first, first + count) of a group what this rank keeps, and where it begins. */
static size_t common(const group_t *group, group_shard_t shard, size_t *begin)
{
    const size_t end = shard.first + shard.count, kept_end = group->start + group->kept;
    *begin = shard.first > group->start ? shard.first : group->start;
    const size_t last = end < kept_end ? end : kept_end;
    return last > *begin ? last - *begin : 0;
}

static bool get_array(shard_file_t *file, const char *name, const group_t *group, const tensor_t *kept,
                      fault_t *fault)
{
    float *values = file->staging->values;
    const group_shard_t shard = parameters_shard(group->count, file->count, file->number);
    size_t begin;
    const size_t count = common(group, shard, &begin);
    if (!state_get_floats(&file->state, name, values, shard.count, fault))
        return false;
    if (count > 0)
        copy(file->staging, (float *)kept->data + (begin - group->start), values + (begin - shard.first),
             count * sizeof *values, cudaMemcpyHostToDevice);
    return true;
}

/* Each array of each group, in the order of the file. */
static bool each_array(shard_file_t *file, array_fn act, fault_t *fault)
{
    for (int g = 0; g < file->staging->model->parameters.group_count; g++) {
        array_field_t arrays[ARRAYS];
        const group_t *group = group_of(file->staging, g);
        arrays_of(group, arrays);
        for (int i = 0; i < ARRAYS; i++) {
            char name[40];
            snprintf(name, sizeof name, "%s.%d", arrays[i].name, g);
            if (arrays[i].tensor != NULL && !act(file, name, group, arrays[i].tensor, fault))
                return false;
        }
    }
    return true;
}

/* Reading: which one it is. */
static bool get_equal(shard_file_t *file, const char *name, uint64_t expected, fault_t *fault)
{
    const number_t number = {.name = name, .rule = RULE_EQUAL, .count = expected};
    return get_number(&file->state, &number, fault);
}

static bool put_past(state_file_t *state, const checkpoint_t *checkpoint, const staging_t *s, fault_t *fault)
{
    float past[OUTLIER_FLOATS] = {0};
    if (checkpoint->past->data != NULL)
        copy(s, past, checkpoint->past->data, sizeof past, cudaMemcpyDeviceToHost);
    return state_put_floats(state, "outliers", past, OUTLIER_FLOATS, fault);
}

static bool get_past(state_file_t *state, const checkpoint_t *checkpoint, const staging_t *s, fault_t *fault)
{
    float past[OUTLIER_FLOATS];
    if (!state_get_floats(state, "outliers", past, OUTLIER_FLOATS, fault))
        return false;
    if (checkpoint->past->data != NULL)
        copy(s, checkpoint->past->data, past, sizeof past, cudaMemcpyHostToDevice);
    return true;
}

static uint64_t *hashes_new(size_t count)
{
    uint64_t *hashes = calloc(count, sizeof *hashes);
    if (hashes == NULL)
        fatal("no host memory for %zu hashes", count);
    return hashes;
}

/* ---- save ---- */

/* When all shards are there. */
static bool save_state(const char *folder, const checkpoint_t *checkpoint, staging_t *s, place_t place,
                       const uint64_t *hashes, fault_t *fault)
{
    state_file_t state;
    numbers_t numbers = numbers_of(checkpoint, s->model, &place);
    folder_path_t path;
    uint64_t *ends = hashes_new((size_t)place.shards);
    bool good = true;
    for (int k = 0; good && k < (int)place.shards; k++)
        good = folder_shard(path, folder, k, (int)place.shards, fault) && state_last(path, &ends[k], fault);
    good = good && folder_join(path, folder, FOLDER_STATE, fault) && state_create(&state, path, fault);
    if (good) {
        good = put_numbers(&state, &numbers, fault) &&
               state_put_counts(&state, "tensors", hashes, (size_t)s->model->layout.tensor_count, fault) &&
               put_past(&state, checkpoint, s, fault) &&
               state_put_counts(&state, "ends", ends, (size_t)place.shards, fault) &&
               state_finish(&state, fault);
        state_close(&state);
    }
    free(ends);
    return good;
}

static bool save_shard(const char *folder, staging_t *s, place_t place, fault_t *fault)
{
    const parameters_t *parameters = &s->model->parameters;
    shard_file_t file = {.staging = s, .number = parameters->ranks->world.rank, .count = (int)place.shards};
    folder_path_t path;
    if (!folder_shard(path, folder, file.number, file.count, fault) ||
        !state_create(&file.state, path, fault))
        return false;
    bool good = state_put_count(&file.state, "step", place.step, fault) &&
                state_put_count(&file.state, "shard", (uint64_t)file.number, fault) &&
                state_put_count(&file.state, "shards", place.shards, fault) &&
                each_array(&file, put_array, fault) && state_finish(&file.state, fault);
    state_close(&file.state);
    return good;
}

/* The other ranks' part in it, from a group on. */
static void lend_weights(transformer_t *model, int first)
{
    for (int g = first; g < model->parameters.group_count; g++) {
        (void)parameters_use(&model->parameters, g);
        parameters_done(&model->parameters, g);
    }
}

/* All but state.bin. */
static bool save_files(const char *folder, const checkpoint_t *checkpoint, staging_t *s, place_t place,
                       uint64_t *hashes, fault_t *fault)
{
    transformer_t *model = s->model;
    element_t element = model->dtype == DTYPE_FP32 ? ELEMENT_F32 : ELEMENT_BF16;
    folder_path_t file;
    bool good = true;
    if (model->parameters.ranks->world.rank == 0)
        good =
            folder_join(file, folder, FOLDER_MODEL, fault) &&
            weights_write(file, &model->layout, element, fetch_group, s, hashes, fault) &&
            folder_join(file, folder, FOLDER_CONFIG, fault) &&
            config_write(file, &model->shape, element, checkpoint->options->dropout, checkpoint->end, fault);
    lend_weights(model, s->fetched);
    if (model->parameters.ranks->world.rank < (int)place.shards)
        good = good && save_shard(folder, s, place, fault);
    return good;
}

/* Whether all ranks have come so far well. */
static bool all_good(const transformer_t *model, bool good, fault_t *fault)
{
    const bool all = ranks_agree(model->parameters.ranks, good);
    if (good && !all)
        fault_write(fault, "another rank could not write its part of a checkpoint");
    return all;
}

bool checkpoint_save(const checkpoint_t *checkpoint, transformer_t *model, place_t place, folder_path_t path,
                     fault_t *fault)
{
    const char *folder = checkpoint->options->checkpoint;
    const ranks_t *ranks = model->parameters.ranks;
    const bool first = ranks->world.rank == 0;
    folder_path_t partial;
    staging_t staging;
    uint64_t *hashes = hashes_new((size_t)model->layout.tensor_count);
    staging_open(&staging, model);
    path[0] = '\0';
    place.shards = model->parameters.zero > 0 ? (uint64_t)ranks->world.count : 1;
    bool good = first ? folder_begin(folder, place.step, partial, fault)
                      : folder_partial(folder, place.step, partial, fault);
    good = all_good(model, good, fault);
    if (good)
        good = all_good(model, save_files(partial, checkpoint, &staging, place, hashes, fault), fault);
    if (good && first)
        good = save_state(partial, checkpoint, &staging, place, hashes, fault) &&
               folder_commit(folder, place.step, path, fault) &&
               folder_prune(folder, checkpoint->options->keep, fault);
    staging_close(&staging);
    free(hashes);
    return good;
}

/* ---- find and load ---- */

/* The checkpoint that a path means. `flag` begins messages. */
static bool find_given(const char *flag, const char *given, folder_path_t path, fault_t *fault)
{
    bool found;
    uint64_t step;
    struct stat status;
    folder_path_t state;
    if (stat(given, &status) != 0 || !S_ISDIR(status.st_mode))
        return fault_set(fault, "%s %s: no such folder", flag, given);
    if (folder_is_complete(given)) {
        snprintf(path, PATH_MAX, "%s", given);
        return true;
    }
    if (folder_join(state, given, FOLDER_STATE, fault) && stat(state, &status) == 0)
        return fault_set(fault, "%s %s: the file \"%s\" is missing: this checkpoint was never finished", flag,
                         given, FOLDER_MARKER);
    if (!folder_newest(given, &found, path, &step, fault))
        return false;
    return found ? true : fault_set(fault, "%s %s: no complete checkpoint in it", flag, given);
}

/* Are these one folder? */
static bool same_folder(const char *left, const char *right)
{
    struct stat a, b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool checkpoint_find(const options_t *options, bool *found, folder_path_t path, fault_t *fault)
{
    folder_path_t newest;
    uint64_t step;
    bool any = false;
    *found = false;
    if (options->checkpoint != NULL && !folder_newest(options->checkpoint, &any, newest, &step, fault))
        return false;
    if (options->resume != NULL && options->resume[0] != '\0') {
        if (!find_given("--resume", options->resume, path, fault))
            return false;
        *found = true;
    } else if (options->resume != NULL && any) {
        memcpy(path, newest, sizeof newest);
        *found = true;
    }
    if (any && (!*found || !same_folder(path, newest)))
        return fault_set(
            fault, "--checkpoint %s: %s is there: %s, or give another folder", options->checkpoint, newest,
            *found ? "it is later than what --resume names; remove it" : "go on from it with --resume");
    return true;
}

/* Are the tensors of model.safetensors those that the state was written with? */
static bool check_tensors(state_file_t *state, const char *file, const layout_t *layout,
                          const uint64_t *hashes, fault_t *fault)
{
    size_t count = (size_t)layout->tensor_count;
    uint64_t *written = hashes_new(count);
    bool good = state_get_counts(state, "tensors", written, count, fault);
    for (size_t i = 0; good && i < count; i++)
        if (written[i] != hashes[i])
            good = fault_set(fault, "--resume %s: %s: its elements are not those that %s was written with",
                             file, layout->tensors[i].name, FOLDER_STATE);
    free(written);
    return good;
}

/* ends: to be freed; the shards' last checksums. */
static bool load_state(const char *path, const char *weights, const checkpoint_t *checkpoint, staging_t *s,
                       place_t *place, uint64_t **ends, fault_t *fault)
{
    state_file_t state;
    numbers_t numbers = numbers_of(checkpoint, s->model, place);
    uint64_t *hashes = hashes_new((size_t)s->model->layout.tensor_count);
    *ends = NULL;
    bool good = state_open(&state, path, fault) && get_numbers(&state, &numbers, fault);
    if (good && place->step > INT_MAX)
        good = fault_set(fault, "--resume %s: field step is %llu", path, (unsigned long long)place->step);
    if (good && (place->shards < 1 || place->shards > MOST_SHARDS))
        good = fault_set(fault, "--resume %s: field shards is %llu", path, (unsigned long long)place->shards);
    if (good)
        *ends = hashes_new((size_t)place->shards);
    good = good && weights_read("--resume", weights, &s->model->layout, take_group, s, hashes, fault) &&
           check_tensors(&state, weights, &s->model->layout, hashes, fault) &&
           get_past(&state, checkpoint, s, fault) &&
           state_get_counts(&state, "ends", *ends, (size_t)place->shards, fault) && state_end(&state, fault);
    state_close(&state);
    free(hashes);
    return good;
}

/* Does this rank keep something of it? */
static bool is_needed(const shard_file_t *file)
{
    const parameters_t *parameters = &file->staging->model->parameters;
    for (int g = 0; g < parameters->group_count; g++) {
        const group_t *group = &parameters->groups[g];
        size_t begin;
        if (common(group, parameters_shard(group->count, file->count, file->number), &begin) > 0)
            return true;
    }
    return false;
}

static bool load_shard(const char *folder, int number, staging_t *s, const place_t *place, uint64_t end,
                       fault_t *fault)
{
    shard_file_t file = {.staging = s, .number = number, .count = (int)place->shards};
    folder_path_t path;
    if (!is_needed(&file))
        return true;
    if (!folder_shard(path, folder, number, file.count, fault) || !state_open(&file.state, path, fault))
        return false;
    bool good = get_equal(&file, "step", place->step, fault) &&
                get_equal(&file, "shard", (uint64_t)number, fault) &&
                get_equal(&file, "shards", place->shards, fault) && each_array(&file, get_array, fault) &&
                state_end(&file.state, fault);
    if (good && file.state.chain != end)
        good =
            fault_set(fault, "--resume %s: it is not the one that %s was written with", path, FOLDER_STATE);
    state_close(&file.state);
    return good;
}

bool checkpoint_load(const checkpoint_t *checkpoint, const char *path, transformer_t *model, place_t *place,
                     fault_t *fault)
{
    folder_path_t state, weights;
    staging_t staging;
    uint64_t *ends = NULL;
    staging_open(&staging, model);
    bool good = folder_join(state, path, FOLDER_STATE, fault) &&
                folder_join(weights, path, FOLDER_MODEL, fault) &&
                load_state(state, weights, checkpoint, &staging, place, &ends, fault);
    for (int k = 0; good && k < (int)place->shards; k++)
        good = load_shard(path, k, &staging, place, ends[k], fault);
    staging_close(&staging);
    free(ends);
    return good;
}

bool checkpoint_init(const char *flag, const char *path, transformer_t *model, fault_t *fault)
{
    staging_t staging;
    staging_open(&staging, model);
    bool good = weights_read(flag, path, &model->layout, take_group_and_master, &staging, NULL, fault);
    staging_close(&staging);
    return good;
}

bool checkpoint_find_model(const char *given, folder_path_t weights, folder_path_t config, fault_t *fault)
{
    struct stat status;
    folder_path_t state;
    if (stat(given, &status) == 0 && S_ISREG(status.st_mode)) {
        const char *end = strrchr(given, '/');
        snprintf(state, sizeof state, "%.*s", end != NULL ? (int)(end - given) : 1,
                 end != NULL ? given : ".");
        snprintf(weights, PATH_MAX, "%s", given);
        return folder_join(config, state, FOLDER_CONFIG, fault);
    }
    if (!folder_join(state, given, FOLDER_STATE, fault) || !folder_join(config, given, FOLDER_CONFIG, fault))
        return false;
    if (stat(config, &status) == 0 && stat(state, &status) != 0) { /* not of the trainer */
        snprintf(weights, PATH_MAX, "%s", given);
        return true;
    }
    return find_given("--checkpoint", given, weights, fault) &&
           folder_join(config, weights, FOLDER_CONFIG, fault);
}
