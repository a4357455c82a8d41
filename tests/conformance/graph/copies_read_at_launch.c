/* behaviour: A captured copy reads and writes host memory when the graph runs, be it pinned or pageable.
 * rules: none
 * source: CUDA driver API, cuStreamBeginCapture, cuGraphAddMemcpyNode
 */
#include "graph/graphs.h"

CONFORMANCE
{
    static int pageable[N], back[N];
    int *pinned;
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    OK(cuMemAllocHost((void **)&pinned, N * sizeof(int)));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemcpyHtoDAsync(p, pageable, sizeof pageable, s));
    OK(cuMemcpyHtoDAsync(q, pinned, sizeof pageable, s));
    OK(cuMemcpyDtoHAsync(back, p, sizeof back, s));
    CUgraph g = end_capture(s);
    CHECK(count_nodes(g) == 3);
    CUgraphExec e = instantiate(g);
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < N; i++) {
            pageable[i] = round * i;
            pinned[i] = 7 * round;
        }
        run(e, s);
        CHECK(all_equal(q, 7 * round, N));
        CHECK(!memcmp(pageable, back, sizeof back));
    }
}
