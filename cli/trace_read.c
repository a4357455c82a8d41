/* trace_read.c: reading a trace; see trace.h for the format. Only tools read traces, so the JSON library
 * stays out of libebb.so. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/trace/trace.h"
#include "cli/json_lines.h"

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
    b->pinned = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "pinned"));
    b->kept = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "kept"));
    b->changes = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "changes"));
    if (!cJSON_HasObjectItem(o, "next"))
        b->next = b->born == EBB_NONE && b->dies == EBB_NONE ? (uint32_t)id : EBB_NONE;
    else if (!ebb_lines_get_index(r, o, "next", UINT32_MAX - 1, &b->next))
        return false;
    return id == t->buffer_count - 1 || ebb_lines_complain(r, "buffer %.0f is out of order", id);
}

static bool read_accesses(ebb_lines_t *r, ebb_trace_t *t, const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return ebb_lines_complain(r, "\"access\" is not a list");
    cJSON_ArrayForEach(item, list)
    {
        double n[6];
        for (int i = 0; i < 6; i++)
            if (cJSON_GetArraySize(item) != 6 ||
                !ebb_lines_whole(cJSON_GetArrayItem(item, i), i == 1 ? EBB_LINES_EXACT : UINT32_MAX, &n[i]))
                return ebb_lines_complain(r, "an access is not [buffer, offset, param_offset, first_tile, "
                                             "tiles, mode]");
        ebb_trace_access_t *a = ebb_trace_add_access(t);
        if (!a)
            return ebb_lines_complain(r, "out of memory");
        a->buffer = (uint32_t)n[0];
        a->offset_bytes = (uint64_t)n[1];
        a->param_offset = (uint32_t)n[2];
        a->first_tile = (uint32_t)n[3];
        a->tile_count = (uint32_t)n[4];
        a->mode = n[5] <= EBB_UPDATES ? (ebb_mode_t)n[5] : (ebb_mode_t)0;
    }
    return true;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_args(ebb_lines_t *r, ebb_trace_t *t, const cJSON *item)
{
    const char *hex = cJSON_GetStringValue(item);
    size_t length = hex ? strlen(hex) : 1;
    if (length % 2)
        return ebb_lines_complain(r, "\"args\" is not bytes in hexadecimal");
    for (size_t i = 0; i < length; i += 2) {
        int high = digit(hex[i]), low = digit(hex[i + 1]);
        if (high < 0 || low < 0)
            return ebb_lines_complain(r, "\"args\" is not bytes in hexadecimal");
        unsigned char byte = (unsigned char)(high << 4 | low);
        if (!ebb_trace_add_args(t, &byte, 1))
            return ebb_lines_complain(r, "out of memory");
    }
    return true;
}

/* Texts and words. */
static bool read_names(ebb_lines_t *r, ebb_trace_t *t, ebb_trace_operation_t *p, const cJSON *o)
{
    static const char *const kinds[] = {"kernel", "copy", "set", "other"};
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name"));
    const char *nvtx = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "nvtx"));
    if (!name || !nvtx)
        return ebb_lines_complain(r, "\"%s\" is missing", name ? "nvtx" : "name");
    unsigned kind = ebb_lines_word(cJSON_GetObjectItemCaseSensitive(o, "kind"), kinds, 4);
    if (kind > EBB_TRACE_OTHER)
        return ebb_lines_complain(r, "\"kind\" is unknown");
    unsigned verdict =
        ebb_lines_word(cJSON_GetObjectItemCaseSensitive(o, "verdict"), ebb_verdict_word, EBB_VERDICTS);
    if (verdict == EBB_VERDICTS)
        return ebb_lines_complain(r, "\"verdict\" is unknown");
    p->kind = (ebb_trace_kind_t)kind;
    p->verdict = (ebb_verdict_t)verdict;
    snprintf(p->name, sizeof p->name, "%s", name);
    return ebb_trace_set_nvtx(t, p, nvtx) || ebb_lines_complain(r, "out of memory");
}

