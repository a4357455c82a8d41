#include "offload/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))
#define TOUCHERS_SHARE                                                                                       \
    ((size_t)16 << 20) /* of each thread at least: starting one costs as much as a few pages */

enum { TOUCHERS = 16 }; /* more gain little (dynamo issue 13710) */

size_t ebb_pin_piece(const ebb_pinning_t *pinning, const void *host, size_t bytes)
{
    const size_t left = pinning->piece_bytes - ((uintptr_t)host & (pinning->piece_bytes - 1));
    return bytes < left ? bytes : left;
}

/* ---- pages ---- */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Addresses, the last page of them without access rights. What is larger than a piece begins with one. */
static char *reserve(const ebb_pinning_t *pinning, size_t bytes)
{
    const size_t page = page_bytes(), align = bytes > pinning->piece_bytes ? pinning->piece_bytes
                                              : bytes >= HUGE_PAGE_BYTES   ? HUGE_PAGE_BYTES
                                                                           : page;
    const size_t room = bytes + page + align - page;
    char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *base = (char *)ROUND_UP((uintptr_t)p, align), *end = base + bytes + page;
    if (base > p)
        munmap(p, (size_t)(base - p));
    if (p + room > end)
        munmap(end, (size_t)(p + room - end));
    return base;
}

typedef struct touch {
    const ebb_place_t *place;
    char *from;
    size_t bytes;
} touch_t;

static void *touch(void *argument)
{
    const touch_t *t = argument;
    const size_t page = page_bytes();
    if (madvise(t->from, t->bytes, MADV_POPULATE_WRITE)) /* Linux 5.14 */
        for (size_t at = 0; at < t->bytes; at += page)
            ((volatile char *)t->from)[at] = 0;
    return NULL;
}

static void *touch_near(void *argument)
{
    ebb_topology_bind_thread(((const touch_t *)argument)->place);
    return touch(argument);
}

