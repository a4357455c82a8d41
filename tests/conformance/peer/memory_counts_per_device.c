/* behaviour: each device has memory, pools and a primary context of its own.
 * rules: none
 * source: CUDA driver API, Device Management
 */
#include "conformance.h"

CONFORMANCE
{
    int count = 0;
    OK(cuDeviceGetCount(&count));
    if (count < 2)
        SKIP("one device");
    CUcontext other;
    CUmemoryPool a, b;
    CUuuid u, v;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(other != context);
    OK(cuDeviceGetDefaultMemPool(&a, 0));
    OK(cuDeviceGetDefaultMemPool(&b, 1));
    CHECK(a != b);
    OK(cuDeviceGetUuid(&u, 0));
    OK(cuDeviceGetUuid(&v, 1));
    CHECK(memcmp(&u, &v, sizeof u));
    size_t before, after, total;
    OK(cuCtxPushCurrent(other));
    OK(cuMemGetInfo(&before, &total));
    OK(cuCtxPopCurrent(NULL));
    device_alloc(32 << 20);
    OK(cuCtxPushCurrent(other));
    OK(cuMemGetInfo(&after, &total));
    CHECK(before == after);
    OK(cuCtxPopCurrent(NULL));
}
