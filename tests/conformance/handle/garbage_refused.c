/* behaviour: null handles are refused by every kind of call with an error and harm nothing.
 * rules: handle
 * source: CUDA driver API, return values of the calls
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(64);
    unsigned n;
    CUfunction f;
    CUkernel k;
    CUmemAllocationProp props;
    CHECK(cuEventRecord(NULL, NULL) != CUDA_SUCCESS);
    CHECK(cuEventQuery(NULL) != CUDA_SUCCESS);
    CHECK(cuEventDestroy(NULL) != CUDA_SUCCESS);
    CHECK(cuStreamDestroy(NULL) != CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(NULL, NULL, 0) != CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&f, NULL, "fill") != CUDA_SUCCESS);
    CHECK(cuModuleUnload(NULL) != CUDA_SUCCESS);
    CHECK(cuLibraryGetKernel(&k, NULL, "fill") != CUDA_SUCCESS);
    CHECK(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS);
    CHECK(cuModuleGetFunctionCount(&n, NULL) != CUDA_SUCCESS);
    CHECK(cuMemPoolDestroy(NULL) != CUDA_SUCCESS);
    CHECK(cuMemRelease(0) != CUDA_SUCCESS);
    CHECK(cuMemGetAllocationPropertiesFromHandle(&props, 0) != CUDA_SUCCESS);
    CHECK(cuCtxPushCurrent(NULL) != CUDA_SUCCESS);
    CHECK(cuIpcCloseMemHandle(p) != CUDA_SUCCESS);
    OK(cuMemsetD32(p, 1, 4));
    CHECK(read_int(p) == 1);
}
