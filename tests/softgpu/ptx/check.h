/* check.h: what holds of every module that was read (softgpu/ptx/ptx.h), and of two that ought to be the same. */
#ifndef PTX_CHECK_H
#define PTX_CHECK_H

#include "softgpu/ptx/ptx.h"

/* The first invariant that does not hold, as a text; NULL: all do. */
const char *ptx_check_module(const sg_ptx_module_t *module);
/* The first difference but names inside functions and lines; NULL: none. */
const char *ptx_check_same(const sg_ptx_module_t *a, const sg_ptx_module_t *b);
/* The module as PTX again: the same structure under names of its own inside functions. The caller frees it; NULL: no memory. */
char *ptx_write(const sg_ptx_module_t *module);
/* Writes the module, reads that, and compares; then writes that again: the same text. NULL: all well. */
const char *ptx_check_written(const sg_ptx_module_t *module);

#endif
