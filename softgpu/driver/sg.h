/* sg.h: what the files of the software driver (libcuda.so.1) share. Not for anyone outside this folder.
 *
 * Glossary
 *   chunk     2 MiB of physical device memory: a piece of one memfd whose size is the device's (phys.c)
 *   handle    chunks created together, as cuMemCreate does; kept while released but still mapped
 *   window    the reserved part of the address space in which all device addresses lie (window.c)
 *   range     a reserved part of the window: a VMM reservation, or a segment of the heap
 *   segment   a range with its own handle from which the heap serves blocks (heap.c)
 *   op        one operation in a stream: work (kernel, copy, set), wait, record, host function (streams.h)
 *   unit      what a worker claims of an op's work: blocks of a grid, pieces of a copy
 *   rights    whether a thread may touch device memory; workers have them, nobody else (fault.c)
 *
 * Threads. Any program thread may call in. `workers` run kernels and copies, one `caller` thread runs host
 * functions.
 *
 * Locks. One: sg.lock guards every table, list and queue here. Workers hold it only to take up and to finish
 * an op. Host functions and kernels run without it. Functions named *_locked want it held; entry points must
 * not hold it.
 */
#ifndef SG_H
#define SG_H

#define __CUDA_API_VERSION_INTERNAL /* the header must not rename the functions that we define */
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/kernel_abi.h"

#define SG_CHUNK_BYTES       ((size_t)2 << 20)
#define SG_DRIVER_VERSION    13000
#define SG_MAX_WORKERS       256
#define SG_MAX_PARAM_BYTES   32764u
#define SG_HEAP_ALIGN        ((size_t)512)
#define SG_STAGED_COPY_BYTES ((size_t)64 << 10) /* pageable copies up to this size do not wait */

#define SG_EXPORT          __attribute__((visibility("default")))
#define SG_ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

typedef struct sg_stream sg_stream_t;
typedef struct sg_op sg_op_t;
typedef struct sg_pool sg_pool_t;
typedef struct sg_module sg_module_t;
typedef struct sg_range sg_range_t;

/* The objects behind the API's handles. A handle that comes in is looked for among those that are alive, and
 * never followed before it is found: a wrong one is an error, whatever it points at. */
struct CUctx_st {
    _Atomic unsigned flags;
    unsigned primary_refs; /* guarded by sg.lock */
    atomic_bool active;
    _Atomic int sticky; /* a CUresult: once set, every call returns it */
    sg_stream_t *legacy;
};

/* ---- state.c: configuration, the one state, how a call begins ---- */
typedef struct sg_config {
    size_t memory_bytes; /* SOFTGPU_MEMORY */
    unsigned workers;    /* SOFTGPU_WORKERS */
    bool poison;         /* SOFTGPU_POISON */
    bool protect;        /* SOFTGPU_PROTECT */
    int log_level;       /* SOFTGPU_LOG: 0 quiet, 1 warnings, 2 information */
} sg_config_t;

typedef struct sg_state {
    pthread_mutex_t lock;
    atomic_bool initialised;
    atomic_bool forked; /* this process is the child of one that used the device */
    sg_config_t config;
    struct CUctx_st ctx; /* the primary context, the only one in this form of the device */
} sg_state_t;

extern sg_state_t sg;

CUresult sg_initialise(void);
/* What nearly every entry point begins with: initialised, not forked. */
CUresult sg_enter(void);
/* The same, and a current context without a sticky error. */
CUresult sg_enter_context(void);
/* For calls that a stream capture would not see (cuMemAlloc): also that no capture forbids them to this thread, else
 * STREAM_CAPTURE_UNSUPPORTED (graph_capture.c). */
CUresult sg_enter_unsafe(void);
CUcontext sg_current_context(void);

#define SG_TRY(call)                                                                                         \
    do {                                                                                                     \
        CUresult sg_try_ = (call);                                                                           \
        if (sg_try_ != CUDA_SUCCESS)                                                                         \
            return sg_try_;                                                                                  \
    } while (0)

static inline void sg_lock(void)
{
    pthread_mutex_lock(&sg.lock);
}
static inline void sg_unlock(void)
{
    pthread_mutex_unlock(&sg.lock);
}

