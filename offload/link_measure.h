/* link_measure.h: how fast the link between device and host is: each way alone, each while the other is in use as well, and what
 * a copy takes however small it is.
 *
 * The two ways are measured one by one, also where both are in use: links are lopsided. One A100 carries 25 GB/s out while 11 come
 * in, and 25 each way alone (NVIDIA/nvbandwidth issue 53); a GH200 170 out and 411 in (NVIDIA/Megatron-LM issue 6491). If both
 * ways had as many copies to make, the faster one would be done first, and the slower one seem faster than it is.
 *
 * By the driver's table alone, for this folder and for tools.
 */
#ifndef EBB_LINK_MEASURE_H
#define EBB_LINK_MEASURE_H

#include "alloc/base/driver.h"
#include "offload/link_cache.h"

enum { EBB_LINK_BYTES = 16 << 20 };

/* Borrowed: so many bytes of device and of pinned host memory, and a stream each way, out first, on which nothing else is issued. */
typedef struct ebb_link_bench {
    CUdeviceptr device;
    char *host;
    CUstream stream[2];
} ebb_link_bench_t;

/* The host waits, until nothing is under way any more. False: it could not be measured. */
bool ebb_link_measure(const ebb_link_bench_t *bench, ebb_link_t *link);

#endif
