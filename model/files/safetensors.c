#include "model/files/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/files/element.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files' numbers are read as they are");

#define HEADER_MOST    ((uint64_t)100000000) /* as other readers of the format have it */
#define LARGEST_NUMBER 9007199254740992.0    /* up to here every whole number is a double */
#define CHUNK_BYTES    65536

/* A file while its header is being read. */
typedef struct reading {
    safetensors_t *file;
    const char *flag;
    uint64_t data_bytes;
    fault_t *fault;
} reading_t;

#define REFUSE(reading, ...)                                                                                 \
    (fault_write((reading)->fault, "%s %s: ", (reading)->flag, (reading)->file->path),                       \
     fault_append((reading)->fault, __VA_ARGS__), false)

static bool read_at(int file, void *into, size_t bytes, uint64_t offset)
{
    char *at = into;
    while (bytes > 0) {
        ssize_t got = pread(file, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

/* ---- fields ---- */

static bool whole_number(const cJSON *item, uint64_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > LARGEST_NUMBER)
        return false;
    *value = (uint64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

/* Bytes of an element, or 0 for a type that the format does not have. */
static uint64_t element_bytes(const char *dtype, element_t *element)
{
    static const struct {
        const char *name;
        uint64_t bytes;
        element_t element;
    } types[] = {{"F32", 4, ELEMENT_F32},    {"BF16", 2, ELEMENT_BF16},     {"F16", 2, ELEMENT_F16},
                 {"F64", 8, ELEMENT_OTHER},  {"I64", 8, ELEMENT_OTHER},     {"U64", 8, ELEMENT_OTHER},
                 {"I32", 4, ELEMENT_OTHER},  {"U32", 4, ELEMENT_OTHER},     {"I16", 2, ELEMENT_OTHER},
                 {"U16", 2, ELEMENT_OTHER},  {"I8", 1, ELEMENT_OTHER},      {"U8", 1, ELEMENT_OTHER},
                 {"BOOL", 1, ELEMENT_OTHER}, {"F8_E5M2", 1, ELEMENT_OTHER}, {"F8_E4M3", 1, ELEMENT_OTHER}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(dtype, types[i].name) == 0) {
            *element = types[i].element;
            return types[i].bytes;
        }
    }
    return 0;
}

static bool read_shape(const reading_t *r, stored_t *tensor, const cJSON *shape)
{
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > SAFETENSORS_DIMENSIONS)
        return REFUSE(r, "%s: \"shape\" is no list of at most %d numbers", tensor->name,
                      SAFETENSORS_DIMENSIONS);
    tensor->count = 1;
    const cJSON *item;
    cJSON_ArrayForEach(item, shape)
    {
        uint64_t *size = &tensor->shape[tensor->dimensions++];
        if (!whole_number(item, size))
            return REFUSE(r, "%s: \"shape\" has something else than whole numbers", tensor->name);
        if (__builtin_mul_overflow(tensor->count, *size, &tensor->count))
            return REFUSE(r, "%s: \"shape\" has more than 2^64 elements", tensor->name);
    }
    return true;
}

static bool read_offsets(const reading_t *r, stored_t *tensor, const cJSON *offsets, uint64_t width)
{
    uint64_t bytes;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole_number(cJSON_GetArrayItem(offsets, 0), &tensor->begin) ||
        !whole_number(cJSON_GetArrayItem(offsets, 1), &tensor->end))
        return REFUSE(r, "%s: \"data_offsets\" is not two whole numbers", tensor->name);
    if (tensor->begin > tensor->end || tensor->end > r->data_bytes)
        return REFUSE(r, "%s: \"data_offsets\" [%llu, %llu] are outside of the file's %llu bytes of data",
                      tensor->name, (unsigned long long)tensor->begin, (unsigned long long)tensor->end,
                      (unsigned long long)r->data_bytes);
    if (__builtin_mul_overflow(tensor->count, width, &bytes) || tensor->end - tensor->begin != bytes)
        return REFUSE(r,
                      "%s: \"data_offsets\" [%llu, %llu] are not the size that \"dtype\" and \"shape\" say",
                      tensor->name, (unsigned long long)tensor->begin, (unsigned long long)tensor->end);
    return true;
}

static bool read_tensor(const reading_t *r, stored_t *tensor, const cJSON *item)
{
    tensor->name = strdup(item->string);
    if (tensor->name == NULL)
        return REFUSE(r, "no memory for its header");
    if (!cJSON_IsObject(item))
        return REFUSE(r, "%s: is no object", tensor->name);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsString(dtype))
        return REFUSE(r, "%s: \"dtype\" is missing", tensor->name);
    uint64_t width = element_bytes(dtype->valuestring, &tensor->element);
    if (width == 0)
        return REFUSE(r, "%s: \"dtype\" %s is none of the format's types", tensor->name, dtype->valuestring);
    return read_shape(r, tensor, cJSON_GetObjectItemCaseSensitive(item, "shape")) &&
           read_offsets(r, tensor, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), width);
}

static bool check_metadata(const reading_t *r, const cJSON *metadata)
{
    if (!cJSON_IsObject(metadata))
        return REFUSE(r, "\"__metadata__\" is no object");
    const cJSON *item;
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item))
            return REFUSE(r, "\"__metadata__\": \"%s\" is no text", item->string);
    }
    return true;
}

/* ---- the header as a whole ---- */

