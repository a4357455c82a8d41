#include "alloc/device.h"

#include <stdlib.h>

#include "alloc/base/driver.h"

/* That the program has made or imported. */
typedef struct ebb_known_pool {
    CUmemoryPool pool;
    CUdevice device;
    bool native;
    size_t max_bytes; /* 0: no limit */
    ebb_pool_usage_t usage;
    struct ebb_known_pool *next;
} known_t;

static bool is_numbered(CUdevice device)
{
    return device >= 0 && device < EBB_DRIVER_DEVICES;
}

static known_t *find(ebb_t *ebb, CUmemoryPool pool)
{
    known_t *k = ebb->pools.list;
    while (k && k->pool != pool)
        k = k->next;
    return k;
}

bool ebb_pool_note(ebb_t *ebb, CUmemoryPool pool, CUdevice device, bool native, size_t max_bytes)
{
    known_t *k = malloc(sizeof *k);
    if (!k)
        return false;
    *k = (known_t){pool, device, native, max_bytes, {0, 0}, ebb->pools.list};
    ebb->pools.list = k;
    return true;
}

bool ebb_pool_is_native(ebb_device_t *dev, CUmemoryPool pool)
{
    const known_t *k = dev->ebb->pools.list ? find(dev->ebb, pool ? pool : ebb_pool_current(dev)) : NULL;
    return k && k->native;
}

ebb_device_t *ebb_pool_device(ebb_device_t *dev, CUmemoryPool pool)
{
    const known_t *k = pool ? find(dev->ebb, pool) : NULL;
    CUmemoryPool usual;
    if (k)
        return ebb_device_of(dev->ebb, k->device);
    for (unsigned i = 0; pool && dev->ebb->device_count > 1 && i < dev->ebb->device_count; i++)
        if (dev->ebb->device[i].context &&
            !ebb_driver.cuDeviceGetDefaultMemPool(&usual, dev->ebb->device[i].device) && usual == pool)
            return &dev->ebb->device[i];
    return ebb_is_device(dev) ? dev : NULL;
}

/* ---- what is in use ---- */

static size_t whole(size_t bytes)
{
    return (bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES * EBB_ALIGN_BYTES;
}

ebb_pool_usage_t *ebb_pool_usage(ebb_device_t *dev, CUmemoryPool pool)
{
    known_t *k = pool ? find(dev->ebb, pool) : NULL;
    return k ? &k->usage : &dev->default_pool;
}

bool ebb_pool_has_room(ebb_t *ebb, CUmemoryPool pool, size_t bytes)
{
    const known_t *k = pool ? find(ebb, pool) : NULL;
    return !k || !k->max_bytes ||
           (bytes <= k->max_bytes && whole(bytes) + k->usage.used_bytes <= k->max_bytes);
}

void ebb_pool_took(ebb_device_t *dev, CUmemoryPool pool, size_t bytes)
{
    ebb_pool_usage_t *u = ebb_pool_usage(dev, pool);
    u->used_bytes += whole(bytes);
    if (u->used_bytes > u->high_bytes)
        u->high_bytes = u->used_bytes;
}

void ebb_pool_gave(ebb_device_t *dev, CUmemoryPool pool, size_t bytes)
{
    ebb_pool_usage_t *u = ebb_pool_usage(dev, pool);
    const size_t less = whole(bytes);
    /* What outlives its pool counts for none. */
    u->used_bytes = u->used_bytes > less ? u->used_bytes - less : 0;
}

void ebb_pools_emptied(ebb_device_t *dev)
{
    const CUdevice device = dev->device;
    dev->default_pool.used_bytes = 0;
    for (known_t *k = dev->ebb->pools.list; k; k = k->next)
        if (k->device == device)
            k->usage.used_bytes = 0;
}

void ebb_pool_forget(ebb_t *ebb, CUmemoryPool pool)
{
    for (int i = 0; i < EBB_DRIVER_DEVICES; i++)
        if (ebb->pools.current[i] == pool)
            ebb->pools.current[i] = NULL; /* as in the driver, the default one is back */
    for (known_t **link = &ebb->pools.list; *link; link = &(*link)->next)
        if ((*link)->pool == pool) {
            known_t *k = *link;
            *link = k->next;
            free(k);
            return;
        }
}

CUmemoryPool ebb_pool_current(ebb_device_t *dev)
{
    const CUdevice device = dev->ebb->pools.any_current ? dev->device : -1;
    return is_numbered(device) ? dev->ebb->pools.current[device] : NULL;
}

void ebb_pool_set_current(ebb_t *ebb, CUdevice device, CUmemoryPool pool)
{
    if (is_numbered(device))
        ebb->pools.current[device] = pool;
    ebb->pools.any_current = true;
}
