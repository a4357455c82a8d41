/* behaviour: A host function is captured, and called by each launch when what it depends on is done; it may not call CUDA.
 * rules: none
 * source: CUDA driver API, cuLaunchHostFunc, cuGraphAddHostNode
 */
#include "graph/graphs.h"

static int *pinned;
static int seen[4], calls;
static CUresult from_inside;

static void CUDA_CB look(void *data)
{
    seen[*(const int *)data] = pinned[0];
    calls++;
    CUdeviceptr p;
    from_inside = cuMemAlloc(&p, 512);
}

CONFORMANCE
{
    static int which[2] = {0, 1};
    CUdeviceptr p = device_alloc(N * sizeof(int));
    OK(cuMemAllocHost((void **)&pinned, 4096));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fill(s, p, 1, N);
    OK(cuMemcpyDtoHAsync(pinned, p, 4, s));
    OK(cuLaunchHostFunc(s, look, &which[0]));
    add(s, p, 1, N);
    OK(cuMemcpyDtoHAsync(pinned, p, 4, s));
    OK(cuLaunchHostFunc(s, look, &which[1]));
    CUgraph g = end_capture(s);
    CHECK(!calls && count_nodes(g) == 6);
    CUgraphExec e = instantiate(g);
    run(e, s);
    CHECK(calls == 2 && seen[0] == 1 && seen[1] == 2);
    CHECK(from_inside == CUDA_ERROR_NOT_PERMITTED);
    run(e, s);
    CHECK(calls == 4);
}
