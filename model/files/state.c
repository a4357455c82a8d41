#include "model/files/state.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/base/rng.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files' numbers are read as they are");

enum { TYPE_COUNT = 1, TYPE_REAL = 2, TYPE_FLOAT = 3 };

typedef struct start {
    char magic[8];
    uint32_t version, zero;
} start_t;

typedef struct field {
    char name[40];
    uint32_t type, zero;
    uint64_t count;
    uint64_t check;
} field_t;

_Static_assert(sizeof(start_t) == 16 && sizeof(field_t) == 64, "as state.h says");

static size_t element_bytes(uint32_t type)
{
    return type == TYPE_FLOAT ? sizeof(float) : sizeof(uint64_t);
}

/* Of whole words and what is left over, filled up with zeros. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const char *at = bytes;
    for (; count >= sizeof(uint64_t); count -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = rng_hash(hash, word);
    }
    if (count > 0) {
        uint64_t word = 0;
        memcpy(&word, at, count);
        hash = rng_hash(hash, word);
    }
    return hash;
}

static uint64_t check_of(uint64_t chain, const field_t *field, const void *elements)
{
    uint64_t hash = hash_bytes(rng_hash(0, chain), field, offsetof(field_t, check));
    return hash_bytes(hash, elements, (size_t)field->count * element_bytes(field->type));
}

static field_t field_of(const char *name, uint32_t type, size_t count)
{
    field_t field = {.type = type, .count = count};
    memcpy(field.name, name, strnlen(name, sizeof field.name - 1));
    return field;
}

/* ---- writing ---- */

static bool unwritten(const state_file_t *state, fault_t *fault)
{
    return fault_set(fault, "%s: cannot be written: %s", state->path, strerror(errno));
}

bool state_create(state_file_t *state, const char *path, fault_t *fault)
{
    start_t start = {.version = STATE_VERSION};
    memcpy(start.magic, "ebbstate", sizeof start.magic);
    *state = (state_file_t){
        .path = path, .file = fopen(path, "wbe"), .chain = hash_bytes(0, &start, sizeof start)};
    if (state->file != NULL && fwrite(&start, sizeof start, 1, state->file) == 1)
        return true;
    (void)unwritten(state, fault);
    state_close(state);
    return false;
}

static bool put(state_file_t *state, const char *name, uint32_t type, const void *elements, size_t count,
                fault_t *fault)
{
    static const char zeros[sizeof(uint64_t)];
    field_t field = field_of(name, type, count);
    field.check = state->chain = check_of(state->chain, &field, elements);
    size_t bytes = count * element_bytes(type), padding = (8 - bytes % 8) % 8;
    if (fwrite(&field, sizeof field, 1, state->file) != 1 ||
        fwrite(elements, 1, bytes, state->file) != bytes || fwrite(zeros, 1, padding, state->file) != padding)
        return unwritten(state, fault);
    return true;
}

bool state_put_counts(state_file_t *state, const char *name, const uint64_t *values, size_t count,
                      fault_t *fault)
{
    return put(state, name, TYPE_COUNT, values, count, fault);
}

bool state_put_count(state_file_t *state, const char *name, uint64_t value, fault_t *fault)
{
    return put(state, name, TYPE_COUNT, &value, 1, fault);
}

bool state_put_real(state_file_t *state, const char *name, double value, fault_t *fault)
{
    return put(state, name, TYPE_REAL, &value, 1, fault);
}

bool state_put_floats(state_file_t *state, const char *name, const float *values, size_t count,
                      fault_t *fault)
{
    return put(state, name, TYPE_FLOAT, values, count, fault);
}

bool state_finish(state_file_t *state, fault_t *fault)
{
    bool good = put(state, "end", TYPE_COUNT, "", 0, fault);
    if (good && (fflush(state->file) != 0 || fsync(fileno(state->file)) != 0))
        good = unwritten(state, fault);
    FILE *file = state->file;
    state->file = NULL;
    if (fclose(file) != 0 && good)
        good = unwritten(state, fault);
    return good;
}

void state_close(state_file_t *state)
{
    if (state->file != NULL)
        fclose(state->file);
    state->file = NULL;
}

/* ---- reading ---- */

