/* behaviour: one handle mapped at two addresses is one memory; what is written through one is read through the other, once
 * the work is ordered.
 * rules: none
 * source: CUDA programming guide, Virtual Aliasing Support
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g);
    CUdeviceptr p = map_new(g, h), q = map_new(g, h);
    fill(NULL, p, 21, 16);
    OK(cuCtxSynchronize());
    CHECK(read_int(q + 60) == 21);
    add(NULL, q, 1, 16);
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 22);
}
