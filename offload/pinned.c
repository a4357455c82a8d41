/* pinned.c: for each device the extents that are pinned (extent.c), one for each block, and in front of them the blocks that wait to be
 * used again. Blocks below half a page share extents, by a jemalloc arena: its own cache of free extents, which goes by class, is off
 * (jemalloc_seam.c), and extents are neither split nor merged.
 */

#include <jemalloc/jemalloc.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/ebb_alloc.h"
#include "offload/internal.h"

#define SMALL_ALIGN_BYTES ((size_t)64)
#define AT_ONCE_BYTES                                                                                        \
    (EBB_CHUNK_BYTES / 2) /* are pinned in less than a millisecond: no call is made again for them */
#define MEASURED_BYTES  ((size_t)16 << 20) /* pinned anew until what else is on the device is measured again */
#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* The cached blocks of one size, the newest last. */
struct ebb_shelf {
    size_t bytes;
    uint64_t used; /* when a block was last taken or put */
    size_t count, capacity;
    size_t unused; /* of `count`: as many would do without what was pinned ahead of need */
    void **block;  /* owns */
};
typedef struct ebb_shelf shelf_t;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_exiting(const ebb_t *ebb)
{
    return atomic_load(&ebb->offload->exiting);
}

/* ---- extents ---- */

static int by_base(const void *a, const void *b)
{
    const char *x = ((const ebb_extent_t *)a)->base, *y = ((const ebb_extent_t *)b)->base;
    return (x > y) - (x < y);
}

/* An address in the middle is as good. */
static int by_address(const void *a, const void *b)
{
    const ebb_extent_t *key = a, *e = b;
    return key->base < e->base ? -1 : key->base >= e->base + e->bytes;
}

/* The driver may wait in both of these. */
static ebb_status_t make_away(ebb_device_t *dev, size_t bytes, ebb_extent_t *made)
{
    const ebb_away_t away = ebb_lock_leave();
    const ebb_status_t status =
        ebb_extent_make(&dev->ebb->offload->pinning, ebb_offload_of(dev)->pinned.place, bytes, made);
    ebb_lock_return(away);
    return status;
}

static ebb_status_t delete_away(ebb_device_t *dev, const ebb_extent_t *e)
{
    const ebb_away_t away = ebb_lock_leave();
    const ebb_status_t status = ebb_extent_delete(&dev->ebb->offload->pinning, e);
    ebb_lock_return(away);
    return status;
}

/* What has been made and counted is this device's. False: it could not be noted, and is gone. */
static bool adopt(ebb_device_t *dev, const ebb_extent_t *made)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    ebb_extent_t *e = malloc(sizeof *e);
    if (e)
        *e = *made;
    ebb_extent_t **held = e ? tsearch(e, &pinned->extents, by_base) : NULL;
    if (!held) {
        free(e);
        delete_away(dev, made);
        ebb_pin_uncount(dev, made->bytes);
        return false;
    }
    EBB_ASSERT(*held == e);
    pinned->scattered += made->piece != NULL;
    if (all->registered > all->peak)
        all->peak = all->registered;
    /* Some of what is pinned is charged to the device (TensorRT-LLM issue 13693). */
    pinned->unmeasured += made->bytes;
    if (pinned->unmeasured >= MEASURED_BYTES) {
        pinned->unmeasured = 0;
        ebb_heap_measure_soon(dev);
    }
    return true;
}

static void *make_extent(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_extent_t made;
    pinned->refusal = -1;
    if (!ebb_pin_fits(dev, bytes) || !ebb_pin_count_if_fits(dev, bytes))
        return NULL;
    pinned->refusal = make_away(dev, bytes, &made);
    if (pinned->refusal) {
        ebb_pin_uncount(dev, bytes);
        return NULL;
    }
    pinned->refusal = CUDA_ERROR_OUT_OF_MEMORY;
    return adopt(dev, &made) ? made.base : NULL;
}

static ebb_extent_t *find_extent(ebb_device_t *dev, const void *base)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    const ebb_extent_t key = {.base = (char *)base};
    ebb_extent_t **found = tfind(&key, &pinned->extents, by_base);
    EBB_ASSERT(found);
    return found ? *found : NULL;
}

/* Forgotten before it is unmapped: from then on another may have its address. */
static ebb_extent_t take_apart(ebb_device_t *dev, const void *base)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_extent_t *e = find_extent(dev, base);
    if (!e)
        return (ebb_extent_t){0};
    const ebb_extent_t taken = *e;
    tdelete(e, &pinned->extents, by_base);
    free(e);
    pinned->apart += taken.bytes;
    pinned->scattered -= taken.piece != NULL;
    return taken;
}

