/* image.h: what an image of device code (what cuModuleLoadData and cuLibraryLoadData are given) says of variables.
 *
 * A kernel can write a variable of its module without any argument that shows it. Whether there are such variables
 * only the image tells: a cubin (ELF; NVIDIA's "CUDA Binary Utilities" documents its sections), PTX, or a fat binary
 * of several of both (fatbin.h), which may be compressed.
 *
 * Some variables are in images of nearly everybody's and are written by nobody: literals, the tables of CUDA's mathematical functions, the
 * empty objects of NVIDIA's headers. They are told by their names. (Of the 444 modules of PyTorch 2.11's libtorch_cuda.so 442 have such
 * variables, and all but two have no others.)
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef EBB_IMAGE_H
#define EBB_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ebb_image_variables {
    EBB_IMAGE_NONE,   /* there are none that a kernel writes */
    EBB_IMAGE_SOME,   /* also constant tables, which an image does not tell from what is written */
    EBB_IMAGE_PACKED, /* it has to be unpacked to tell */
    EBB_IMAGE_UNKNOWN /* it cannot be told */
} ebb_image_variables_t;

/* Whether a variable of so many bytes is one of those, by its name in the image. */
bool ebb_image_is_constant(const char *name, size_t bytes);

/* An image as the driver takes it: it is believed about its own size. */
ebb_image_variables_t ebb_image_variables(const void *image, bool unpack);

#endif
