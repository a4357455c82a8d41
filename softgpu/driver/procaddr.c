/* procaddr.c: how functions are found by name and version, what is not provided, and the names of errors. */
#include "streams.h"

#include <stdlib.h>
#include <string.h>

/* Only addresses are taken here, so the functions are declared without their arguments. */
#define PLAIN(name, symbol, version) extern void sg_at_##symbol(void) __asm__(#symbol);
#define SYNC(name, symbol, version)                                                                          \
    PLAIN(name, symbol, version) extern void sg_at_##symbol##_ptds(void) __asm__(#symbol "_ptds");
#define ASYNC(name, symbol, version)                                                                         \
    PLAIN(name, symbol, version) extern void sg_at_##symbol##_ptsz(void) __asm__(#symbol "_ptsz");
#include "entry_points.h"
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
#include "entry_points.h"
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
            best = sg_stubs[i].function; /* names.txt is sorted: later versions and variants come last */
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

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define E(code, text) {code, #code, text},
    E(CUDA_SUCCESS, "no error") E(CUDA_ERROR_INVALID_VALUE, "invalid argument") E(
        CUDA_ERROR_OUT_OF_MEMORY, "out of memory") E(CUDA_ERROR_NOT_INITIALIZED,
                                                     "the driver is not initialised")
        E(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down") E(
            CUDA_ERROR_NO_DEVICE, "no CUDA-capable device") E(CUDA_ERROR_INVALID_DEVICE,
                                                              "invalid device ordinal")
            E(CUDA_ERROR_INVALID_IMAGE, "the module image is invalid") E(
                CUDA_ERROR_INVALID_CONTEXT, "no valid context") E(CUDA_ERROR_MAP_FAILED, "mapping failed")
                E(CUDA_ERROR_UNMAP_FAILED, "unmapping failed") E(CUDA_ERROR_NO_BINARY_FOR_GPU,
                                                                 "no kernels for this device in the module")
                    E(CUDA_ERROR_UNSUPPORTED_LIMIT, "unsupported limit") E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                                                                           "peer access is not supported")
                        E(CUDA_ERROR_INVALID_SOURCE, "invalid kernel source") E(CUDA_ERROR_FILE_NOT_FOUND,
                                                                                "file not found")
                            E(CUDA_ERROR_OPERATING_SYSTEM, "an operating system call failed") E(
                                CUDA_ERROR_INVALID_HANDLE, "invalid handle") E(CUDA_ERROR_ILLEGAL_STATE,
                                                                               "illegal state")
                                E(CUDA_ERROR_NOT_FOUND, "named symbol not found") E(
                                    CUDA_ERROR_NOT_READY,
                                    "not ready") E(CUDA_ERROR_ILLEGAL_ADDRESS,
                                                   "a kernel or copy accessed memory that is not accessible")
                                    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                                      "too many resources requested for launch")
                                        E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use")
                                            E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed")
                                                E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                                                  "part of the host memory is registered already")
                                                    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                                                      "the host memory is not registered")
                                                        E(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed") E(
                                                            CUDA_ERROR_NOT_PERMITTED, "not permitted here")
                                                            E(CUDA_ERROR_NOT_SUPPORTED, "not supported")
                                                                E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                                                  "not permitted while a stream is capturing")
                                                                    E(CUDA_ERROR_UNKNOWN, "unknown error")
    // clang-format off
    E(CUDA_ERROR_LOSSY_QUERY, "the query would leave out edge data")
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier error")
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be merged")
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream")
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture has work that was not joined")
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "captured work would depend on work that is not captured")
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would depend on a capturing stream")
    E(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capturing stream")
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread")
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the executable graph cannot be updated with this graph")
// clang-format on
#undef E
};

static CUresult describe_error(CUresult error, const char **out, bool text)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == error) {
            *out = text ? errors[i].text : errors[i].name;
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuGetErrorString(CUresult error, const char **out)
{
    return describe_error(error, out, true);
}

SG_EXPORT CUresult cuGetErrorName(CUresult error, const char **out)
{
    return describe_error(error, out, false);
}
