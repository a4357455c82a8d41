/* behaviour: flags that exclude one another, a device that is not there: creating a context fails and leaves what is current.
 * rules: handle
 * source: CUDA driver API, cuCtxCreate
 */
#include "conformance.h"

CONFORMANCE
{
    CUcontext made = NULL, current;
    int count = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&made, NULL, 0, count));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&made, NULL, 0, -1));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuCtxCreate(&made, NULL, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, device));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(NULL, NULL, 0, device));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context && made == NULL);
}
