/* launch.h: one kernel launch, as the entry points hand it on (launch.c). */
#ifndef SOFTGPU_LAUNCH_H
#define SOFTGPU_LAUNCH_H

#include "softgpu/runtime/runtime.h"

typedef struct rt_launch {
    dim3 grid, block;
    void **args;
    size_t shared_bytes;
    cudaStream_t stream;
} rt_launch_t;

/* Launches on the stream's form `d`. A geometry that the device cannot run is cudaErrorInvalidConfiguration.
 */
cudaError_t rt_launch(const driver_t *d, CUfunction function, const rt_launch_t *launch);

#endif