static int by_begin(const void *left, const void *right)
{
    const stored_t *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static int by_name(const void *left, const void *right)
{
    const stored_t *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Each byte of data belongs to one tensor. Sorts them by name. */
static bool check_cover(const reading_t *r)
{
    safetensors_t *file = r->file;
    uint64_t end = 0;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_begin);
    for (size_t i = 0; i < file->count; i++) {
        const stored_t *tensor = &file->tensors[i];
        if (tensor->begin != end)
            return REFUSE(r, "%s: \"data_offsets\" begin at %llu, %s of the tensor before at %llu",
                          tensor->name, (unsigned long long)tensor->begin,
                          tensor->begin < end ? "before the end" : "leaving a hole after the end",
                          (unsigned long long)end);
        end = tensor->end;
    }
    if (end != r->data_bytes)
        return REFUSE(r, "\"data_offsets\" end at %llu, but %llu bytes of data are there",
                      (unsigned long long)end, (unsigned long long)r->data_bytes);
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return REFUSE(r, "%s: is there twice", file->tensors[i].name);
    return true;
}

static bool read_tensors(const reading_t *r, const cJSON *header)
{
    safetensors_t *file = r->file;
    file->tensors = calloc((size_t)cJSON_GetArraySize(header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return REFUSE(r, "no memory for its header");
    const cJSON *item;
    cJSON_ArrayForEach(item, header)
    {
        if (strcmp(item->string, "__metadata__") == 0) {
            if (!check_metadata(r, item))
                return false;
        } else if (!read_tensor(r, &file->tensors[file->count++], item)) {
            return false;
        }
    }
    return check_cover(r);
}

/* `text` has length + 1 bytes. */
static bool parse_header(const reading_t *r, char *text, size_t length)
{
    const char *end = NULL;
    text[length] = '\0';
    if (text[0] != '{')
        return REFUSE(r, "the header does not begin with '{': this is no safetensors file");
    cJSON *header = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (header == NULL)
        return REFUSE(r, "the header is no JSON");
    size_t parsed = (size_t)(end - text);
    bool good = cJSON_IsObject(header);
    for (size_t i = parsed; i < length; i++)
        good = good && text[i] == ' ';
    if (good)
        good = read_tensors(r, header);
    else
        (void)REFUSE(r, "the header is more than a JSON object and spaces");
    cJSON_Delete(header);
    return good;
}

static bool read_header(reading_t *r)
{
    safetensors_t *file = r->file;
    struct stat status;
    uint64_t length;
    if (fstat(file->file, &status) != 0 || !S_ISREG(status.st_mode))
        return REFUSE(r, "not a regular file");
    uint64_t size = (uint64_t)status.st_size;
    if (size < sizeof length || !read_at(file->file, &length, sizeof length, 0))
        return REFUSE(r, "the header's length is missing: the file has %llu bytes", (unsigned long long)size);
    if (length > HEADER_MOST || length < 2 || length > size - sizeof length)
        return REFUSE(r, "the header's length is %llu, the file has %llu bytes (and %llu is the most)",
                      (unsigned long long)length, (unsigned long long)size, (unsigned long long)HEADER_MOST);
    file->data = sizeof length + length;
    r->data_bytes = size - file->data;
    char *text = malloc((size_t)length + 1);
    if (text == NULL)
        return REFUSE(r, "no memory for its header");
    bool good = read_at(file->file, text, (size_t)length, sizeof length)
                    ? parse_header(r, text, (size_t)length)
                    : REFUSE(r, "the header cannot be read");
    free(text);
    return good;
}

bool safetensors_open(safetensors_t *file, const char *flag, const char *path, fault_t *fault)
{
    *file = (safetensors_t){.path = strdup(path), .file = open(path, O_RDONLY | O_CLOEXEC)};
    reading_t reading = {.file = file, .flag = flag, .fault = fault};
    bool good = false;
    if (file->path == NULL)
        fault_write(fault, "%s: no memory for a file's name", flag);
    else if (file->file < 0)
        (void)REFUSE(&reading, "%s", strerror(errno));
    else
        good = read_header(&reading);
    if (!good)
        safetensors_close(file);
    return good;
}

void safetensors_close(safetensors_t *file)
{
    if (file->file >= 0)
        close(file->file);
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    free(file->path);
    *file = (safetensors_t){.file = -1};
}

const stored_t *safetensors_find(const safetensors_t *file, const char *name)
{
    stored_t key = {.name = (char *)(uintptr_t)name}; /* only compared */
    if (file->count == 0)
        return NULL;
    return bsearch(&key, file->tensors, file->count, sizeof *file->tensors, by_name);
}

/* ---- elements ---- */

static void convert(element_t element, const unsigned char *bytes, size_t count, float *values)
{
    if (element == ELEMENT_F32) {
        memcpy(values, bytes, count * sizeof *values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, bytes + 2 * i, sizeof bits);
        values[i] = element == ELEMENT_BF16 ? float_of_bf16(bits) : float_of_f16(bits);
    }
}

bool safetensors_read(const safetensors_t *file, const stored_t *tensor, uint64_t first, size_t count,
                      float *values, fault_t *fault)
{
    unsigned char bytes[CHUNK_BYTES];
    size_t width = tensor->element == ELEMENT_F32 ? 4 : 2;
    if (tensor->element == ELEMENT_OTHER)
        return fault_set(fault, "%s: %s: \"dtype\" is none of F32, BF16 and F16", file->path, tensor->name);
    uint64_t at = file->data + tensor->begin + first * width;
    while (count > 0) {
        size_t part = count < CHUNK_BYTES / width ? count : CHUNK_BYTES / width;
        if (!read_at(file->file, bytes, part * width, at))
            return fault_set(fault, "%s: %s: cannot be read", file->path, tensor->name);
        convert(tensor->element, bytes, part, values);
        values += part;
        count -= part;
        at += part * width;
    }
    return true;
}
