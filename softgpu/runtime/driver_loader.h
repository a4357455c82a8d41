/* driver_loader.h: finds the driver library the way NVIDIA's runtime does.
 *
 * dlopen("libcuda.so.1"), dlsym of one symbol, "cuGetProcAddress_v2", and that function for everything else.
 * Nothing else of the driver is touched, so that a layer which takes over dlsym or cuGetProcAddress sees
 * every look-up. Used by the runtime and by cuBLAS, each of which lists the functions that it needs in a
 * table of its own.
 */
#ifndef SOFTGPU_DRIVER_LOADER_H
#define SOFTGPU_DRIVER_LOADER_H

#include <cuda.h>
#include <stddef.h>

/* One driver function: its base name, where its address goes in the caller's table, and whether it comes in a
 * second form for the per-thread default stream. */
typedef struct driver_entry {
    const char *name;
    size_t offset;
    int has_stream_form;
} driver_entry_t;

typedef CUresult (*driver_lookup_fn)(const char *symbol, void **address, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status);

/* Opens the driver library and returns its cuGetProcAddress_v2, or NULL. The library stays open for good.
 * Not thread-safe: call once. */
driver_lookup_fn driver_open(void);

/* Fills `table` with the addresses of entries[count]. `per_thread`: asks for the per-thread default stream's
 * form where there is one. A function that the driver lacks becomes NULL. */
void driver_fill(driver_lookup_fn lookup, const driver_entry_t *entries, size_t count, int per_thread,
                 void *table);

/* The first of the entries that the table lacks; NULL: none. */
const char *driver_missing(const driver_entry_t *entries, size_t count, const void *table);

#endif
