/* pinned.c: for each device a jemalloc arena whose extents are pinned, and in front of it the blocks that wait to be used
 * again.
 *
 * jemalloc rounds sizes to four classes per doubling. That may cost addresses (they are plenty) but not
 * memory: the hook that makes an extent knows the block it is for and pins that much; the rest of the extent
 * stays without access rights. Therefore jemalloc's own cache of free extents, which goes by class, is off
 * (jemalloc_seam.c), and extents are neither split nor merged: an extent is one registration from its
 * beginning to its end.
 */
#include "pinned.h"

#include <jemalloc/jemalloc.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "host_limits.h"
#include "log.h"
#include "options.h"
#include "slot.h"
#include "topology.h"

#define SMALL_ALIGN_BYTES ((size_t)64)
#define HUGE_PAGE_BYTES   ((size_t)2 << 20)
#define ROUND_UP(n, to)   (((n) + (to)-1) / (to) * (to))

typedef struct extent {
    char *base;
    size_t mapped_bytes, pinned_bytes;
} extent_t;

/* The cached blocks of one size, the newest last. */
typedef struct shelf {
    size_t bytes;
    uint64_t used; /* when a block was last taken or put */
    size_t count, capacity;
    void **block; /* owns */
} shelf_t;

/* Of the process: the budget and the machine are one for all devices. */
static struct {
    size_t page_bytes, host_bytes;
    size_t allocated, cached, registered, peak;
} all;

static struct {
    bool tried, ready;
    unsigned arena;
    const ebb_place_t *place;
    size_t exact_bytes;   /* what the extent that the hook makes now is for; 0: a slab */
    ebb_status_t refusal; /* why the hook last made none; -1: the budget */
    void *extents;        /* extent_t by base (tsearch) */
    size_t shelf_count, shelf_capacity;
    shelf_t *shelf; /* sorted by size, none empty */
    uint64_t clock;
    size_t allocated, cached, registered;
} pinneds[EBB_STATES];
#define pinned (pinneds[ebb_slot])

static atomic_bool exiting;

__attribute__((destructor)) static void exit_begins(void)
{
    atomic_store(&exiting, true);
}

static size_t host_bytes(void)
{
    if (!all.host_bytes) {
        ebb_limits_t l = ebb_limits_read();
        all.host_bytes = l.cgroup_bytes < l.machine_bytes ? l.cgroup_bytes : l.machine_bytes;
    }
    return all.host_bytes;
}

/* Asking for more than there is would end with the kernel killing processes, not with an error. */
static size_t budget(void)
{
    size_t whole = host_bytes();
    int64_t option = ebb_options.host_budget;
    if (!option)
        return whole / 2;
    if (option < 0)
        return (size_t)((double)whole * (double)-option / 100.0);
    return (uint64_t)option < whole ? (size_t)option : whole;
}

/* ---- extents ---- */

static int by_base(const void *a, const void *b)
{
    const char *x = ((const extent_t *)a)->base, *y = ((const extent_t *)b)->base;
    return (x > y) - (x < y);
}

/* Addresses without access rights, aligned. */
static char *reserve(size_t bytes, size_t align)
{
    size_t room = bytes + align - all.page_bytes;
    char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *base = (char *)ROUND_UP((uintptr_t)p, align), *end = p + room;
    if (base > p)
        munmap(p, (size_t)(base - p));
    if (end > base + bytes)
        munmap(base + bytes, (size_t)(end - (base + bytes)));
    return base;
}

