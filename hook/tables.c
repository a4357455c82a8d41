#include "hook/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"

/* A word of device memory that points to a buffer, or the first of a tensor map. */
typedef struct ebb_table_word {
    CUdeviceptr at;
    ebb_pinned_ref_t to; /* the address that stands there */
    bool lasting;        /* no argument need lead here: what it points to is reached at any time */
} word_t;

/* The number of the first word from an address on. */
static size_t first_from(const ebb_pointer_table_t *table, CUdeviceptr address)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->word[middle].at < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Numbers of words: [first, end). */
typedef struct range {
    size_t first, end;
} range_t;

/* Those in so many bytes, which may be more than there are addresses. */
static range_t words_in(const ebb_pointer_table_t *table, CUdeviceptr base, size_t bytes)
{
    return (range_t){first_from(table, base),
                     base + bytes < base ? table->count : first_from(table, base + bytes)};
}

/* ---- what operands lead to ---- */

static void follow(ebb_t *ebb, const ebb_buffer_t *b)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    const range_t r = words_in(table, b->address, b->bytes);
    for (size_t i = r.first; i < r.end; i++) {
        ebb_buffer_t *to = ebb_buffer_at(ebb, table->word[i].to.address); /* whichever lies there by now */
        if (to && to->followed != table->search)
            table->found[table->found_count++] = to->address;
        if (to)
            to->followed = table->search;
    }
}

uint32_t ebb_tables_follow(ebb_t *ebb, const ebb_operation_t *op, const CUdeviceptr **found)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    table->found_count = 0;
    if (!table->count)
        return 0;
    table->search++;
    for (uint32_t i = 0; i < op->access_count; i++)
        follow(ebb, op->access[i].buffer);
    for (uint32_t i = 0; i < table->found_count; i++)
        follow(ebb, ebb_buffer_at(ebb, table->found[i]));
    *found = table->found;
    return table->found_count;
}

/* ---- what is reached without an operand ---- */

static bool is_lasting(ebb_t *ebb, CUdeviceptr at)
{
    const ebb_pointer_table_t *table = &ebb->hook->pointers;
    const ebb_buffer_t *b = ebb_arena_contains(ebb, at) ? ebb_buffer_at(ebb, at) : NULL;
    if (!b || b->pinned)
        return true;
    for (size_t i = 0; table->lasting && i < table->count; i++)
        if (table->word[i].lasting && ebb_pinned_get(ebb, table->word[i].to) == b)
            return true;
    return false;
}

/* Small buffers never leave. What it leads to is to be held next. */
static ebb_status_t hold(ebb_t *ebb, word_t *word)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    ebb_buffer_t *b = word->lasting ? NULL : ebb_pinned_get(ebb, word->to);
    if (!b)
        return 0;
    if (ebb_buffer_is_large(b))
        EBB_TRY(ebb_buffer_pin(b));
    word->lasting = true;
    table->lasting++;
    table->found[table->found_count++] = b->address;
    return 0;
}

static ebb_status_t hold_what_leads_on(ebb_t *ebb)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    while (table->found_count) {
        const ebb_buffer_t *b = ebb_buffer_at(ebb, table->found[--table->found_count]);
        const range_t r = words_in(table, b->address, b->bytes);
        for (size_t i = r.first; i < r.end; i++)
            EBB_TRY(hold(ebb, &table->word[i]));
    }
    return 0;
}

static ebb_status_t pin(ebb_t *ebb, ebb_buffer_t *b)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    EBB_TRY(ebb_buffer_pin(b));
    table->found_count = 0;
    if (!table->count)
        return 0;
    table->found[table->found_count++] = b->address;
    const ebb_status_t status = hold_what_leads_on(ebb);
    if (status)
        ebb_buffer_release(b);
    return status;
}

/* Stays: these tables are the process's, and so is what its callers go through (captures, graphs). */
ebb_status_t ebb_table_pin(ebb_buffer_t *b)
{
    ebb_lock_stay(true);
    const ebb_status_t status = pin(b->range->device->ebb, b);
    ebb_lock_stay(false);
    return status;
}

