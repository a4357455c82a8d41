/* tiles.h: memory on the device by tiles of 64 KiB: what has changed since it was hashed last, copies of many
 * pieces at once, and what differs; all without a wait of the host.
 *
 * Every tile has a number in a table of hashes on the device, and every question one in an array of results; who
 * uses them numbers them. Jobs are collected and issued as one launch, on the stream of the operation that they
 * are about, ordered by it alone. Results are bytes: 1, the tile has changed (or differs). They are read when a step
 * is over.
 *
 * Table and results are device memory like the program's, under the budget. With ebb_lock() held throughout.
 */
#ifndef EBB_TILES_H
#define EBB_TILES_H

#include "alloc/ebb_alloc.h"
#include "ckpt/run/profile/kernels/tiles.h"

enum { EBB_NO_RESULT = UINT32_MAX };

typedef struct ebb_tiles ebb_tiles_t;

/* Room for so many hashes, results and pairs of found pointers. NULL: the kernels could not be loaded, or there is no
 * memory (logged). */
ebb_tiles_t *ebb_tiles_new(ebb_device_t *dev, size_t hashes, size_t results, size_t founds);
void ebb_tiles_delete(ebb_device_t *dev, ebb_tiles_t *tiles); /* nothing may be under way */

typedef enum ebb_tile_kind { EBB_TILES_HASH, EBB_TILES_MOVE, EBB_TILES_COMPARE } ebb_tile_kind_t;

/* Jobs of one kind to be issued on one stream. */
typedef struct ebb_tile_list {
    ebb_tiles_t *tiles;
    ebb_stream_t *stream;
    ebb_tile_kind_t kind;
    ebb_status_t status; /* the first failure */
    unsigned launches;
    ebb_tile_jobs_t jobs;
} ebb_tile_list_t;

void ebb_tiles_begin(ebb_tile_list_t *list, ebb_tiles_t *tiles, ebb_stream_t *stream, ebb_tile_kind_t kind);
/* Each may issue what has been collected. `hash`: the number of the first tile's; `result`: of its answer, or
 * EBB_NO_RESULT; `found`: where pointers in the first tile are noted, or EBB_NO_RESULT. */
void ebb_tiles_hash(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr at, size_t bytes, uint32_t hash,
                    uint32_t result, uint32_t found);
void ebb_tiles_move(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr to, CUdeviceptr from,
                    size_t bytes); /* from 0: zeros */
/* With `other` not 0: that with `a` too, its answers behind those of `b`. */
void ebb_tiles_compare(ebb_device_t *dev, ebb_tile_list_t *list, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr other, size_t bytes, uint32_t result);
/* Issues the rest; the first failure of all. */
ebb_status_t ebb_tiles_end(ebb_device_t *dev, ebb_tile_list_t *list);

/* The host waits for everything that was issued, and for the results. After that they may be asked for. */
ebb_status_t ebb_tiles_read(ebb_tiles_t *tiles, ebb_stream_t *stream);
bool ebb_tiles_result(const ebb_tiles_t *tiles, uint32_t result);
/* [0] inside of ebb's arena, [1] elsewhere; 0: none. */
const uint64_t *ebb_tiles_found(const ebb_tiles_t *tiles, uint32_t found);

static inline uint32_t ebb_tile_count(uint64_t bytes)
{
    return (uint32_t)((bytes + EBB_TILE_BYTES - 1) / EBB_TILE_BYTES);
}

#endif
