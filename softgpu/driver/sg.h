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
 *   context   an address to which streams, events, modules and memory belong; it has a device (context.c)
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
#ifndef SG_OUTSIDE_GATE
#include "gate_names.h" /* generated: a function defined here as cuX stands behind the gate cuX (gate.h) */
#endif
#include <cuda.h>
#ifndef SG_OUTSIDE_GATE
#include "gate_names.h" /* again: cuda.h undefines some */
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/kernel_abi.h"

#ifndef SG_CHUNK_KIB
#define SG_CHUNK_KIB 2048
#endif
#define SG_CHUNK_BYTES       ((size_t)SG_CHUNK_KIB << 10)
#define SG_DRIVER_VERSION    13000
#define SG_MAX_WORKERS       256
#define SG_MAX_DEVICES       8
#define SG_HOST              SG_MAX_DEVICES /* host memory, where a device's number is wanted */
#define SG_MAX_PARAM_BYTES   32764u
#define SG_HEAP_ALIGN        ((size_t)512)
#define SG_STAGED_COPY_BYTES ((size_t)64 << 10) /* pageable copies up to this size do not wait */

#ifdef SG_OUTSIDE_GATE
#define SG_EXPORT __attribute__((visibility("default")))
#else
#define SG_EXPORT /* its gate is what is exported */
#endif
#define SG_ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

typedef struct sg_stream sg_stream_t;
typedef struct sg_op sg_op_t;
typedef struct sg_pool sg_pool_t;
typedef struct sg_module sg_module_t;
typedef struct sg_range sg_range_t;

/* The objects behind the API's handles. A handle that comes in is looked for among those that are alive, and
 * never followed before it is found: a wrong one is an error, whatever it points at. */
struct CUctx_st {
    unsigned device; /* its ordinal */
    bool primary;
    uint64_t id;
    unsigned api_version;
    _Atomic unsigned flags;
    unsigned primary_refs; /* guarded by sg.lock */
    atomic_bool active;    /* false: destroyed, or a primary context that nobody holds */
    _Atomic int sticky;    /* a CUresult: once set, every call returns it */
    sg_stream_t *legacy;
    sg_stream_t *all; /* where cuCtxRecordEvent records, and what cuCtxWaitEvent made all streams wait for */
    uint64_t gate;    /* new streams wait until `all` has reached this number */
    _Atomic int cache_config;
    CUcontext peers[32]; /* whose memory this context's kernels may touch; guarded by sg.lock */
    unsigned peer_count;
    _Atomic unsigned peer_devices; /* their devices, a bit each */
    size_t limit[CU_LIMIT_MAX];    /* guarded by sg.lock */
    CUcontext next;                /* all that ever were: a handle is never used again */
};

/* ---- state.c: configuration, the one state, how a call begins ---- */
typedef struct sg_config {
    size_t memory_bytes; /* SOFTGPU_MEMORY: of each device */
    unsigned workers;    /* SOFTGPU_WORKERS */
    unsigned spin_ns;    /* SOFTGPU_SPIN: before an idle thread, or one that waits for work, sleeps */
    unsigned devices;    /* of SOFTGPU_DEVICES those that the program sees (visible.c) */
    uint8_t installed[SG_MAX_DEVICES]; /* the number that each has in the machine */
    bool poison;                       /* SOFTGPU_POISON */
    bool protect;                      /* SOFTGPU_PROTECT */
    bool dry;                          /* SOFTGPU_DRY */
    int log_level;                     /* SOFTGPU_LOG: 0 quiet, 1 warnings, 2 information */
    bool deterministic;                /* SOFTGPU_SCHEDULER */
    uint64_t seed;                     /* SOFTGPU_SEED */
    unsigned arch;                     /* SOFTGPU_ARCH: ten times the compute capability; 0: not given */
} sg_config_t;

