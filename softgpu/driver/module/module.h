/* module.h: loaded modules and the kernel libraries behind them (softgpu/kernel_abi.h).
 *
 * Glossary
 *   module     also what stands behind a library: cuLibraryGetModule tells its CUmodule, a handle of another kind
 *   unit       what came from one .cu file; the object O of a program holds several images, each of one unit
 *   instance   one loaded copy of a kernel library. Modules share it, unless they have variables: these lie in the
 *              instance, so that a unit's second module gets an instance of its own
 *
 * Locks: sg.lock guards the list of modules; sg_libraries_lock, taken before it, guards the opening of kernel libraries.
 */
#ifndef SG_MODULE_H
#define SG_MODULE_H

#include <limits.h>

#include "softgpu/driver/stream/streams.h"
#include "softgpu/ptx/translate.h"

#define SG_ALL_UNITS UINT32_MAX

typedef struct sg_variables sg_variables_t;

struct sg_module {
    uint32_t kernel_count;
    struct CUfunc_st *functions; /* [kernel_count], in the table's order */
    struct CUkern_st *kernels;   /* [kernel_count], of the same; NULL: no library */
    char library_handle;         /* its address is the CUlibrary, while the module's own is the CUmodule */
    char *origin;                /* the object that holds the image */
    char *library;               /* its kernel library; NULL: `origin` itself */
    uint32_t ptx_target;         /* of what it was compiled from, as in sm_80; 0: no PTX */
    uint32_t unit;
    const softgpu_kernel_table_t *table;
    sg_ptx_module_t **
        ptx; /* owns: [table->unit_count] what kernels are compiled of when they are launched; NULL there: not read, or none */
    sg_variables_t *variables; /* owns; NULL: none */
    CUcontext ctx;             /* NULL: a library, which belongs to none */
    sg_module_t *next;
};

extern pthread_mutex_t sg_libraries_lock;

/* ---- module.c ---- */
/* Makes the function's code for SIMT or checked mode of its unit's PTX, if that has not been done. NOT_SUPPORTED: there is none. */
CUresult sg_function_compile(CUfunction f, softgpu_mode_t mode);

/* ---- library.c ---- */
/* The file that an image in memory belongs to; false if it is in none. */
bool sg_library_origin(const void *image, char out[PATH_MAX]);
/* The table of a kernel library, unless it must be loaded already and is not; NULL: it is none, or of another version. */
const softgpu_kernel_table_t *sg_library_open(const char *path, bool must_be_loaded);
/* The kernel library of an image in `origin`, or of all of that (NULL): the table, and in *path (owned by the caller) where it was found; NULL
 * there: in `origin`. A library that lacks kernels of the image, or has others, is of another build, and passed over. */
const softgpu_kernel_table_t *sg_library_find(const char *origin, const void *image, char **path);
/* Tells that there is none. */
void sg_library_missing(const char *origin);
/* Another instance of the library that holds the table. */
const softgpu_kernel_table_t *sg_library_again(const softgpu_kernel_table_t *table);
/* Which unit an image is of, by the names in it; SG_ALL_UNITS: no telling, or only one. */
uint32_t sg_library_unit(const softgpu_kernel_table_t *table, const void *image);

/* ---- fatbin.c ---- */
#define SG_FATBIN_MAGIC 0xba55ed50u /* its first four bytes */
/* A fat binary in memory: a wrapper that points to it (nvcc's __fatDeviceText), or the thing itself. bytes: header and what follows it. */
bool sg_fatbin_open(const void *image, const char **at, size_t *bytes);
/* Machine code that is in none, as far as its table of sections. */
bool sg_elf_open(const void *image, size_t *bytes);
typedef struct sg_part {
    bool ptx, packed, by_zstd; /* ptx: else machine code; packed: compressed, by zstd or LZ4 */
    uint32_t architecture, packed_bytes;
    const char *at;
    size_t bytes, unpacked_bytes;
} sg_part_t;
/* The next of what an image holds, *at being 0 before the first; false: there is none more. PTX text holds nothing. */
bool sg_image_next(const void *image, size_t *at, sg_part_t *part);
/* unpacked_bytes of a compressed part; the caller's. NULL: libzstd.so.1 or liblz4.so.1 is not there, or it cannot. */
char *sg_part_unpack(const sg_part_t *part);
/* The PTX in it that is for this device: of the highest architecture up to its own. NULL: none, or compressed. */
const char *sg_fatbin_ptx(const void *image, size_t *bytes);

