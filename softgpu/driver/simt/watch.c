/* watch.c: what checked mode keeps for an op, and the log of what launches read and write; see shadow.h.
 *
 * SOFTGPU_ACCESS_LOG=FILE: a line of JSON for each launch in checked mode, when it is over:
 *     {"launch":3,"kernel":"_Z3addPfi","stream":1,"grid":[1,1,1],"block":[64,1,1],
 *      "read":[{"buffer":"0x7f0000000000","bytes":4096,"ranges":[[0,256]]}],"write":[...]}
 * Buffers by address and size, ranges of bytes in them, the end excluded, in ascending order. What shared memory and local
 * variables hold is not in it.
 */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/simt/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sg_live_list_t *sg_live_take(void);
void sg_live_give_back(sg_live_list_t *list);

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    FILE *file; /* NULL: no log */
    _Atomic uint64_t launches;
} trace = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void open_log(void)
{
    const char *path = getenv("SOFTGPU_ACCESS_LOG");
    if (path && *path && !(trace.file = fopen(path, "we")))
        sg_log(1, "SOFTGPU_ACCESS_LOG=%s cannot be written", path);
}

sg_watch_t *sg_watch_new(void)
{
    if (!sg_mode_is(SOFTGPU_CHECKED))
        return NULL;
    pthread_once(&trace.once, open_log);
    sg_watch_t *w = calloc(1, sizeof *w);
    if (!w || !(w->live = sg_live_take())) {
        free(w);
        return NULL;
    }
    w->serial = atomic_fetch_add(&trace.launches, 1);
    if (trace.file)
        w->touched = calloc(2 * (size_t)w->live->count + 1, sizeof *w->touched);
    return w;
}

void sg_watch_free(sg_watch_t *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->touched && i < 2 * w->live->count; i++)
        free((void *)atomic_load(&w->touched[i]));
    free(w->touched);
    sg_live_give_back(w->live);
    free(w);
}

/* ---- what was touched ---- */

void sg_watch_touch(sg_watch_t *w, const sg_live_t *entry, size_t first, size_t count, bool write)
{
    if (!w->touched)
        return;
    _Atomic(_Atomic uint64_t *) *slot = &w->touched[2 * (size_t)(entry - w->live->entry) + write];
    _Atomic uint64_t *bits = atomic_load(slot);
    if (!bits) {
        _Atomic uint64_t *fresh = calloc(entry->bytes / 64 + 1, sizeof *fresh);
        if (!fresh)
            return;
        if (atomic_compare_exchange_strong(slot, &bits, fresh))
            bits = fresh;
        else
            free((void *)fresh);
    }
    for (size_t i = first; i < first + count; i++) {
        const uint64_t bit = UINT64_C(1) << i % 64;
        if (!(atomic_load_explicit(&bits[i / 64], memory_order_relaxed) & bit))
            atomic_fetch_or_explicit(&bits[i / 64], bit, memory_order_relaxed);
    }
}

static void print_ranges(const _Atomic uint64_t *bits, size_t bytes)
{
    bool any = false;
    for (size_t i = 0; i < bytes;) {
        if (!(i % 64) && !bits[i / 64]) {
            i += 64;
            continue;
        }
        if (!(bits[i / 64] >> i % 64 & 1)) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < bytes && bits[end / 64] >> end % 64 & 1)
            end++;
        fprintf(trace.file, "%s[%zu,%zu]", any ? "," : "", i, end);
        any = true;
        i = end;
    }
}

static void print_set(const sg_watch_t *w, const char *name, bool write)
{
    bool any = false;
    fprintf(trace.file, ",\"%s\":[", name);
    for (uint32_t i = 0; i < w->live->count; i++) {
        const _Atomic uint64_t *bits = atomic_load(&w->touched[2 * i + write]);
        const sg_live_t *e = &w->live->entry[i];
        if (!bits)
            continue;
        fprintf(trace.file, "%s{\"buffer\":\"0x%llx\",\"bytes\":%zu,\"ranges\":[", any ? "," : "", e->base,
                e->bytes);
        print_ranges(bits, e->bytes);
        fprintf(trace.file, "]}");
        any = true;
    }
    fprintf(trace.file, "]");
}

void sg_watch_done(const sg_op_t *op, uint64_t units)
{
    sg_watch_t *w = op->watch;
    if (!w || !w->touched || atomic_fetch_add(&w->done, units) + units < op->units)
        return;
    const softgpu_launch_t *l = &op->kernel.launch;
    pthread_mutex_lock(&trace.lock);
    fprintf(trace.file,
            "{\"launch\":%llu,\"kernel\":\"%s\",\"stream\":%llu,\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]",
            (unsigned long long)w->serial, op->kernel.function->kernel->name,
            (unsigned long long)op->stream->id, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
            l->block[2]);
    print_set(w, "read", false);
    print_set(w, "write", true);
    fprintf(trace.file, "}\n");
    fflush(trace.file);
    pthread_mutex_unlock(&trace.lock);
}

/* ---- what is not checked ---- */

/* Valid bits of [from, from + bytes) go to `to`. */
static void copy_valid(sg_live_list_t *live, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    for (size_t n; bytes; bytes -= n, to += n, from = from ? from + n : 0) {
        const sg_live_t *t = sg_live_find(live, to), *f = from ? sg_live_find(live, from) : NULL;
        n = bytes;
        if (!t)
            return;
        if (t->base + t->bytes - to < n)
            n = t->base + t->bytes - to;
        if (f && f->base + f->bytes - from < n)
            n = f->base + f->bytes - from;
        if (!t->valid)
            continue;
        sg_written_note(t, to - t->base, n);
        if (!f || !f->valid) {
            sg_valid_set(t->valid, to - t->base, n);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            if (sg_valid_any(f->valid, from + i - f->base, 1))
                sg_valid_set(t->valid, to + i - t->base, 1);
    }
}

void sg_watch_copied(const sg_op_t *op, const void *to, const void *from, size_t bytes)
{
    if (op->watch)
        copy_valid(op->watch->live, (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes);
}

static void all_valid(const sg_live_t *e)
{
    if (e && e->valid)
        sg_valid_set(e->valid, 0, e->bytes);
}

/* What tables of pointers lead to as well. */
void sg_watch_unchecked(const sg_op_t *op)
{
    enum { TABLE = 64 << 10 };
    const sg_watch_t *w = op->watch;
    const char *params = op->kernel.launch.params;
    const size_t bytes = op->kernel.function->param_bytes;
    for (size_t at = 0; w && at + 8 <= bytes; at += 8) {
        CUdeviceptr word;
        memcpy(&word, params + at, sizeof word);
        if (at + sizeof(CUtensorMap) <= bytes)
            all_valid(sg_live_find(w->live, sg_tensor_map_address(params + at)));
        const sg_live_t *e = sg_live_find(w->live, word);
        all_valid(e);
        if (!e || e->bytes > TABLE || e->mapped)
            continue;
        for (size_t i = 0; i + 8 <= e->bytes; i += 8) {
            memcpy(&word, (const char *)sg_host(e->base) + i, sizeof word);
            all_valid(sg_live_find(w->live, word));
        }
    }
}
