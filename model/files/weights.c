#include "model/files/weights.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/base/rng.h"
#include "model/files/element.h"

#define PREFIX     "transformer."
#define NAME_BYTES (sizeof(((layout_tensor_t *)0)->name) + sizeof PREFIX)
#define FILES_MOST 4096 /* of one model */

/* ---- both ways ---- */

static void stored_name(const layout_t *layout, const layout_tensor_t *tensor, char name[NAME_BYTES])
{
    bool plain = layout->shape.family != FAMILY_GPT2 || strncmp(tensor->name, "lm_head", 7) == 0 ||
                 tensor->array >= ARRAY_LORA;
    snprintf(name, NAME_BYTES, "%s%s", plain ? "" : PREFIX, tensor->name);
}

/* The shape in a file; its number of dimensions. */
static int stored_shape(const layout_tensor_t *tensor, uint64_t shape[2])
{
    shape[0] = (uint64_t)(tensor->transposed || tensor->vector ? tensor->columns : tensor->rows);
    shape[1] = (uint64_t)(tensor->transposed ? tensor->rows : tensor->columns);
    return tensor->vector ? 1 : 2;
}

/* Of values as we hold them, two to a word. */
static uint64_t hash_of(const float *values, size_t count)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i += 2) {
        uint64_t word = bits_of_float(values[i]);
        if (i + 1 < count)
            word |= (uint64_t)bits_of_float(values[i + 1]) << 32;
        hash = rng_hash(hash, word);
    }
    return hash;
}

static size_t largest_group(const layout_t *layout)
{
    size_t largest = 0;
    for (int g = 0; g < layout->group_count; g++)
        largest = layout->groups[g].count > largest ? layout->groups[g].count : largest;
    return largest;
}

/* The tensors [first, end) of adapters, or of all else. */
typedef struct part {
    int first, end;
} part_t;

static part_t part_of(const layout_t *layout, bool adapters)
{
    part_t part = {.end = layout->tensor_count};
    while (part.end > 0 && layout->tensors[part.end - 1].group >= layout_end(layout, false))
        part.end--;
    return adapters ? (part_t){part.end, layout->tensor_count} : part;
}

/* One row of a stored matrix that we hold transposed. */
static float *row_new(const layout_t *layout)
{
    int longest = 1;
    for (int i = 0; i < layout->tensor_count; i++)
        if (layout->tensors[i].transposed && layout->tensors[i].rows > longest)
            longest = layout->tensors[i].rows;
    return malloc((size_t)longest * sizeof(float));
}

/* ---- writing ---- */

typedef struct writing {
    const layout_t *layout;
    part_t part;
    safetensors_writer_t writer;
    float *row;
} writing_t;

static bool append(writing_t *w, const layout_tensor_t *tensor, const float *values, fault_t *fault)
{
    if (!tensor->transposed)
        return safetensors_append(&w->writer, values, layout_elements(tensor), fault);
    size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = 0; r < rows; r++)
            w->row[r] = values[r * columns + c];
        if (!safetensors_append(&w->writer, w->row, rows, fault))
            return false;
    }
    return true;
}

/* Tensors lie in the file as in the layout: group by group. */
static bool write_groups(writing_t *w, element_t element, weights_fetch_fn fetch, void *context,
                         float *values, uint64_t *hashes, fault_t *fault)
{
    const layout_t *layout = w->layout;
    for (int i = w->part.first; i < w->part.end; i++) {
        const layout_tensor_t *tensor = &layout->tensors[i];
        if (i == w->part.first || layout->tensors[i - 1].group != tensor->group) {
            fetch(context, tensor->group, values);
            if (element == ELEMENT_BF16)
                for (size_t k = 0; k < layout->groups[tensor->group].count; k++)
                    values[k] = float_of_bf16(bf16_of_float(values[k]));
        }
        hashes[i] = hash_of(values + tensor->offset, layout_elements(tensor));
        if (!append(w, tensor, values + tensor->offset, fault))
            return false;
    }
    return true;
}

