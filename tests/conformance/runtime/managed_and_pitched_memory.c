/* behaviour: the runtime's pitched and managed memory, rectangles and attributes of pointers.
 * rules: none
 * uses: cudart
 * source: CUDA runtime API, Memory Management
 */
#include "conformance.h"

#include <cuda_runtime_api.h>

#define RT(call) CHECK((call) == cudaSuccess)

CONFORMANCE
{
    void *p, *q;
    size_t pitch;
    static char from[30 * 7], to[30 * 7];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)i;
    RT(cudaMallocPitch(&p, &pitch, 30, 7));
    CHECK(pitch >= 30);
    RT(cudaMemset2D(p, pitch, 1, 30, 7));
    RT(cudaMemcpy2D(p, pitch, from, 30, 20, 7, cudaMemcpyHostToDevice));
    RT(cudaMemcpy2D(to, 30, p, pitch, 30, 7, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 7; y++)
        CHECK(!memcmp(from + 30 * y, to + 30 * y, 20) && to[30 * y + 25] == 1);
    struct cudaPointerAttributes a;
    RT(cudaPointerGetAttributes(&a, p));
    CHECK(a.type == cudaMemoryTypeDevice && a.device == 0);
    RT(cudaPointerGetAttributes(&a, from));
    CHECK(a.type == cudaMemoryTypeUnregistered);
    CHECK(cudaMallocManaged(&q, 4096, cudaMemAttachGlobal) == cudaSuccess);
    RT(cudaPointerGetAttributes(&a, q));
    CHECK(a.type == cudaMemoryTypeManaged && a.hostPointer == q);
    RT(cudaMemset(q, 3, 4096));
    RT(cudaDeviceSynchronize());
    CHECK(((volatile char *)q)[4095] == 3);
    RT(cudaFree(q));
    RT(cudaFree(p));
}