static bool read_operation(ebb_lines_t *r, ebb_trace_t *t, const cJSON *o)
{
    static const struct number {
        const char *key;
        double most;
    } numbers[] = {{"op", UINT32_MAX},
                   {"stream", UINT32_MAX},
                   {"thread", UINT32_MAX},
                   {"shared", UINT32_MAX},
                   {"param_bytes", UINT32_MAX},
                   {"proofs", UINT32_MAX},
                   {"at", EBB_LINES_EXACT},
                   {"ns", EBB_LINES_EXACT},
                   {"proof_ns", EBB_LINES_EXACT},
                   {"proof_bytes", EBB_LINES_EXACT}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    double n[NUMBERS];
    ebb_trace_operation_t *p = ebb_trace_add_operation(t);
    if (!p)
        return ebb_lines_complain(r, "out of memory");
    for (int i = 0; i < NUMBERS; i++)
        if (!ebb_lines_get(r, o, numbers[i].key, numbers[i].most, &n[i]))
            return false;
    if (!read_names(r, t, p, o) || !get_triple(r, o, "grid", p->grid) || !get_triple(r, o, "block", p->block))
        return false;
    p->resident = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "resident"));
    p->communicates = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "communicates"));
    p->stream = (uint32_t)n[1];
    p->thread = (uint32_t)n[2];
    p->shared_bytes = (uint32_t)n[3];
    p->param_bytes = (uint32_t)n[4];
    p->proofs = (uint32_t)n[5];
    p->at_ns = (uint64_t)n[6];
    p->duration_ns = (uint64_t)n[7];
    p->proof_ns = (uint64_t)n[8];
    p->proof_bytes = (uint64_t)n[9];
    if (n[0] != t->operation_count - 1)
        return ebb_lines_complain(r, "operation %.0f is out of order", n[0]);
    return read_args(r, t, cJSON_GetObjectItemCaseSensitive(o, "args")) &&
           read_accesses(r, t, cJSON_GetObjectItemCaseSensitive(o, "access"));
}

static bool read_sync(ebb_lines_t *r, ebb_trace_t *t, const cJSON *o)
{
    double index, before, stream, thread, id;
    ebb_trace_sync_t *m = ebb_trace_add_sync(t);
    if (!m)
        return ebb_lines_complain(r, "out of memory");
    if (!ebb_lines_get(r, o, "moment", UINT32_MAX, &index) ||
        !ebb_lines_get(r, o, "before", UINT32_MAX, &before) ||
        !ebb_lines_get(r, o, "stream", UINT32_MAX, &stream) ||
        !ebb_lines_get(r, o, "thread", UINT32_MAX, &thread) || !ebb_lines_get(r, o, "id", UINT32_MAX, &id))
        return false;
    unsigned what =
        ebb_lines_word(cJSON_GetObjectItemCaseSensitive(o, "what"), ebb_sync_word, EBB_SYNC_KINDS);
    if (what == EBB_SYNC_KINDS)
        return ebb_lines_complain(r, "\"what\" is unknown");
    *m = (ebb_trace_sync_t){(ebb_sync_kind_t)what, (uint32_t)before, (uint32_t)stream, (uint32_t)thread,
                            (uint32_t)id};
    return index == t->sync_count - 1 || ebb_lines_complain(r, "moment %.0f is out of order", index);
}

/* Whatever is no number from 0 on, or beyond all sense, counts as 0. */
static double get_figure(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e12 ? item->valuedouble : 0;
}

/* Where it was recorded. A link that is not known each way is not known. */
static void read_device(ebb_trace_t *t, const cJSON *o)
{
    const char *device = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "device"));
    const cJSON *hardware = cJSON_GetObjectItemCaseSensitive(o, "hardware");
    snprintf(t->device, sizeof t->device, "%s", device ? device : "");
#define READ(name) t->hardware.name = get_figure(hardware, #name);
    EBB_HARDWARE(READ)
#undef READ
    if (t->hardware.out_both > 1 || t->hardware.in_both > 1 ||
        t->hardware.checked > 1) /* parts of something */
        t->hardware.out_both = t->hardware.in_both = t->hardware.checked = 0;
    if (t->hardware.out_bytes_per_ns <= 0 || t->hardware.in_bytes_per_ns <= 0)
        t->hardware = (ebb_hardware_t){.out_bytes_per_ns = 0};
}

static bool read_all(ebb_lines_t *r, ebb_trace_t *t)
{
    double version, chunk, tile, operations, buffers, moments;
    cJSON *o = ebb_lines_next(r);
    bool good = o && (ebb_lines_get(r, o, "ebb_trace", UINT32_MAX, &version) ||
                      ebb_lines_complain(r, "this is not a trace of ebb"));
    if (good && version != EBB_TRACE_VERSION)
        good = ebb_lines_complain(r, "version %.0f of the format; this ebb reads version %d: record it again",
                                  version, EBB_TRACE_VERSION);
    good = good && ebb_lines_get(r, o, "chunk_bytes", 1 << 30, &chunk) &&
           ebb_lines_get(r, o, "operations", UINT32_MAX - 1, &operations) &&
           ebb_lines_get(r, o, "tile_bytes", 1 << 30, &tile) &&
           ebb_lines_get(r, o, "buffers", UINT32_MAX - 1, &buffers) &&
           ebb_lines_get(r, o, "moments", UINT32_MAX - 1, &moments);
    if (good)
        read_device(t, o);
    cJSON_Delete(o);
    if (!good)
        return false;
    t->chunk_bytes = (uint64_t)chunk;
    t->tile_bytes = (uint64_t)tile;
    for (double i = 0; good && i < buffers + operations + moments; i++) {
        o = ebb_lines_next(r);
        good = o && (i < buffers                ? read_buffer(r, t, o, operations)
                     : i < buffers + operations ? read_operation(r, t, o)
                                                : read_sync(r, t, o));
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
