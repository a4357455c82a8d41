/* module.h: which modules and libraries of the program have variables that kernels may write (image.h), or of which the
 * program has looked one up, constant ones too: ebb_function_has_variables() tells. For this folder; ebb_lock() held. */
#ifndef EBB_MODULE_H
#define EBB_MODULE_H

#include "ebb_alloc.h"

/* The program has loaded an image; handle: the CUmodule or CUlibrary. NULL: the image cannot be looked at. */
void ebb_module_loaded(const void *handle, const void *image);
/* It has looked up a variable. True: until now it was not sure that there are any. */
bool ebb_module_looked_up(const void *handle);
void ebb_module_forget(const void *handle);

#endif
