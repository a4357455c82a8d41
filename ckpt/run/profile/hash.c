#include "ckpt/run/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

/* Blocks of a launch, at most (256): that many partial sums a entry. They take the part of a chunk that they take with large ones. */
enum {
    BLOCKS = EBB_CHUNK_BYTES >> 13,
    THREADS = 256,
    PIECE_WORDS = 128,
    LEAST_PIECES = EBB_CHUNK_BYTES >> 16
};

/* [room] written by the device. What cuMemHostAlloc gives, devices reach at the same address (Driver API, Unified Addressing). */
typedef struct verdicts {
    struct verdicts *next;
    unsigned room;
    uint32_t *at;
} verdicts_t;

struct ebb_hashes {
    unsigned entries;
    ebb_buffer_t *partials; /* device [entries, BLOCKS] */
    uint64_t *host;         /* pinned [EBB_HASH_READS, BLOCKS] */
    verdicts_t *verdicts;   /* of all entries */
    unsigned blocks[];      /* [entries] */
};

extern const unsigned char ebb_hash_image[];

struct ebb_hash_module {
    bool tried, loaded;
    CUfunction kernel[EBB_OWN_KERNELS];
    verdicts_t *
        spare; /* not freed: cuMemFreeHost would wait for all devices, and this thread may be waited for (offload/pinned.c) */
};
const size_t ebb_part_hash_module = sizeof(struct ebb_hash_module);

static bool load(struct ebb_hash_module *module)
{
    static const char *const name[EBB_OWN_KERNELS] = {"ebb_tiles_hash", "ebb_tiles_move", "ebb_tiles_compare",
                                                      "ebb_hash",       "ebb_hash_copy",  "ebb_hold"};
    CUmodule handle;
    const ebb_away_t away = ebb_lock_leave();
    int result = ebb_driver.cuModuleLoadData(&handle, ebb_hash_image);
    for (int i = 0; i < EBB_OWN_KERNELS && !result; i++)
        result = ebb_driver.cuModuleGetFunction(&module->kernel[i], handle, name[i]);
    ebb_lock_return(away);
    if (!result)
        return true;
    ebb_fail(result, "cuModuleLoadData", 0);
    ebb_log(EBB_WARN, "%s: nothing can be learned, ebb stays reactive", ebb_last_failure());
    return false;
}

CUfunction ebb_own_kernel(ebb_device_t *dev, ebb_own_kernel_t which)
{
    struct ebb_hash_module *module = dev->run->hash_module;
    if (!module->tried) {
        module->tried = true;
        module->loaded = load(module);
    }
    return module->loaded ? module->kernel[which] : NULL;
}

static size_t host_bytes(void)
{
    return EBB_HASH_READS * BLOCKS * sizeof(uint64_t);
}

/* NULL: there are none with that room. */
static verdicts_t *take_spare(struct ebb_hash_module *module, unsigned room)
{
    for (verdicts_t **link = &module->spare; *link; link = &(*link)->next)
        if ((*link)->room >= room) {
            verdicts_t *found = *link;
            *link = found->next;
            return found;
        }
    return NULL;
}

