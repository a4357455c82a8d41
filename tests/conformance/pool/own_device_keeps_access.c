/* behaviour: a pool's own device may always touch its memory: access cannot be taken from it, which is INVALID_DEVICE.
 * rules: none
 * source: CUDA programming guide, Multi-GPU Support of the stream ordered allocator; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    CUmemLocation here;
    memset(&here, 0, sizeof here);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device;
    CUmemAccess_flags flags;
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.location = here;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &desc, 1));
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT(CUDA_SUCCESS, cuMemPoolSetAccess(pool, &desc, 1));
}
