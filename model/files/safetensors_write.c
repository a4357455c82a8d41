#include "model/files/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/files/element.h"

#define BUFFER_BYTES ((size_t)1 << 20)

static bool failed(const safetensors_writer_t *writer, fault_t *fault)
{
    return fault_set(fault, "%s: cannot be written: %s", writer->path, strerror(errno));
}

static bool write_all(safetensors_writer_t *writer, const void *bytes, size_t count, fault_t *fault)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t put = write(writer->file, at, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return failed(writer, fault);
        at += put;
        count -= (size_t)put;
    }
    return true;
}

static size_t width_of(const stored_t *tensor)
{
    return tensor->element == ELEMENT_F32 ? 4 : 2;
}

/* A tensor's entry; NULL if there is no memory. */
static cJSON *entry_of(const stored_t *tensor)
{
    cJSON *entry = cJSON_CreateObject(), *shape = cJSON_CreateArray(), *offsets = cJSON_CreateArray();
    bool good =
        entry != NULL && shape != NULL && offsets != NULL &&
        cJSON_AddStringToObject(entry, "dtype", tensor->element == ELEMENT_F32 ? "F32" : "BF16") != NULL;
    for (int i = 0; good && i < tensor->dimensions; i++)
        good = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensor->shape[i]));
    good = good && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)tensor->begin)) &&
           cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)tensor->end));
    if (!good) {
        cJSON_Delete(shape);
        cJSON_Delete(offsets);
        cJSON_Delete(entry);
        return NULL;
    }
    cJSON_AddItemToObject(entry, "shape", shape);
    cJSON_AddItemToObject(entry, "data_offsets", offsets);
    return entry;
}

/* The header's text; NULL if there is no memory. */
static char *header_of(const stored_t *tensors, size_t count, const char *const *metadata)
{
    cJSON *header = cJSON_CreateObject();
    cJSON *texts = header != NULL ? cJSON_AddObjectToObject(header, "__metadata__") : NULL;
    bool good = texts != NULL;
    for (; good && metadata[0] != NULL; metadata += 2)
        good = cJSON_AddStringToObject(texts, metadata[0], metadata[1]) != NULL;
    for (size_t i = 0; good && i < count; i++) {
        cJSON *entry = entry_of(&tensors[i]);
        good = entry != NULL && cJSON_AddItemToObject(header, tensors[i].name, entry);
    }
    char *text = good ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    return text;
}

static void place(stored_t *tensors, size_t count)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        tensors[i].count = 1;
        for (int d = 0; d < tensors[i].dimensions; d++)
            tensors[i].count *= tensors[i].shape[d];
        tensors[i].begin = at;
        at += tensors[i].count * width_of(&tensors[i]);
        tensors[i].end = at;
    }
}

static bool write_header(safetensors_writer_t *writer, const char *text, fault_t *fault)
{
    size_t length = strlen(text);
    uint64_t padded = (length + 7) / 8 * 8;
    return write_all(writer, &padded, sizeof padded, fault) && write_all(writer, text, length, fault) &&
           write_all(writer, "       ", (size_t)padded - length, fault);
}

static void free_writer(safetensors_writer_t *writer)
{
    if (writer->file >= 0)
        close(writer->file);
    free(writer->buffer);
    writer->file = -1;
    writer->buffer = NULL;
}

bool safetensors_create(safetensors_writer_t *writer, const char *path, stored_t *tensors, size_t count,
                        const char *const *metadata, fault_t *fault)
{
    *writer = (safetensors_writer_t){.path = path, .tensors = tensors, .count = count};
    place(tensors, count);
    writer->buffer = malloc(BUFFER_BYTES);
    char *text = header_of(tensors, count, metadata);
    writer->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = false;
    if (text == NULL || writer->buffer == NULL)
        fault_write(fault, "%s: no memory for its header of %zu tensors", path, count);
    else if (writer->file < 0)
        (void)failed(writer, fault);
    else
        good = write_header(writer, text, fault);
    cJSON_free(text);
    if (!good)
        free_writer(writer);
    return good;
}

static bool flush(safetensors_writer_t *writer, fault_t *fault)
{
    size_t filled = writer->filled;
    writer->filled = 0;
    return write_all(writer, writer->buffer, filled, fault);
}

/* Passes tensors that are complete, empty ones too. */
static void pass_complete(safetensors_writer_t *writer)
{
    while (writer->current < writer->count && writer->written == writer->tensors[writer->current].count) {
        writer->current++;
        writer->written = 0;
    }
}

/* At most so many elements of the current tensor as fit into the buffer; how many they were. */
static size_t fill(safetensors_writer_t *writer, const float *values, size_t count)
{
    const stored_t *tensor = &writer->tensors[writer->current];
    size_t width = width_of(tensor), space = (BUFFER_BYTES - writer->filled) / width;
    uint64_t left = tensor->count - writer->written;
    if (count > space)
        count = space;
    if (count > left)
        count = (size_t)left;
    unsigned char *to = writer->buffer + writer->filled;
    if (tensor->element == ELEMENT_F32)
        memcpy(to, values, count * width);
    for (size_t i = 0; tensor->element == ELEMENT_BF16 && i < count; i++) {
        uint16_t bits = bf16_of_float(values[i]);
        memcpy(to + i * width, &bits, sizeof bits);
    }
    writer->filled += count * width;
    writer->written += count;
    return count;
}

bool safetensors_append(safetensors_writer_t *writer, const float *values, size_t count, fault_t *fault)
{
    while (count > 0) {
        pass_complete(writer);
        if (writer->current == writer->count)
            return fault_set(fault, "%s: more elements than its tensors have", writer->path);
        size_t part = fill(writer, values, count);
        if (part == 0 && !flush(writer, fault))
            return false;
        values += part;
        count -= part;
    }
    return true;
}

bool safetensors_finish(safetensors_writer_t *writer, fault_t *fault)
{
    pass_complete(writer);
    bool good = writer->current == writer->count;
    if (!good)
        fault_write(fault, "%s: %s has fewer elements than its shape says", writer->path,
                    writer->tensors[writer->current].name);
    good = good && flush(writer, fault);
    if (good && fsync(writer->file) != 0)
        good = failed(writer, fault);
    free_writer(writer);
    return good;
}
