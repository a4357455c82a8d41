/* softgpu/kernel_abi.h: the contract between a kernel library and the software driver.
 *
 * A kernel library is a shared object that holds the kernels of a CUDA module, compiled for the CPU from the
 * same .cu source (CMake: softgpu_kernels()). It exports one symbol, SOFTGPU_TABLE_SYMBOL, of type
 * softgpu_kernel_table_t.
 *
 * How the driver finds it. A module image (cuModuleLoadData, cuLibraryLoadData, or the fat binary that nvcc
 * embeds) lies inside an object file O, an executable or a shared library; for cuModuleLoad, O is the file
 * itself. Tried in turn:
 *   1. O itself, if it is a shared library that exports the table;
 *   2. O.softgpu.so, beside O;
 *   3. <base name of O>.softgpu.so in each directory of SOFTGPU_KERNEL_PATH (separated by ':').
 * If none has a table, loading fails with CUDA_ERROR_NO_BINARY_FOR_GPU and the log names the files tried.
 *
 * Threads: `run` is called by several workers at once, each with its own blocks of one grid. It may read and
 * write what the launch's arguments point to and its own thread-local storage, nothing else.
 */
#ifndef SOFTGPU_KERNEL_ABI_H
#define SOFTGPU_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_ABI_VERSION  2u
#define SOFTGPU_TABLE_SYMBOL "softgpu_kernel_table"

/* How a kernel's threads are executed. A later form of the device adds the other two modes; their places are
 * here. */
typedef enum softgpu_mode {
    SOFTGPU_FAST = 0,    /* one thread per block; only kernels marked BLOCK_SIZE_INDEPENDENT */
    SOFTGPU_SIMT = 1,    /* every thread a fiber (not provided yet) */
    SOFTGPU_CHECKED = 2, /* SIMT with every access instrumented (not provided yet) */
    SOFTGPU_MODE_COUNT
} softgpu_mode_t;

/* One launch, as the workers see it. `params` is the argument block: each argument at its offset
 * (softgpu_param_t). */
typedef struct softgpu_launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared_bytes;
    const void *params;
} softgpu_launch_t;

/* Runs blocks [first, first + count) of the grid, numbered x first, then y, then z. */
typedef void (*softgpu_run_fn)(const softgpu_launch_t *launch, uint64_t first, uint64_t count);

typedef struct softgpu_param {
    uint32_t offset_bytes, size_bytes;
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
    softgpu_run_fn run[SOFTGPU_MODE_COUNT]; /* NULL: the kernel cannot run in that mode */
    softgpu_cost_fn cost;                   /* NULL: not declared, a default by the number of threads holds */
} softgpu_kernel_t;

typedef struct softgpu_kernel_table {
    uint32_t abi_version; /* SOFTGPU_ABI_VERSION */
    uint32_t kernel_count;
    const softgpu_kernel_t *const *kernels;
} softgpu_kernel_table_t;

#ifdef __cplusplus
}
#endif
#endif