bool state_open(state_file_t *state, const char *path, fault_t *fault)
{
    start_t start;
    *state = (state_file_t){.path = path, .file = fopen(path, "rbe")};
    if (state->file == NULL)
        return fault_set(fault, "%s: %s", path, strerror(errno));
    bool good = false;
    if (fread(&start, sizeof start, 1, state->file) != 1 || memcmp(start.magic, "ebbstate", 8) != 0)
        fault_write(fault, "%s: does not begin with \"ebbstate\": this is no state of a training", path);
    else if (start.version != STATE_VERSION)
        fault_write(fault, "%s: version is %u; this ebb-train reads version %d", path, start.version,
                    STATE_VERSION);
    else
        good = true;
    state->chain = hash_bytes(0, &start, sizeof start);
    if (!good)
        state_close(state);
    return good;
}

/* The next field's head, and that it is the right one. */
static bool get_head(state_file_t *state, field_t *field, const char *name, uint32_t type, size_t count,
                     fault_t *fault)
{
    if (fread(field, sizeof *field, 1, state->file) != 1)
        return fault_set(fault, "%s: the file ends before field %s", state->path, name);
    field_t expected = field_of(name, type, count);
    field->name[sizeof field->name - 1] = '\0';
    for (char *c = field->name; *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    if (strcmp(field->name, expected.name) != 0)
        return fault_set(fault, "%s: field %s is expected, \"%s\" is there", state->path, name, field->name);
    if (field->type != type || field->zero != 0)
        return fault_set(fault, "%s: field %s: its type is %u, not %u", state->path, name, field->type, type);
    if (field->count != count)
        return fault_set(fault, "%s: field %s: it has %llu elements, not %zu", state->path, name,
                         (unsigned long long)field->count, count);
    return true;
}

static bool get(state_file_t *state, const char *name, uint32_t type, void *elements, size_t count,
                fault_t *fault)
{
    field_t field;
    char padding[sizeof(uint64_t)] = {0};
    size_t bytes = count * element_bytes(type), after = (8 - bytes % 8) % 8;
    if (!get_head(state, &field, name, type, count, fault))
        return false;
    if (fread(elements, 1, bytes, state->file) != bytes || fread(padding, 1, after, state->file) != after)
        return fault_set(fault, "%s: the file ends in field %s", state->path, name);
    field_t head = field_of(name, type, count); /* the name's bytes after its end count, too */
    state->chain = check_of(state->chain, &head, elements);
    if (field.check != state->chain || memcmp(field.name, head.name, sizeof head.name) != 0 ||
        memcmp(padding, "\0\0\0\0\0\0\0", sizeof padding) != 0)
        return fault_set(fault, "%s: field %s: its checksum is wrong, the file is damaged", state->path,
                         name);
    return true;
}

bool state_get_counts(state_file_t *state, const char *name, uint64_t *values, size_t count, fault_t *fault)
{
    return get(state, name, TYPE_COUNT, values, count, fault);
}

bool state_get_count(state_file_t *state, const char *name, uint64_t *value, fault_t *fault)
{
    return get(state, name, TYPE_COUNT, value, 1, fault);
}

bool state_get_real(state_file_t *state, const char *name, double *value, fault_t *fault)
{
    return get(state, name, TYPE_REAL, value, 1, fault);
}

bool state_get_floats(state_file_t *state, const char *name, float *values, size_t count, fault_t *fault)
{
    return get(state, name, TYPE_FLOAT, values, count, fault);
}

bool state_end(state_file_t *state, fault_t *fault)
{
    char nothing;
    if (!get(state, "end", TYPE_COUNT, &nothing, 0, fault))
        return false;
    if (getc(state->file) != EOF)
        return fault_set(fault, "%s: more follows field end", state->path);
    return true;
}

/* The field "end" is the last one, without elements. */
bool state_last(const char *path, uint64_t *checksum, fault_t *fault)
{
    field_t field;
    FILE *file = fopen(path, "rbe");
    bool good = file != NULL && fseek(file, -(long)sizeof field, SEEK_END) == 0 &&
                fread(&field, sizeof field, 1, file) == 1 && strcmp(field.name, "end") == 0;
    if (!good)
        fault_write(fault, "%s: cannot be read to its end", path);
    if (file != NULL)
        fclose(file);
    *checksum = field.check;
    return good;
}
