/* table.h: arrays that grow, tables of elements that are found by a number, hashes of numbers. One thread at a time. */
#ifndef EBB_TABLE_H
#define EBB_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrays ---- */

/* Arrays that grow by one element at a time. */

/* Room for one more of `size` bytes in *array; the new element, zeroed, or NULL: no memory, nothing has
 * changed. */
static inline void *ebb_array_append(void **array, uint32_t *count, uint32_t *room, size_t size)
{
    if (*count == *room) {
        uint32_t wanted = *room ? 2 * *room : 64;
        void *grown = wanted > *room ? realloc(*array, wanted * size) : NULL;
        if (!grown)
            return NULL;
        *array = grown;
        *room = wanted;
    }
    return memset((char *)*array + (size_t)(*count)++ * size, 0, size);
}

/* What is used of an array, the caller's; NULL for none, and where there is no memory, which makes `good` false. */
static inline void *ebb_array_copy(const void *array, uint32_t count, size_t size, bool *good)
{
    void *copy = count ? malloc(count * size) : NULL;
    if (copy)
        memcpy(copy, array, count * size);
    *good &= copy || !count;
    return copy;
}

/* ---- hashes of a few numbers ---- */

/* Hashes of a few numbers. */

/* A hash with one number more. */
static inline uint64_t ebb_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

/* ---- tables ---- */

/* Elements that are found by a 64-bit key, which is not 0 and is their first member. Open addressing; an element that is added
 * may move the others. */

/* All zero: empty. `at` is the owner's to free; free(at) and zeros make it empty again. */
typedef struct ebb_table {
    void *at; /* [room] elements; those with key 0 are free */
    size_t room, count;
} ebb_table_t;

static inline uint64_t ebb_table_key(const void *element)
{
    uint64_t key;
    memcpy(&key, element, sizeof key);
    return key;
}

/* Where it is or would be; there must be a free element. */
static inline char *ebb_table_slot(const ebb_table_t *t, size_t size, uint64_t key)
{
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 30) & (t->room - 1);
    char *e = (char *)t->at + i * size;
    while (ebb_table_key(e) && ebb_table_key(e) != key) {
        i = (i + 1) & (t->room - 1);
        e = (char *)t->at + i * size;
    }
    return e;
}

/* NULL: there is none. */
static inline void *ebb_table_find(const ebb_table_t *t, size_t size, uint64_t key)
{
    char *e = t->room ? ebb_table_slot(t, size, key) : NULL;
    return e && ebb_table_key(e) ? e : NULL;
}

/* The element of `size` bytes; made, zero but for its key, if there is none yet (*added). NULL: no memory. */
static inline void *ebb_table_add(ebb_table_t *t, size_t size, uint64_t key, bool *added)
{
    if (2 * t->count >= t->room) {
        ebb_table_t grown = {.room = t->room ? 2 * t->room : 256, .count = t->count};
        if (!(grown.at = calloc(grown.room, size)))
            return NULL;
        for (size_t i = 0; i < t->room; i++) {
            const char *e = (char *)t->at + i * size;
            if (ebb_table_key(e))
                memcpy(ebb_table_slot(&grown, size, ebb_table_key(e)), e, size);
        }
        free(t->at);
        *t = grown;
    }
    char *e = ebb_table_slot(t, size, key);
    *added = !ebb_table_key(e);
    if (*added) {
        memcpy(e, &key, sizeof key);
        t->count++;
    }
    return e;
}

#endif
