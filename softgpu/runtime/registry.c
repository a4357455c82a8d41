/* registry.c: see registry.h. */
#define _GNU_SOURCE
#include "softgpu/runtime/registry.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

struct rt_image {
    const void *fat_binary; /* borrowed */
    CUlibrary library;      /* owns; NULL: not loaded */
    cudaError_t error;      /* why it can never be loaded */
};

typedef struct symbol {
    const void *key;
    const char *name;  /* borrowed; NULL for a kernel of a library that the program loaded itself */
    rt_image_t *image; /* NULL likewise */
    CUlibrary library; /* that library */
    CUkernel kernel;   /* NULL: not looked up yet */
    symbol_kind_t kind;
} symbol_t;

/* All symbols, and an open-addressed index into them (position + 1; 0: free) of index_size slots, a power of
 * two, at most half full. Removal rebuilds the index: it happens when a plug-in is closed and at exit.
 * Guarded by registry_lock. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static symbol_t *symbols;
static size_t symbol_count, symbol_capacity;
static uint32_t *symbol_index;
static size_t index_size;

static size_t slot_of(const void *key)
{
    return (size_t)(((uintptr_t)key >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (index_size - 1);
}

static symbol_t *find_locked(const void *key)
{
    if (!index_size)
        return NULL;
    for (size_t slot = slot_of(key);; slot = (slot + 1) & (index_size - 1)) {
        uint32_t at = symbol_index[slot];
        if (!at)
            return NULL;
        if (symbols[at - 1].key == key)
            return &symbols[at - 1];
    }
}

static void index_locked(uint32_t at)
{
    size_t slot = slot_of(symbols[at].key);
    while (symbol_index[slot])
        slot = (slot + 1) & (index_size - 1);
    symbol_index[slot] = at + 1;
}

static void rebuild_index_locked(void)
{
    for (size_t slot = 0; slot < index_size; slot++)
        symbol_index[slot] = 0;
    for (uint32_t at = 0; at < symbol_count; at++)
        index_locked(at);
}

/* Room for one symbol more. */
static int grow_locked(void)
{
    if (symbol_count < symbol_capacity)
        return 1;
    size_t capacity = symbol_capacity ? 2 * symbol_capacity : 256;
    symbol_t *more = realloc(symbols, capacity * sizeof *symbols);
    if (more)
        symbols = more;
    uint32_t *index = more ? realloc(symbol_index, 2 * capacity * sizeof *index) : NULL;
    if (!index)
        return 0;
    symbol_index = index;
    symbol_capacity = capacity;
    index_size = 2 * capacity;
    rebuild_index_locked();
    return 1;
}

/* A key registered twice keeps its first meaning: a header's inline kernel has one host function, but an
 * entry per image. */
static void add_locked(const symbol_t *symbol)
{
    if (find_locked(symbol->key))
        return;
    if (!grow_locked()) {
        fprintf(stderr, "softgpu: no memory to register %s\n", symbol->name ? symbol->name : "a kernel");
        return;
    }
    symbols[symbol_count] = *symbol;
    index_locked((uint32_t)symbol_count++);
}

static void remove_locked(const rt_image_t *image, CUlibrary library)
{
    size_t kept = 0;
    for (size_t i = 0; i < symbol_count; i++)
        if (image ? symbols[i].image != image : symbols[i].library != library)
            symbols[kept++] = symbols[i];
    symbol_count = kept;
    rebuild_index_locked();
}

rt_image_t *registry_add_image(const void *fat_binary)
{
    rt_image_t *image = calloc(1, sizeof *image);
    if (image)
        image->fat_binary = fat_binary;
    return image;
}

void registry_add(rt_image_t *image, symbol_kind_t kind, const void *key, const char *name)
{
    pthread_mutex_lock(&registry_lock);
    add_locked(&(symbol_t){.key = key, .name = name, .image = image, .kind = kind});
    pthread_mutex_unlock(&registry_lock);
}

void registry_add_handle(CUkernel kernel, CUlibrary library)
{
    pthread_mutex_lock(&registry_lock);
    add_locked(&(symbol_t){.key = kernel, .library = library, .kernel = kernel, .kind = SYMBOL_HANDLE});
    pthread_mutex_unlock(&registry_lock);
}

/* The main program's images are unregistered when it exits: no time to wait for the device, which unloading
 * does. */
static int is_main_program(const void *address)
{
    Dl_info at, entry;
    return dladdr(address, &at) && dladdr((const void *)getauxval(AT_ENTRY), &entry) &&
           at.dli_fbase == entry.dli_fbase;
}

