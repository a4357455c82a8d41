/* hash.h: whether bytes on the device have changed, without bringing them to the host.
 *
 * Equal hashes (64 bits) are taken for equal bytes. A set has slots; each holds the hash of one stretch of memory, and whether a later
 * one was another; computed in the order of the streams on which they were issued. With ebb_lock() held throughout.
 */
#ifndef EBB_HASH_H
#define EBB_HASH_H

#include "alloc/ebb_alloc.h"

typedef struct ebb_hashes ebb_hashes_t;

/* Loads the kernel at the first call, with a current context. NULL: it could not be loaded, or no memory
 * (logged). */
ebb_hashes_t *ebb_hashes_new(ebb_device_t *dev, unsigned slots);
void ebb_hashes_delete(ebb_device_t *dev, ebb_hashes_t *hashes); /* nothing may be under way */

/* Which part of a stretch is hashed: of its pieces of 1 KiB those whose number modulo `every` is `turn`; one at least. */
typedef struct ebb_hash_part {
    uint64_t turn, every;
} ebb_hash_part_t;
#define EBB_HASH_ALL ((ebb_hash_part_t){0, 1})

ebb_status_t ebb_hash_issue(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned slot, ebb_stream_t *stream,
                            CUdeviceptr address, size_t bytes, ebb_hash_part_t part);

/* Hashes the same part of a stretch of the same size, and compares it with the slot's, which stays. */
ebb_status_t ebb_hash_compare(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned slot, ebb_stream_t *stream,
                              CUdeviceptr address, size_t bytes, ebb_hash_part_t part);
/* One comparison with the slot that is over has found other bytes, since this was cleared. Whoever has waited for what was issued
 * behind a comparison hears of it: the device writes to memory of the host's. */
bool ebb_hash_differs(const ebb_hashes_t *hashes, unsigned slot);
void ebb_hash_clear(ebb_hashes_t *hashes, unsigned slot);

/* With this and other kernels. NULL: it could not be loaded (logged). */
CUmodule ebb_hash_module(ebb_device_t *dev);

enum { EBB_HASH_READS = 16 };
/* Slots [first, first + count), at most EBB_HASH_READS, as issued on the stream so far. The host waits. */
ebb_status_t ebb_hash_read(ebb_hashes_t *hashes, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out);

#endif
