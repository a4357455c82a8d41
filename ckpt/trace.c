/* trace.c: traces in memory, and writing them. Reading them is for tools only: trace_read.c, which libebb.so
 * does not hold. */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

ebb_trace_t *ebb_trace_new(uint64_t chunk_bytes)
{
    ebb_trace_t *t = calloc(1, sizeof *t);
    if (t)
        t->chunk_bytes = chunk_bytes;
    return t;
}

void ebb_trace_delete(ebb_trace_t *t)
{
    if (!t)
        return;
    free(t->operation);
    free(t->buffer);
    free(t->access);
    free(t);
}

ebb_trace_operation_t *ebb_trace_add_operation(ebb_trace_t *t)
{
    ebb_trace_operation_t *o = ebb_array_append((void **)&t->operation, &t->operation_count,
                                                &t->operation_room, sizeof *t->operation);
    if (o)
        o->first_access = t->access_count;
    return o;
}

ebb_trace_buffer_t *ebb_trace_add_buffer(ebb_trace_t *t)
{
    ebb_trace_buffer_t *b =
        ebb_array_append((void **)&t->buffer, &t->buffer_count, &t->buffer_room, sizeof *t->buffer);
    if (b)
        b->born = b->dies = EBB_TRACE_NEVER;
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

static const char *check_operation(const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_operation_t *o = &t->operation[index];
    if (o->kind > EBB_TRACE_OTHER)
        return "an operation of unknown kind";
    if (o->first_access > t->access_count || o->access_count > t->access_count - o->first_access)
        return "an operation's accesses are not there";
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
        if ((b->born != EBB_TRACE_NEVER && b->born > index) ||
            (b->dies != EBB_TRACE_NEVER && b->dies <= index))
            return "an access to a buffer outside its lifetime";
    }
    return NULL;
}

const char *ebb_trace_check(const ebb_trace_t *t)
{
    if (!t->chunk_bytes || t->chunk_bytes & (t->chunk_bytes - 1))
        return "chunk_bytes is not a power of two";
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (!b->bytes)
            return "a buffer without bytes";
        if ((b->born != EBB_TRACE_NEVER && b->born > t->operation_count) ||
            (b->dies != EBB_TRACE_NEVER && b->dies > t->operation_count))
            return "a lifetime beyond the last operation";
        if (b->born != EBB_TRACE_NEVER && b->dies != EBB_TRACE_NEVER && b->dies < b->born)
            return "a buffer that dies before it is born";
    }
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const char *wrong = check_operation(t, i);
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
    if (operation == EBB_TRACE_NEVER)
        fprintf(out, ", \"%s\": null", key);
    else
        fprintf(out, ", \"%s\": %" PRIu32, key, operation);
}

static void write_operation(FILE *out, const ebb_trace_t *t, uint32_t index)
{
    const ebb_trace_operation_t *o = &t->operation[index];
    fprintf(out, "{\"op\": %" PRIu32 ", \"kind\": \"%s\", \"stream\": %" PRIu32 ", \"name\": ", index,
            kind_name[o->kind], o->stream);
    write_text(out, o->name);
    fprintf(out,
            ", \"grid\": [%" PRIu32 ",%" PRIu32 ",%" PRIu32 "], \"block\": [%" PRIu32 ",%" PRIu32 ",%" PRIu32
            "], \"shared\": %" PRIu32 ", \"param_bytes\": %" PRIu32 ", \"ns\": %" PRIu64
            ", \"proofs\": %" PRIu32 ", \"access\": [",
            o->grid[0], o->grid[1], o->grid[2], o->block[0], o->block[1], o->block[2], o->shared_bytes,
            o->param_bytes, o->duration_ns, o->proofs);
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *a = &t->access[o->first_access + i];
        fprintf(out, "%s[%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%d]", i ? "," : "", a->buffer, a->offset_bytes,
                a->param_offset, (int)a->mode);
    }
    fputs("]}\n", out);
}

bool ebb_trace_write(const ebb_trace_t *t, FILE *out)
{
    fprintf(out,
            "{\"ebb_trace\": %d, \"chunk_bytes\": %" PRIu64 ", \"operations\": %" PRIu32
            ", \"buffers\": %" PRIu32 "}\n",
            EBB_TRACE_VERSION, t->chunk_bytes, t->operation_count, t->buffer_count);
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        fprintf(out, "{\"buffer\": %" PRIu32 ", \"bytes\": %" PRIu64, i, t->buffer[i].bytes);
        write_point(out, "born", t->buffer[i].born);
        write_point(out, "dies", t->buffer[i].dies);
        fputs("}\n", out);
    }
    for (uint32_t i = 0; i < t->operation_count; i++)
        write_operation(out, t, i);
    return !fflush(out) && !ferror(out);
}
