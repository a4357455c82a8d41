/* run_library.h: PTX to a kernel library that is loaded, and its kernels run without a driver. */
#ifndef PTX_RUN_LIBRARY_H
#define PTX_RUN_LIBRARY_H

#include <stdbool.h>

#include "softgpu/kernel_abi.h"
#include "spell.h"

typedef struct ptx_run {
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    const void *params;
    char why[512]; /* out: the text of a failure, or "" */
    int error;
} ptx_run_t;

/* A failure ends the test. The library stays loaded. */
const softgpu_kernel_table_t *ptx_build(const char *ptx);
/* Refused: the text of the error; else NULL. */
const char *ptx_untranslated(const char *ptx);
/* Spells the choice into `line`; why the translator refuses it. NULL: it does not; "": the reader refuses it. */
const char *ptx_refusal(choice_t *c, char *line, size_t bytes);
const softgpu_kernel_t *ptx_kernel(const softgpu_kernel_table_t *table, const char *name);
/* Runs all blocks; false: the kernel failed. */
bool ptx_run(const softgpu_kernel_t *kernel, ptx_run_t *run);

#endif
