/* softgpu/kernel_abi.h: the contract between a kernel library and the software driver.
 *
 * A kernel library is a shared object that holds the kernels of a CUDA module, compiled for the CPU from the
 * same .cu source (CMake: softgpu_kernels()) for fast mode, with the source's PTX for the other modes; or translated from PTX. It exports
 * one symbol, SOFTGPU_TABLE_SYMBOL, of type softgpu_kernel_table_t.
 *
 * How the driver finds it. A module image (cuModuleLoadData, cuLibraryLoadData, or the fat binary that nvcc
 * embeds) lies inside an object file O, an executable or a shared library, or a file that the program has mapped; for cuModuleLoad, O is
 * the file itself. Tried in turn:
 *   1. O itself, if it is a shared library that exports the table: its kernels are host code, and modes mean nothing to
 *      them;
 *   2. O.softgpu.so, beside O;
 *   3. <base name of O>.softgpu.so in each directory of SOFTGPU_KERNEL_PATH (separated by ':');
 *   4. <base name of O>.softgpu.so beside libcuda.so.1.
 * Of 2 to 4 one is passed over whose kernels are not those that the image names: it is of another build. What a compressed image names has to be
 * readable (libzstd.so.1, liblz4.so.1), but for 3.
 * If none has a table, PTX in the image is compiled; without that, loading fails with CUDA_ERROR_NO_BINARY_FOR_GPU and the log names the files tried.
 *
 * Threads: `run` is called by several workers at once, each with its own blocks of one grid. It may read and
 * write what the launch's arguments point to, the module's variables and its own thread-local storage, nothing else.
 */
#ifndef SOFTGPU_KERNEL_ABI_H
#define SOFTGPU_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_ABI_VERSION  5u
#define SOFTGPU_TABLE_SYMBOL "softgpu_kernel_table"

/* Room for dynamic shared memory that a kernel library has for each thread, if a kernel of it asks for any. */
#define SOFTGPU_DYNAMIC_SHARED_BYTES 232448

enum { SOFTGPU_COROUTINE_BYTES = 256 };

/* How a kernel's threads are executed. */
typedef enum softgpu_mode {
    SOFTGPU_FAST = 0,    /* one thread per block; only kernels marked BLOCK_SIZE_INDEPENDENT */
    SOFTGPU_SIMT = 1,    /* every warp a fiber, its threads vectors */
    SOFTGPU_CHECKED = 2, /* SIMT with every access instrumented */
    SOFTGPU_MODE_COUNT
} softgpu_mode_t;

/* A place in the source, for reports. */
typedef struct softgpu_place {
    const char *file;
    uint32_t line;
} softgpu_place_t;

/* What a fiber, which is a warp of the program's, is told about itself: it is thread.x of threads that are warps. */
typedef struct softgpu_thread {
    uint32_t thread[3], block[3];   /* threadIdx, blockIdx */
    uint32_t block_dim[3], grid[3]; /* blockDim, gridDim */
    uint32_t lane;                  /* in its warp */
} softgpu_thread_t;

typedef struct softgpu_launch softgpu_launch_t;

typedef enum softgpu_access {
    SOFTGPU_READ,
    SOFTGPU_WRITE,
    SOFTGPU_ATOMIC,
    SOFTGPU_VOLATILE_READ,
    SOFTGPU_VOLATILE_WRITE,
    SOFTGPU_READ_STRUCT, /* of any size and alignment, perhaps with padding */
    SOFTGPU_WRITE_STRUCT
} softgpu_access_t;

/* What a tensor map describes, of those that kernels here can read: tiled, without interleaving and swizzling, every element. */
typedef struct softgpu_tensor {
    char *at;
    uint32_t rank, element_bytes;
    uint64_t size[5];   /* in elements, the innermost first */
    uint64_t stride[5]; /* in bytes */
    uint32_t box[5];    /* in elements */
} softgpu_tensor_t;

/* What `run` hands to the driver, which calls thread_main once for each warp. */
typedef struct softgpu_entry {
    void (*thread_main)(const softgpu_launch_t *launch);
    const softgpu_thread_t **self; /* of this OS thread: the driver keeps the running one's there */
    const softgpu_launch_t **launch;
} softgpu_entry_t;

