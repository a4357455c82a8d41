#include "alloc/device.h"

#include "alloc/base/driver.h"

const CUmemAccessDesc *ebb_access_descs(ebb_device_t *dev, size_t *count)
{
    if (!dev->access.count)
        dev->access.desc[dev->access.count++] =
            (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    *count = dev->access.count;
    return dev->access.desc;
}

/* Of a slab only some chunks are there. */
static ebb_status_t set_access_again(const ebb_range_t *r)
{
    ebb_device_t *dev = r->device;
    for (uint32_t i = 0, run; i < r->chunk_count; i += run) {
        run = 1;
        if (!r->chunk[i])
            continue;
        while (i + run < r->chunk_count && r->chunk[i + run])
            run++;
        size_t bytes = run * EBB_CHUNK_BYTES;
        EBB_DRIVER(cuMemSetAccess, bytes,
                   (r->base + i * EBB_CHUNK_BYTES, bytes, dev->access.desc, dev->access.count));
    }
    return 0;
}

ebb_status_t ebb_access_grant(ebb_device_t *dev, CUdevice device)
{
    size_t count;
    ebb_access_descs(dev, &count);
    for (size_t i = 0; i < count; i++)
        if (dev->access.desc[i].location.id == device)
            return 0;
    if (count == EBB_DRIVER_DEVICES)
        return ebb_fail(CUDA_ERROR_TOO_MANY_PEERS, "a grant of access", 0);
    dev->access.desc[dev->access.count] = dev->access.desc[0];
    dev->access.desc[dev->access.count++].location.id = device;
    for (size_t i = 0; i < dev->ebb->arena.slots; i++) {
        const ebb_range_t *r = dev->ebb->arena.range[i];
        if (!r || r->device != dev || r->base != dev->ebb->arena.base + i * EBB_CHUNK_BYTES || !r->mapped)
            continue;
        ebb_status_t status = set_access_again(r);
        if (status) { /* what has it already keeps it: more than was asked for, and no harm */
            dev->access.count--;
            return status;
        }
    }
    return 0;
}
