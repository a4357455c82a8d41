/* entry_table.c: the table of entry points, and cuGetProcAddress answered from it. */
#include <string.h>

#include "hook.h"
#include "intercept.h"

/* Only addresses are taken here: the functions are declared without their arguments. */
#define PLAIN(name, symbol, version) extern void ebb_at_##symbol(void) __asm__(#symbol);
#define SYNC(name, symbol, version)                                                                          \
    PLAIN(name, symbol, version) extern void ebb_at_##symbol##_ptds(void) __asm__(#symbol "_ptds");
#define ASYNC(name, symbol, version)                                                                         \
    PLAIN(name, symbol, version) extern void ebb_at_##symbol##_ptsz(void) __asm__(#symbol "_ptsz");
#include "entry_points.h"
#undef PLAIN
#undef SYNC
#undef ASYNC

#define PLAIN(name, symbol, version) {#name, #symbol, version, (void *)ebb_at_##symbol, NULL, NULL},
#define SYNC(name, symbol, version)                                                                          \
    {#name, #symbol, version, (void *)ebb_at_##symbol, (void *)ebb_at_##symbol##_ptds, "_ptds"},
#define ASYNC(name, symbol, version)                                                                         \
    {#name, #symbol, version, (void *)ebb_at_##symbol, (void *)ebb_at_##symbol##_ptsz, "_ptsz"},
const ebb_entry_t ebb_entries[] = {
#include "entry_points.h"
    {0},
};

void *ebb_hook_by_name(const char *name, int version, unsigned long long flags)
{
    const ebb_entry_t *best = NULL;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++)
        if (e->version <= version && (!best || e->version > best->version) && !strcmp(e->name, name))
            best = e;
    if (!best)
        return NULL;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return per_thread && best->per_thread ? best->per_thread : best->plain;
}

void *ebb_hook_by_symbol(const char *symbol)
{
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        size_t length = strlen(e->symbol);
        if (strncmp(symbol, e->symbol, length))
            continue;
        if (!symbol[length])
            return e->plain;
        if (e->per_thread && !strcmp(symbol + length, e->suffix))
            return e->per_thread;
    }
    return NULL;
}

/* The driver decides whether there is such a function in that version, the table whether it is ours. */
static CUresult proc_address(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!ebb_have_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUdriverProcAddressQueryResult ignored;
    CUresult result = ebb_driver.cuGetProcAddress(name, out, version, flags, status ? status : &ignored);
    void *ours = result || !name || !out || !*out ? NULL : ebb_hook_by_name(name, version, flags);
    if (ours)
        *out = ours;
    return result;
}

PLAIN_CALL(cuGetProcAddress, (const char *name, void **out, int version, cuuint64_t flags),
           proc_address(name, out, version, flags, NULL))
PLAIN_CALL(cuGetProcAddress_v2,
           (const char *name, void **out, int version, cuuint64_t flags,
            CUdriverProcAddressQueryResult *status),
           proc_address(name, out, version, flags, status))
