/* live.c: the allocations that exist; see shadow.h. */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/simt/shadow.h"

#include <stdlib.h>
#include <string.h>

enum { GONE = 256 };

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    sg_live_t *entry; /* sorted by base */
    uint32_t count, capacity;
    sg_live_list_t *list; /* a copy of the above, if nothing has changed since; holds a reference */
    struct {
        CUdeviceptr base;
        size_t bytes;
    } gone[GONE];
    uint32_t gone_count;
} now; /* guarded by live_lock */

static void valid_release(sg_valid_t *v)
{
    if (v && atomic_fetch_sub(&v->refs, 1) == 1) {
        free(v->written);
        free(v);
    }
}

static sg_valid_t *valid_new(size_t bytes)
{
    sg_valid_t *v = calloc(1, sizeof *v + (bytes / 64 + 1) * sizeof v->bits[0]);
    if (v) {
        atomic_store(&v->refs, 1);
        v->bytes = bytes;
    }
    return v;
}

static void list_release_locked(sg_live_list_t *list)
{
    if (!list || --list->refs)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        valid_release(list->entry[i].valid);
    free(list);
}

static void changed_locked(void)
{
    list_release_locked(now.list);
    now.list = NULL;
}

/* Index of the first entry whose base is above `address`. */
static uint32_t above(const sg_live_t *entry, uint32_t count, CUdeviceptr address)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (entry[mid].base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Takes the reference to `valid` over. */
static void add(CUdeviceptr base, size_t bytes, bool mapped, sg_valid_t *valid)
{
    pthread_mutex_lock(&live_lock);
    if (now.count == now.capacity) {
        const uint32_t capacity = now.capacity ? 2 * now.capacity : 256;
        sg_live_t *grown = realloc(now.entry, capacity * sizeof *grown);
        if (!grown) {
            pthread_mutex_unlock(&live_lock);
            valid_release(valid);
            return;
        }
        now.entry = grown;
        now.capacity = capacity;
    }
    const uint32_t i = above(now.entry, now.count, base);
    memmove(now.entry + i + 1, now.entry + i, (now.count - i) * sizeof *now.entry);
    now.entry[i] = (sg_live_t){.base = base, .bytes = bytes, .mapped = mapped, .valid = valid};
    now.count++;
    changed_locked();
    pthread_mutex_unlock(&live_lock);
}

void sg_live_add(CUdeviceptr base, size_t bytes)
{
    if (sg_mode_is(SOFTGPU_CHECKED))
        add(base, bytes, false, valid_new(bytes));
}

void sg_live_add_valid(CUdeviceptr base, size_t bytes)
{
    if (sg_mode_is(SOFTGPU_CHECKED))
        add(base, bytes, false, NULL);
}

/* Aliases of one handle share what is valid. What other processes or the host may write is. */
void sg_live_add_mapping(CUdeviceptr base, sg_handle_t *h)
{
    if (!sg_mode_is(SOFTGPU_CHECKED))
        return;
    sg_valid_t *valid = NULL;
    if (h->fd < 0 && h->device != SG_HOST) {
        valid = h->valid ? h->valid : valid_new(h->bytes);
        if (valid && !valid->written)
            valid->written = calloc(h->bytes / SG_WRITTEN_BYTES + 1, sizeof *valid->written);
        h->valid = valid;
        if (valid)
            atomic_fetch_add(&valid->refs, 1);
    }
    add(base, h->bytes, true, valid);
}

void sg_live_forget_handle(sg_handle_t *h)
{
    valid_release(h->valid);
    h->valid = NULL;
}

void sg_live_set_access(CUdeviceptr base, const sg_access_t *access)
{
    if (!sg_mode_is(SOFTGPU_CHECKED))
        return;
    pthread_mutex_lock(&live_lock);
    const uint32_t i = above(now.entry, now.count, base);
    if (i && now.entry[i - 1].base == base)
        now.entry[i - 1].access = *access;
    changed_locked();
    pthread_mutex_unlock(&live_lock);
}

void sg_live_remove(CUdeviceptr base, size_t bytes)
{
    if (!sg_mode_is(SOFTGPU_CHECKED))
        return;
    pthread_mutex_lock(&live_lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < now.count; i++) {
        if (now.entry[i].base - base >= bytes) {
            now.entry[kept++] = now.entry[i];
            continue;
        }
        now.gone[now.gone_count % GONE].base = now.entry[i].base;
        now.gone[now.gone_count++ % GONE].bytes = now.entry[i].bytes;
        valid_release(now.entry[i].valid);
    }
    now.count = kept;
    changed_locked();
    pthread_mutex_unlock(&live_lock);
}

bool sg_live_knows(CUdeviceptr base)
{
    pthread_mutex_lock(&live_lock);
    const uint32_t i = above(now.entry, now.count, base);
    const bool found = i && now.entry[i - 1].base == base;
    pthread_mutex_unlock(&live_lock);
    return found;
}

bool sg_live_was(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
    bool found = false;
    pthread_mutex_lock(&live_lock);
    for (uint32_t i = 1; i <= GONE && i <= now.gone_count && !found; i++) {
        const uint32_t at = (now.gone_count - i) % GONE;
        if (address - now.gone[at].base < now.gone[at].bytes) {
            *base = now.gone[at].base;
            *bytes = now.gone[at].bytes;
            found = true;
        }
    }
    pthread_mutex_unlock(&live_lock);
    return found;
}

sg_live_list_t *sg_live_take(void)
{
    pthread_mutex_lock(&live_lock);
    if (!now.list && (now.list = malloc(sizeof *now.list + now.count * sizeof now.list->entry[0]))) {
        now.list->refs = 1;
        now.list->count = now.count;
        for (uint32_t i = 0; i < now.count; i++) {
            now.list->entry[i] = now.entry[i];
            if (now.entry[i].valid)
                atomic_fetch_add(&now.entry[i].valid->refs, 1);
        }
    }
    if (now.list)
        now.list->refs++;
    sg_live_list_t *list = now.list;
    pthread_mutex_unlock(&live_lock);
    return list;
}

void sg_live_give_back(sg_live_list_t *list)
{
    pthread_mutex_lock(&live_lock);
    list_release_locked(list);
    pthread_mutex_unlock(&live_lock);
}

const sg_live_t *sg_live_find(const sg_live_list_t *list, CUdeviceptr address)
{
    const uint32_t i = above(list->entry, list->count, address);
    return i && address - list->entry[i - 1].base < list->entry[i - 1].bytes ? &list->entry[i - 1] : NULL;
}

/* ---- valid bytes ---- */

static uint64_t bits_from(size_t first, size_t count)
{
    return (count < 64 ? (UINT64_C(1) << count) - 1 : ~UINT64_C(0)) << first;
}

bool sg_valid_any(const sg_valid_t *v, size_t first, size_t count)
{
    for (size_t n; count; first += n, count -= n) {
        n = 64 - first % 64 < count ? 64 - first % 64 : count;
        if (atomic_load_explicit(&v->bits[first / 64], memory_order_relaxed) & bits_from(first % 64, n))
            return true;
    }
    return false;
}

void sg_valid_set(sg_valid_t *v, size_t first, size_t count)
{
    for (size_t n; count; first += n, count -= n) {
        n = 64 - first % 64 < count ? 64 - first % 64 : count;
        const uint64_t bits = bits_from(first % 64, n);
        if ((atomic_load_explicit(&v->bits[first / 64], memory_order_relaxed) & bits) != bits)
            atomic_fetch_or_explicit(&v->bits[first / 64], bits, memory_order_relaxed);
    }
}

/* ---- aliases ---- */

static _Atomic uint64_t writes;

uint64_t sg_written_now(void)
{
    return atomic_load(&writes);
}

void sg_written_note(const sg_live_t *e, size_t first, size_t count)
{
    sg_written_t *w = e->valid ? e->valid->written : NULL;
    if (!w || !count)
        return;
    const uint64_t when = atomic_fetch_add(&writes, 1) + 1;
    for (size_t i = first / SG_WRITTEN_BYTES; i <= (first + count - 1) / SG_WRITTEN_BYTES; i++) {
        atomic_store(&w[i].through, e->base);
        atomic_store(&w[i].when, when);
    }
}

CUdeviceptr sg_written_through(const sg_live_t *e, size_t first, size_t count, uint64_t since)
{
    const sg_written_t *w = e->valid ? e->valid->written : NULL;
    if (!w || !count)
        return 0;
    for (size_t i = first / SG_WRITTEN_BYTES; i <= (first + count - 1) / SG_WRITTEN_BYTES; i++)
        if (atomic_load(&w[i].when) > since && atomic_load(&w[i].through) != e->base)
            return atomic_load(&w[i].through);
    return 0;
}
