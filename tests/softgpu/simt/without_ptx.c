/* without_ptx.c: a kernel library as it is built where Clang is missing: its kernel is not for fast mode, and there is no PTX. UNITS: 1, or 0 as
 * in tables that are written by other means (tests/pytorch). */
#include "softgpu/kernel_abi.h"

static const softgpu_kernel_t kernel = {.name = "kernel"};
static const softgpu_kernel_t *const kernels[] = {&kernel};
static const softgpu_unit_t unit = {.source = "none", .kernels = kernels, .kernel_count = 1};
const softgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, 1, kernels, UNITS,
                                                     UNITS ? &unit : 0};
