#include "alloc/share.h"

#include "alloc/arena.h"
#include "alloc/base/driver.h"
#include "alloc/chunk.h"

enum { DEVICES = 64 };

static CUmemAccessDesc descs_of[EBB_STATES][DEVICES];
static size_t desc_count_of[EBB_STATES];
#define descs      (descs_of[ebb_slot])
#define desc_count (desc_count_of[ebb_slot])

const CUmemAccessDesc *ebb_access_descs(size_t *count)
{
    if (!desc_count)
        descs[desc_count++] =
            (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ebb_chunk_device()},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    *count = desc_count;
    return descs;
}

/* Of a slab only some chunks are there. */
static ebb_status_t set_access_again(const ebb_range_t *r)
{
    for (uint32_t i = 0, run; i < r->chunk_count; i += run) {
        run = 1;
        if (!r->chunk[i])
            continue;
        while (i + run < r->chunk_count && r->chunk[i + run])
            run++;
        size_t bytes = run * EBB_CHUNK_BYTES;
        EBB_DRIVER(cuMemSetAccess, bytes, (r->base + i * EBB_CHUNK_BYTES, bytes, descs, desc_count));
    }
    return 0;
}

ebb_status_t ebb_access_grant(CUdevice device)
{
    size_t count;
    ebb_access_descs(&count);
    for (size_t i = 0; i < count; i++)
        if (descs[i].location.id == device)
            return 0;
    if (count == DEVICES)
        return ebb_fail(CUDA_ERROR_TOO_MANY_PEERS, "a grant of access", 0);
    descs[desc_count] = descs[0];
    descs[desc_count++].location.id = device;
    for (size_t i = 0; i < ebb_arena.slots; i++) {
        const ebb_range_t *r = ebb_arena.range[i];
        if (!r || r->slot != ebb_slot || r->base != ebb_arena.base + i * EBB_CHUNK_BYTES || !r->mapped)
            continue;
        ebb_status_t status = set_access_again(r);
        if (status) { /* what has it already keeps it: more than was asked for, and no harm */
            desc_count--;
            return status;
        }
    }
    return 0;
}
