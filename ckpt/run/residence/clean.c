/* clean.c: see internal.h. */
#include "ckpt/run/residence/internal.h"

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

/* Of the first so many looks one in eight must pay, else the next are spared. */
enum { LOOKS = 64, SPARED = 1024 };

struct ebb_clean {
    bool tried;
    ebb_hashes_t *hashes; /* [EBB_HASH_READS]; NULL: there are none */
    unsigned looks, same, spared;
};
const size_t ebb_part_clean = sizeof(struct ebb_clean);

/* Not while room is being made: it takes a little device memory. */
void ebb_residence_prepare(ebb_device_t *dev)
{
    struct ebb_clean *clean = dev->run->clean;
    if (clean->tried || !ebb_options.clean || !ebb_traffic_counted(dev)->evictions || ebb_plans_rest(dev))
        return;
    clean->tried = true; /* also against coming back here from below */
    clean->hashes = ebb_hashes_new(dev, EBB_HASH_READS);
    clean->tried = clean->hashes || !ebb_pinned_is_wanted();
}

static bool is_worth_it(struct ebb_clean *clean)
{
    if (!clean->hashes)
        return false;
    if (clean->spared) {
        clean->spared--;
        return false;
    }
    if (clean->looks < LOOKS)
        return true;
    if (clean->same * 8 < clean->looks)
        clean->spared = SPARED;
    clean->looks = clean->same = 0;
    return true;
}

static ebb_status_t issue(ebb_buffer_t *b, unsigned entry, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    const ebb_residence_t *r = b->residence;
    EBB_TRY(ebb_buffer_join(stream, b));
    EBB_TRY(ebb_mark_join(stream, r->ready));
    return ebb_hash_issue(dev, dev->run->clean->hashes, entry, stream, b->address, b->bytes, EBB_HASH_ALL);
}

static void compare(struct ebb_clean *clean, ebb_buffer_t *b, uint64_t hash)
{
    ebb_residence_t *r = b->residence;
    r->same = r->kept.at && r->hashed && r->hash == hash;
    if (r->kept.at && r->hashed) {
        clean->looks++;
        clean->same += r->same;
    }
    r->hash = hash;
    r->hashed = true;
}

/* As many as there are entries; the first that was not. */
static ebb_buffer_t *look_at_some(ebb_buffer_t *list, ebb_stream_t *stream)
{
    struct ebb_clean *clean = list->range->device->run->clean;
    uint64_t hash[EBB_HASH_READS];
    ebb_buffer_t *b = list;
    unsigned count = 0;
    ebb_status_t status = 0;
    for (; b && count < EBB_HASH_READS && !status; b = b->evicting)
        status = issue(b, count++, stream);
    if (!status)
        status = ebb_hash_read(clean->hashes, 0, count, stream, hash);
    for (unsigned i = 0; i < count; i++, list = list->evicting) {
        if (status)
            ((ebb_residence_t *)list->residence)->hashed = false;
        else
            compare(clean, list, hash[i]);
    }
    return b;
}

void ebb_clean_look(ebb_buffer_t *list)
{
    if (!list)
        return;
    ebb_device_t *dev = list->range->device;
    for (ebb_buffer_t *b = list; b; b = b->evicting) {
        ebb_residence_t *r = ebb_residence_of(b);
        if (!r)
            return;
        r->same = false;
    }
    ebb_stream_t *stream = ebb_copy_stream(dev, EBB_OUT);
    if (!stream || !is_worth_it(dev->run->clean)) {
        /* A hash from before would be compared with a later block. */
        for (ebb_buffer_t *b = list; b; b = b->evicting)
            ((ebb_residence_t *)b->residence)->hashed = false;
        return;
    }
    while (list)
        list = look_at_some(list, stream);
}

void ebb_clean_forget(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->residence;
    if (!r || !r->kept.at)
        return;
    ebb_free_host_at(b->range->device, r->kept, r->ready); /* it may be on its way in */
    r->kept = (ebb_host_t){0};
}

/* Of those whose kept block is not about to be used, the one that was not touched for the longest time. NULL: none has one. */
static ebb_buffer_t *least_recent(ebb_device_t *dev)
{
    ebb_buffer_t *least = NULL;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        const ebb_residence_t *r = b->residence;
        if (r && r->kept.at && !r->same && (!least || b->used_at < least->used_at))
            least = b;
    }
    return least;
}

bool ebb_clean_drop(ebb_device_t *dev, size_t bytes)
{
    size_t dropped = 0;
    for (ebb_buffer_t *b; dropped < bytes && (b = least_recent(dev));) {
        dropped += b->bytes;
        ebb_clean_forget(b);
    }
    return dropped > 0;
}
