#include "model/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/files/element.h"
#include "model/files/feedback.h"
#include "model/files/numbers.h"
#include "model/files/staging.h"
#include "model/files/state.h"
#include "model/files/weights.h"
#include "model/kernels/kernels.h"

enum { MOST_SHARDS = 99999 }; /* as many as names have digits for */

/* Adapters are what is trained. */
static bool has_adapters(const transformer_t *model)
{
    return model->layout.lora.rank > 0;
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
    staging_copy(file->staging, values, kept->data, group->kept * sizeof *values, cudaMemcpyDeviceToHost);
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
        staging_copy(file->staging, (float *)kept->data + (begin - group->start),
                     values + (begin - shard.first), count * sizeof *values, cudaMemcpyHostToDevice);
    return true;
}

/* Each array of each group, in the order of the file. */
static bool each_array(shard_file_t *file, array_fn act, fault_t *fault)
{
    for (int g = 0; g < file->staging->model->parameters.group_count; g++) {
        array_field_t arrays[ARRAYS];
        const group_t *group = staging_group(file->staging, g);
        arrays_of(group, arrays);
        for (int i = 0; i < ARRAYS; i++) {
            char name[40];
            snprintf(name, sizeof name, "%s.%d", arrays[i].name, g);
            if (group->trained && arrays[i].tensor != NULL &&
                !act(file, name, group, arrays[i].tensor, fault))
                return false;
        }
    }
    return true;
}

static bool put_past(state_file_t *state, const checkpoint_t *checkpoint, const staging_t *s, fault_t *fault)
{
    float past[OUTLIER_FLOATS] = {0};
    if (checkpoint->past->data != NULL)
        staging_copy(s, past, checkpoint->past->data, sizeof past, cudaMemcpyDeviceToHost);
    return state_put_floats(state, "outliers", past, OUTLIER_FLOATS, fault);
}

