/* array.h: arrays that grow by one element at a time. */
#ifndef EBB_ARRAY_H
#define EBB_ARRAY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

#endif
