#include "pool.h"

#include <stdlib.h>

#include "driver.h"

/* That the program has made or imported. */
typedef struct known {
    CUmemoryPool pool;
    CUdevice device;
    bool native;
    struct known *next;
} known_t;

enum { DEVICES = 64 };

static known_t *list;
static CUmemoryPool current[DEVICES]; /* NULL: the device's default one */
static bool any_current;

static bool is_numbered(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

static const known_t *find(CUmemoryPool pool)
{
    const known_t *k = list;
    while (k && k->pool != pool)
        k = k->next;
    return k;
}

void ebb_pool_note(CUmemoryPool pool, CUdevice device, bool native)
{
    known_t *k = malloc(sizeof *k);
    if (!k) {
        ebb_keep_everything("no host memory for the list of pools");
        return;
    }
    *k = (known_t){pool, device, native, list};
    list = k;
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
