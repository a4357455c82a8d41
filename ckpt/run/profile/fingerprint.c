/* fingerprint.c: see fingerprint.h. */
#include "ckpt/run/profile/fingerprint.h"

#include "ckpt/run/profile/hash.h"

enum { SLOTS = 16 };

static ebb_hashes_t *hashes_of[EBB_STATES];
#define hashes (hashes_of[ebb_slot])

static bool set_up(void)
{
    hashes = ebb_hashes_new(SLOTS);
    return hashes != NULL;
}

static ebb_status_t issue(unsigned slot, ebb_stream_t *stream, CUdeviceptr address, size_t bytes)
{
    return ebb_hash_issue(hashes, slot, stream, address, bytes, EBB_HASH_ALL);
}

static ebb_status_t read_slots(unsigned count, ebb_stream_t *stream, uint64_t *out)
{
    return ebb_hash_read(hashes, 0, count, stream, out);
}

const ebb_fingerprints_t ebb_fingerprints = {
    .slots = SLOTS, .open = set_up, .issue = issue, .read = read_slots};