static bool get_past(state_file_t *state, const checkpoint_t *checkpoint, const staging_t *s, fault_t *fault)
{
    float past[OUTLIER_FLOATS];
    if (!state_get_floats(state, "outliers", past, OUTLIER_FLOATS, fault))
        return false;
    if (checkpoint->past->data != NULL)
        staging_copy(s, checkpoint->past->data, past, sizeof past, cudaMemcpyHostToDevice);
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
        good = folder_part(path, folder, FOLDER_SHARD, k, (int)place.shards, fault) &&
               state_last(path, &ends[k], fault);
    good = good && folder_join(path, folder, FOLDER_STATE, fault) && state_create(&state, path, fault);
    if (good) {
        good = numbers_put(&state, &numbers, fault) &&
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
    if (!folder_part(path, folder, FOLDER_SHARD, file.number, file.count, fault) ||
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

/* The folder of --init's weights, which PEFT takes; a file's is the one that it lies in. */
static const char *base_of(const options_t *o, folder_path_t folder)
{
    snprintf(folder, PATH_MAX, "%s", o->init != NULL ? o->init : "");
    char *end = strrchr(folder, '/'), *dot = strrchr(folder, '.');
    if (dot != NULL && strcmp(dot, ".safetensors") == 0)
        *(end != NULL ? end : folder) = '\0';
    return folder;
}

/* All but state.bin. */
static bool save_files(const char *folder, const checkpoint_t *checkpoint, staging_t *s, place_t place,
                       uint64_t *hashes, fault_t *fault)
{
    transformer_t *model = s->model;
    const element_t element = model->dtype == DTYPE_FP32 ? ELEMENT_F32 : ELEMENT_BF16;
    const bool adapters = has_adapters(model);
    const options_t *o = checkpoint->options;
    folder_path_t file, base;
    bool good = true;
    s->fetched = layout_first(&model->layout, adapters);
    if (model->parameters.ranks->world.rank == 0)
        good = folder_join(file, folder, adapters ? FOLDER_ADAPTER : FOLDER_MODEL, fault) &&
               weights_write(file, &model->layout, adapters, element, staging_fetch, s, hashes, fault) &&
               folder_join(file, folder, adapters ? FOLDER_ADAPTER_CONFIG : FOLDER_CONFIG, fault) &&
               (adapters ? adapter_config_write(file, &model->layout, base_of(o, base), fault)
                         : config_write(file, &model->shape, element, o->dropout, checkpoint->end, fault));
    lend_weights(model, s->fetched);
    if (model->parameters.ranks->world.rank < (int)place.shards)
        good = good && save_shard(folder, s, place, fault);
    return good && feedback_save(folder, s, place.step, fault);
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

/* Adapters go on as adapters. */
static bool check_kind(const options_t *options, const char *path, fault_t *fault)
{
    folder_path_t config;
    struct stat status;
    if (!folder_join(config, path, FOLDER_ADAPTER_CONFIG, fault))
        return false;
    const bool adapters = stat(config, &status) == 0;
    return adapters == (options->lora_rank > 0) ||
           fault_set(
               fault,
               adapters ? "--resume %s: a training of adapters: --lora-rank is missing"
                        : "--resume %s: a training of all weights: adapters begin with --init, not with this",
               path);
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
    if (*found && !check_kind(options, path, fault))
        return false;
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
    bool good = state_open(&state, path, fault) && numbers_get(&state, &numbers, fault);
    if (good && place->step > INT_MAX)
        good = fault_set(fault, "--resume %s: field step is %llu", path, (unsigned long long)place->step);
    if (good && (place->shards < 1 || place->shards > MOST_SHARDS))
        good = fault_set(fault, "--resume %s: field shards is %llu", path, (unsigned long long)place->shards);
    if (good)
        *ends = hashes_new((size_t)place->shards);
    good = good &&
           weights_read("--resume", weights, &s->model->layout, has_adapters(s->model), staging_take, s,
                        hashes, fault) &&
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
        if (group->trained &&
            common(group, parameters_shard(group->count, file->count, file->number), &begin) > 0)
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
    if (!folder_part(path, folder, FOLDER_SHARD, number, file.count, fault) ||
        !state_open(&file.state, path, fault))
        return false;
    bool good = numbers_get_equal(&file.state, "step", place->step, fault) &&
                numbers_get_equal(&file.state, "shard", (uint64_t)number, fault) &&
                numbers_get_equal(&file.state, "shards", place->shards, fault) &&
                each_array(&file, get_array, fault) && state_end(&file.state, fault);
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
                folder_join(weights, path, has_adapters(model) ? FOLDER_ADAPTER : FOLDER_MODEL, fault) &&
                load_state(state, weights, checkpoint, &staging, place, &ends, fault);
    for (int k = 0; good && k < (int)place->shards; k++)
        good = load_shard(path, k, &staging, place, ends[k], fault);
    staging_close(&staging);
    free(ends);
    return good;
}

bool checkpoint_load_lost(const char *path, transformer_t *model, const place_t *place, fault_t *fault)
{
    staging_t staging;
    staging_open(&staging, model);
    const bool good = feedback_load(path, &staging, place->step, fault);
    staging_close(&staging);
    return good;
}

bool checkpoint_init(const char *flag, const char *path, transformer_t *model, bool adapters, uint64_t *hash,
                     fault_t *fault)
{
    staging_t staging;
    const size_t count = (size_t)model->layout.tensor_count;
    uint64_t *hashes = hashes_new(count);
    staging_open(&staging, model);
    bool good =
        weights_read(flag, path, &model->layout, adapters, staging_take_with_master, &staging, hashes, fault);
    staging_close(&staging);
    for (size_t i = 0; i < count && hash != NULL; i++)
        if ((model->layout.tensors[i].array >= ARRAY_LORA) == adapters)
            *hash = rng_hash(*hash, hashes[i]);
    free(hashes);
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

bool checkpoint_find_adapters(const char *given, folder_path_t weights, folder_path_t config, fault_t *fault)
{
    folder_path_t folder;
    struct stat status;
    if (!folder_join(config, given, FOLDER_ADAPTER_CONFIG, fault))
        return false;
    if (stat(config, &status) == 0)
        return folder_join(weights, given, FOLDER_ADAPTER, fault);
    return find_given("--lora", given, folder, fault) &&
           folder_join(config, folder, FOLDER_ADAPTER_CONFIG, fault) &&
           folder_join(weights, folder, FOLDER_ADAPTER, fault);
}
