/* behaviour: a 3D copy moves a box between memories with different pitches and heights.
 * rules: none
 * source: CUDA driver API, cuMemcpy3D
 */
#include "conformance.h"

enum { W = 20, H = 5, D = 3, PITCH = 32, HEIGHT = 8 };

CONFORMANCE
{
    static unsigned char from[PITCH * HEIGHT * (D + 1)], to[W * H * D];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 13);
    CUdeviceptr p = device_alloc(48 * 6 * D);
    CUDA_MEMCPY3D c;
    memset(&c, 0, sizeof c);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = from;
    c.srcPitch = PITCH;
    c.srcHeight = HEIGHT;
    c.srcXInBytes = 4;
    c.srcY = 2;
    c.srcZ = 1;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = p;
    c.dstPitch = 48;
    c.dstHeight = 6;
    c.WidthInBytes = W;
    c.Height = H;
    c.Depth = D;
    OK(cuMemcpy3D(&c));
    memset(&c, 0, sizeof c);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = p;
    c.srcPitch = 48;
    c.srcHeight = 6;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = to;
    c.dstPitch = W;
    c.dstHeight = H;
    c.WidthInBytes = W;
    c.Height = H;
    c.Depth = D;
    CUstream s = new_stream(0);
    OK(cuMemcpy3DAsync(&c, s));
    OK(cuStreamSynchronize(s));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            CHECK(!memcmp(from + ((z + 1) * HEIGHT + y + 2) * PITCH + 4, to + (z * H + y) * W, W));
}