/* Anyone may have found it, and be under way still. */
static void let_go(ebb_t *ebb, const word_t *word)
{
    ebb_buffer_t *b = word->lasting ? ebb_pinned_get(ebb, word->to) : NULL;
    ebb->hook->pointers.lasting -= word->lasting;
    if (b && ebb_buffer_is_large(b)) {
        ebb_buffer_touch_by_all(b);
        ebb_buffer_release(b);
    }
}

/* ---- words come and go ---- */

static bool make_room(ebb_pointer_table_t *table, size_t count)
{
    size_t room = table->room ? table->room : 64;
    while (room < count)
        room *= 2;
    if (room == table->room)
        return true;
    word_t *word = realloc(table->word, room * sizeof *word);
    CUdeviceptr *found = word ? realloc(table->found, room * sizeof *found) : NULL;
    table->word = word ? word : table->word;
    table->found = found ? found : table->found;
    table->room = found ? room : table->room;
    return found;
}

/* Puts words in, of which there is room for, before the first'th. */
static void put_in(ebb_pointer_table_t *table, size_t first, const word_t *words, size_t count)
{
    memmove(&table->word[first + count], &table->word[first], (table->count - first) * sizeof *words);
    if (count)
        memcpy(&table->word[first], words, count * sizeof *words);
    table->count += count;
}

/* What they hold stays held. */
static void take_out(ebb_pointer_table_t *table, size_t first, size_t count)
{
    memmove(&table->word[first], &table->word[first + count],
            (table->count - first - count) * sizeof *table->word);
    table->count -= count;
}

void ebb_table_gone(ebb_t *ebb, CUdeviceptr base, size_t bytes)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    if (!table->count)
        return;
    const range_t r = words_in(table, base, bytes);
    for (size_t i = r.first; i < r.end; i++)
        let_go(ebb, &table->word[i]);
    take_out(table, r.first, r.end - r.first);
}

/* ---- what a copy brings ---- */

static ebb_status_t no_memory(void)
{
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for tables of pointers", 0);
}

/* Words, in the order of their places. */
typedef struct words {
    word_t *word;
    uint32_t count, room;
    bool failed; /* no memory */
} words_t;

static void note(ebb_t *ebb, words_t *words, CUdeviceptr at, CUdeviceptr to)
{
    const ebb_buffer_t *b = ebb_arena_contains(ebb, to) ? ebb_buffer_at(ebb, to) : NULL;
    word_t *word =
        b ? ebb_array_append((void **)&words->word, &words->count, &words->room, sizeof *word) : NULL;
    words->failed |= b && !word;
    if (word)
        *word = (word_t){.at = at, .to = {b->generation, to}};
}

/* Whatever the program may have passed: an address that the host cannot read is no fault of ebb's. */
static bool read_host(ebb_t *ebb, void *to, const void *from, size_t bytes)
{
    const ebb_foreign_t *f = ebb_foreign_at(ebb, (CUdeviceptr)(uintptr_t)from);
    if (f && (CUdeviceptr)(uintptr_t)from + bytes - f->base <= f->bytes &&
        (f->kind == EBB_FOREIGN_HOST || f->kind == EBB_FOREIGN_MANAGED)) {
        memcpy(to, from, bytes);
        return true;
    }
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)from, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* May it stand among the pointers that a large copy begins with? That of an array without elements is none. */
static bool leads(ebb_t *ebb, CUdeviceptr word)
{
    return !word || (ebb_arena_contains(ebb, word) && ebb_buffer_at(ebb, word));
}

/* The pointers among the words, which stand at multiples of eight, and the tensor maps. */
static bool note_read(ebb_t *ebb, words_t *words, CUdeviceptr to, const void *from, size_t bytes)
{
    CUdeviceptr *read = ebb->hook->pointers.read;
    const size_t looked_at = bytes < EBB_LARGEST_TABLE ? bytes : EBB_LARGEST_TABLE,
                 skipped = (size_t)(-to & 7),
                 count = looked_at > skipped ? (looked_at - skipped) / sizeof *read : 0;
    if (!count || !read_host(ebb, read, (const char *)from + skipped, count * sizeof *read))
        return !count;
    for (size_t i = 0; i < count && (bytes <= EBB_LARGEST_TABLE || leads(ebb, read[i])); i++) {
        const CUdeviceptr at = to + skipped + i * sizeof *read;
        note(ebb, words, at, read[i]);
        if (at % EBB_TENSOR_MAP_ALIGN == 0 && (count - i) * sizeof *read >= EBB_TENSOR_MAP_BYTES)
            note(ebb, words, at, ebb_tensor_map_address(ebb, &read[i]));
    }
    return true;
}