/* ---- jit.c: PTX ---- */
/* Whether an image in memory is PTX, and how long it is. */
bool sg_jit_is_ptx(const void *image, size_t *bytes);
/* What a file of PTX, of machine code or with a fat binary holds, and a zero behind it: the caller's. NULL: it is none. */
char *sg_jit_read(const char *path);
/* Refuses what NVIDIA's compiler has made: JIT_COMPILATION_DISABLED. */
CUresult sg_jit_refuse(const char *ptx, size_t bytes);
/* Whether it can be read and translated. */
CUresult sg_jit_check(const char *ptx, size_t bytes);
/* Read; the caller's. */
CUresult sg_jit_module(const char *ptx, size_t bytes, sg_ptx_module_t **module);
/* The kernel library made of it, for SIMT mode, or for checked mode if all have to run in that; compiled unless it has been before. *path is the
 * caller's; *target as in sm_80. *parts, the caller's too, is what its kernels are made of when they are launched; NULL: the library has them.
 * What is wrong is in the log. */
CUresult sg_jit_open(const char *ptx, size_t bytes, uint32_t *target, sg_ptx_module_t **parts, char **path);
/* The library of one of a module's kernels. */
CUresult sg_jit_kernel(const sg_ptx_module_t *module, const char *kernel, const sg_ptx_layout_t *layout,
                       char **path);

/* ---- mode.c ---- */
CUresult sg_modes_init(void); /* SOFTGPU_MODE, SOFTGPU_BLOCK, SOFTGPU_SEED */
/* True if SOFTGPU_MODE wants this one for all kernels. */
bool sg_mode_is(softgpu_mode_t mode);
uint64_t sg_mode_seed(void);  /* 0: threads run in order */
uint32_t sg_mode_block(void); /* SOFTGPU_BLOCK: threads for each block of a marked kernel; 0: as launched */
/* In which mode the function is to run; its `run` of that mode is there. */
CUresult sg_function_mode(CUfunction f, bool cooperative, softgpu_mode_t *mode);

/* ---- variables.c ---- */
/* Gives the module's variables device memory, initialised. No variables: success, and m->variables stays NULL. */
CUresult sg_variables_create(sg_module_t *module, unsigned device);
/* Lays that memory under the variables of an instance, or of another one if this one is in use: *table changes then. The instance has those
 * of all of the module's units, or those of this one. */
CUresult sg_variables_attach(sg_module_t *module, uint32_t unit, const softgpu_kernel_table_t **table);
/* Where a unit's variables lie, for its PTX; the caller's. NULL: out of memory. */
sg_ptx_layout_t *sg_variables_layout(const softgpu_unit_t *unit, const sg_ptx_module_t *ptx);
void sg_variables_free_locked(sg_variables_t *variables);
bool sg_variable_find(const sg_variables_t *variables, const char *name, CUdeviceptr *address, size_t *bytes);
/* The device address of what kernels see at `at`, in an instance's pages; 0: not there. */
CUdeviceptr sg_variables_address(const sg_variables_t *variables, const void *at);

/* ---- names.c ---- */
/* A mangled name without what nvcc makes up for each compilation: what is local to a file (_INTERNAL_...) and unnamed
 * namespaces (_GLOBAL__N_...). */
void sg_name_plain(const char *name, char *out, size_t bytes);
bool sg_names_match(const char *a, const char *b);

#endif