/* The driver's services. Fast mode has `fail` and `read_tensor_map`, the others all; those that cannot go on do not return. */
typedef struct softgpu_services {
    /* Blocks [first, first + count); a thread of the launch is a warp of the program's, a fiber: lane l of thread t is thread 32 t + l. */
    void (*run_warps)(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                      const softgpu_entry_t *entry);
    void (*barrier)(softgpu_place_t place);
    void (*pause)(void); /* others may run: in a loop that waits for them */
    /* Copies to shared memory that become visible when they are waited for; zero bytes are added up to `bytes`. */
    void (*copy_async)(void *to, const void *from, uint32_t bytes, uint32_t from_bytes,
                       softgpu_place_t place);
    void (*commit_async)(void);
    void (*wait_async)(
        uint32_t pending); /* until no more than so many committed groups are pending; UINT32_MAX: all */
    /* The kernel has failed. Also from fast mode, where it returns: the launch is over all the same. */
    void (*fail)(int error /* CUresult */, const char *why, softgpu_place_t place);
    /* What a tensor map's 128 bytes stand for. 0: they are none that the driver has encoded, or of another sort. */
    int (*read_tensor_map)(const void *map, softgpu_tensor_t *out);
    /* Checked mode: about to access memory. */
    void (*access)(const void *at, size_t bytes, softgpu_access_t how);
    /* Coroutines of a thread, each on a stack of its own; whoever has one resumes it, and goes on when it yields. A handle leads to
     * SOFTGPU_COROUTINE_BYTES, which are the caller's. They end with the block, if not before. NULL: out of memory. */
    void *(*coroutine)(void (*main)(void *coroutine)); /* which must not return */
    void (*resume)(void *coroutine);
    void (*yield)(void *coroutine);
    void (*end)(void *coroutine);
    int (*is_stack)(const void *at); /* of a coroutine */
    /* Which lane what is said next is about. Checked mode: these lanes have met; the lane has passed a point `at` which orders
     * it with those that pass it before and after. */
    void (*lane)(uint32_t lane, softgpu_place_t place);
    void (*met)(uint32_t lanes);
    void (*order)(const void *at);
} softgpu_services_t;

/* One launch, as the workers see it. `params` is the argument block, each argument at its offset (softgpu_param_t): the
 * library's own layout, of which what the driver reports of the device's (function.c) need not be any. */
struct softgpu_launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared_bytes;
    uint32_t cooperative;
    const void *params;
    const softgpu_services_t *services; /* set by the driver when it runs the launch */
};

/* Runs blocks [first, first + count) of the grid, numbered x first, then y, then z. A cooperative launch is run whole,
 * by one call. */
typedef void (*softgpu_run_fn)(const softgpu_launch_t *launch, uint64_t first, uint64_t count);

typedef struct softgpu_param {
    uint32_t offset_bytes, size_bytes;
    uint32_t align_bytes; /* 0: unknown, the offset is as a device has it */
} softgpu_param_t;

/* What a launch would cost a GPU: the deterministic scheduler's clock runs by it (profile.c of the driver). Functions of the
 * geometry and the arguments' values only, never of what pointers lead to or of how much was allocated. */
typedef enum softgpu_arithmetic {
    SOFTGPU_FP32 = 0, /* ordinary cores */
    SOFTGPU_TF32,     /* tensor cores, dense rates */
    SOFTGPU_BF16,
    SOFTGPU_FP16,
    SOFTGPU_FP64,
    SOFTGPU_ARITHMETIC_COUNT
} softgpu_arithmetic_t;

typedef struct softgpu_cost {
    double operations; /* floating point, of this kind */
    softgpu_arithmetic_t kind;
    double bytes; /* read from and written to device memory */
} softgpu_cost_t;

typedef softgpu_cost_t (*softgpu_cost_fn)(const softgpu_launch_t *launch);

typedef struct softgpu_kernel {
    const char *name; /* as in the module: the mangled name */
    uint32_t param_count;
    const softgpu_param_t *params;
    softgpu_run_fn
        run[SOFTGPU_MODE_COUNT]; /* NULL: not in this library, or the kernel cannot run in that mode */
    softgpu_cost_fn cost;        /* NULL: not declared, a default by the number of threads holds */
    uint32_t static_shared_bytes;
    uint32_t max_threads;      /* of a block, by __launch_bounds__; 0: not given */
    uint32_t size_independent; /* marked BLOCK_SIZE_INDEPENDENT */
    /* Not NULL: a launch waits for others (of other streams, devices or processes), in one call of `run`, which has a thread of its own. By
     * the computed clock it takes so many nanoseconds, beside other kernels, which have a multiprocessor less for each of its blocks. */
    double (*communication_ns)(const softgpu_launch_t *launch);
} softgpu_kernel_t;

/* A __device__ or __constant__ variable. */
typedef struct softgpu_variable {
    const char *name;
    void *storage; /* in this library, inside its unit's pages */
    size_t bytes;
} softgpu_variable_t;

/* What came from one .cu file: a module of its own, as nvcc has it. */
typedef struct softgpu_unit {
    const char *source; /* the file's name */
    const softgpu_kernel_t *const *kernels;
    const softgpu_variable_t *variables;
    uint32_t kernel_count, variable_count;
    /* Whole pages of the library that hold nothing but these variables, initialised. When the module is loaded, the
     * driver maps its device memory there. Equal: there are none. */
    char *begin, *end;
    const char *ptx; /* Clang's, of the whole file: what the modes besides fast run; NULL: none */
} softgpu_unit_t;

typedef struct softgpu_kernel_table {
    uint32_t abi_version; /* SOFTGPU_ABI_VERSION */
    uint32_t kernel_count;
    const softgpu_kernel_t *const *kernels; /* of all units */
    uint32_t unit_count;                    /* 0: what the table holds is one unit, without variables */
    const softgpu_unit_t *units;
} softgpu_kernel_table_t;

#ifdef __cplusplus
}
#endif
#endif
