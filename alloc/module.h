/* module.h: which modules and libraries of the program have variables that kernels may write (image.h). For this
 * folder; ebb_lock() held. */
#ifndef EBB_MODULE_H
#define EBB_MODULE_H

#include "ebb_alloc.h"

/* The program has loaded an image; handle: the CUmodule or CUlibrary. NULL: the image cannot be looked at. */
void ebb_module_loaded(const void *handle, const void *image);
void ebb_module_forget(const void *handle);

/* Whether the module of a kernel (a CUkernel cast, too) has such variables, or may have: what cannot be told is taken for
 * yes. */
bool ebb_module_has_variables(CUfunction function);

#endif