/* What the host can read there; else those that are known of where it comes from. */
static void note_copied(ebb_t *ebb, words_t *words, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    const ebb_pointer_table_t *table = &ebb->hook->pointers;
    if (!ebb_arena_contains(ebb, from) && note_read(ebb, words, to, (const void *)(uintptr_t)from, bytes))
        return;
    const range_t r = words_in(table, from, bytes);
    for (size_t i = r.first; i < r.end; i++)
        note(ebb, words, table->word[i].at - from + to, table->word[i].to.address);
}

static bool may_be_followed(ebb_t *ebb, CUdeviceptr at)
{
    const ebb_foreign_t *f = ebb_foreign_at(ebb, at);
    return ebb_arena_contains(ebb, at) || (f && f->kind == EBB_FOREIGN_MANAGED) || ebb_is_device_memory(at);
}

/* In place of what is there, which is held until the new words hold what they lead to: a table that is copied once more, as it was, is no
 * news. If they cannot, the same words stand there as before. */
static ebb_status_t replace(ebb_t *ebb, CUdeviceptr to, size_t bytes, const words_t *words)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    const range_t r = words_in(table, to, bytes);
    const size_t first = r.first, count = r.end - r.first;
    word_t *before = count ? malloc(count * sizeof *before) : NULL;
    if ((count && !before) || !make_room(table, table->count + words->count)) {
        free(before);
        return no_memory();
    }
    if (count)
        memcpy(before, &table->word[first], count * sizeof *before);
    const bool lasting = words->count && is_lasting(ebb, to);
    take_out(table, first, count);
    put_in(table, first, words->word, words->count);
    if (words->count && ebb_arena_contains(ebb, to) && ebb_buffer_at(ebb, to))
        ebb_buffer_at(ebb, to)->is_table = true;
    table->found_count = 0;
    ebb_status_t status = 0;
    for (size_t i = 0; lasting && i < words->count && !status; i++)
        status = hold(ebb, &table->word[first + i]);
    if (!status)
        status = hold_what_leads_on(ebb);
    if (status) {
        ebb_table_gone(ebb, to, bytes);
        put_in(table, first, before, count);
    }
    for (size_t i = 0; i < count && !status; i++)
        let_go(ebb, &before[i]);
    free(before);
    return status;
}

static int by_place(const void *a, const void *b)
{
    const word_t *x = a, *y = b;
    return x->at != y->at                  ? (x->at < y->at ? -1 : 1)
           : x->to.address < y->to.address ? -1
                                           : x->to.address > y->to.address;
}

/* What is there stays, until a graph is launched; nobody knows for how long after that. What comes once more is there once. */
static void keep_before(ebb_t *ebb, words_t *words, CUdeviceptr to, size_t bytes)
{
    const ebb_pointer_table_t *table = &ebb->hook->pointers;
    const range_t r = words_in(table, to, bytes);
    for (size_t i = r.first; i < r.end; i++)
        note(ebb, words, table->word[i].at, table->word[i].to.address);
    if (!words->count)
        return;
    qsort(words->word, words->count, sizeof *words->word, by_place);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < words->count; i++)
        if (by_place(&words->word[i], &words->word[kept - 1]))
            words->word[kept++] = words->word[i];
    words->count = kept;
}

ebb_status_t ebb_table_written(ebb_t *ebb, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool later)
{
    words_t words = {0};
    note_copied(ebb, &words, to, from, bytes);
    if (words.count && !may_be_followed(ebb, to))
        words.count = 0;
    if (later || ebb_captures_under_way(ebb))
        keep_before(ebb, &words, to, bytes);
    const ebb_status_t status = words.failed                               ? no_memory()
                                : words.count || ebb->hook->pointers.count ? replace(ebb, to, bytes, &words)
                                                                           : 0;
    free(words.word);
    return status;
}
