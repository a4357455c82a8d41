/* behaviour: cuMemFreeHost frees what cuMemHostAlloc gave out, nothing else.
 * rules: freed
 * source: CUDA driver API, cuMemFreeHost
 */
#include "conformance.h"

CONFORMANCE
{
    static char mine[4096];
    char *p;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(mine));
    OK(cuMemAllocHost((void **)&p, 4096));
    OK(cuMemFreeHost(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
}
