/* softgpu/private_loader.h: a table of this device's cuGetExportTable by which code is loaded past all documented functions. NVIDIA's
 * driver has tables of which no document says what is in them, and its runtime uses some; a layer in between sees none of these calls. This one
 * stands for them. */
#ifndef SOFTGPU_PRIVATE_LOADER_H
#define SOFTGPU_PRIVATE_LOADER_H

#include <cuda.h>

/* Its CUuuid. */
#define SOFTGPU_PRIVATE_LOADER                                                                               \
    {                                                                                                        \
        "softgpu loader"                                                                                     \
    }

typedef struct softgpu_private_loader {
    CUresult (*load)(CUlibrary *out, const char *path);
    CUresult (*find)(CUkernel *out, CUlibrary library, const char *name);
} softgpu_private_loader_t;

#endif