bool weights_write(const char *path, const layout_t *layout, bool adapters, element_t element,
                   weights_fetch_fn fetch, void *context, uint64_t *hashes, fault_t *fault)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    writing_t w = {.layout = layout, .part = part_of(layout, adapters), .row = row_new(layout)};
    const layout_tensor_t *from = &layout->tensors[w.part.first];
    size_t count = (size_t)(w.part.end - w.part.first);
    stored_t *tensors = calloc(count, sizeof *tensors);
    char(*names)[NAME_BYTES] = calloc(count, sizeof *names);
    float *values = malloc(largest_group(layout) * sizeof *values);
    bool good = false;
    if (w.row == NULL || tensors == NULL || names == NULL || values == NULL) {
        fault_write(fault, "%s: no memory for a copy of one block", path);
    } else {
        for (size_t i = 0; i < count; i++) {
            stored_name(layout, &from[i], names[i]);
            tensors[i] = (stored_t){.name = names[i], .element = element};
            tensors[i].dimensions = stored_shape(&from[i], tensors[i].shape);
        }
        good = safetensors_create(&w.writer, path, tensors, count, metadata, fault);
        if (good) {
            good = write_groups(&w, element, fetch, context, values, hashes, fault);
            fault_t later;
            good = safetensors_finish(&w.writer, good ? fault : &later) && good;
        }
    }
    free(w.row);
    free(tensors);
    free(names);
    free(values);
    return good;
}

/* ---- reading ---- */

/* The files of a model. */
typedef struct source {
    const char *flag, *path;
    safetensors_t *files; /* owns [count] */
    size_t count;
    float *row;
} source_t;

static bool add_file(source_t *source, const char *path, fault_t *fault)
{
    safetensors_t *larger = realloc(source->files, (source->count + 1) * sizeof *larger);
    if (larger == NULL)
        return fault_set(fault, "%s %s: no memory for %zu files", source->flag, source->path,
                         source->count + 1);
    source->files = larger;
    if (!safetensors_open(&larger[source->count], source->flag, path, fault))
        return false;
    source->count++;
    return true;
}

static bool is_open(const source_t *source, const char *path)
{
    for (size_t i = 0; i < source->count; i++)
        if (strcmp(source->files[i].path, path) == 0)
            return true;
    return false;
}

/* The files that an index names, each once. They lie beside it. */
static bool add_indexed(source_t *source, const cJSON *index, fault_t *fault)
{
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map"), *item;
    if (!cJSON_IsObject(map))
        return fault_set(fault, "%s %s: the index has no \"weight_map\"", source->flag, source->path);
    cJSON_ArrayForEach(item, map)
    {
        char path[PATH_MAX];
        if (!cJSON_IsString(item) || strchr(item->valuestring, '/') != NULL)
            return fault_set(fault, "%s %s: the index's \"weight_map\": %s is in no file of this folder",
                             source->flag, source->path, item->string);
        snprintf(path, sizeof path, "%s/%s", source->path, item->valuestring);
        if (source->count == FILES_MOST)
            return fault_set(fault, "%s %s: the index names more than %d files", source->flag, source->path,
                             FILES_MOST);
        if (!is_open(source, path) && !add_file(source, path, fault))
            return false;
    }
    return true;
}

cJSON *json_read(FILE *file)
{
    struct stat status;
    bool good =
        fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) && status.st_size < (off_t)1 << 28;
    size_t length = good ? (size_t)status.st_size : 0;
    char *text = malloc(length + 1);
    cJSON *json = NULL;
    if (text != NULL && good && fread(text, 1, length, file) == length)
        json = cJSON_ParseWithLength(text, length);
    free(text);
    fclose(file);
    return json;
}

static bool read_index(source_t *source, const char *path, fault_t *fault)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return fault_set(fault, "%s %s: no model.safetensors in it, and no model.safetensors.index.json",
                         source->flag, source->path);
    cJSON *index = json_read(file);
    bool good = index != NULL ? add_indexed(source, index, fault)
                              : fault_set(fault, "%s %s: no JSON", source->flag, path);
    cJSON_Delete(index);
    return good;
}

