/* behaviour: every allocation has a number of its own, also where an address is used again.
 * rules: none
 * source: CUDA driver API, CU_POINTER_ATTRIBUTE_BUFFER_ID
 */
#include "conformance.h"

CONFORMANCE
{
    unsigned long long seen[8];
    for (int i = 0; i < 8; i++) {
        CUdeviceptr p = device_alloc(1 << 20);
        OK(cuPointerGetAttribute(&seen[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, p + 4));
        OK(cuMemFree(p));
        for (int j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
    }
}