/* What could not be unpinned stays mapped and counted: the device may still reach it. */
static void end_unpinning(ebb_device_t *dev, const ebb_extent_t *e, ebb_status_t status)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    if (status) {
        ebb_log(EBB_DEBUG, "error %d: %zu bytes of host memory stay pinned", status, e->bytes);
        return;
    }
    pinned->apart -= e->bytes;
    ebb_pin_uncount(dev, e->bytes);
}

static void delete_extent(ebb_device_t *dev, const void *base)
{
    const ebb_extent_t e = take_apart(dev, base);
    if (e.bytes)
        end_unpinning(dev, &e, delete_away(dev, &e));
}

/* ---- extents of small blocks ---- */

struct ebb_arena_hooks {
    extent_hooks_t hooks; /* the first: jemalloc gives the hooks their own address */
    ebb_device_t *device;
};

static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t bytes, size_t align, bool *zero,
                        bool *commit, unsigned arena)
{
    (void)arena;
    if (wanted || align > page_bytes())
        return NULL;
    void *base = make_extent(((struct ebb_arena_hooks *)hooks)->device, bytes);
    if (base && *zero)
        memset(base, 0, bytes);
    *commit = true;
    return base;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *base, size_t bytes, bool committed, unsigned arena)
{
    (void)bytes, (void)committed, (void)arena;
    delete_extent(((struct ebb_arena_hooks *)hooks)->device, base);
    return false;
}

static bool hook_split(extent_hooks_t *hooks, void *base, size_t bytes, size_t low, size_t high,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)base, (void)bytes, (void)low, (void)high, (void)committed, (void)arena;
    return true; /* refused */
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t a_bytes, void *b, size_t b_bytes,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)a, (void)a_bytes, (void)b, (void)b_bytes, (void)committed, (void)arena;
    return true; /* refused */
}

/* Creates the arena. jemalloc's own bookkeeping for it needs no pinned memory: hence this form of creation,
 * whose argument jemalloc declares in no public header. */
static bool start(ebb_device_t *dev)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    struct {
        extent_hooks_t *hooks;
        bool metadata_by_hooks;
    } config = {0};
    size_t size = sizeof pinned->arena;
    CUdevice device;
    if (pinned->tried)
        return pinned->ready;
    pinned->tried = true;
    pinned->hooks = malloc(sizeof *pinned->hooks);
    if (pinned->hooks) {
        *pinned->hooks = (struct ebb_arena_hooks){
            {.alloc = hook_alloc, .dalloc = hook_dalloc, .split = hook_split, .merge = hook_merge}, dev};
        config.hooks = &pinned->hooks->hooks;
    }
    if (!config.hooks ||
        mallctl("experimental.arenas_create_ext", &pinned->arena, &size, &config, sizeof config)) {
        ebb_log(EBB_WARN, "jemalloc cannot make an arena: there will be no pinned host memory");
        return false;
    }
    if (!ebb_driver.cuCtxGetDevice(&device))
        pinned->place = ebb_topology_find(&dev->ebb->offload->topology, device);
    pinned->ready = true;
    return true;
}

static int arena_flags(const ebb_pinned_t *pinned)
{
    return (int)MALLOCX_ARENA(pinned->arena) | MALLOCX_TCACHE_NONE;
}

/* ---- shelves: blocks that wait to be used again ---- */

static size_t round_block(size_t bytes)
{
    return ROUND_UP(bytes ? bytes : 1, bytes < page_bytes() / 2 ? SMALL_ALIGN_BYTES : page_bytes());
}

/* Of a block of whole pages: nothing shares its extent. */
static bool is_alone(size_t rounded)
{
    return rounded % page_bytes() == 0;
}

static void delete_block(ebb_device_t *dev, void *block, size_t rounded)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    if (is_alone(rounded))
        delete_extent(dev, block);
    else
        dallocx(block, arena_flags(pinned));
}

