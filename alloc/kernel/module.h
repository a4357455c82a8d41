/* module.h: which modules and libraries of the program have variables that kernels may write (image.h), or of which the
 * program has looked one up, constant ones too: ebb_function_has_variables() tells. What is remembered is what was judged, for what ebb has not
 * seen loading may have some: NVIDIA's runtime can load through tables of its own (cuGetExportTable). For this folder; ebb_lock() held. */
#ifndef EBB_MODULE_H
#define EBB_MODULE_H

#include "alloc/ebb_alloc.h"

/* The program has loaded an image; handle: the CUmodule or CUlibrary. NULL: the image cannot be looked at. from_file: it is a file's; else it
 * may still be part of a loaded one. */
void ebb_module_loaded(ebb_t *ebb, const void *handle, bool is_library, const void *image, bool from_file);
/* It has looked up a variable. True: until now it was not sure that there are any. */
bool ebb_module_looked_up(ebb_t *ebb, const void *handle);
void ebb_module_forget(ebb_t *ebb, const void *handle);

/* Whether its image was in a file, and says what is in it. */
bool ebb_module_is_readable(ebb_t *ebb, const void *handle);
/* Whether ebb has seen it loading. */
bool ebb_module_is_known(ebb_t *ebb, const void *handle);
/* What the program has loaded for it: itself, or, of a CUmodule, the library that it is in the current context. */
const void *ebb_module_source(ebb_t *ebb, const void *module);

#endif
