/* link.h: what the link between device and host carries. A pure C library with the driver's table, for this folder and for tools.
 * Any thread.
 */
#ifndef EBB_LINK_H
#define EBB_LINK_H

#include <stdbool.h>

#include "alloc/base/driver.h"

/* ---- in a file (link_measure.c) ---- */

/* The link's rates, so that a machine's are measured once and not in every process.
 *
 * $XDG_CACHE_HOME/ebb/links (~/.cache/ebb/links), one line a link: version, host, PCI address, driver version,
 * four rates in GB/s, two times in ns, and the device's name. A line counts if all but the figures agree. The file is replaced as
 * a whole, so that processes may do so at once; nothing happens where that is not possible. To
 * measure again, remove it. */

/* Bytes per nanosecond: each way alone, and each while the other is busy as well; and nanoseconds that a copy takes beside
 * those of its bytes. */
typedef struct ebb_link {
    double out, in;
    double out_both, in_both;
    double out_ns, in_ns;
} ebb_link_t;

typedef struct ebb_link_key {
    char device[96]; /* its name */
    char pci[32];
    int driver_version;
} ebb_link_key_t;

bool ebb_link_cache_read(const ebb_link_key_t *key, ebb_link_t *out);
void ebb_link_cache_write(const ebb_link_key_t *key, const ebb_link_t *link);

/* ---- measured (link_measure.c) ---- */

/* Each way alone, each while the other is in use as well, and what a copy takes however small it is. The two ways are measured one by one, also where both are in use: links are lopsided. One A100 carries 25 GB/s out while 11 come
 * in, and 25 each way alone (NVIDIA/nvbandwidth issue 53); a GH200 170 out and 411 in (NVIDIA/Megatron-LM issue 6491). If both
 * ways had as many copies to make, the faster one would be done first, and the slower one seem faster than it is. */

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