static ebb_status_t pin(char *base, size_t bytes)
{
    if (mprotect(base, bytes, PROT_READ | PROT_WRITE))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mprotect", bytes);
    /* A page that a device writes to must not become the child's copy. */
    madvise(base, bytes, MADV_DONTFORK);
    /* Whole huge pages only: one at the end would reach beyond what is pinned. */
    if (bytes >= HUGE_PAGE_BYTES)
        madvise(base, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    ebb_topology_bind_memory(pinned.place, base, bytes);
    EBB_DRIVER(cuMemHostRegister, bytes, (base, bytes, CU_MEMHOSTREGISTER_PORTABLE));
    return 0;
}

static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t bytes, size_t align, bool *zero,
                        bool *commit, unsigned arena)
{
    (void)hooks, (void)arena;
    size_t pin_bytes = pinned.exact_bytes && pinned.exact_bytes < bytes ? pinned.exact_bytes : bytes;
    pinned.refusal = -1;
    if (wanted || pin_bytes > budget() || all.registered > budget() - pin_bytes)
        return NULL;
    pinned.refusal = CUDA_ERROR_OUT_OF_MEMORY;
    if (pin_bytes >= HUGE_PAGE_BYTES && align < HUGE_PAGE_BYTES)
        align = HUGE_PAGE_BYTES;
    extent_t *extent = malloc(sizeof *extent);
    char *base = extent ? reserve(bytes, align) : NULL;
    if (!base) {
        free(extent);
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mmap", bytes);
        return NULL;
    }
    *extent = (extent_t){.base = base, .mapped_bytes = bytes, .pinned_bytes = pin_bytes};
    pinned.refusal = pin(base, pin_bytes);
    if (pinned.refusal || !tsearch(extent, &pinned.extents, by_base)) {
        if (!pinned.refusal)
            ebb_driver.cuMemHostUnregister(base);
        munmap(base, bytes);
        free(extent);
        return NULL;
    }
    pinned.registered += pin_bytes;
    all.registered += pin_bytes;
    if (all.registered > all.peak)
        all.peak = all.registered;
    *zero = *commit = true;
    return base;
}

