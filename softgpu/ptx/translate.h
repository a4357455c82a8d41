/* softgpu/ptx/translate.h: a module of PTX as C: a kernel library (softgpu/kernel_abi.h) of mode SOFTGPU_SIMT,
 * or, compiled with -DSG_CHECKED, of SOFTGPU_CHECKED: then every access and meeting of lanes is announced to the driver.
 *
 * The text is one C file. Compile it with SG_PTX_CFLAGS and -I of softgpu/include and softgpu/ptx: it includes warp.h, which says how
 * a warp's 32 threads run as vectors. A kernel's launch is run as one of {warps, 1, 1} threads: a fiber is a warp.
 *
 * Threads: may be called by several at once, for one module, too.
 * Errors: false; what cannot be translated is named with its line. Nothing is translated wrongly in silence: an instruction of
 * isa.def without a function here is refused. What was written to `out` until then is of no use. */
#ifndef SG_PTX_TRANSLATE_H
#define SG_PTX_TRANSLATE_H

#include <stdio.h>

#include "softgpu/ptx/ptx.h"

#define SG_PTX_CFLAGS                                                                                        \
    "-O1 -ftree-vectorize -march=native -fstack-clash-protection -fPIC -shared "                             \
    "-ffp-contract=off "                                                                                     \
    "-fno-math-errno "                                                                                       \
    "-fno-strict-aliasing -fno-trapping-math -w -Wno-psabi"

/* `part`: what of the module is written: all of it; its outline, which is the variables and the kernels' rows (costs too) without code; or the kernel of
 * that number among the functions, with those that it calls. Every part has all variables, at the same offsets. */
enum { SG_PTX_WHOLE = UINT32_MAX, SG_PTX_OUTLINE = UINT32_MAX - 1 };
/* Pages that a part shares with another library: where in them which of the variables are. Other variables are the part's own. */
typedef struct sg_ptx_layout {
    uint64_t bytes; /* of whole pages; 0: there are none */
    uint32_t count;
    struct {
        const sg_ptx_variable_t *variable;
        uint64_t offset_bytes; /* a multiple of 8 */
    } at[];                    /* ascending */
} sg_ptx_layout_t;
/* `layout` NULL: the module's own. */
bool sg_ptx_translate(const sg_ptx_module_t *module, uint32_t part, const sg_ptx_layout_t *layout, FILE *out,
                      sg_ptx_error_t *error);
/* Whether parts can be compiled apart: no function's address is taken, which would be another one in each. */
bool sg_ptx_has_parts(const sg_ptx_module_t *module);

#endif