/* One line on stderr, "softgpu: ...", if SOFTGPU_LOG is at least `level`. */
void sg_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Marks the context with a sticky error and says why, once. */
void sg_set_sticky(CUresult error, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sg_now_ns(void);

/* ---- phys.c: physical memory ---- */
typedef struct sg_handle {
    uint32_t refs;   /* one per owner and per mapping */
    uint32_t owners; /* references that cuMemRelease gives back */
    uint64_t id;     /* vmm.c: what the program calls it; 0: none */
    size_t bytes;
    uint32_t count;
    uint32_t chunk[]; /* [count] indices of chunks */
} sg_handle_t;

CUresult sg_phys_init(size_t bytes);
sg_handle_t *sg_phys_create_locked(size_t bytes); /* bytes: multiple of a chunk. NULL: out of memory */
void sg_phys_unref_locked(sg_handle_t *handle);
size_t sg_phys_used_locked(void);
/* Maps all of a handle at `address`, without rights for anybody; sg_phys_protect grants. OUT_OF_MEMORY: out
 * of mappings. */
CUresult sg_phys_map(CUdeviceptr address, const sg_handle_t *handle);
CUresult sg_phys_protect(CUdeviceptr address, size_t bytes, int prot);
void sg_phys_unmap(CUdeviceptr address, size_t bytes);

/* ---- fault.c: rights, and what happens to an access that has none ---- */
CUresult sg_fault_init(void);
extern int sg_pkey; /* -1: this CPU has no protection keys, or SOFTGPU_PROTECT=0 */
void sg_rights_grant(void);
/* Before work is launched: a program may have put its own handlers over ours; ours go in front of them again.
 */
void sg_fault_keep_handlers(void);
/* Runs units of a work op; false if the work faulted (the context is sticky then). */
bool sg_fault_run(const sg_op_t *op, uint64_t first, uint64_t count);

/* ---- window.c: device addresses ---- */
typedef enum sg_range_kind { SG_RANGE_RESERVED, SG_RANGE_SEGMENT, SG_RANGE_GRAPH } sg_range_kind_t;

typedef struct sg_mapping {
    CUdeviceptr address;
    size_t bytes;
    sg_handle_t *handle;
    CUmemAccess_flags access;
} sg_mapping_t;

struct sg_range {
    CUdeviceptr base;
    size_t bytes;
    sg_range_kind_t kind;
    void *segment;          /* SG_RANGE_SEGMENT: the heap's; SG_RANGE_GRAPH: a block's (graph_memory.c) */
    sg_mapping_t *mappings; /* SG_RANGE_RESERVED: sorted by address */
    size_t mapping_count, mapping_capacity;
};

CUresult sg_window_init(void);
bool sg_window_contains(CUdeviceptr address);
sg_range_t *sg_window_reserve_locked(size_t bytes, size_t alignment, CUdeviceptr wanted,
                                     sg_range_kind_t kind);
void sg_window_free_locked(sg_range_t *range);
sg_range_t *sg_window_find_locked(CUdeviceptr address); /* NULL: in no range */

/* The allocation or mapping that holds an address. */
typedef struct sg_extent {
    CUdeviceptr base;
    size_t bytes;
    CUmemAccess_flags access;
    sg_pool_t *pool; /* NULL: a VMM mapping */
    bool managed_by_heap;
} sg_extent_t;
bool sg_extent_find_locked(CUdeviceptr address, sg_extent_t *out);

/* ---- heap.c: cuMemAlloc and the pools ---- */
struct sg_pool {
    bool is_default;
    uint64_t release_threshold;
    int reuse_flags[3];
    uint64_t reserved, reserved_high, used, used_high;
    sg_pool_t *next;
};
extern sg_pool_t sg_sync_heap;    /* cuMemAlloc's; nobody sees it as a pool */
extern sg_pool_t sg_default_pool; /* cuDeviceGetDefaultMemPool */
CUresult sg_heap_alloc(sg_pool_t *pool, size_t bytes, sg_stream_t *stream, CUdeviceptr *out);
CUresult sg_heap_free(CUdeviceptr address, sg_stream_t *stream); /* stream NULL: now, after all work */
bool sg_heap_block_locked(void *segment, CUdeviceptr address, sg_extent_t *out);
/* Gives back free segments until the pool (NULL: each pool) holds no more than `keep` bytes. */
void sg_heap_trim_locked(sg_pool_t *pool, uint64_t keep);
/* Frees everything that cuMemAlloc and the pools have given out. No work may be under way. */
void sg_heap_reset_locked(void);
void sg_heap_adopt_locked(sg_pool_t *from, sg_pool_t *to); /* all that `from` holds */

/* ---- pool.c ---- */
sg_pool_t *sg_pool_resolve_locked(CUmemoryPool handle); /* NULL stands for the device's current pool */
/* Gives back cached memory above each pool's threshold; called when the host has waited for the device. */
void sg_pools_trim_to_threshold(void);

/* ---- hostmem.c ---- */
/* True if all of [p, p + bytes) is pinned (allocated or registered). */
bool sg_host_is_pinned_locked(const void *p, size_t bytes);

/* ---- module.c ---- */
struct CUfunc_st {
    const softgpu_kernel_t *kernel;
    sg_module_t *module;
    uint32_t param_bytes;
    _Atomic int max_dynamic_shared;
};
/* A function of a loaded module, or CUDA_ERROR_INVALID_HANDLE. */
CUresult sg_function_check(CUfunction f);
bool sg_function_loaded_locked(CUfunction f);

/* ---- procaddr.c ---- */
CUresult sg_not_supported(const char *name); /* returns CUDA_ERROR_NOT_SUPPORTED, says so once per name */

#endif
