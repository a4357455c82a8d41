/* registry.h: which kernels and variables the program has, and where they are in the driver.
 *
 * nvcc's constructors register fat binaries ("images") and, for each kernel and variable, a host address that
 * stands for it
 * ("symbol"). That costs a few stores; an image is loaded by the driver when one of its symbols is first
 * used. Names and images are borrowed: they lie in the program's object until it unregisters them. All
 * functions take the registry's lock; those that load call the driver under it.
 */
#ifndef SOFTGPU_REGISTRY_H
#define SOFTGPU_REGISTRY_H

#include "softgpu/runtime/runtime.h"

typedef struct rt_image rt_image_t;

typedef enum symbol_kind {
    SYMBOL_KERNEL,   /* key: the address of the host function */
    SYMBOL_HANDLE,   /* key: a cudaKernel_t that the program was given */
    SYMBOL_VARIABLE, /* key: the address of the host's shadow of a __device__ or __constant__ variable */
    SYMBOL_MANAGED   /* key: the address of the pointer to a __managed__ variable */
} symbol_kind_t;

/* A new image for `fat_binary`; NULL if there is no memory. */
rt_image_t *registry_add_image(const void *fat_binary);
/* Forgets an image with its symbols and unloads it. */
void registry_remove_image(rt_image_t *image);

/* Adds a symbol of an image. */
void registry_add(rt_image_t *image, symbol_kind_t kind, const void *key, const char *name);
/* Notes a kernel handle that the program gets from a library of its own, so that rt_function() knows it. */
void registry_add_handle(CUkernel kernel, CUlibrary library);
void registry_remove_library(CUlibrary library);

/* The driver's kernel for a host function or a kernel handle; loads the image. */
cudaError_t registry_kernel(const void *key, CUkernel *kernel);
/* Where a variable is on the device, and its size; loads the image. */
cudaError_t registry_variable(const void *key, CUdeviceptr *address, size_t *bytes);
/* Sets the pointers of an image's __managed__ variables. False, with a line on stderr, if the driver has no
 * managed memory. */
int registry_init_managed(rt_image_t *image);

#endif
