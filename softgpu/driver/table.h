/* table.h: a set of addresses: the objects of one kind that are alive, so that a handle that comes in is looked up and never
 * followed before it is found. Guarded by sg.lock.
 */
#ifndef SG_TABLE_H
#define SG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_table {
    const void **slot; /* NULL: free. A power of two of them, at most half of them taken */
    size_t capacity, count;
} sg_table_t;

/* False: out of host memory. The address must not be in the table. */
bool sg_table_insert(sg_table_t *table, const void *address);
bool sg_table_contains(const sg_table_t *table, const void *address);
void sg_table_remove(sg_table_t *table, const void *address);

/* The first address in slot `*at` or behind, and `*at` moves behind it; NULL: no more. Start with 0. Meanwhile nothing may be
 * inserted, and only the address that was found removed: then go on at its slot, one back. */
void *sg_table_next(const sg_table_t *table, size_t *at);

#endif
