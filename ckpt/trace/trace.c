/* trace.c: traces in memory, and writing them. Reading them is for tools only: trace_read.c, which libebb.so
 * does not hold. */
#include "ckpt/trace/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"

const char *const ebb_verdict_word[EBB_VERDICTS] = {
    "untried", "proven", "differs", "no_room",      "foreign", "table", "attributes",
    "opaque",  "host",   "globals", "communicates", "refused", "other"};
const char *const ebb_sync_word[EBB_SYNC_KINDS] = {"alloc",      "free",        "record",     "wait",
                                                   "sync_event", "sync_stream", "sync_device"};

ebb_trace_t *ebb_trace_new(uint64_t chunk_bytes)
{
    ebb_trace_t *t = calloc(1, sizeof *t);
    if (t) {
        t->chunk_bytes = chunk_bytes;
        t->tile_bytes = EBB_TRACE_TILE_BYTES;
    }
    return t;
}

void ebb_trace_delete(ebb_trace_t *t)
{
    if (!t)
        return;
    free(t->operation);
    free(t->buffer);
    free(t->access);
    free(t->sync);
    free(t->text);
    free(t->args);
    free(t);
}

ebb_trace_t *ebb_trace_copy(const ebb_trace_t *t)
{
    ebb_trace_t *copy = calloc(1, sizeof *copy);
    bool good = true;
    if (!copy)
        return NULL;
    *copy = *t;
    copy->operation = ebb_array_copy(t->operation, t->operation_count, sizeof *t->operation, &good);
    copy->buffer = ebb_array_copy(t->buffer, t->buffer_count, sizeof *t->buffer, &good);
    copy->access = ebb_array_copy(t->access, t->access_count, sizeof *t->access, &good);
    copy->sync = ebb_array_copy(t->sync, t->sync_count, sizeof *t->sync, &good);
    copy->text = ebb_array_copy(t->text, t->text_bytes, 1, &good);
    copy->args = ebb_array_copy(t->args, t->args_bytes, 1, &good);
    copy->operation_room = t->operation_count;
    copy->buffer_room = t->buffer_count;
    copy->access_room = t->access_count;
    copy->sync_room = t->sync_count;
    copy->text_room = t->text_bytes;
    copy->args_room = t->args_bytes;
    if (good)
        return copy;
    ebb_trace_delete(copy);
    return NULL;
}

ebb_trace_operation_t *ebb_trace_add_operation(ebb_trace_t *t)
{
    ebb_trace_operation_t *o = ebb_array_append((void **)&t->operation, &t->operation_count,
                                                &t->operation_room, sizeof *t->operation);
    if (o) {
        o->first_access = t->access_count;
        o->first_arg = t->args_bytes;
    }
    return o;
}

ebb_trace_buffer_t *ebb_trace_add_buffer(ebb_trace_t *t)
{
    ebb_trace_buffer_t *b =
        ebb_array_append((void **)&t->buffer, &t->buffer_count, &t->buffer_room, sizeof *t->buffer);
    if (b)
        b->born = b->dies = b->next = EBB_NONE;
    return b;
}

ebb_trace_access_t *ebb_trace_add_access(ebb_trace_t *t)
{
    ebb_trace_access_t *a =
        ebb_array_append((void **)&t->access, &t->access_count, &t->access_room, sizeof *t->access);
    if (a)
        t->operation[t->operation_count - 1].access_count++;
    return a;
}

ebb_trace_sync_t *ebb_trace_add_sync(ebb_trace_t *t)
{
    return ebb_array_append((void **)&t->sync, &t->sync_count, &t->sync_room, sizeof *t->sync);
}

void ebb_trace_dies_later(ebb_trace_t *t, uint32_t buffer, uint32_t dies)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < t->sync_count; i++)
        if (t->sync[i].what != EBB_SYNC_FREE || t->sync[i].id != buffer)
            t->sync[left++] = t->sync[i];
    t->sync_count = left;
    t->buffer[buffer].dies = dies;
}

