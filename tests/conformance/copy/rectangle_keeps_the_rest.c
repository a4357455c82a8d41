/* behaviour: a 2D copy moves the rectangle that it names and nothing beside it; width beyond the pitch is INVALID_VALUE.
 * rules: none
 * source: CUDA driver API, cuMemcpy2D
 */
#include "conformance.h"

enum { WIDTH = 64, PITCH = 100, ROWS = 9 };

CONFORMANCE
{
    static unsigned char from[PITCH * ROWS], to[PITCH * ROWS];
    for (int i = 0; i < PITCH * ROWS; i++)
        from[i] = (unsigned char)(i * 7);
    CUdeviceptr p;
    size_t pitch;
    OK(cuMemAllocPitch(&p, &pitch, WIDTH + 16, ROWS + 2, 4));
    CHECK(pitch >= WIDTH + 16);
    OK(cuMemsetD8(p, 0xee, pitch * (ROWS + 2)));
    CUDA_MEMCPY2D c;
    memset(&c, 0, sizeof c);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = from;
    c.srcPitch = PITCH;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = p;
    c.dstPitch = pitch;
    c.dstXInBytes = 8;
    c.dstY = 1;
    c.WidthInBytes = WIDTH;
    c.Height = ROWS;
    OK(cuMemcpy2D(&c));
    memset(&c, 0, sizeof c);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = p;
    c.srcPitch = pitch;
    c.srcXInBytes = 8;
    c.srcY = 1;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = to;
    c.dstPitch = PITCH;
    c.WidthInBytes = WIDTH;
    c.Height = ROWS;
    OK(cuMemcpy2DUnaligned(&c));
    for (int y = 0; y < ROWS; y++) {
        CHECK(!memcmp(from + y * PITCH, to + y * PITCH, WIDTH));
        CHECK(to[y * PITCH + WIDTH] == 0);
    }
    unsigned char edge[8];
    OK(cuMemcpyDtoH(edge, p + pitch, 8));
    CHECK(edge[0] == 0xee && edge[7] == 0xee);
    c.WidthInBytes = PITCH + 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c));
}
