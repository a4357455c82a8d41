/* fingerprint.h: hashes for offload/, which tells by them whether evicted buffers have changed. */
#ifndef EBB_FINGERPRINT_H
#define EBB_FINGERPRINT_H

#include "offload/ebb_offload.h"

extern const ebb_fingerprints_t ebb_fingerprints;

#endif