/* Bytes at the end of a pool; where, or NULL. */
static void *extend(void **pool, uint32_t *count, uint32_t *room, const void *bytes, uint32_t size)
{
    if (size > *room - *count) {
        uint64_t wanted = 2 * ((uint64_t)*count + size);
        void *grown = wanted <= UINT32_MAX ? realloc(*pool, wanted) : NULL;
        if (!grown)
            return NULL;
        *pool = grown;
        *room = (uint32_t)wanted;
    }
    void *at = (char *)*pool + *count;
    *count += size;
    return memcpy(at, bytes, size);
}

bool ebb_trace_add_args(ebb_trace_t *t, const void *bytes, uint32_t count)
{
    if (count && !extend((void **)&t->args, &t->args_bytes, &t->args_room, bytes, count))
        return false;
    t->operation[t->operation_count - 1].arg_bytes += count;
    return true;
}

bool ebb_trace_set_nvtx(ebb_trace_t *t, ebb_trace_operation_t *o, const char *path)
{
    size_t bytes = strlen(path) + 1;
    uint32_t before = o > t->operation ? o[-1].nvtx : 0;
    if (bytes == 1 || (before && !strcmp(t->text + before, path))) {
        o->nvtx = bytes == 1 ? 0 : before;
        return true;
    }
    if (bytes > UINT32_MAX / 4 ||
        (!t->text_bytes && !extend((void **)&t->text, &t->text_bytes, &t->text_room, "", 1)))
        return false;
    uint32_t at = t->text_bytes;
    if (!extend((void **)&t->text, &t->text_bytes, &t->text_room, path, (uint32_t)bytes))
        return false;
    o->nvtx = at;
    return true;
}

uint32_t *ebb_trace_first_touches(const ebb_trace_t *t)
{
    uint32_t *first = malloc(((size_t)t->buffer_count + 1) * sizeof *first);
    for (uint32_t i = 0; first && i < t->buffer_count; i++)
        first[i] = EBB_NONE;
    for (uint32_t i = 0; first && i < t->operation_count; i++)
        for (uint32_t k = 0; k < t->operation[i].access_count; k++) {
            const uint32_t buffer = t->access[t->operation[i].first_access + k].buffer;
            if (t->buffer[buffer].born != EBB_NONE && first[buffer] == EBB_NONE)
                first[buffer] = i;
        }
    return first;
}

ebb_mode_t ebb_trace_mode(const ebb_trace_t *t, uint32_t operation, uint32_t buffer)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (t->access[i].buffer == buffer)
            return t->access[i].mode;
    return 0;
}

static uint64_t tiles_of(const ebb_trace_t *t, uint64_t bytes)
{
    return (bytes - 1) / t->tile_bytes + 1;
}

static const char *check_operation(const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_operation_t *o = &t->operation[index];
    if (o->kind > EBB_TRACE_OTHER)
        return "an operation of unknown kind";
    if (o->first_access > t->access_count || o->access_count > t->access_count - o->first_access)
        return "an operation's accesses are not there";
    if (o->verdict > EBB_OTHERWISE)
        return "an operation of unknown verdict";
    if (o->first_arg > t->args_bytes || o->arg_bytes > t->args_bytes - o->first_arg ||
        (o->arg_bytes && o->arg_bytes != o->param_bytes))
        return "an operation's arguments are not there";
    if (o->nvtx && o->nvtx >= t->text_bytes)
        return "an operation's name is not there";
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *a = &t->access[i];
        if (a->buffer >= t->buffer_count)
            return "an access to a buffer that is not listed";
        if (a->mode < EBB_READS || a->mode > EBB_UPDATES)
            return "an access of unknown mode";
        for (uint32_t k = o->first_access; k < i; k++)
            if (t->access[k].buffer == a->buffer && t->access[k].mode != a->mode)
                return "an operation with two modes for one buffer";
        const ebb_trace_buffer_t *b = &t->buffer[a->buffer];
        if (a->offset_bytes > b->bytes)
            return "an access beyond the end of its buffer";
        if (a->first_tile + (uint64_t)a->tile_count > tiles_of(t, b->bytes))
            return "an access that writes beyond the end of its buffer";
        if (a->mode == EBB_READS && a->tile_count)
            return "an access that reads and writes";
        if ((b->born != EBB_NONE && b->born > index) || (b->dies != EBB_NONE && b->dies <= index))
            return "an access to a buffer outside its lifetime";
    }
    return NULL;
}

