/* behaviour: the runtime's devices: each has its memory, copies go between them, access is enabled once.
 * rules: none
 * uses: cudart
 * source: CUDA runtime API, Peer Device Memory Access
 */
#include "conformance.h"

#include <cuda_runtime_api.h>

#define RT(call) CHECK((call) == cudaSuccess)

CONFORMANCE
{
    int count = 0, can = 0, now = -1, value = 0;
    RT(cudaGetDeviceCount(&count));
    if (count < 2)
        SKIP("one device");
    void *a, *b;
    RT(cudaSetDevice(0));
    RT(cudaMalloc(&a, 4096));
    RT(cudaMemset(a, 7, 4096));
    RT(cudaDeviceSynchronize());
    RT(cudaSetDevice(1));
    RT(cudaGetDevice(&now));
    CHECK(now == 1);
    RT(cudaMalloc(&b, 4096));
    RT(cudaMemcpyPeer(b, 1, a, 0, 4096));
    RT(cudaMemcpy(&value, (char *)b + 64, 4, cudaMemcpyDeviceToHost));
    CHECK(value == 0x07070707);
    struct cudaPointerAttributes at;
    RT(cudaPointerGetAttributes(&at, b));
    CHECK(at.device == 1);
    RT(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (can) {
        RT(cudaDeviceEnablePeerAccess(0, 0));
        CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
        RT(cudaDeviceDisablePeerAccess(0));
        CHECK(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
    }
    RT(cudaFree(b));
    RT(cudaSetDevice(0));
    RT(cudaFree(a));
}