/* Where the shelf for a size is or would be. */
static size_t shelf_index(const ebb_pinned_t *pinned, size_t bytes)
{
    size_t low = 0, high = pinned->shelf_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (pinned->shelf[mid].bytes < bytes)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool shelf_insert(ebb_pinned_t *pinned, size_t i, size_t bytes)
{
    if (pinned->shelf_count == pinned->shelf_capacity) {
        size_t capacity = pinned->shelf_capacity ? 2 * pinned->shelf_capacity : 32;
        shelf_t *grown = realloc(pinned->shelf, capacity * sizeof *grown);
        if (!grown)
            return false;
        pinned->shelf = grown;
        pinned->shelf_capacity = capacity;
    }
    memmove(pinned->shelf + i + 1, pinned->shelf + i, (pinned->shelf_count - i) * sizeof *pinned->shelf);
    pinned->shelf[i] = (shelf_t){.bytes = bytes};
    pinned->shelf_count++;
    return true;
}

static void *shelf_pop(ebb_device_t *dev, size_t i)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    shelf_t *s = &pinned->shelf[i];
    void *block = s->block[--s->count];
    s->unused = s->unused < s->count ? s->unused : s->count;
    s->used = ++pinned->clock;
    pinned->cached -= s->bytes;
    all->cached -= s->bytes;
    if (!s->count) {
        free(s->block);
        memmove(s, s + 1, (--pinned->shelf_count - i) * sizeof *s);
    }
    return block;
}

static void *shelf_take(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    size_t i = shelf_index(pinned, bytes);
    return i < pinned->shelf_count && pinned->shelf[i].bytes == bytes ? shelf_pop(dev, i) : NULL;
}

static bool shelf_put(ebb_device_t *dev, void *block, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    size_t i = shelf_index(pinned, bytes);
    if ((i == pinned->shelf_count || pinned->shelf[i].bytes != bytes) && !shelf_insert(pinned, i, bytes))
        return false;
    shelf_t *s = &pinned->shelf[i];
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        void **grown = realloc(s->block, capacity * sizeof *grown);
        if (!grown) {
            if (!s->count)
                memmove(s, s + 1, (--pinned->shelf_count - i) * sizeof *s);
            return false;
        }
        s->block = grown;
        s->capacity = capacity;
    }
    s->block[s->count++] = block;
    s->used = ++pinned->clock;
    pinned->cached += bytes;
    all->cached += bytes;
    return true;
}

/* Unpinning waits for everything that is under way (cuMemHostUnregister and cuMemFreeHost: CUDA programming guide, Implicit Synchronization), on
 * whatever device, and that may be a collective which waits for what this thread would give to another one. */
static bool may_unpin(const ebb_t *ebb)
{
    return !ebb_has_several_devices(ebb);
}

/* Unpins cached blocks until `bytes` less are registered, beginning with the least recently used
 * size. False: there is nothing that could be unpinned. */
static bool make_room(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    size_t before = pinned->registered;
    while (pinned->shelf_count && before - pinned->registered < bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < pinned->shelf_count; i++)
            if (pinned->shelf[i].used < pinned->shelf[oldest].used)
                oldest = i;
        const size_t rounded = pinned->shelf[oldest].bytes;
        delete_block(dev, shelf_pop(dev, oldest), rounded);
    }
    return pinned->registered < before;
}

/* The same, of the other devices' blocks as well. */
static bool make_room_anywhere(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    const size_t before = all->registered;
    ebb_visit_t visit;
    if (!may_unpin(dev->ebb))
        return false;
    make_room(dev, bytes);
    for (unsigned i = 0; i < dev->ebb->device_count && before - all->registered < bytes; i++)
        if (i != dev->number && dev->ebb->device[i].context && !ebb_lock_is_kept(&dev->ebb->device[i]) &&
            !ebb_device_visit(&dev->ebb->device[i], &visit)) {
            make_room(&dev->ebb->device[i], bytes - (before - all->registered));
            ebb_device_return(visit);
        }
    return all->registered < before;
}

/* ---- the interface ---- */

static void *new_block(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    ebb_pin_look_at_others(dev->ebb);
    const size_t limit = ebb_pin_budget(dev->ebb);
    if (all->registered + bytes > limit)
        ebb_pin_ahead_collect(dev->ebb); /* it becomes a cached block */
    if (all->registered + bytes > limit)
        make_room_anywhere(dev, all->registered + bytes - limit);
    /* A slab is more than its block, and the system may have less than the budget. */
    void *block;
    do
        block =
            is_alone(bytes)
                ? make_extent(dev, bytes)
                : mallocx(bytes, arena_flags(pinned) | MALLOCX_LG_ALIGN(__builtin_ctzll(SMALL_ALIGN_BYTES)));
    while (!block && make_room_anywhere(dev, bytes));
    if (!block)
        ebb_pin_explain(dev, bytes);
    return block;
}

