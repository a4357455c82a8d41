#include "hook/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "alloc/device.h"
#include "alloc/kernel/kernel.h"

/* A word of device memory that points to a buffer, or the first of a tensor map. */
typedef struct ebb_word {
    CUdeviceptr at;
    ebb_pinned_ref_t to;
    bool found; /* by kernels, in a buffer that their arguments point to */
} word_t;

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

/* What has found the word may be under way still: its kernels have marked the buffer. Who does not find it in an argument, but by
 * another table or in a variable of a module, may be anyone. */
static void let_go(ebb_t *ebb, const word_t *word)
{
    ebb_buffer_t *b = ebb_pinned_get(ebb, word->to);
    if (b && !word->found)
        ebb_buffer_touch_by_all(b);
    ebb_pinned_release(ebb, word->to);
}

void ebb_tables_used(ebb_t *ebb, const ebb_operation_t *op, ebb_mark_t mark)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    for (uint32_t i = 0; table->count && op->kind == EBB_KERNEL && i < op->access_count; i++) {
        const ebb_buffer_t *b = op->access[i].buffer;
        for (size_t k = first_from(table, b->address);
             k < table->count && table->word[k].at - b->address < b->bytes; k++) {
            ebb_buffer_t *to = ebb_pinned_get(ebb, table->word[k].to);
            if (to) {
                to->peer_used |= to->range->device != ebb_stream_device(op->stream);
                ebb_buffer_touch(to, mark);
            }
            table->word[k].found = true;
        }
    }
}

/* Takes [first, first + count) of the words out. Their pins stay. */
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
    const size_t first = first_from(table, base), end = first_from(table, base + bytes);
    for (size_t i = first; i < end; i++)
        let_go(ebb, &table->word[i]);
    take_out(table, first, end - first);
}

static ebb_status_t add(ebb_pointer_table_t *table, CUdeviceptr at, ebb_buffer_t *b)
{
    if (table->count == table->room) {
        size_t room = table->room ? 2 * table->room : 64;
        word_t *word = realloc(table->word, room * sizeof *word);
        if (!word) /* pinned for good, then */
            return ebb_buffer_pin(b);
        table->word = word;
        table->room = room;
    }
    EBB_TRY(ebb_buffer_pin(b));
    size_t i = first_from(table, at);
    memmove(&table->word[i + 1], &table->word[i], (table->count - i) * sizeof *table->word);
    table->word[i] = (word_t){at, ebb_pinned_ref(b), false};
    table->count++;
    return 0;
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

static ebb_status_t add_pointer(ebb_t *ebb, CUdeviceptr at, CUdeviceptr to)
{
    ebb_buffer_t *b = ebb_arena_contains(ebb, to) ? ebb_buffer_at(ebb, to) : NULL;
    return b && ebb_buffer_is_large(b) ? add(&ebb->hook->pointers, at, b) : 0; /* small ones never leave */
}

/* May it stand among the pointers that a large copy begins with? That of an array without elements is none. */
static bool leads(ebb_t *ebb, CUdeviceptr word)
{
    return !word || (ebb_arena_contains(ebb, word) && ebb_buffer_at(ebb, word));
}

/* The pointers among the words, which stand at multiples of eight, and the tensor maps. */
static ebb_status_t add_all(ebb_t *ebb, CUdeviceptr to, const void *from, size_t bytes)
{
    CUdeviceptr *words = ebb->hook->pointers.read;
    const size_t looked_at = bytes < EBB_LARGEST_TABLE ? bytes : EBB_LARGEST_TABLE,
                 skipped = (size_t)(-to & 7),
                 count = looked_at > skipped ? (looked_at - skipped) / sizeof *words : 0;
    if (!count || ebb_arena_contains(ebb, (CUdeviceptr)(uintptr_t)from) ||
        !read_host(ebb, words, (const char *)from + skipped, count * sizeof *words))
        return 0;
    for (size_t i = 0; i < count && (bytes <= EBB_LARGEST_TABLE || leads(ebb, words[i])); i++) {
        const CUdeviceptr at = to + skipped + i * sizeof *words;
        EBB_TRY(add_pointer(ebb, at, words[i]));
        if (at % EBB_TENSOR_MAP_ALIGN == 0 && (count - i) * sizeof *words >= EBB_TENSOR_MAP_BYTES)
            EBB_TRY(add_pointer(ebb, at, ebb_tensor_map_address(ebb, &words[i])));
    }
    return 0;
}

/* What stood there keeps its pins until the new words have theirs: a table that is copied once more, as it was, is no news. */
ebb_status_t ebb_table_written(ebb_t *ebb, CUdeviceptr to, const void *from, size_t bytes)
{
    ebb_pointer_table_t *table = &ebb->hook->pointers;
    const size_t first = first_from(table, to), count = first_from(table, to + bytes) - first;
    word_t *before = count ? malloc(count * sizeof *before) : NULL;
    if (!before)
        ebb_table_gone(ebb, to, bytes);
    for (size_t i = 0; before && i < count; i++)
        before[i] = table->word[first + i];
    if (before)
        take_out(table, first, count);
    const ebb_status_t status = add_all(ebb, to, from, bytes);
    for (size_t i = 0; before && i < count; i++)
        let_go(ebb, &before[i]);
    free(before);
    return status;
}
