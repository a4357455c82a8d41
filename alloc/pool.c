#include "alloc/pool.h"

#include <stdlib.h>

#include "alloc/base/driver.h"

/* That the program has made or imported. */
typedef struct known {
    CUmemoryPool pool;
    CUdevice device;
    bool native;
    size_t max_bytes; /* 0: no limit */
    ebb_pool_usage_t usage;
    struct known *next;
} known_t;

enum { DEVICES = 64 };

static known_t *list;
static CUmemoryPool current[DEVICES]; /* NULL: the device's default one */
static bool any_current;
static ebb_pool_usage_t usage_of_default[EBB_STATES];

static bool is_numbered(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

static known_t *find(CUmemoryPool pool)
{
    known_t *k = list;
    while (k && k->pool != pool)
        k = k->next;
    return k;
}

bool ebb_pool_note(CUmemoryPool pool, CUdevice device, bool native, size_t max_bytes)
{
    known_t *k = malloc(sizeof *k);
    if (!k)
        return false;
    *k = (known_t){pool, device, native, max_bytes, {0, 0}, list};
    list = k;
    return true;
}

bool ebb_pool_is_native(CUmemoryPool pool)
{
    const known_t *k = list ? find(pool ? pool : ebb_pool_current()) : NULL;
    return k && k->native;
}

unsigned ebb_pool_slot(CUmemoryPool pool)
{
    const known_t *k = pool ? find(pool) : NULL;
    CUmemoryPool usual;
    if (k)
        return ebb_slot_of_device(k->device);
    for (unsigned i = 0; pool && ebb_slot_count > 1 && i < ebb_slot_count; i++)
        if (ebb_served[i].context && !ebb_driver.cuDeviceGetDefaultMemPool(&usual, ebb_served[i].device) &&
            usual == pool)
            return i;
    return ebb_slot;
}

/* ---- what is in use ---- */

static size_t whole(size_t bytes)
{
    return (bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES * EBB_ALIGN_BYTES;
}

ebb_pool_usage_t *ebb_pool_usage(CUmemoryPool pool)
{
    known_t *k = pool ? find(pool) : NULL;
    return k ? &k->usage : &usage_of_default[ebb_slot];
}

bool ebb_pool_has_room(CUmemoryPool pool, size_t bytes)
{
    const known_t *k = pool ? find(pool) : NULL;
    return !k || !k->max_bytes ||
           (bytes <= k->max_bytes && whole(bytes) + k->usage.used_bytes <= k->max_bytes);
}

void ebb_pool_took(CUmemoryPool pool, size_t bytes)
{
    ebb_pool_usage_t *u = ebb_pool_usage(pool);
    u->used_bytes += whole(bytes);
    if (u->used_bytes > u->high_bytes)
        u->high_bytes = u->used_bytes;
}

void ebb_pool_gave(CUmemoryPool pool, size_t bytes)
{
    ebb_pool_usage_t *u = ebb_pool_usage(pool);
    const size_t less = whole(bytes);
    /* What outlives its pool is nobody's. */
    u->used_bytes = u->used_bytes > less ? u->used_bytes - less : 0;
}

void ebb_pools_emptied(void)
{
    const CUdevice device = ebb_served[ebb_slot].device;
    usage_of_default[ebb_slot].used_bytes = 0;
    for (known_t *k = list; k; k = k->next)
        if (k->device == device)
            k->usage.used_bytes = 0;
}

void ebb_pool_forget(CUmemoryPool pool)
{
    for (int i = 0; i < DEVICES; i++)
        if (current[i] == pool)
            current[i] = NULL; /* as in the driver, the default one is back */
    for (known_t **link = &list; *link; link = &(*link)->next)
        if ((*link)->pool == pool) {
            known_t *k = *link;
            *link = k->next;
            free(k);
            return;
        }
}

CUmemoryPool ebb_pool_current(void)
{
    const CUdevice device = any_current ? ebb_served[ebb_slot].device : -1;
    return is_numbered(device) ? current[device] : NULL;
}

void ebb_pool_set_current(CUdevice device, CUmemoryPool pool)
{
    if (is_numbered(device))
        current[device] = pool;
    any_current = true;
}
