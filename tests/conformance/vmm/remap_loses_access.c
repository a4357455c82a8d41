/* behaviour: a mapping begins without access, also where there was one before; cuMemGetAccess tells.
 * rules: none
 * source: CUDA driver API, cuMemUnmap and cuMemGetAccess
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g);
    CUdeviceptr p = map_new(g, h);
    CUmemLocation here;
    memset(&here, 0, sizeof here);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device;
    unsigned long long flags = 99;
    OK(cuMemGetAccess(&flags, &here, p));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemUnmap(p, g));
    OK(cuMemMap(p, g, 0, h, 0));
    OK(cuMemGetAccess(&flags, &here, p));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
}
