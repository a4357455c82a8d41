/* driver_loader.c: see driver_loader.h. */
#define _GNU_SOURCE
#include "softgpu/runtime/driver_loader.h"

#include <dlfcn.h>
#include <string.h>

/* The version that this library was written for: it decides which form of a function comes back. */
enum { LOOKUP_VERSION = 13000 };

driver_lookup_fn driver_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    driver_lookup_fn lookup = NULL;
    memcpy(&lookup, &symbol, sizeof lookup);
    return lookup;
}

void driver_fill(driver_lookup_fn lookup, const driver_entry_t *entries, size_t count, int per_thread,
                 void *table)
{
    for (size_t i = 0; i < count; i++) {
        cuuint64_t flags = per_thread && entries[i].has_stream_form
                               ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                               : CU_GET_PROC_ADDRESS_DEFAULT;
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        void *address = NULL;
        if (lookup(entries[i].name, &address, LOOKUP_VERSION, flags, &status) != CUDA_SUCCESS ||
            status != CU_GET_PROC_ADDRESS_SUCCESS)
            address = NULL;
        memcpy((char *)table + entries[i].offset, &address, sizeof address);
    }
}

const char *driver_missing(const driver_entry_t *entries, size_t count, const void *table)
{
    for (size_t i = 0; i < count; i++) {
        void *address;
        memcpy(&address, (const char *)table + entries[i].offset, sizeof address);
        if (!address)
            return entries[i].name;
    }
    return NULL;
}