static verdicts_t *make_verdicts(unsigned room)
{
    verdicts_t *v = calloc(1, sizeof *v);
    const ebb_away_t away = ebb_lock_leave();
    const CUresult result =
        v ? ebb_driver.cuMemHostAlloc((void **)&v->at, room * sizeof *v->at,
                                      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
          : CUDA_ERROR_OUT_OF_MEMORY;
    ebb_lock_return(away);
    if (result) {
        ebb_fail(result, "cuMemHostAlloc", room * sizeof *v->at);
        free(v);
        return NULL;
    }
    v->room = room;
    return v;
}

static bool new_verdicts(ebb_device_t *dev, ebb_hashes_t *h)
{
    h->verdicts = take_spare(dev->run->hash_module, h->entries);
    if (!h->verdicts)
        h->verdicts = make_verdicts(h->entries);
    if (h->verdicts)
        memset(h->verdicts->at, 0, h->entries * sizeof *h->verdicts->at);
    return h->verdicts;
}

ebb_hashes_t *ebb_hashes_new(ebb_device_t *dev, unsigned entries)
{
    ebb_hashes_t *h =
        ebb_own_kernel(dev, EBB_HASH) ? calloc(1, sizeof *h + entries * sizeof h->blocks[0]) : NULL;
    if (!h)
        return NULL;
    h->entries = entries;
    h->host = ebb_scratch_pinned_alloc(dev, host_bytes());
    h->partials = h->host ? ebb_scratch_alloc(dev, entries * BLOCKS * sizeof(uint64_t), NULL) : NULL;
    if (h->partials && new_verdicts(dev, h))
        return h;
    ebb_hashes_delete(dev, h);
    return NULL;
}

void ebb_hashes_delete(ebb_device_t *dev, ebb_hashes_t *h)
{
    if (!h)
        return;
    if (h->verdicts) {
        h->verdicts->next = dev->run->hash_module->spare;
        dev->run->hash_module->spare = h->verdicts;
    }
    ebb_scratch_free(h->partials, NULL);
    ebb_scratch_pinned_free(dev, h->host, host_bytes());
    free(h);
}

void ebb_hashes_abandon(ebb_hashes_t *h)
{
    if (h)
        free(h->verdicts);
    free(h);
}

static CUdeviceptr partial_of(const ebb_hashes_t *h, unsigned entry)
{
    return h->partials->address + (size_t)entry * BLOCKS * sizeof(uint64_t);
}

/* How many pieces each block takes of so many. Notes how many blocks there are. */
static size_t slice_of(ebb_hashes_t *h, unsigned entry, size_t pieces)
{
    const size_t most = (pieces + BLOCKS - 1) / BLOCKS, slice = most > LEAST_PIECES ? most : LEAST_PIECES;
    h->blocks[entry] = (unsigned)((pieces + slice - 1) / slice);
    return slice;
}

static size_t pieces_of(size_t bytes)
{
    return bytes ? (bytes - 1) / (8 * PIECE_WORDS) + 1 : 1;
}

/* Into the entry, or compared with it. */
static ebb_status_t issue(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *stream,
                          CUdeviceptr address, size_t bytes, ebb_hash_part_t part, bool compare)
{
    const size_t pieces = pieces_of(bytes);
    size_t every = part.every < pieces ? part.every : pieces, turn = part.turn % every;
    size_t slice = slice_of(h, entry, (pieces - turn - 1) / every + 1);
    CUdeviceptr partial = partial_of(h, entry);
    uint32_t *different = compare ? h->verdicts->at + entry : NULL;
    void *params[] = {&partial, &different, &address, &bytes, &slice, &turn, &every};
    EBB_DRIVER(cuLaunchKernel, bytes,
               (ebb_own_kernel(dev, EBB_HASH), h->blocks[entry], 1, 1, THREADS, 1, 1, 0,
                ebb_stream_handle(stream), params, NULL));
    ebb_mark_issue(stream);
    return 0;
}

ebb_status_t ebb_hash_issue(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *stream,
                            CUdeviceptr address, size_t bytes, ebb_hash_part_t part)
{
    return issue(dev, h, entry, stream, address, bytes, part, false);
}

ebb_status_t ebb_hash_compare(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *stream,
                              CUdeviceptr address, size_t bytes, ebb_hash_part_t part)
{
    return issue(dev, h, entry, stream, address, bytes, part, true);
}

bool ebb_hash_may_copy(ebb_device_t *dev)
{
    int registers = 1, reaches = 0;
    if (ebb_driver.cuDeviceGetAttribute(&registers, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
                                        dev->device) ||
        ebb_driver.cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                        dev->device))
        return false;
    return reaches || !registers;
}

ebb_status_t ebb_hash_copy(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *stream,
                           CUdeviceptr address, size_t bytes, void *host)
{
    size_t slice = slice_of(h, entry, pieces_of(bytes));
    CUdeviceptr partial = partial_of(h, entry);
    uint32_t *different = h->verdicts->at + entry;
    void *params[] = {&partial, &different, &address, &bytes, &slice, &host};
    EBB_DRIVER(cuLaunchKernel, bytes,
               (ebb_own_kernel(dev, EBB_HASH_COPY), h->blocks[entry], 1, 1, THREADS, 1, 1, 0,
                ebb_stream_handle(stream), params, NULL));
    ebb_mark_issue(stream);
    return 0;
}

bool ebb_hash_differs(const ebb_hashes_t *h, unsigned entry)
{
    return __atomic_load_n(&h->verdicts->at[entry], __ATOMIC_ACQUIRE);
}

void ebb_hash_clear(ebb_hashes_t *h, unsigned entry)
{
    __atomic_store_n(&h->verdicts->at[entry], 0, __ATOMIC_RELEASE);
}

ebb_status_t ebb_hash_read(ebb_hashes_t *h, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out)
{
    EBB_ASSERT(count <= EBB_HASH_READS);
    const size_t bytes = (size_t)count * BLOCKS * sizeof(uint64_t);
    EBB_DRIVER(cuMemcpyDtoHAsync_v2, bytes,
               (h->host, partial_of(h, first), bytes, ebb_stream_handle(stream)));
    EBB_TRY(ebb_mark_wait(ebb_mark_issue(stream)));
    for (unsigned i = 0; i < count; i++) {
        out[i] = 0;
        for (unsigned b = 0; b < h->blocks[first + i]; b++)
            out[i] += h->host[(size_t)i * BLOCKS + b];
    }
    return 0;
}