static bool open_source(source_t *source, fault_t *fault)
{
    struct stat status;
    char path[PATH_MAX];
    if (stat(source->path, &status) != 0)
        return fault_set(fault, "%s %s: %s", source->flag, source->path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return add_file(source, source->path, fault);
    snprintf(path, sizeof path, "%s/model.safetensors", source->path);
    if (access(path, F_OK) == 0)
        return add_file(source, path, fault);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", source->path);
    return read_index(source, path, fault);
}

static void close_source(source_t *source)
{
    for (size_t i = 0; i < source->count; i++)
        safetensors_close(&source->files[i]);
    free(source->files);
    free(source->row);
}

/* With or without what GPT-2's names begin with. */
static const stored_t *find(const source_t *source, const layout_t *layout, const layout_tensor_t *tensor,
                            const safetensors_t **file)
{
    char name[NAME_BYTES];
    stored_name(layout, tensor, name);
    for (size_t i = 0; i < source->count; i++) {
        const stored_t *stored = safetensors_find(&source->files[i], name);
        *file = &source->files[i];
        if (stored != NULL || (stored = safetensors_find(*file, tensor->name)) != NULL)
            return stored;
    }
    return NULL;
}

static bool check_shape(const source_t *source, const safetensors_t *file, const stored_t *stored,
                        const layout_tensor_t *tensor, fault_t *fault)
{
    uint64_t shape[2];
    int dimensions = stored_shape(tensor, shape);
    if (stored->dimensions == dimensions && stored->shape[0] == shape[0] &&
        (dimensions == 1 || stored->shape[1] == shape[1]))
        return true;
    fault_write(fault, "%s %s: %s: \"shape\" is [", source->flag, file->path, stored->name);
    for (int i = 0; i < stored->dimensions; i++)
        fault_append(fault, i > 0 ? ", %llu" : "%llu", (unsigned long long)stored->shape[i]);
    fault_append(fault, "], of this model it is [%llu", (unsigned long long)shape[0]);
    if (dimensions == 2)
        fault_append(fault, ", %llu", (unsigned long long)shape[1]);
    fault_append(fault, "]");
    return false;
}

static bool read_tensor(const source_t *source, const layout_t *layout, const layout_tensor_t *tensor,
                        float *values, fault_t *fault)
{
    const safetensors_t *file;
    const stored_t *stored = find(source, layout, tensor, &file);
    if (stored == NULL)
        return fault_set(fault, "%s %s: %s is missing", source->flag, source->path, tensor->name);
    if (!check_shape(source, file, stored, tensor, fault))
        return false;
    if (!tensor->transposed)
        return safetensors_read(file, stored, 0, layout_elements(tensor), values, fault);
    size_t rows = (size_t)tensor->rows, columns = (size_t)tensor->columns;
    for (size_t c = 0; c < columns; c++) {
        if (!safetensors_read(file, stored, c * rows, rows, source->row, fault))
            return false;
        for (size_t r = 0; r < rows; r++)
            values[r * columns + c] = source->row[r];
    }
    return true;
}

static bool read_groups(const source_t *source, const layout_t *layout, part_t part, weights_take_fn take,
                        void *context, float *values, uint64_t *hashes, fault_t *fault)
{
    for (int i = part.first; i < part.end; i++) {
        const layout_tensor_t *tensor = &layout->tensors[i];
        if (!read_tensor(source, layout, tensor, values + tensor->offset, fault))
            return false;
        if (hashes != NULL)
            hashes[i] = hash_of(values + tensor->offset, layout_elements(tensor));
        if (i + 1 == part.end || tensor[1].group != tensor->group)
            take(context, tensor->group, values);
    }
    return true;
}

bool weights_read(const char *flag, const char *path, const layout_t *layout, bool adapters,
                  weights_take_fn take, void *context, uint64_t *hashes, fault_t *fault)
{
    source_t source = {.flag = flag, .path = path, .row = row_new(layout)};
    float *values = malloc(largest_group(layout) * sizeof *values);
    bool good = false;
    if (source.row == NULL || values == NULL)
        fault_write(fault, "%s %s: no memory for a copy of one block", flag, path);
    else
        good = open_source(&source, fault) &&
               read_groups(&source, layout, part_of(layout, adapters), take, context, values, hashes, fault);
    close_source(&source);
    free(values);
    return good;
}
