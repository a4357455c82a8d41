/* sizes.h: the sizes that the allocator and plans share. */
#ifndef EBB_SIZES_H
#define EBB_SIZES_H

#include <stddef.h>

#ifndef EBB_CHUNK_KIB /* CMake's EBB_CHUNK_KIB: a power of two from 64 */
#define EBB_CHUNK_KIB 2048
#endif
#define EBB_CHUNK_BYTES ((size_t)EBB_CHUNK_KIB << 10)
/* Requests up to this size share slabs; larger ones get a range of whole chunks. */
#define EBB_SMALL_BYTES (EBB_CHUNK_BYTES / 2)

#endif
