#include "ckpt/run/profile/hash.h"

#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "ckpt/run/own.h"

/* Blocks of a launch, at most: that many partial sums a slot. */
enum { BLOCKS = 256, THREADS = 256, LEAST_WORDS = 4096 };

struct ebb_hashes {
    unsigned slots;
    ebb_buffer_t *partials; /* device [slots, BLOCKS] */
    uint64_t *host;         /* pinned [slots, BLOCKS] */
    unsigned blocks[];      /* [slots] */
};

extern const unsigned char ebb_hash_image[];

static struct {
    bool tried;
    CUmodule handle;
    CUfunction hash, compare; /* NULL: could not be loaded */
} modules[EBB_STATES];
#define module (modules[ebb_slot])

static bool load(void)
{
    if (module.tried)
        return module.hash && module.compare;
    module.tried = true;
    int result = ebb_driver.cuModuleLoadData(&module.handle, ebb_hash_image);
    if (!result)
        result = ebb_driver.cuModuleGetFunction(&module.compare, module.handle, "ebb_hash_compare");
    if (!result)
        result = ebb_driver.cuModuleGetFunction(&module.hash, module.handle, "ebb_hash");
    if (!result)
        return true;
    ebb_fail(result, "cuModuleLoadData", 0);
    ebb_log(EBB_WARN, "%s: nothing can be learned, ebb stays reactive", ebb_last_failure());
    module.hash = NULL;
    return false;
}

CUmodule ebb_hash_module(void)
{
    return load() ? module.handle : NULL;
}

ebb_hashes_t *ebb_hashes_new(unsigned slots)
{
    ebb_hashes_t *h = load() ? calloc(1, sizeof *h + slots * sizeof h->blocks[0]) : NULL;
    if (!h)
        return NULL;
    size_t bytes = (size_t)slots * BLOCKS * sizeof(uint64_t);
    h->slots = slots;
    h->host = ebb_own_pinned_alloc(bytes);
    h->partials = h->host ? ebb_own_alloc(bytes, NULL) : NULL;
    if (h->partials)
        return h;
    ebb_hashes_delete(h);
    return NULL;
}

void ebb_hashes_delete(ebb_hashes_t *h)
{
    if (!h)
        return;
    ebb_own_free(h->partials, NULL);
    ebb_own_pinned_free(h->host, (size_t)h->slots * BLOCKS * sizeof(uint64_t));
    free(h);
}

static CUdeviceptr partial_of(const ebb_hashes_t *h, unsigned slot)
{
    return h->partials->address + (size_t)slot * BLOCKS * sizeof(uint64_t);
}

ebb_status_t ebb_hash_issue(ebb_hashes_t *h, unsigned slot, ebb_stream_t *stream, CUdeviceptr address,
                            size_t bytes)
{
    size_t words = bytes / 8, slice = (words + BLOCKS - 1) / BLOCKS;
    if (slice < LEAST_WORDS)
        slice = LEAST_WORDS;
    unsigned blocks = (unsigned)((words + slice - 1) / slice);
    CUdeviceptr partial = partial_of(h, slot);
    h->blocks[slot] = blocks ? blocks : 1;
    void *params[] = {&partial, &address, &bytes, &slice};
    EBB_DRIVER(
        cuLaunchKernel, bytes,
        (module.hash, h->blocks[slot], 1, 1, THREADS, 1, 1, 0, ebb_stream_handle(stream), params, NULL));
    ebb_mark_issue(stream);
    return 0;
}

ebb_status_t ebb_hash_compare(ebb_hashes_t *h, unsigned slot, unsigned other, ebb_stream_t *stream,
                              CUdeviceptr different)
{
    CUdeviceptr a = partial_of(h, slot), b = partial_of(h, other);
    unsigned count = h->blocks[slot];
    void *params[] = {&different, &a, &b, &count};
    EBB_DRIVER(cuLaunchKernel, 0,
               (module.compare, 1, 1, 1, 32, 1, 1, 0, ebb_stream_handle(stream), params, NULL));
    ebb_mark_issue(stream);
    return 0;
}

ebb_status_t ebb_hash_read(ebb_hashes_t *h, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out)
{
    size_t offset = (size_t)first * BLOCKS, bytes = (size_t)count * BLOCKS * sizeof(uint64_t);
    EBB_DRIVER(cuMemcpyDtoHAsync, bytes,
               (h->host + offset, partial_of(h, first), bytes, ebb_stream_handle(stream)));
    EBB_TRY(ebb_mark_wait(ebb_mark_issue(stream)));
    for (unsigned i = 0; i < count; i++) {
        out[i] = 0;
        for (unsigned b = 0; b < h->blocks[first + i]; b++)
            out[i] += h->host[((size_t)first + i) * BLOCKS + b];
    }
    return 0;
}