void *ebb_pinned_alloc(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    if (is_exiting(dev->ebb) || !start(dev))
        return NULL;
    pinned->refusal = -1;
    if (bytes > ebb_pin_budget(dev->ebb)) {
        ebb_pin_explain(dev, bytes);
        return NULL;
    }
    size_t rounded = round_block(bytes);
    void *block = shelf_take(dev, rounded);
    if (!block && ebb_pin_ahead_has(dev, rounded) && ebb_pin_ahead_collect(dev->ebb))
        block = shelf_take(dev, rounded);
    if (!block)
        block = new_block(dev, rounded);
    if (block) {
        pinned->allocated += bytes;
        all->allocated += bytes;
    }
    return block;
}

static size_t content_budget(ebb_device_t *dev)
{
    return ebb_pin_budget(dev->ebb) - ebb_pin_budget(dev->ebb) / 8;
}

void *ebb_pinned_alloc_content(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    if (bytes + all->allocated <= content_budget(dev))
        return ebb_pinned_alloc(dev, bytes);
    pinned->refusal = -1;
    ebb_pin_explain(dev, bytes);
    return NULL;
}

size_t ebb_pinned_piece(ebb_device_t *dev, void **at, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    const ebb_extent_t key = {.base = *at};
    const ebb_pinning_t *pinning = &dev->ebb->offload->pinning;
    const size_t count = ebb_pin_piece(pinning, *at, bytes);
    ebb_extent_t **found = pinned->scattered ? tfind(&key, &pinned->extents, by_address) : NULL;
    const ebb_extent_t *e = found ? *found : NULL;
    if (e && e->piece) {
        const size_t offset = (size_t)(key.base - e->base);
        *at = e->piece[offset / pinning->piece_bytes] + offset % pinning->piece_bytes;
    }
    return count;
}

void ebb_pinned_free(ebb_device_t *dev, void *block, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    if (!block)
        return;
    EBB_ASSERT(pinned->allocated >= bytes);
    pinned->allocated -= bytes;
    all->allocated -= bytes;
    if (!shelf_put(dev, block, round_block(bytes)) && !is_exiting(dev->ebb))
        delete_block(dev, block, round_block(bytes));
}

size_t ebb_pinned_trim(ebb_device_t *dev)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_expect_nothing(dev);
    size_t before = pinned->registered;
    if (!is_exiting(dev->ebb))
        make_room(dev, SIZE_MAX);
    return before - pinned->registered;
}

/* ---- ahead of need (pin_ahead.c) ---- */

static size_t cached_of(const ebb_pinned_t *pinned, size_t rounded)
{
    const size_t i = shelf_index(pinned, rounded);
    return i < pinned->shelf_count && pinned->shelf[i].bytes == rounded ? pinned->shelf[i].count : 0;
}

static size_t count_of(size_t rounded, const size_t *bytes, size_t count)
{
    size_t same = 0;
    for (size_t i = 0; i < count; i++)
        same += round_block(bytes[i]) == rounded;
    return same;
}

/* More of its blocks are unused than are expected: some of them are to go. NULL: of none. */
static const shelf_t *find_surplus(const ebb_pinned_t *pinned, const size_t *bytes, size_t count)
{
    for (const shelf_t *s = pinned->shelf; s < pinned->shelf + pinned->shelf_count; s++)
        if (s->unused > count_of(s->bytes, bytes, count))
            return s;
    return NULL;
}

static size_t unused_bytes(const ebb_pinned_t *pinned)
{
    size_t sum = 0;
    for (size_t i = 0; i < pinned->shelf_count; i++)
        sum += pinned->shelf[i].unused * pinned->shelf[i].bytes;
    return sum;
}

bool ebb_pinned_next_ahead(ebb_device_t *dev, const size_t *bytes, size_t count, ebb_pin_job_t *job)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    size_t sum = 0, wanted = 0; /* the first that is neither cached nor small */
    if (!count || is_exiting(dev->ebb) || !start(dev))
        return false;
    ebb_pin_look_at_others(dev->ebb);
    for (size_t i = 0; i < count; i++) {
        const size_t rounded = round_block(bytes[i]);
        sum += rounded;
        if (!wanted && is_alone(rounded) && cached_of(pinned, rounded) <= count_of(rounded, bytes, i))
            wanted = rounded;
    }
    const bool fits =
        all->registered + wanted <= ebb_pin_budget(dev->ebb) / 8 * 7 && unused_bytes(pinned) + wanted <= sum;
    const shelf_t *surplus =
        wanted && !fits && may_unpin(dev->ebb) ? find_surplus(pinned, bytes, count) : NULL;
    if (surplus) {
        const ebb_extent_t *e = find_extent(dev, surplus->block[surplus->count - 1]);
        if (e)
            *job = (ebb_pin_job_t){.unpin = true, .extent = *e};
        return e != NULL;
    }
    *job = (ebb_pin_job_t){.extent.bytes = wanted, .place = pinned->place};
    return wanted && fits;
}

