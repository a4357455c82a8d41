/* behaviour: Copy nodes copy rectangles and boxes with pitches, set nodes rows of elements of 1, 2 or 4 bytes; both give out
 * their parameters and take others.
 * rules: none
 * source: CUDA driver API, cuGraphAddMemcpyNode, cuMemcpy3D, cuGraphAddMemsetNode
 */
#include "graph/graphs.h"

enum { PITCH = 64, ROWS = 8, SLICES = 3 };
static unsigned char got[PITCH * ROWS * SLICES], expected[PITCH * ROWS * SLICES];
static unsigned char source[20 * 5 * 2];

CONFORMANCE
{
    CUdeviceptr p = device_alloc(sizeof got);
    CUgraph g = new_graph();
    CUgraphNode clear, set, copy, back;
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 7 + 1);

    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0, .elementSize = 1, .width = sizeof got, .height = 1};
    OK(cuGraphAddMemsetNode(&clear, g, NULL, 0, &m, context));
    m = (CUDA_MEMSET_NODE_PARAMS){
        .dst = p + 2, .pitch = PITCH, .value = 0xabcd, .elementSize = 2, .width = 5, .height = 4};
    OK(cuGraphAddMemsetNode(&set, g, &clear, 1, &m, context));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 5; x++) {
            expected[y * PITCH + 2 + 2 * x] = 0xcd;
            expected[y * PITCH + 3 + 2 * x] = 0xab;
        }

    /* A box of 6 x 3 x 2 out of the middle of one of 20 x 5 x 2, into the middle of the device's. */
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = source,
                       .srcXInBytes = 4,
                       .srcY = 1,
                       .srcPitch = 20,
                       .srcHeight = 5,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstXInBytes = 30,
                       .dstY = 2,
                       .dstZ = 1,
                       .dstPitch = PITCH,
                       .dstHeight = ROWS,
                       .WidthInBytes = 6,
                       .Height = 3,
                       .Depth = 2};
    OK(cuGraphAddMemcpyNode(&copy, g, &set, 1, &c, context));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 3; y++)
            memcpy(expected + ((z + 1) * ROWS + y + 2) * PITCH + 30, source + (z * 5 + y + 1) * 20 + 4, 6);

    CUDA_MEMCPY3D all = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = p,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = got,
                         .WidthInBytes = sizeof got,
                         .Height = 1,
                         .Depth = 1};
    OK(cuGraphAddMemcpyNode(&back, g, &copy, 1, &all, context));
    run(instantiate(g), NULL);
    CHECK(!memcmp(got, expected, sizeof got));

    CUDA_MEMCPY3D asked;
    OK(cuGraphMemcpyNodeGetParams(copy, &asked));
    CHECK(asked.srcHost == source && asked.dstDevice == p && asked.Height == 3 && asked.Depth == 2 &&
          asked.dstPitch == PITCH);
    c.Depth = 1;
    OK(cuGraphMemcpyNodeSetParams(copy, &c));
    memset(expected + 2 * ROWS * PITCH, 0, ROWS * PITCH);
    run(instantiate(g), NULL);
    CHECK(!memcmp(got, expected, sizeof got));
    CUDA_MEMSET_NODE_PARAMS wrong = m;
    wrong.elementSize = 3;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(set, &wrong));
}