/* SOFTGPU_LIMITS (limits.c), bytes. SIZE_MAX: none. */
typedef struct sg_limits {
    size_t vmm;              /* 0: the virtual memory management calls are not supported */
    size_t reserve;          /* of one reservation of addresses */
    size_t one_registration; /* 0: registering is not supported */
    size_t one_host_allocation;
    size_t pinned; /* of all pinned memory together */
    size_t charge; /* device memory for each GiB pinned; 0: none */
} sg_limits_t;
void sg_limits_init(void);

typedef struct sg_state {
    pthread_mutex_t lock;
    atomic_bool initialised;
    atomic_bool forked; /* this process is the child of one that used the device */
    sg_config_t config;
    sg_limits_t limits;
    struct CUctx_st primary[SG_MAX_DEVICES];
} sg_state_t;

extern sg_state_t sg;

CUresult sg_initialise(void);
/* "512MiB", "2G", "1073741824": a size with an optional binary suffix. */
bool sg_parse_bytes(const char *text, size_t *out);
/* What nearly every entry point begins with: initialised, not forked. */
CUresult sg_enter(void);
/* The same, and a current context without a sticky error. */
CUresult sg_enter_context(void);
/* The same for what only looks something up: in virtual time it takes none. The runtime's look-ups depend on addresses. */
CUresult sg_enter_look_up(void);
/* For calls that a stream capture would not see (cuMemAlloc): also that no capture forbids them to this thread, else
 * STREAM_CAPTURE_UNSUPPORTED (graph/capture.c). */
