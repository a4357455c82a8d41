/* behaviour: a destroyed stream, event or module is refused with INVALID_HANDLE or INVALID_CONTEXT, and so is a null event; the
 * context stays usable.
 * rules: handle
 * source: CUDA driver API, CUDA_ERROR_INVALID_HANDLE; null handles: Event Management
 */
#include "conformance.h"

CONFORMANCE
{
    CUevent event = new_event(0);
    OK(cuEventDestroy(event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventSynchronize(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(NULL, NULL, 0));

    CUdeviceptr p = device_alloc(4096);
    fill(NULL, p, 3, 16);
    CHECK(read_int(p) == 3);
}
