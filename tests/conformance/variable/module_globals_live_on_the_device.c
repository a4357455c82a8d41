/* behaviour: cuModuleGetGlobal gives address and size of __device__ and __constant__ variables, which begin as written in the
 * source, are copied like any device memory and are seen and changed by kernels; either result may be left out. Of
 * a variable that is not there the address becomes 0.
 * rules: none
 * source: CUDA driver API, cuModuleGetGlobal; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    const int values[3] = {10, 20, 30};
    CUdeviceptr counter, factors, none = 7, out = device_alloc(4);
    size_t bytes;
    OK(cuModuleGetGlobal(&counter, &bytes, module, "conformance_counter"));
    CHECK(bytes == 4);
    OK(cuModuleGetGlobal(NULL, &bytes, module, "conformance_factors"));
    CHECK(bytes == 12);
    OK(cuModuleGetGlobal(&factors, NULL, module, "conformance_factors"));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&none, &bytes, module, "no_such_variable"));
    CHECK(none == 0);
    CHECK(read_int(counter) == 5);
    CHECK(read_int(factors + 8) == 0);
    OK(cuMemcpyHtoD(factors, values, sizeof values));
    OK(LAUNCH(NULL, "use_variables", 1, &out));
    CHECK(read_int(out) == 65);
    CHECK(read_int(counter) == 5 + 128);
    OK(cuMemsetD32(counter, 1000, 1));
    OK(LAUNCH(NULL, "use_variables", 1, &out));
    CHECK(read_int(out) == 1060);
    OK(cuMemFree(out));
}
