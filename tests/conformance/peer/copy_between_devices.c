/* behaviour: memory is copied between devices without peer access, and a kernel reaches a peer's memory with it.
 * rules: none
 * source: CUDA driver API, cuMemcpyPeer; CUDA programming guide, Peer-to-Peer Memory Access
 */
#include "conformance.h"

CONFORMANCE
{
    int count = 0, can = 0;
    OK(cuDeviceGetCount(&count));
    if (count < 2)
        SKIP("one device");
    CUdeviceptr here = device_alloc(4096);
    fill(NULL, here, 17, 1024);
    OK(cuCtxSynchronize());
    CUcontext other;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    CUdeviceptr there = device_alloc(4096);
    CUdevice on = -1;
    OK(cuCtxGetDevice(&on));
    CHECK(on == 1);
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
    CHECK(ordinal == 1);
    OK(cuMemcpyPeer(there, other, here, context, 4096));
    OK(cuCtxSynchronize());
    CHECK(read_int(there) == 17);
    OK(cuCtxPopCurrent(NULL));
    CUstream s = new_stream(0);
    OK(cuMemsetD32(here, 0, 1024));
    OK(cuMemcpyPeerAsync(here, context, there, other, 4096, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(here + 4000) == 17);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    if (can) {
        OK(cuCtxEnablePeerAccess(other, 0));
        add(s, there, 1, 1024);
        OK(cuStreamSynchronize(s));
        CHECK(read_int(there) == 18);
    }
}
