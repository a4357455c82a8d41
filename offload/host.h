/* host.h: where evicted contents go: pinned memory first (pinned.h), and when no more can be pinned, ordinary
 * pageable memory, which costs a second copy by the CPU but is far better than refusing the program memory.
 * For this folder.
 *
 * Pageable memory is bounded by what the machine and its control group have left, less a sixteenth of it all;
 * EBB_PAGEABLE=0 forbids it. Threads and locks: ebb_lock() held.
 */
#ifndef EBB_HOST_H
#define EBB_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/ebb_alloc.h"

typedef struct ebb_host {
    void *at; /* NULL: none */
    bool pinned;
} ebb_host_t;

typedef struct ebb_pageable_usage {
    size_t bytes, peak_bytes;
} ebb_pageable_usage_t;

/* Contents undefined. CUDA_ERROR_OUT_OF_MEMORY (noted): neither kind is to be had; the log has said why. */
ebb_status_t ebb_host_alloc(ebb_device_t *dev, size_t bytes, ebb_host_t *out);
/* Nothing may be under way to or from it. */
void ebb_host_free(ebb_device_t *dev, ebb_host_t host, size_t bytes);

ebb_pageable_usage_t ebb_pageable_usage(ebb_t *ebb);

/* Moves what is in a pageable block into a pinned one, if there is one to be had. */
bool ebb_host_pin(ebb_device_t *dev, ebb_host_t *host, size_t bytes);

#endif