/* An extent that cannot be unpinned stays mapped and counted: the device may still reach it. */
static bool hook_dalloc(extent_hooks_t *hooks, void *base, size_t bytes, bool committed, unsigned arena)
{
    (void)hooks, (void)committed, (void)arena;
    const extent_t key = {.base = base};
    extent_t **found = tfind(&key, &pinned.extents, by_base), *extent = found ? *found : NULL;
    EBB_ASSERT(extent && extent->mapped_bytes == bytes);
    CUresult result = ebb_driver.cuMemHostUnregister(base);
    /* Not registered: its context is gone, and the registration with it. */
    if (!extent || (result && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)) {
        ebb_fail(result, "cuMemHostUnregister", bytes);
        ebb_log(EBB_INFO, "%s: this host memory stays pinned", ebb_last_failure());
        return false;
    }
    munmap(base, bytes);
    pinned.registered -= extent->pinned_bytes;
    all.registered -= extent->pinned_bytes;
    tdelete(extent, &pinned.extents, by_base);
    free(extent);
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
static bool start(void)
{
    static extent_hooks_t hooks = {
        .alloc = hook_alloc, .dalloc = hook_dalloc, .split = hook_split, .merge = hook_merge};
    struct {
        extent_hooks_t *hooks;
        bool metadata_by_hooks;
    } config = {.hooks = &hooks};
    size_t size = sizeof pinned.arena;
    CUdevice device;
    if (pinned.tried)
        return pinned.ready;
    pinned.tried = true;
    all.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (mallctl("experimental.arenas_create_ext", &pinned.arena, &size, &config, sizeof config)) {
        ebb_log(EBB_WARN, "jemalloc cannot make an arena: there will be no pinned host memory");
        return false;
    }
    if (!ebb_driver.cuCtxGetDevice(&device))
        pinned.place = ebb_topology_find(device);
    pinned.ready = true;
    return true;
}

static int arena_flags(void)
{
    return (int)MALLOCX_ARENA(pinned.arena) | MALLOCX_TCACHE_NONE;
}

/* ---- shelves: blocks that wait to be used again ---- */

static size_t round_block(size_t bytes)
{
    return ROUND_UP(bytes ? bytes : 1, bytes < all.page_bytes / 2 ? SMALL_ALIGN_BYTES : all.page_bytes);
}

/* Where the shelf for a size is or would be. */
static size_t shelf_index(size_t bytes)
{
    size_t low = 0, high = pinned.shelf_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (pinned.shelf[mid].bytes < bytes)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool shelf_insert(size_t i, size_t bytes)
{
    if (pinned.shelf_count == pinned.shelf_capacity) {
        size_t capacity = pinned.shelf_capacity ? 2 * pinned.shelf_capacity : 32;
        shelf_t *grown = realloc(pinned.shelf, capacity * sizeof *grown);
        if (!grown)
            return false;
        pinned.shelf = grown;
        pinned.shelf_capacity = capacity;
    }
    memmove(pinned.shelf + i + 1, pinned.shelf + i, (pinned.shelf_count - i) * sizeof *pinned.shelf);
    pinned.shelf[i] = (shelf_t){.bytes = bytes};
    pinned.shelf_count++;
    return true;
}

static void *shelf_pop(size_t i)
{
    shelf_t *s = &pinned.shelf[i];
    void *block = s->block[--s->count];
    s->used = ++pinned.clock;
    pinned.cached -= s->bytes;
    all.cached -= s->bytes;
    if (!s->count) {
        free(s->block);
        memmove(s, s + 1, (--pinned.shelf_count - i) * sizeof *s);
    }
    return block;
}

static void *shelf_take(size_t bytes)
{
    size_t i = shelf_index(bytes);
    return i < pinned.shelf_count && pinned.shelf[i].bytes == bytes ? shelf_pop(i) : NULL;
}

static bool shelf_put(void *block, size_t bytes)
{
    size_t i = shelf_index(bytes);
    if ((i == pinned.shelf_count || pinned.shelf[i].bytes != bytes) && !shelf_insert(i, bytes))
        return false;
    shelf_t *s = &pinned.shelf[i];
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        void **grown = realloc(s->block, capacity * sizeof *grown);
        if (!grown) {
            if (!s->count)
                memmove(s, s + 1, (--pinned.shelf_count - i) * sizeof *s);
            return false;
        }
        s->block = grown;
        s->capacity = capacity;
    }
    s->block[s->count++] = block;
    s->used = ++pinned.clock;
    pinned.cached += bytes;
    all.cached += bytes;
    return true;
}

/* Unpins cached blocks until `bytes` less are registered, beginning with the size that nobody used for the
 * longest time. False: there is nothing that could be unpinned. */
static bool make_room(size_t bytes)
{
    size_t before = pinned.registered;
    while (pinned.shelf_count && before - pinned.registered < bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < pinned.shelf_count; i++)
            if (pinned.shelf[i].used < pinned.shelf[oldest].used)
                oldest = i;
        dallocx(shelf_pop(oldest), arena_flags());
    }
    return pinned.registered < before;
}

/* The same, of the other devices' blocks as well. */
static bool make_room_anywhere(size_t bytes)
{
    const size_t before = all.registered;
    ebb_visit_t visit;
    make_room(bytes);
    for (unsigned slot = 0; slot < ebb_slot_count && before - all.registered < bytes; slot++)
        if (slot != ebb_slot && ebb_served[slot].context && !ebb_slot_visit(slot, &visit)) {
            make_room(bytes - (before - all.registered));
            ebb_slot_return(visit);
        }
    return all.registered < before;
}

/* ---- the interface ---- */

