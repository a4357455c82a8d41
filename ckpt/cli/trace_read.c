/* trace_read.c: reading a trace; see trace.h for the format. Only tools read traces, so the JSON library
 * stays out of libebb.so. */
#include <stdlib.h>

#include "json_lines.h"
#include "trace.h"

static bool get_triple(ebb_lines_t *r, const cJSON *o, const char *key, uint32_t out[3])
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, key);
    for (int i = 0; i < 3; i++) {
        double n;
        if (cJSON_GetArraySize(list) != 3 || !ebb_lines_whole(cJSON_GetArrayItem(list, i), UINT32_MAX, &n))
            return ebb_lines_complain(r, "\"%s\" is not three whole numbers", key);
        out[i] = (uint32_t)n;
    }
    return true;
}

static bool read_buffer(ebb_lines_t *r, ebb_trace_t *t, const cJSON *o, double operations)
{
    double id, bytes;
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    if (!b)
        return ebb_lines_complain(r, "out of memory");
    if (!ebb_lines_get(r, o, "buffer", UINT32_MAX, &id) ||
        !ebb_lines_get(r, o, "bytes", EBB_LINES_EXACT, &bytes) ||
        !ebb_lines_get_index(r, o, "born", operations, &b->born) ||
        !ebb_lines_get_index(r, o, "dies", operations, &b->dies))
        return false;
    b->bytes = (uint64_t)bytes;
    return id == t->buffer_count - 1 || ebb_lines_complain(r, "buffer %.0f is out of order", id);
}

static bool read_accesses(ebb_lines_t *r, ebb_trace_t *t, const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return ebb_lines_complain(r, "\"access\" is not a list");
    cJSON_ArrayForEach(item, list)
    {
        double n[4];
        for (int i = 0; i < 4; i++)
            if (cJSON_GetArraySize(item) != 4 ||
                !ebb_lines_whole(cJSON_GetArrayItem(item, i), i == 1 ? EBB_LINES_EXACT : UINT32_MAX, &n[i]))
                return ebb_lines_complain(r, "an access is not [buffer, offset, param_offset, mode]");
        ebb_trace_access_t *a = ebb_trace_add_access(t);
        if (!a)
            return ebb_lines_complain(r, "out of memory");
        a->buffer = (uint32_t)n[0];
        a->offset_bytes = (uint64_t)n[1];
        a->param_offset = (uint32_t)n[2];
        a->mode = n[3] <= EBB_UPDATES ? (ebb_mode_t)n[3] : (ebb_mode_t)0;
    }
    return true;
}

static bool read_operation(ebb_lines_t *r, ebb_trace_t *t, const cJSON *o)
{
    static const char *const kinds[] = {"kernel", "copy", "set", "other"};
    double index, stream, shared, params, ns, proofs;
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(o, "kind");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name"));
    ebb_trace_operation_t *p = ebb_trace_add_operation(t);
    if (!p)
        return ebb_lines_complain(r, "out of memory");
    if (!name)
        return ebb_lines_complain(r, "\"name\" is missing");
    p->kind = (ebb_trace_kind_t)ebb_lines_word(kind, kinds, 4);
    if (p->kind > EBB_TRACE_OTHER)
        return ebb_lines_complain(r, "\"kind\" is unknown");
    snprintf(p->name, sizeof p->name, "%s", name);
    if (!ebb_lines_get(r, o, "op", UINT32_MAX, &index) ||
        !ebb_lines_get(r, o, "stream", UINT32_MAX, &stream) ||
        !ebb_lines_get(r, o, "shared", UINT32_MAX, &shared) ||
        !ebb_lines_get(r, o, "param_bytes", UINT32_MAX, &params) ||
        !ebb_lines_get(r, o, "ns", EBB_LINES_EXACT, &ns) ||
        !ebb_lines_get(r, o, "proofs", UINT32_MAX, &proofs) || !get_triple(r, o, "grid", p->grid) ||
        !get_triple(r, o, "block", p->block))
        return false;
    p->stream = (uint32_t)stream;
    p->shared_bytes = (uint32_t)shared;
    p->param_bytes = (uint32_t)params;
    p->duration_ns = (uint64_t)ns;
    p->proofs = (uint32_t)proofs;
    if (index != t->operation_count - 1)
        return ebb_lines_complain(r, "operation %.0f is out of order", index);
    return read_accesses(r, t, cJSON_GetObjectItemCaseSensitive(o, "access"));
}

static bool read_all(ebb_lines_t *r, ebb_trace_t *t)
{
    double version, chunk, operations, buffers;
    cJSON *o = ebb_lines_next(r);
    bool good = o && (ebb_lines_get(r, o, "ebb_trace", UINT32_MAX, &version) ||
                      ebb_lines_complain(r, "this is not a trace of ebb"));
    if (good && version != EBB_TRACE_VERSION)
        good = ebb_lines_complain(r, "version %.0f of the format; this ebb reads %d", version,
                                  EBB_TRACE_VERSION);
    good = good && ebb_lines_get(r, o, "chunk_bytes", 1 << 30, &chunk) &&
           ebb_lines_get(r, o, "operations", UINT32_MAX - 1, &operations) &&
           ebb_lines_get(r, o, "buffers", UINT32_MAX - 1, &buffers);
    cJSON_Delete(o);
    if (!good)
        return false;
    t->chunk_bytes = (uint64_t)chunk;
    for (double i = 0; good && i < buffers + operations; i++) {
        o = ebb_lines_next(r);
        good = o && (i < buffers ? read_buffer(r, t, o, operations) : read_operation(r, t, o));
        cJSON_Delete(o);
    }
    const char *wrong = good ? ebb_trace_check(t) : NULL;
    return good && (!wrong || ebb_lines_complain(r, "%s", wrong));
}

ebb_trace_t *ebb_trace_read(FILE *in, char *error, size_t error_size)
{
    ebb_lines_t r = {.in = in, .error = error, .error_size = error_size};
    ebb_trace_t *t = ebb_trace_new(0);
    bool good = t ? read_all(&r, t) : ebb_lines_complain(&r, "out of memory");
    free(r.line);
    if (good)
        return t;
    ebb_trace_delete(t);
    return NULL;
}
