/* trace_read.c: reading a trace; see trace.h for the format. Only tools read traces, so the JSON library
 * stays out of libebb.so. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

typedef struct reader {
    FILE *in;
    char *line;
    size_t room;
    unsigned number;
    char *error;
    size_t error_size;
} reader_t;

static bool complain(reader_t *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(reader_t *r, const char *format, ...)
{
    int n = snprintf(r->error, r->error_size, "line %u: ", r->number);
    va_list args;
    va_start(args, format);
    if (n > 0 && (size_t)n < r->error_size)
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* The next line as an object, or NULL after a complaint. */
static cJSON *next_object(reader_t *r)
{
    r->number++;
    ssize_t length = getline(&r->line, &r->room, r->in);
    if (length <= 0) {
        complain(r, "the file ends too early");
        return NULL;
    }
    cJSON *o = cJSON_ParseWithLength(r->line, (size_t)length);
    if (o && cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    complain(r, "not a JSON object");
    return NULL;
}

/* A whole number from 0 to `most`. */
static bool whole(const cJSON *item, double most, double *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > most ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *out = item->valuedouble;
    return true;
}

static bool get(reader_t *r, const cJSON *o, const char *key, double most, double *out)
{
    return whole(cJSON_GetObjectItemCaseSensitive(o, key), most, out) ||
           complain(r, "\"%s\" is missing or not a whole number up to %.0f", key, most);
}

/* null is never. */
static bool get_point(reader_t *r, const cJSON *o, const char *key, double most, uint32_t *out)
{
    double n = EBB_TRACE_NEVER;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNull(item) && !get(r, o, key, most, &n))
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool get_triple(reader_t *r, const cJSON *o, const char *key, uint32_t out[3])
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, key);
    for (int i = 0; i < 3; i++) {
        double n;
        if (cJSON_GetArraySize(list) != 3 || !whole(cJSON_GetArrayItem(list, i), UINT32_MAX, &n))
            return complain(r, "\"%s\" is not three whole numbers", key);
        out[i] = (uint32_t)n;
    }
    return true;
}

static bool read_buffer(reader_t *r, ebb_trace_t *t, const cJSON *o, double operations)
{
    double id, bytes;
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    if (!b)
        return complain(r, "out of memory");
    if (!get(r, o, "buffer", UINT32_MAX, &id) || !get(r, o, "bytes", 9007199254740992.0, &bytes) ||
        !get_point(r, o, "born", operations, &b->born) || !get_point(r, o, "dies", operations, &b->dies))
        return false;
    b->bytes = (uint64_t)bytes;
    return id == t->buffer_count - 1 || complain(r, "buffer %.0f is out of order", id);
}

static bool read_accesses(reader_t *r, ebb_trace_t *t, const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return complain(r, "\"access\" is not a list");
    cJSON_ArrayForEach(item, list)
    {
        double n[4];
        for (int i = 0; i < 4; i++)
            if (cJSON_GetArraySize(item) != 4 ||
                !whole(cJSON_GetArrayItem(item, i), i == 1 ? 9007199254740992.0 : UINT32_MAX, &n[i]))
                return complain(r, "an access is not [buffer, offset, param_offset, mode]");
        ebb_trace_access_t *a = ebb_trace_add_access(t);
        if (!a)
            return complain(r, "out of memory");
        a->buffer = (uint32_t)n[0];
        a->offset_bytes = (uint64_t)n[1];
        a->param_offset = (uint32_t)n[2];
        a->mode = n[3] <= EBB_UPDATES ? (ebb_mode_t)n[3] : (ebb_mode_t)0;
    }
    return true;
}

static bool read_operation(reader_t *r, ebb_trace_t *t, const cJSON *o)
{
    static const char *const kinds[] = {"kernel", "copy", "set"};
    double index, stream, shared, params, ns, proofs;
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "kind"));
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name"));
    ebb_trace_operation_t *p = ebb_trace_add_operation(t);
    if (!p)
        return complain(r, "out of memory");
    if (!kind || !name)
        return complain(r, "\"kind\" or \"name\" is missing");
    for (p->kind = 0; p->kind < 3 && strcmp(kind, kinds[p->kind]); p->kind++)
        ;
    if (p->kind == 3)
        return complain(r, "kind \"%s\" is unknown", kind);
    snprintf(p->name, sizeof p->name, "%s", name);
    if (!get(r, o, "op", UINT32_MAX, &index) || !get(r, o, "stream", UINT32_MAX, &stream) ||
        !get(r, o, "shared", UINT32_MAX, &shared) || !get(r, o, "param_bytes", UINT32_MAX, &params) ||
        !get(r, o, "ns", 9007199254740992.0, &ns) || !get(r, o, "proofs", UINT32_MAX, &proofs) || !get_triple(r, o, "grid", p->grid) ||
        !get_triple(r, o, "block", p->block))
        return false;
    p->stream = (uint32_t)stream;
    p->shared_bytes = (uint32_t)shared;
    p->param_bytes = (uint32_t)params;
    p->duration_ns = (uint64_t)ns;
    p->proofs = (uint32_t)proofs;
    if (index != t->operation_count - 1)
        return complain(r, "operation %.0f is out of order", index);
    return read_accesses(r, t, cJSON_GetObjectItemCaseSensitive(o, "access"));
}

static bool read_all(reader_t *r, ebb_trace_t *t)
{
    double version, chunk, operations, buffers;
    cJSON *o = next_object(r);
    bool good =
        o && (get(r, o, "ebb_trace", UINT32_MAX, &version) || complain(r, "this is not a trace of ebb"));
    if (good && version != EBB_TRACE_VERSION)
        good = complain(r, "version %.0f of the format; this ebb reads %d", version, EBB_TRACE_VERSION);
    good = good && get(r, o, "chunk_bytes", 1 << 30, &chunk) &&
           get(r, o, "operations", UINT32_MAX - 1, &operations) &&
           get(r, o, "buffers", UINT32_MAX - 1, &buffers);
    cJSON_Delete(o);
    if (!good)
        return false;
    t->chunk_bytes = (uint64_t)chunk;
    for (double i = 0; good && i < buffers + operations; i++) {
        o = next_object(r);
        good = o && (i < buffers ? read_buffer(r, t, o, operations) : read_operation(r, t, o));
        cJSON_Delete(o);
    }
    const char *wrong = good ? ebb_trace_check(t) : NULL;
    return good && (!wrong || complain(r, "%s", wrong));
}

ebb_trace_t *ebb_trace_read(FILE *in, char *error, size_t error_size)
{
    reader_t r = {.in = in, .error = error, .error_size = error_size};
    ebb_trace_t *t = ebb_trace_new(0);
    bool good = t ? read_all(&r, t) : complain(&r, "out of memory");
    free(r.line);
    if (good)
        return t;
    ebb_trace_delete(t);
    return NULL;
}
