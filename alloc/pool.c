#include "pool.h"

#include <stdlib.h>

typedef struct native {
    CUmemoryPool pool;
    struct native *next;
} native_t;

static native_t *natives;
static CUmemoryPool current;

void ebb_pool_make_native(CUmemoryPool pool)
{
    native_t *n = malloc(sizeof *n);
    if (!n) {
        ebb_keep_everything("no host memory for the list of pools");
        return;
    }
    *n = (native_t){pool, natives};
    natives = n;
}

bool ebb_pool_is_native(CUmemoryPool pool)
{
    if (!natives)
        return false;
    if (!pool)
        pool = current;
    for (const native_t *n = natives; n; n = n->next)
        if (n->pool == pool)
            return true;
    return false;
}

void ebb_pool_forget(CUmemoryPool pool)
{
    if (current == pool)
        current = NULL; /* as in the driver, the default one is back */
    for (native_t **link = &natives; *link; link = &(*link)->next)
        if ((*link)->pool == pool) {
            native_t *n = *link;
            *link = n->next;
            free(n);
            return;
        }
}

CUmemoryPool ebb_pool_current(void)
{
    return current;
}

void ebb_pool_set_current(CUmemoryPool pool)
{
    current = pool;
}