static const char *check_sync(const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_sync_t *m = &t->sync[index];
    if (m->what > EBB_SYNC_SYNC_DEVICE)
        return "a sync event of unknown kind";
    if (m->before > t->operation_count || (index && m->before < m[-1].before))
        return "moments out of order";
    if (m->what > EBB_SYNC_FREE)
        return NULL;
    if (m->id >= t->buffer_count)
        return "a sync event of a buffer that is not listed";
    const ebb_trace_buffer_t *b = &t->buffer[m->id];
    if (m->before != (m->what == EBB_SYNC_ALLOC ? b->born : b->dies))
        return "a sync event outside its buffer's lifetime";
    return NULL;
}

const char *ebb_trace_check(const ebb_trace_t *t)
{
    if (!t->chunk_bytes || t->chunk_bytes & (t->chunk_bytes - 1))
        return "chunk_bytes is not a power of two";
    if (!t->tile_bytes || t->tile_bytes & (t->tile_bytes - 1))
        return "tile_bytes is not a power of two";
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (!b->bytes)
            return "a buffer without bytes";
        if ((b->born != EBB_NONE && b->born > t->operation_count) ||
            (b->dies != EBB_NONE && b->dies > t->operation_count))
            return "a lifetime beyond the last operation";
        if (b->born != EBB_NONE && b->dies != EBB_NONE && b->dies < b->born)
            return "a buffer that dies before it is born";
        if (b->next != EBB_NONE &&
            (b->next >= t->buffer_count || b->dies != EBB_NONE || t->buffer[b->next].born != EBB_NONE))
            return "a buffer that cannot be what it is said to be in the next step";
    }
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const char *wrong = check_operation(t, i);
        if (wrong)
            return wrong;
    }
    for (uint32_t i = 0; i < t->sync_count; i++) {
        const char *wrong = check_sync(t, i);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* ---- writing ---- */

static const char *const kind_name[] = {"kernel", "copy", "set", "other"};

static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
    fputc('"', out);
}

static void write_point(FILE *out, const char *key, uint32_t operation)
{
    if (operation == EBB_NONE)
        fprintf(out, ", \"%s\": null", key);
    else
        fprintf(out, ", \"%s\": %" PRIu32, key, operation);
}

static void write_access(FILE *out, const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *a = &t->access[o->first_access + i];
        fprintf(out, "%s[%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%d]", i ? "," : "",
                a->buffer, a->offset_bytes, a->param_offset, a->first_tile, a->tile_count, (int)a->mode);
    }
}