CUresult sg_enter_unsafe(void);
/* The calling thread's, or NULL. Not NULL after sg_enter_context. */
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
/* Marks a context with a sticky error and says why, once. The second form: the context whose op this worker runs. */
void sg_set_sticky_in(CUcontext ctx, CUresult error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sg_set_sticky(CUresult error, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sg_now_ns(void);

/* ---- context.c ---- */
CUresult sg_context_init(void);
/* INVALID_CONTEXT if it is none, CONTEXT_IS_DESTROYED if it was one. */
CUresult sg_context_check_locked(CUcontext ctx);
CUresult sg_device_check(int device); /* also: initialised */

/* ---- peer.c ---- */
void sg_peers_drop_locked(CUcontext gone, CUcontext all); /* all: the list of contexts */

/* ---- rights.c: who may touch what ---- */
typedef struct sg_access {
    uint8_t readers, writers; /* devices whose kernels may, a bit each */
    bool host;                /* host code too */
    bool peers_decide; /* cuMemAlloc's: `readers` is its device, contexts with that peer enabled may too */
} sg_access_t;
static inline sg_access_t sg_access_of_device(unsigned device)
{
    return (sg_access_t){.readers = (uint8_t)(1u << device), .writers = (uint8_t)(1u << device)};
}
extern int sg_pkey; /* -1: this CPU has no protection keys, or SOFTGPU_PROTECT=0 */
void sg_rights_init(void);
void sg_rights_grant(void);  /* the calling thread may touch all device memory */
void sg_rights_revoke(void); /* and no more */
bool sg_rights_held(void);
/* On a worker that will run units of the op: sets its rights, and the context that sg_set_sticky means. */
void sg_work_for(const sg_op_t *op);
CUcontext sg_working_for(void);
int sg_key_of_locked(const sg_access_t *access);

/* ---- phys.c: physical memory ---- */
typedef struct sg_handle {
    unsigned device; /* or SG_HOST */
    CUmemLocation location;
    unsigned handle_types; /* CUmemAllocationHandleType: how it may be exported */
    int fd;                /* the file of which it is a part; -1: the device's own, by chunks */
    uint64_t fd_offset;
    bool owns_fd, charged;  /* charged: counts against the device's memory */
    int table_fd;           /* ipc.c's; -1: none */
    uint32_t mapped;        /* mappings of vmm.c */
    uint32_t refs;          /* one per owner and per mapping */
    uint32_t owners;        /* references that cuMemRelease gives back */
    uint64_t id;            /* vmm.c: what the program calls it; 0: none */
    struct sg_valid *valid; /* checked mode (shadow.h); NULL: nobody has asked */
    size_t bytes;
    uint32_t count;
    uint32_t chunk[]; /* [count] indices of chunks */
} sg_handle_t;

/* Of a machine with so many devices those that CUDA_VISIBLE_DEVICES names, by their numbers in the machine; how many there are. */
unsigned sg_read_visible(unsigned installed, uint8_t visible[SG_MAX_DEVICES]);
/* Of a device by its number in the machine. */
void sg_device_uuid(unsigned installed, unsigned char bytes[16]);

CUresult sg_phys_init(unsigned devices, size_t bytes);
/* bytes: multiple of a chunk. NULL: out of memory */
sg_handle_t *sg_phys_create_locked(unsigned device, size_t bytes);
/* A part of another file, which several processes may map. `charged`: it takes room on the device. */
typedef struct sg_phys_file {
    int fd;
    uint64_t offset;
    bool owns, charged;
} sg_phys_file_t;
sg_handle_t *sg_phys_create_in_locked(unsigned device, size_t bytes, sg_phys_file_t file);
/* Chunks of another process's device, whose file is open as `fd`, which the handle then owns. */
sg_handle_t *sg_phys_import_locked(unsigned device, int fd, const uint32_t *chunks, size_t count);
int sg_phys_fd(unsigned device);
/* A file for that, of this size, sparse; its name carries the device. -1: none. */
int sg_phys_file(unsigned device, size_t bytes);
/* Whether it is one: its device and size. */
bool sg_phys_file_check(int fd, unsigned *device, size_t *bytes);
void sg_phys_unref_locked(sg_handle_t *handle);
size_t sg_phys_used_locked(unsigned device);
/* Counts so many chunks as used, or no longer. False: there are not so many. */
bool sg_phys_charge_locked(unsigned device, int64_t chunks);
/* Maps all of a handle at `address`, without rights for anybody; sg_phys_protect grants. OUT_OF_MEMORY: out
 * of mappings. */
CUresult sg_phys_map(CUdeviceptr address, const sg_handle_t *handle);
CUresult sg_phys_protect_locked(CUdeviceptr address, size_t bytes, const sg_access_t *access);
void sg_phys_unmap(CUdeviceptr address, size_t bytes);
/* Writes a handle's memory, mapped or not. */
bool sg_phys_write(const sg_handle_t *handle, size_t offset, const void *data, size_t bytes);
/* Maps a part of a handle, in whole pages, over what is at `address` outside the window; with the rights of device
 * memory. */
CUresult sg_phys_alias_locked(void *address, const sg_handle_t *handle, size_t offset, size_t bytes);

/* ---- fault.c: rights, and what happens to an access that has none ---- */
CUresult sg_fault_init(void);
/* Before work is launched: a program may have put its own handlers over ours; ours go in front of them again.
 */
void sg_fault_keep_handlers(void);
/* Runs units of a work op; false if the work faulted (the context is sticky then). */
bool sg_fault_run(const sg_op_t *op, uint64_t first, uint64_t count);

/* ---- times.c: SOFTGPU_KERNEL_TIMES ---- */
extern bool sg_times_wanted;
void sg_times_init(void);
uint64_t sg_times_now(void); /* of this thread */
/* Units of a work op have taken so long. */
void sg_times_add(const sg_op_t *op, uint64_t first, uint64_t count, uint64_t processor_ns);

/* ---- window.c: device addresses ---- */
typedef enum sg_range_kind {
    SG_RANGE_RESERVED,
    SG_RANGE_SEGMENT,
    SG_RANGE_MODULE,
    SG_RANGE_GRAPH
} sg_range_kind_t;

typedef struct sg_mapping {
    CUdeviceptr address;
    size_t bytes;
    sg_handle_t *handle;
    sg_access_t access;
    uint64_t id;
} sg_mapping_t;

struct sg_range {
    CUdeviceptr base;
    size_t bytes;
    sg_range_kind_t kind;
    void *
        segment; /* SG_RANGE_SEGMENT: the heap's; _MODULE: that of variables.c; _GRAPH: a block's (graph/memory.c) */
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
    uint64_t id; /* unique among all allocations and mappings of the process */
    sg_handle_t *handle;
    const sg_range_t *range;
    sg_access_t access;
    unsigned device; /* SG_HOST: none's */
    CUcontext ctx;   /* whose allocation it is; NULL: none's */
    sg_pool_t *pool; /* NULL: a VMM mapping */
    bool managed_by_heap;
} sg_extent_t;
bool sg_extent_find_locked(CUdeviceptr address, sg_extent_t *out);
/* What the kernels of a device may do there. */
CUmemAccess_flags sg_access_flags(const sg_access_t *access, unsigned device);

/* ---- heap.c: cuMemAlloc and the pools ---- */
struct sg_pool {
    unsigned device;
    bool is_default;
    bool hidden;   /* cuMemAlloc's and cuMemAllocManaged's; nobody sees it as a pool */
    bool managed;  /* in host memory, for everybody */
    bool imported; /* from another process: nothing is allocated from it */
    bool dead;     /* destroyed, while memory of it is in use */
    sg_access_t access;
    CUmemLocation location;
    unsigned handle_types;
    uint64_t max_bytes;
    int fd;           /* of a pool that can be exported: all its memory lies in it; else -1 */
    uint64_t fd_next; /* what lies below is given out */
    uint64_t release_threshold;
    int reuse_flags[3];
    uint64_t reserved, reserved_high, used, used_high;
    sg_pool_t *next;
};
extern sg_pool_t sg_sync_heap[SG_MAX_DEVICES];        /* cuMemAlloc's */
extern sg_pool_t sg_managed_heap[SG_MAX_DEVICES];     /* cuMemAllocManaged's */
extern sg_pool_t sg_default_pool[SG_MAX_DEVICES + 1]; /* the last: of host memory */
/* The current context's, if it comes from cuMemAlloc's heap. */
CUresult sg_heap_alloc(sg_pool_t *pool, size_t bytes, sg_stream_t *stream, CUdeviceptr *out);
CUresult sg_heap_free(CUdeviceptr address, sg_stream_t *stream); /* stream NULL: now, after all work */
bool sg_heap_block_locked(void *segment, CUdeviceptr address, sg_extent_t *out);
/* A pool's rights have changed. */
CUresult sg_heap_protect_locked(const sg_pool_t *pool);
/* Another process's memory, as a segment with one block. Takes the handle over, also on failure; NULL: out of memory. */
CUresult sg_heap_import_locked(sg_pool_t *pool, sg_handle_t *memory, uint64_t offset, size_t bytes,
                               CUdeviceptr *out);
void sg_heap_release_import_locked(CUdeviceptr address); /* what cuMemFree may not free */
/* Gives back free segments until the pool (NULL: each pool) holds no more than `keep` bytes. */
void sg_heap_trim_locked(sg_pool_t *pool, uint64_t keep);
/* Frees what cuMemAlloc has given out in the context and, if `pools`, what its device's pools have. No work may be
 * under way. */
void sg_heap_drop_locked(CUcontext ctx, bool pools);
/* An allocation's flag CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: NULL if there is none at the address. */
bool *sg_heap_sync_memops_locked(CUdeviceptr address);

/* ---- pool.c ---- */
void sg_pools_init(void);
sg_pool_t *sg_pool_new(unsigned device, unsigned handle_types); /* not in any list yet; NULL: out of memory */
void sg_pool_publish(sg_pool_t *p);
/* NULL stands for the device's current pool. */
sg_pool_t *sg_pool_resolve_locked(CUmemoryPool handle, unsigned device);
/* Gives back cached memory above each pool's threshold; called when the host has waited for the device. */
void sg_pools_trim_to_threshold(void);

/* ---- hostmem.c ---- */
typedef struct sg_host_range {
    char *base;
    size_t bytes;
    unsigned flags;
    bool registered; /* the program's own memory */
    CUcontext ctx;
    uint64_t id;
    bool sync_memops;
} sg_host_range_t;
sg_host_range_t *sg_host_find_locked(const void *p); /* NULL: not pinned */
/* True if all of [p, p + bytes) is pinned (allocated or registered). */
bool sg_host_is_pinned_locked(const void *p, size_t bytes);
void sg_host_drop_locked(CUcontext ctx); /* what cuMemHostAlloc gave out in it */

/* ---- pointer.c ---- */
uint64_t sg_next_allocation_id(void);

/* ---- vmm.c ---- */
/* The handle's number for the program; 0: out of memory. */
uint64_t sg_handle_publish_locked(sg_handle_t *h);
sg_handle_t *sg_handle_find_locked(CUmemGenericAllocationHandle id); /* NULL: none */

/* ---- tensormap.c ---- */
enum { SG_TENSOR_MAP_ALIGN = 64 }; /* in a parameter, which is aligned so as well */
/* The address that 128 bytes stand for; 0: they are no tensor map. */
CUdeviceptr sg_tensor_map_address(const void *map);
/* softgpu_services_t */
int sg_tensor_map_read(const void *map, softgpu_tensor_t *out);

/* ---- module.c ---- */
struct CUfunc_st {
    const softgpu_kernel_t *kernel;
    sg_module_t *module;
    uint32_t param_bytes;                           /* as kernels find them: laid out as in C */
    uint32_t buffer_bytes;                          /* as a launch's `extra` gives them: sg_param_offset */
    atomic_bool loaded;                             /* once it is, it stays so */
    _Atomic int max_dynamic_shared;                 /* as set; -1: not set */
    _Atomic softgpu_run_fn run[SOFTGPU_MODE_COUNT]; /* NULL: not there, or not opened yet (mode.c) */
};
/* A library's kernel: a handle of its own kind, which leads to the function. */
struct CUkern_st {
    CUfunction function;
};
/* Where a parameter lies in the buffer of a launch's `extra`, and what cuFuncGetParamInfo says of it. */
uint32_t sg_param_offset(const softgpu_kernel_t *k, uint32_t index);
/* What the function may have of dynamic shared memory. */
uint32_t sg_function_max_shared(CUfunction f);
/* A function of a loaded module, or CUDA_ERROR_INVALID_HANDLE: for a CUkernel, too (seen on hardware: accel-sim pull request 521). */
CUresult sg_function_check(CUfunction f);
/* For calls that document a CUkernel cast to CUfunction (launches and occupancy): *f becomes the kernel's function. */
CUresult sg_function_resolve(CUfunction *f);
/* The function of a library's kernel, or CUDA_ERROR_INVALID_HANDLE: for a CUfunction, too (H200, driver 580.159.04; an earlier driver
 * crashed: NVIDIA/cuda-python issue 129). */
CUresult sg_kernel_resolve(CUkernel kernel, CUfunction *out);
bool sg_function_loaded_locked(CUfunction f);
/* The context of its module; NULL: a library's, which belong to none. */
CUcontext sg_function_context(CUfunction f);
/* Loads it into the current context, if it is not loaded: the host waits until the context has done all that it had to do. That happens when a
 * handle is asked for, or else at the first launch, which goes by a handle that was listed or a CUkernel (CUDA C++ programming guide 12.2, Lazy
 * Loading; meta-pytorch/torchcomms 2334; H200, driver 580.159.04). */
CUresult sg_function_load(CUfunction f);
void sg_modules_drop_locked(CUcontext ctx);
/* variables.c: the variable that holds an address of an SG_RANGE_MODULE. */
bool sg_variables_extent_locked(const void *segment, CUdeviceptr address, sg_extent_t *out);

/* ---- procaddr.c ---- */

#endif
