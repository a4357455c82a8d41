/* hash.h: whether bytes on the device have changed, without bringing them to the host.
 *
 * Equal hashes (64 bits) are taken for equal bytes. A set has slots; each holds the hash of one stretch of
 * memory, computed in the order of the stream on which it was issued. With ebb_lock() held throughout.
 */
#ifndef EBB_HASH_H
#define EBB_HASH_H

#include "alloc/ebb_alloc.h"

typedef struct ebb_hashes ebb_hashes_t;

/* Loads the kernel at the first call, with a current context. NULL: it could not be loaded, or no memory
 * (logged). */
ebb_hashes_t *ebb_hashes_new(unsigned slots);
void ebb_hashes_delete(ebb_hashes_t *hashes); /* nothing may be under way */

ebb_status_t ebb_hash_issue(ebb_hashes_t *hashes, unsigned slot, ebb_stream_t *stream, CUdeviceptr address,
                            size_t bytes);

/* Writes to different[0] (device memory) whether two slots, of stretches of the same size, differ. */
ebb_status_t ebb_hash_compare(ebb_hashes_t *hashes, unsigned slot, unsigned other, ebb_stream_t *stream,
                              CUdeviceptr different);

/* With this and other kernels. NULL: it could not be loaded (logged). */
CUmodule ebb_hash_module(void);

/* Slots [first, first + count), as issued on the stream so far. The host waits. */
ebb_status_t ebb_hash_read(ebb_hashes_t *hashes, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out);

#endif