void registry_remove_image(rt_image_t *image)
{
    if (!image)
        return;
    pthread_mutex_lock(&registry_lock);
    remove_locked(image, NULL);
    if (image->library && !is_main_program(image->fat_binary))
        RT_CALL(&rt_driver[RT_LEGACY], cuLibraryUnload, image->library);
    pthread_mutex_unlock(&registry_lock);
    rt_next_epoch();
    free(image);
}

void registry_remove_library(CUlibrary library)
{
    pthread_mutex_lock(&registry_lock);
    remove_locked(NULL, library);
    pthread_mutex_unlock(&registry_lock);
    rt_next_epoch();
}

/* What will not change by asking again. */
static int is_final(cudaError_t error)
{
    return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidKernelImage ||
           error == cudaErrorNotSupported;
}

static cudaError_t load_locked(rt_image_t *image)
{
    if (image->library || image->error != cudaSuccess)
        return image->error;
    cudaError_t error = RT_CALL(&rt_driver[RT_LEGACY], cuLibraryLoadData, &image->library, image->fat_binary,
                                NULL, NULL, 0, NULL, NULL, 0);
    if (error != cudaSuccess)
        image->library = NULL;
    if (is_final(error))
        image->error = error;
    return error;
}

static cudaError_t kernel_locked(symbol_t *symbol, CUkernel *kernel)
{
    cudaError_t error = cudaSuccess;
    if (!symbol || (symbol->kind != SYMBOL_KERNEL && symbol->kind != SYMBOL_HANDLE))
        return cudaErrorInvalidDeviceFunction;
    if (!symbol->kernel) {
        error = load_locked(symbol->image)
                    ?: RT_CALL(&rt_driver[RT_LEGACY], cuLibraryGetKernel, &symbol->kernel,
                               symbol->image->library, symbol->name);
        if (error == cudaErrorSymbolNotFound)
            error = cudaErrorInvalidDeviceFunction;
    }
    *kernel = error == cudaSuccess ? symbol->kernel : NULL;
    symbol->kernel = *kernel;
    if (*kernel &&
        symbol->kind == SYMBOL_KERNEL) /* the program may launch by handle; `symbol` may move now */
        add_locked(&(symbol_t){.key = *kernel,
                               .name = symbol->name,
                               .image = symbol->image,
                               .kernel = *kernel,
                               .kind = SYMBOL_HANDLE});
    return error;
}

cudaError_t registry_kernel(const void *key, CUkernel *kernel)
{
    pthread_mutex_lock(&registry_lock);
    cudaError_t error = kernel_locked(find_locked(key), kernel);
    pthread_mutex_unlock(&registry_lock);
    return error;
}

static cudaError_t variable_locked(const symbol_t *symbol, CUdeviceptr *address, size_t *bytes)
{
    const driver_t *d = &rt_driver[RT_LEGACY];
    if (!symbol || (symbol->kind != SYMBOL_VARIABLE && symbol->kind != SYMBOL_MANAGED))
        return cudaErrorInvalidSymbol;
    cudaError_t error = load_locked(symbol->image);
    if (error == cudaSuccess)
        error = symbol->kind == SYMBOL_MANAGED
                    ? RT_CALL(d, cuLibraryGetManaged, address, bytes, symbol->image->library, symbol->name)
                    : RT_CALL(d, cuLibraryGetGlobal, address, bytes, symbol->image->library, symbol->name);
    return error == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : error;
}

cudaError_t registry_variable(const void *key, CUdeviceptr *address, size_t *bytes)
{
    pthread_mutex_lock(&registry_lock);
    cudaError_t error = variable_locked(find_locked(key), address, bytes);
    pthread_mutex_unlock(&registry_lock);
    return error;
}

int registry_init_managed(rt_image_t *image)
{
    int ready = 1;
    pthread_mutex_lock(&registry_lock);
    for (size_t i = 0; i < symbol_count; i++) {
        CUdeviceptr address = 0;
        size_t bytes;
        if (symbols[i].image != image || symbols[i].kind != SYMBOL_MANAGED)
            continue;
        cudaError_t error = variable_locked(&symbols[i], &address, &bytes);
        if (error == cudaSuccess) {
            void **pointer = (void **)(uintptr_t)symbols[i].key;
            *pointer = (void *)(uintptr_t)address;
            continue;
        }
        fprintf(stderr, "softgpu: __managed__ variable %s is not available: %s\n", symbols[i].name,
                cudaGetErrorString(error));
        ready = 0;
    }
    pthread_mutex_unlock(&registry_lock);
    return ready;
}
