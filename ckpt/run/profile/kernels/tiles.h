/* tiles.h: the arguments of ebb's tile kernels; for tiles.cu and tiles.c. C and CUDA. */
#ifndef EBB_KERNELS_TILES_H
#define EBB_KERNELS_TILES_H

#include <stdint.h>

/* Words that look like pointers into the range are noted by where they lead, the largest of each group; behind them the largest elsewhere. */
enum { EBB_TILE_BYTES = 64 << 10, EBB_TILE_JOBS = 40, EBB_TILE_GROUPS = 16, EBB_TILE_FOUND = EBB_TILE_GROUPS + 1 };

/* Bytes [0, bytes) at `a`, aligned to 8, in tiles; the launch has one block a tile, job after job.
 * hash:    table[i] becomes the hash of tile i; result[i], if there is one, whether it was another. `b`:
 *          EBB_TILE_FOUND words that look like pointers, in `low` to `high` and elsewhere; or 0: not looked for (the first tile only)
 * move:    `a` becomes what is at `b`, or zeros if that is 0; result[i], if there is one, whether that is other than zeros,
 *          of either sign
 * compare: result[i]: whether `a` and `b` differ in tile i; with a `table`, result[tiles + i]: whether `a` and that do */
typedef struct ebb_tile_job {
    uint64_t a, b, bytes;
    uint64_t table;
    uint64_t result; /* bytes, one a tile; 0: none */
    uint32_t tiles, unused;
} ebb_tile_job_t;

typedef struct ebb_tile_jobs {
    uint64_t low,
        high; /* where buffers are, in units of 64 KiB: these are no pointers, and do not look like any */
    uint32_t count, tiles;
    ebb_tile_job_t job[EBB_TILE_JOBS];
} ebb_tile_jobs_t;

#endif