static void write_operation(FILE *out, const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_operation_t *o = &t->operation[index];
    fprintf(out,
            "{\"op\": %" PRIu32 ", \"kind\": \"%s\", \"stream\": %" PRIu32 ", \"thread\": %" PRIu32
            ", \"name\": ",
            index, kind_name[o->kind], o->stream, o->thread);
    write_text(out, o->name);
    fputs(", \"nvtx\": ", out);
    write_text(out, ebb_trace_nvtx(t, o));
    fprintf(out,
            ", \"grid\": [%" PRIu32 ",%" PRIu32 ",%" PRIu32 "], \"block\": [%" PRIu32 ",%" PRIu32 ",%" PRIu32
            "], \"shared\": %" PRIu32 ", \"param_bytes\": %" PRIu32 ", \"at\": %" PRIu64 ", \"ns\": %" PRIu64,
            o->grid[0], o->grid[1], o->grid[2], o->block[0], o->block[1], o->block[2], o->shared_bytes,
            o->param_bytes, o->at_ns, o->duration_ns);
    if (o->resident)
        fputs(", \"resident\": true", out);
    if (o->communicates)
        fputs(", \"communicates\": true", out);
    fprintf(out,
            ", \"verdict\": \"%s\", \"proofs\": %" PRIu32 ", \"proof_ns\": %" PRIu64
            ", \"proof_bytes\": %" PRIu64 ", \"args\": \"",
            ebb_verdict_word[o->verdict], o->proofs, o->proof_ns, o->proof_bytes);
    for (uint32_t i = 0; i < o->arg_bytes; i++)
        fprintf(out, "%02x", t->args[o->first_arg + i]);
    fputs("\", \"access\": [", out);
    write_access(out, t, o);
    fputs("]}\n", out);
}

static void write_sync(FILE *out, const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_sync_t *m = &t->sync[index];
    fprintf(out,
            "{\"moment\": %" PRIu32 ", \"before\": %" PRIu32 ", \"what\": \"%s\", \"stream\": %" PRIu32
            ", \"thread\": %" PRIu32 ", \"id\": %" PRIu32 "}\n",
            index, m->before, ebb_sync_word[m->what], m->stream, m->thread, m->id);
}

/* To a millionth; by whole numbers, because how a fraction is printed depends on the program's locale. */
static void write_figure(FILE *out, double figure)
{
    const uint64_t millionths = (uint64_t)(figure * 1e6 + 0.5);
    fprintf(out, "%" PRIu64 ".%06" PRIu64, millionths / 1000000, millionths % 1000000);
}

static void write_head(FILE *out, const ebb_trace_t *t)
{
    fprintf(out,
            "{\"ebb_trace\": %d, \"chunk_bytes\": %" PRIu64 ", \"tile_bytes\": %" PRIu64
            ", \"operations\": %" PRIu32 ", \"buffers\": %" PRIu32 ", \"moments\": %" PRIu32,
            EBB_TRACE_VERSION, t->chunk_bytes, t->tile_bytes, t->operation_count, t->buffer_count,
            t->sync_count);
    if (*t->device) {
        fputs(", \"device\": ", out);
        write_text(out, t->device);
    }
    if (t->hardware.out_bytes_per_ns > 0) {
        const char *between = ", \"hardware\": {";
#define WRITE(name)                                                                                          \
    fprintf(out, "%s\"" #name "\": ", between);                                                              \
    write_figure(out, t->hardware.name);                                                                     \
    between = ", ";
        EBB_HARDWARE(WRITE)
#undef WRITE
        fputs("}", out);
    }
    fputs("}\n", out);
}

bool ebb_trace_write(const ebb_trace_t *t, FILE *out)
{
    write_head(out, t);
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        fprintf(out, "{\"buffer\": %" PRIu32 ", \"bytes\": %" PRIu64, i, t->buffer[i].bytes);
        write_point(out, "born", t->buffer[i].born);
        write_point(out, "dies", t->buffer[i].dies);
        write_point(out, "next", t->buffer[i].next);
        if (t->buffer[i].pinned)
            fputs(", \"pinned\": true", out);
        if (t->buffer[i].kept)
            fputs(", \"kept\": true", out);
        if (t->buffer[i].changes)
            fputs(", \"changes\": true", out);
        fputs("}\n", out);
    }
    for (uint32_t i = 0; i < t->operation_count; i++)
        write_operation(out, t, i);
    for (uint32_t i = 0; i < t->sync_count; i++)
        write_sync(out, t, i);
    return !fflush(out) && !ferror(out);
}
