/* behaviour: copies and sets of rectangles are captured with their pitches; batches of copies are not captured.
 * rules: capture
 * source: CUDA driver API, cuMemcpy2DAsync, cuMemsetD2D32Async, cuGraphMemcpyNodeGetParams
 */
#include "graph/graphs.h"

enum { PITCH = 256, ROWS = 16, WIDTH = 100 };

CONFORMANCE
{
    static unsigned char source[ROWS][WIDTH], back[ROWS][PITCH];
    CUdeviceptr p = device_alloc(PITCH * ROWS);
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < WIDTH; x++)
            source[y][x] = (unsigned char)(y * 16 + x);
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = source,
                       .srcPitch = WIDTH,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstXInBytes = 4,
                       .dstPitch = PITCH,
                       .WidthInBytes = WIDTH,
                       .Height = ROWS};
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemsetD2D32Async(p, PITCH, 0x11111111, PITCH / 4, ROWS, s));
    OK(cuMemcpy2DAsync(&c, s));
    CUgraph g = end_capture(s);
    CUDA_MEMCPY3D asked;
    OK(cuGraphMemcpyNodeGetParams(only_node(g, CU_GRAPH_NODE_TYPE_MEMCPY), &asked));
    CHECK(asked.WidthInBytes == WIDTH && asked.Height == ROWS && asked.dstPitch == PITCH);
    run(instantiate(g), s);
    OK(cuMemcpyDtoH(back, p, sizeof back));
    for (int y = 0; y < ROWS; y++) {
        CHECK(!memcmp(back[y] + 4, source[y], WIDTH));
        CHECK(back[y][3] == 0x11 && back[y][4 + WIDTH] == 0x11);
    }

    CUdeviceptr from = (CUdeviceptr)(uintptr_t)source;
    size_t bytes = sizeof source, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyBatchAsync(&p, &from, &bytes, 1, &attributes, &first, 1, s) != CUDA_SUCCESS);
    cuStreamEndCapture(s, &g);
}