void ebb_pinned_begin_ahead(ebb_device_t *dev, const ebb_pin_job_t *job)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    if (job->unpin) {
        const size_t i = shelf_index(pinned, job->extent.bytes);
        pinned->shelf[i].unused--;
        take_apart(dev, shelf_pop(dev, i));
    } else {
        ebb_pin_count(dev, job->extent.bytes);
        pinned->apart += job->extent.bytes;
    }
}

bool ebb_pinned_end_ahead(ebb_device_t *dev, const ebb_pin_job_t *job, ebb_status_t status)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    if (job->unpin) {
        end_unpinning(dev, &job->extent, status);
        return true;
    }
    pinned->apart -= job->extent.bytes;
    if (status) {
        ebb_pin_uncount(dev, job->extent.bytes);
        return false;
    }
    if (!adopt(dev, &job->extent))
        return false;
    if (shelf_put(dev, job->extent.base, job->extent.bytes))
        pinned->shelf[shelf_index(pinned, job->extent.bytes)].unused++;
    else
        delete_extent(dev, job->extent.base);
    return true;
}

size_t ebb_pinned_missing(ebb_device_t *dev, const size_t *bytes, size_t count, bool content, size_t *missing)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    const size_t limit = content && ebb_options.pageable ? content_budget(dev) : ebb_pin_budget(dev->ebb);
    size_t found = 0, sum = all->allocated;
    if (is_exiting(dev->ebb) || !start(dev))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const size_t rounded = round_block(bytes[i]);
        sum += rounded;
        if (rounded > AT_ONCE_BYTES && sum <= limit &&
            cached_of(pinned, rounded) <= count_of(rounded, bytes, i))
            missing[found++] = rounded;
    }
    return found;
}

bool ebb_pinned_make_room(ebb_device_t *dev, size_t bytes)
{
    return make_room_anywhere(dev, bytes);
}

bool ebb_pinned_begin_wanted(ebb_device_t *dev, size_t rounded, ebb_pin_job_t *job)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    ebb_pin_look_at_others(dev->ebb);
    if (is_exiting(dev->ebb) || rounded > ebb_pin_budget(dev->ebb))
        return false;
    if (!ebb_pin_fits(dev, rounded))
        make_room_anywhere(dev, all->registered + rounded - ebb_pin_budget(dev->ebb));
    if (!ebb_pin_fits(dev, rounded))
        return false;
    *job = (ebb_pin_job_t){.extent.bytes = rounded, .place = pinned->place};
    ebb_pinned_begin_ahead(dev, job);
    return true;
}

ebb_pinned_usage_t ebb_pinned_usage(ebb_device_t *dev)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    ebb_pin_look_at_others(dev->ebb);
    return (ebb_pinned_usage_t){.allocated_bytes = all->allocated,
                                .cached_bytes = all->cached,
                                .registered_bytes = all->registered,
                                .peak_bytes = all->peak,
                                .budget_bytes = ebb_pin_budget(dev->ebb),
                                .own_bytes = pinned->allocated,
                                .others_bytes = all->registered - pinned->registered};
}

static void add_extent(const void *node, VISIT visit, void *sum)
{
    const ebb_extent_t *e = *(ebb_extent_t *const *)node;
    if (visit != postorder && visit != leaf)
        return;
    EBB_ASSERT(e->bytes && e->bytes % page_bytes() == 0);
    *(size_t *)sum += e->bytes;
}

void ebb_pinned_check(ebb_device_t *dev)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    size_t sum = 0;
    twalk_r(pinned->extents, add_extent, &sum);
    EBB_ASSERT(sum + pinned->apart == pinned->registered && sum <= all->peak);
    sum = 0;
    for (size_t i = 0; i < pinned->shelf_count; i++) {
        const shelf_t *s = &pinned->shelf[i];
        EBB_ASSERT(s->count && s->count <= s->capacity && s->unused <= s->count &&
                   (!i || s[-1].bytes < s->bytes));
        for (size_t k = 0; k < s->count; k++) {
            const ebb_extent_t key = {.base = s->block[k]};
            ebb_extent_t **found = is_alone(s->bytes) ? tfind(&key, &pinned->extents, by_base) : NULL;
            EBB_ASSERT(is_alone(s->bytes) ? found && (*found)->bytes == s->bytes
                                          : sallocx(s->block[k], 0) >= s->bytes);
        }
        sum += s->count * s->bytes;
    }
    EBB_ASSERT(sum == pinned->cached && pinned->cached + pinned->allocated <= pinned->registered);
}