/* By as many threads as pays; one that cannot be had is done without. */
static void touch_all(const ebb_place_t *place, char *base, size_t bytes)
{
    touch_t part[TOUCHERS];
    pthread_t thread[TOUCHERS];
    bool started[TOUCHERS] = {false};
    sigset_t all, before;
    size_t count = bytes / TOUCHERS_SHARE, cpus = ebb_topology_cpus(place);
    count = count > TOUCHERS ? TOUCHERS : count;
    count = count > cpus ? cpus : count;
    if (count < 2)
        return; /* registering does that */
    const size_t each = ROUND_UP(bytes / count, HUGE_PAGE_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < count; i++) {
        const size_t from = i * each < bytes ? i * each : bytes;
        part[i] = (touch_t){place, base + from, bytes - from < each ? bytes - from : each};
        started[i] = part[i].bytes && !pthread_create(&thread[i], NULL, touch_near, &part[i]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < count; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
        else if (part[i].bytes)
            touch(&part[i]);
}

/* ---- pinning ---- */

static size_t piece_at(const ebb_pinning_t *pinning, size_t at, size_t bytes)
{
    return bytes - at < pinning->piece_bytes ? bytes - at : pinning->piece_bytes;
}

/* A piece whose context is gone is not registered any more. */
static ebb_status_t unregister(const ebb_pinning_t *pinning, char *base, size_t bytes)
{
    ebb_status_t first = 0;
    for (size_t at = 0; at < bytes; at += piece_at(pinning, at, bytes)) {
        const CUresult result = ebb_driver.cuMemHostUnregister(base + at);
        if (result && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
            first = first ? first : ebb_fail((ebb_status_t)result, "cuMemHostUnregister", bytes);
    }
    return first;
}

static ebb_status_t register_pieces(const ebb_pinning_t *pinning, char *base, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += piece_at(pinning, at, bytes)) {
        const size_t piece = piece_at(pinning, at, bytes);
        const CUresult result = ebb_driver.cuMemHostRegister_v2(
            base + at, piece, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        if (!result)
            continue;
        unregister(pinning, base, at);
        return ebb_fail((ebb_status_t)result, "cuMemHostRegister", piece);
    }
    return 0;
}

static ebb_status_t make_registered(const ebb_pinning_t *pinning, const ebb_place_t *place, char *base,
                                    size_t bytes)
{
    if (mprotect(base, bytes, PROT_READ | PROT_WRITE))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mprotect", bytes);
    /* A page that a device writes to must not become the child's copy. */
    madvise(base, bytes, MADV_DONTFORK);
    /* Whole huge pages only: one at the end would reach beyond what is pinned. */
    if (ebb_options.huge_pages && bytes >= HUGE_PAGE_BYTES)
        madvise(base, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    ebb_topology_bind_memory(place, base, bytes);
    touch_all(place, base, bytes);
    return register_pieces(pinning, base, bytes);
}

/* Not the driver's: its context is gone, and this memory with it. */
static ebb_status_t free_allocated(char *base, size_t bytes)
{
    const CUresult result = ebb_driver.cuMemFreeHost(base);
    return result && result != CUDA_ERROR_INVALID_VALUE
               ? ebb_fail((ebb_status_t)result, "cuMemFreeHost", bytes)
               : 0;
}

static ebb_status_t free_pieces(const ebb_pinning_t *pinning, const ebb_extent_t *e)
{
    ebb_status_t first = 0;
    for (size_t at = 0, i = 0; at < e->bytes && e->piece[i]; at += pinning->piece_bytes, i++) {
        const ebb_status_t status = free_allocated(e->piece[i], piece_at(pinning, at, e->bytes));
        first = first ? first : status;
    }
    if (first)
        return first;
    free(e->piece);
    munmap(e->base, e->bytes + page_bytes());
    return 0;
}

static ebb_status_t allocate(size_t bytes, char **out)
{
    EBB_DRIVER(cuMemHostAlloc, bytes, ((void **)out, bytes, CU_MEMHOSTALLOC_PORTABLE));
    return 0;
}

static ebb_status_t make_allocated(const ebb_pinning_t *pinning, size_t bytes, ebb_extent_t *out)
{
    *out = (ebb_extent_t){.bytes = bytes};
    if (bytes <= pinning->piece_bytes)
        return allocate(bytes, &out->base);
    out->piece = calloc(bytes / pinning->piece_bytes + 2, sizeof *out->piece);
    out->base = out->piece ? reserve(pinning, bytes) : NULL;
    if (!out->base) {
        free(out->piece);
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mmap", bytes);
    }
    ebb_status_t status = 0;
    for (size_t at = 0, i = 0; at < bytes && !status; at += pinning->piece_bytes, i++)
        status = allocate(piece_at(pinning, at, bytes), &out->piece[i]);
    if (status)
        free_pieces(pinning, out);
    return status;
}

ebb_status_t ebb_extent_make(ebb_pinning_t *pinning, const ebb_place_t *place, size_t bytes,
                             ebb_extent_t *out)
{
    if (atomic_load(&pinning->allocates))
        return make_allocated(pinning, bytes, out);
    char *base = reserve(pinning, bytes);
    if (!base)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mmap", bytes);
    const ebb_status_t status = make_registered(pinning, place, base, bytes);
    *out = (ebb_extent_t){.base = base, .bytes = bytes, .registered = true};
    if (!status)
        return 0;
    munmap(base, bytes + page_bytes());
    if (status != CUDA_ERROR_NOT_SUPPORTED)
        return status;
    EBB_TRY(make_allocated(pinning, bytes, out));
    atomic_store(&pinning->allocates, true);
    return 0;
}

ebb_status_t ebb_extent_delete(const ebb_pinning_t *pinning, const ebb_extent_t *e)
{
    if (!e->registered)
        return e->piece ? free_pieces(pinning, e) : free_allocated(e->base, e->bytes);
    EBB_TRY(unregister(pinning, e->base, e->bytes));
    munmap(e->base, e->bytes + page_bytes());
    return 0;
}
