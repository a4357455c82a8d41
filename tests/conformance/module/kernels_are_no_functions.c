/* behaviour: a CUkernel is not a CUfunction: what asks about functions refuses it, and the other way round; launches and occupancy, which document the
 * cast, take it; its function is another handle, of the module that the library is in this context.
 * rules: handle
 * source: CUDA driver API, cuLaunchKernel, cuOccupancyMaxActiveBlocksPerMultiprocessor, cuLibraryGetModule; that cuFuncGetAttribute
 * refuses a CUkernel: seen on hardware, accel-sim-framework pull request 521; that cuKernelGetAttribute refuses a CUfunction: H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    CUlibrary library;
    CUkernel k;
    CUfunction f;
    CUmodule of_library, of_function;
    int value = 0, blocks = 0;
    OK(cuLibraryLoadFromFile(&library, conformance_kernels(), NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, library, "fill"));
    EXPECT(CUDA_ERROR_INVALID_HANDLE,
           cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, (CUfunction)k));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, device));
    CHECK(value > 0);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (CUfunction)k, 128, 0));
    CHECK(blocks > 0);
    OK(cuKernelGetFunction(&f, k));
    CHECK((void *)f != (void *)k);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    EXPECT(CUDA_ERROR_INVALID_HANDLE,
           cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, (CUkernel)f, device));
    OK(cuFuncGetModule(&of_function, f));
    OK(cuLibraryGetModule(&of_library, library));
    CHECK(of_function == of_library);
    CUlibrary again;
    OK(cuKernelGetLibrary(&again, k));
    CHECK(again == library);
    OK(cuLibraryUnload(library));
}
