/* behaviour: peer access is enabled once and disabled once; more often is ALREADY_ENABLED or NOT_ENABLED; a context is not its
 * own peer: that is UNSUPPORTED.
 * rules: peer-access
 * source: CUDA driver API, cuCtxEnablePeerAccess and cuCtxDisablePeerAccess; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    int count = 0, can = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(context, 0));
    OK(cuDeviceCanAccessPeer(&can, device, device));
    CHECK(can == 0);
    if (count < 2)
        SKIP("one device");
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    if (!can)
        SKIP("no peer access");
    CUcontext peer;
    OK(cuDevicePrimaryCtxRetain(&peer, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(peer, 1));
    EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(peer));
    EXPECT(CUDA_SUCCESS, cuCtxEnablePeerAccess(peer, 0));
    EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(peer, 0));
    EXPECT(CUDA_SUCCESS, cuCtxDisablePeerAccess(peer));
}
