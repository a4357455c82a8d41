#include "model/files/feedback.h"

#include <stdio.h>
#include <unistd.h>

#include "model/files/folder.h"
#include "model/files/numbers.h"
#include "model/files/state.h"

static const world_t *world_of(const staging_t *s)
{
    return &s->model->parameters.ranks->world;
}

static bool put(state_file_t *state, const staging_t *s, const char *what, int group, const tensor_t *from,
                size_t count, fault_t *fault)
{
    char name[40];
    snprintf(name, sizeof name, "%s.%d", what, group);
    staging_copy(s, s->values, from->data, count * sizeof *s->values, cudaMemcpyDeviceToHost);
    return state_put_floats(state, name, s->values, count, fault);
}

static bool get(state_file_t *state, const staging_t *s, const char *what, int group, const tensor_t *to,
                size_t count, fault_t *fault)
{
    char name[40];
    snprintf(name, sizeof name, "%s.%d", what, group);
    if (!state_get_floats(state, name, s->values, count, fault))
        return false;
    staging_copy(s, to->data, s->values, count * sizeof *s->values, cudaMemcpyHostToDevice);
    return true;
}

typedef bool (*array_fn)(state_file_t *state, const staging_t *s, const char *what, int group,
                         const tensor_t *tensor, size_t count, fault_t *fault);

static bool each_array(state_file_t *state, const staging_t *s, array_fn act, fault_t *fault)
{
    for (int g = 0; g < s->model->parameters.group_count; g++) {
        const compression_kept_t kept = compression_kept(s->model->parameters.compression, g);
        if (!act(state, s, "lost", g, kept.lost, kept.lost_count, fault) ||
            (kept.q_count > 0 && !act(state, s, "q", g, kept.q, kept.q_count, fault)))
            return false;
    }
    return true;
}

bool feedback_save(const char *checkpoint, const staging_t *s, uint64_t step, fault_t *fault)
{
    const compression_t *compression = s->model->parameters.compression;
    state_file_t state;
    folder_path_t path;
    if (compression == NULL)
        return true;
    const world_t *world = world_of(s);
    if (!folder_part(path, checkpoint, FOLDER_LOST, world->rank, world->count, fault) ||
        !state_create(&state, path, fault))
        return false;
    const bool good = state_put_count(&state, "step", step, fault) &&
                      state_put_count(&state, "rank", (uint64_t)world->rank, fault) &&
                      state_put_count(&state, "ranks", (uint64_t)world->count, fault) &&
                      state_put_count(&state, "compress", (uint64_t)compression_how(compression), fault) &&
                      state_put_count(&state, "columns", (uint64_t)compression_rank(compression), fault) &&
                      each_array(&state, s, put, fault) && state_finish(&state, fault);
    state_close(&state);
    return good;
}

/* Whether it is of this way to compress. */
static bool is_alike(state_file_t *state, const compression_t *compression, bool *alike, fault_t *fault)
{
    uint64_t how = 0, columns = 0;
    const bool good =
        state_get_count(state, "compress", &how, fault) && state_get_count(state, "columns", &columns, fault);
    *alike =
        how == (uint64_t)compression_how(compression) && columns == (uint64_t)compression_rank(compression);
    return good;
}

bool feedback_load(const char *checkpoint, const staging_t *s, uint64_t step, fault_t *fault)
{
    const compression_t *compression = s->model->parameters.compression;
    state_file_t state;
    folder_path_t path;
    if (compression == NULL)
        return true;
    const world_t *world = world_of(s);
    if (!folder_part(path, checkpoint, FOLDER_LOST, world->rank, world->count, fault))
        return false;
    /* Q is the same on every rank: all have theirs, or none. */
    bool alike = ranks_agree(s->model->parameters.ranks, access(path, F_OK) == 0), good = true;
    if (alike) {
        good = state_open(&state, path, fault) && numbers_get_equal(&state, "step", step, fault) &&
               numbers_get_equal(&state, "rank", (uint64_t)world->rank, fault) &&
               numbers_get_equal(&state, "ranks", (uint64_t)world->count, fault) &&
               is_alike(&state, compression, &alike, fault) &&
               (!alike || (each_array(&state, s, get, fault) && state_end(&state, fault)));
        state_close(&state);
    }
    if (good && !alike && world->rank == 0)
        fprintf(stderr,
                "note: %s has nothing of what %d ranks lost by compressing in this way: they begin without\n",
                checkpoint, world->count);
    return good;
}
