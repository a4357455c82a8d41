/* procaddr.c: how functions are found by name and version, and what is not provided. */
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>

/* Only addresses are taken here, so the functions are declared without their arguments. */
#define PLAIN(name, symbol, version) extern void sg_at_##symbol(void) __asm__(#symbol);
#define SYNC(name, symbol, version)                                                                          \
    PLAIN(name, symbol, version) extern void sg_at_##symbol##_ptds(void) __asm__(#symbol "_ptds");
#define ASYNC(name, symbol, version)                                                                         \
    PLAIN(name, symbol, version) extern void sg_at_##symbol##_ptsz(void) __asm__(#symbol "_ptsz");
#include "softgpu/driver/api/entry_points.h"
#undef PLAIN
#undef SYNC
#undef ASYNC

typedef struct entry {
    const char *name, *symbol;
    int version;
    void (*plain)(void);
    void (*per_thread)(void); /* NULL: the function has no default stream */
} entry_t;

#define PLAIN(name, symbol, version) {#name, #symbol, version, sg_at_##symbol, NULL},
#define SYNC(name, symbol, version)  {#name, #symbol, version, sg_at_##symbol, sg_at_##symbol##_ptds},
#define ASYNC(name, symbol, version) {#name, #symbol, version, sg_at_##symbol, sg_at_##symbol##_ptsz},
static const entry_t entries[] = {
#include "softgpu/driver/api/entry_points.h"
};
#undef PLAIN
#undef SYNC
#undef ASYNC

/* Generated: the stubs of every other name (CMakeLists.txt). */
typedef struct stub {
    const char *name;
    void (*function)(void);
} stub_t;
extern const stub_t sg_stubs[];
extern const unsigned sg_stub_count;

CUresult sg_not_supported(const char *name)
{
    static _Atomic(const char *) said[1024]; /* by stub or caller: names are literals, so addresses do */
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        const char *none = NULL;
        if (atomic_load(&said[i]) == name)
            break;
        if (atomic_compare_exchange_strong(&said[i], &none, name)) {
            sg_log(1, "%s is not provided by this device (CUDA_ERROR_NOT_SUPPORTED)", name);
            break;
        }
        if (none == name)
            break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Version suffixes that a stub's symbol may carry beyond the name asked for. */
static void (*find_stub(const char *name, bool per_thread))(void)
{
    size_t length = strlen(name);
    void (*best)(void) = NULL;
    for (unsigned i = 0; i < sg_stub_count; i++) {
        const char *rest = sg_stubs[i].name;
        if (strncmp(rest, name, length))
            continue;
        rest += length;
        if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '1' && rest[2] <= '9')
            rest += 3;
        bool variant = !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds");
        if (!*rest || (variant && per_thread))
            best = sg_stubs[i].function; /* they are sorted: later versions and variants come last */
    }
    return best;
}

static CUresult look_up(const char *name, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult ignored;
    if (!status)
        status = &ignored;
    if (!name || !out || flags & ~(cuuint64_t)3)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const entry_t *e = &entries[i];
        if (strcmp(e->name, name))
            continue;
        if (e->version > version) {
            if (!*out)
                *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
            continue;
        }
        *out = (void *)(uintptr_t)(per_thread && e->per_thread ? e->per_thread : e->plain);
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    if (*status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) {
        *out = (void *)(uintptr_t)find_stub(name, per_thread);
        if (*out)
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SG_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    return look_up(name, out, version, flags, status);
}

SG_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags);
SG_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    return look_up(name, out, version, flags, NULL);
}
