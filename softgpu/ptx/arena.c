/* arena.c: memory of a module, and the way out when reading fails. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/internal.h"

#define CHUNK_BYTES 65536

/* AddressSanitizer knows nothing of an arena by itself: it is told of a gap behind each allocation, and of the items that a list has
 * moved elsewhere. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define GAP_BYTES 16
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define GAP_BYTES                              0
#endif

typedef struct sg_ptx_chunk {
    struct sg_ptx_chunk *next;
    size_t used, room;
    _Alignas(max_align_t) unsigned char bytes[];
} sg_ptx_chunk_t;

/* The module is the first thing in its arena's first chunk: the arena is found through it. */
typedef struct sg_ptx_owner {
    sg_ptx_module_t module;
    sg_ptx_arena_t arena;
} sg_ptx_owner_t;

static void free_arena(sg_ptx_arena_t *arena)
{
    for (sg_ptx_chunk_t *chunk = arena->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->bytes, chunk->room); /* free() need not be AddressSanitizer's */
        free(chunk);
    }
}

void sg_ptx_free(sg_ptx_module_t *module)
{
    if (module == NULL)
        return;
    sg_ptx_owner_t *owner = (sg_ptx_owner_t *)module;
    free_arena(&owner->arena);
    free(owner);
}

void sg_ptx_fail_at(sg_ptx_reader_t *reader, uint32_t line, const char *format, ...)
{
    char text[sizeof reader->error->text - 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) /* what is quoted may hold anything */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    reader->error->line = line;
    if (line)
        snprintf(reader->error->text, sizeof reader->error->text, "line %u: %s", line, text);
    else
        snprintf(reader->error->text, sizeof reader->error->text, "%s", text);
    longjmp(reader->failed, 1);
}

void *sg_ptx_alloc(sg_ptx_reader_t *reader, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 2)
        sg_ptx_fail_at(reader, 0, "no memory");
    size_t taken = (bytes + align - 1) / align * align + GAP_BYTES;
    sg_ptx_chunk_t *chunk = reader->arena->chunks;
    if (chunk == NULL || chunk->room - chunk->used < taken) {
        size_t room = taken > CHUNK_BYTES / 4 ? taken : CHUNK_BYTES - sizeof *chunk;
        sg_ptx_chunk_t *fresh = malloc(sizeof *fresh + room);
        if (fresh == NULL)
            sg_ptx_fail_at(reader, 0, "no memory");
        fresh->used = 0;
        fresh->room = room;
        ASAN_POISON_MEMORY_REGION(fresh->bytes, room);
        if (chunk != NULL && room == taken) { /* keep filling the one before */
            fresh->next = chunk->next;
            chunk->next = fresh;
        } else {
            fresh->next = chunk;
            reader->arena->chunks = fresh;
        }
        chunk = fresh;
    }
    void *at = chunk->bytes + chunk->used;
    chunk->used += taken;
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return memset(at, 0, bytes);
}

char *sg_ptx_copy_text(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    char *copy = sg_ptx_alloc(reader, (size_t)text.length + 1);
    memcpy(copy, text.at, text.length);
    return copy;
}

void *sg_ptx_add(sg_ptx_reader_t *reader, sg_ptx_list_t *list, size_t item_bytes)
{
    if (list->count == list->room) {
        uint32_t room = list->room ? list->room * 2 : 8;
        if (room < list->room)
            sg_ptx_fail(reader, "too much of one thing");
        void *items = sg_ptx_alloc(reader, room * item_bytes);
        if (list->count) {
            memcpy(items, list->items, list->count * item_bytes);
            ASAN_POISON_MEMORY_REGION(list->items, list->count * item_bytes);
        }
        list->items = items;
        list->room = room;
    }
    return (char *)list->items + item_bytes * list->count++;
}

/* ---- in and out ---- */
bool sg_ptx_read(const char *text, size_t bytes, sg_ptx_module_t **out, sg_ptx_error_t *error)
{
    *out = NULL;
    memset(error, 0, sizeof *error);
    sg_ptx_owner_t *owner = calloc(1, sizeof *owner);
    sg_ptx_reader_t *reader = calloc(1, sizeof *reader);
    if (owner != NULL && reader != NULL) {
        const char *nul = memchr(text, 0, bytes);
        *reader = (sg_ptx_reader_t){.arena = &owner->arena,
                                    .module = &owner->module,
                                    .error = error,
                                    .at = text,
                                    .end = nul != NULL ? nul : text + bytes,
                                    .line = 1};
        if (setjmp(reader->failed) == 0) {
            sg_ptx_read_module(reader);
            *out = &owner->module;
        }
    } else {
        snprintf(error->text, sizeof error->text, "no memory");
    }
    free(reader);
    if (*out == NULL && owner != NULL)
        sg_ptx_free(&owner->module);
    return *out != NULL;
}
