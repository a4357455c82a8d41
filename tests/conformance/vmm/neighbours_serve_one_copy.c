/* behaviour: mappings side by side are one range for copies and kernels.
 * rules: none
 * source: CUDA programming guide, Virtual Memory Management
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUdeviceptr p = reserve(2 * g);
    OK(cuMemMap(p, g, 0, create(g), 0));
    OK(cuMemMap(p + g, g, 0, create(g), 0));
    OK(set_access(p, 2 * g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 4, 2 * g / 4));
    add(NULL, p + g - 16, 1, 8);
    int values[8];
    OK(cuMemcpyDtoH(values, p + g - 16, sizeof values));
    for (int i = 0; i < 8; i++)
        CHECK(values[i] == 5);
    CHECK(read_int(p + g - 20) == 4 && read_int(p + g + 16) == 4);
}