/* Once per kind of reason. */
static void explain(size_t bytes)
{
    static bool said_budget, said_other;
    bool *said = pinned.refusal == -1 ? &said_budget : &said_other;
    if (*said || pinned.refusal == CUDA_ERROR_DEINITIALIZED)
        return;
    *said = true;
    const size_t mib = 1 << 20;
    if (pinned.refusal == -1) {
        ebb_log(EBB_WARN,
                "pinned host memory: %zu bytes more would exceed the %zu MiB that EBB_HOST_BUDGET and the "
                "machine allow",
                bytes, budget() / mib);
        return;
    }
    char reason[256];
    ebb_limits_t limits = ebb_limits_read();
    bool known = ebb_limits_explain(&limits, all.registered, bytes, reason, sizeof reason);
    ebb_log(EBB_WARN, "host memory cannot be pinned (%s; %zu MiB are)%s%s", ebb_last_failure(),
            all.registered / mib, known ? ": " : "", known ? reason : "");
}

static void *new_block(size_t bytes)
{
    size_t limit = budget();
    if (all.registered + bytes > limit)
        make_room_anywhere(all.registered + bytes - limit);
    /* Aligned to pages, a block begins where its extent does. Otherwise jemalloc varies that, for caches. */
    bool whole = bytes % all.page_bytes == 0;
    int align = __builtin_ctzll(whole ? all.page_bytes : SMALL_ALIGN_BYTES);
    pinned.exact_bytes = whole ? bytes : 0;
    /* A slab is more than its block, and the system may have less than the budget. */
    void *block;
    do
        block = mallocx(bytes, arena_flags() | MALLOCX_LG_ALIGN(align));
    while (!block && make_room_anywhere(bytes));
    if (!block)
        explain(bytes);
    return block;
}

void *ebb_pinned_alloc(size_t bytes)
{
    if (atomic_load(&exiting) || !start())
        return NULL;
    pinned.refusal = -1;
    if (bytes > budget()) {
        explain(bytes);
        return NULL;
    }
    size_t rounded = round_block(bytes);
    void *block = shelf_take(rounded);
    if (!block)
        block = new_block(rounded);
    if (block) {
        pinned.allocated += bytes;
        all.allocated += bytes;
    }
    return block;
}

void ebb_pinned_free(void *block, size_t bytes)
{
    if (!block)
        return;
    EBB_ASSERT(pinned.allocated >= bytes);
    pinned.allocated -= bytes;
    all.allocated -= bytes;
    if (!shelf_put(block, round_block(bytes)) && !atomic_load(&exiting))
        dallocx(block, arena_flags());
}

size_t ebb_pinned_trim(void)
{
    size_t before = pinned.registered;
    if (!atomic_load(&exiting))
        make_room(SIZE_MAX);
    return before - pinned.registered;
}

ebb_pinned_usage_t ebb_pinned_usage(void)
{
    return (ebb_pinned_usage_t){.allocated_bytes = all.allocated,
                                .cached_bytes = all.cached,
                                .registered_bytes = all.registered,
                                .peak_bytes = all.peak,
                                .budget_bytes = budget(),
                                .own_bytes = pinned.allocated,
                                .others_bytes = all.registered - pinned.registered};
}

static void add_extent(const void *node, VISIT visit, void *sum)
{
    const extent_t *e = *(extent_t *const *)node;
    if (visit != postorder && visit != leaf)
        return;
    EBB_ASSERT(e->pinned_bytes && e->pinned_bytes <= e->mapped_bytes);
    *(size_t *)sum += e->pinned_bytes;
}

void ebb_pinned_check(void)
{
    size_t sum = 0;
    twalk_r(pinned.extents, add_extent, &sum);
    EBB_ASSERT(sum == pinned.registered && sum <= all.peak);
    sum = 0;
    for (size_t i = 0; i < pinned.shelf_count; i++) {
        const shelf_t *s = &pinned.shelf[i];
        EBB_ASSERT(s->count && s->count <= s->capacity && (!i || s[-1].bytes < s->bytes));
        for (size_t k = 0; k < s->count; k++) {
            const size_t usable = sallocx(s->block[k], 0);
            EBB_ASSERT(usable >= s->bytes);
        }
        sum += s->count * s->bytes;
    }
    EBB_ASSERT(sum == pinned.cached && pinned.cached + pinned.allocated <= pinned.registered);
}
