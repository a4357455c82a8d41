/* link_cache.h: the link's rates in a file, so that a machine's are measured once and not in every process.
 *
 * $XDG_CACHE_HOME/ebb/links (~/.cache/ebb/links), one line a link: version, host, PCI address, driver version,
 * four rates in GB/s, two times in ns, and the device's name. A line counts if all but the figures agree. The file is replaced as
 * a whole, so that processes may do so at once; nothing happens where that is not possible. For people who
 * want to measure again: remove it.
 *
 * Pure C library: for this folder and for tools. Any thread.
 */
#ifndef EBB_LINK_CACHE_H
#define EBB_LINK_CACHE_H

#include <stdbool.h>

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

#endif
