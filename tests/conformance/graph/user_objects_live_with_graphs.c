/* behaviour: A user object is destroyed when nobody holds it any more: not the program, no graph, and no executable graph that
 * may still run.
 * rules: none
 * source: CUDA driver API, cuUserObjectCreate, cuGraphRetainUserObject
 */
#include "graph/graphs.h"

#include <unistd.h>

static void CUDA_CB destroy(void *data)
{
    __atomic_store_n((int *)data, 1, __ATOMIC_SEQ_CST);
}

static bool soon(const int *flag)
{
    for (int i = 0; i < 5000 && !__atomic_load_n(flag, __ATOMIC_SEQ_CST); i++)
        usleep(1000);
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

CONFORMANCE
{
    static int first, second;
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUuserObject a, b;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&a, &first, destroy, 1, 0));
    OK(cuUserObjectCreate(&a, &first, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRelease(a, 1));
    usleep(2000);
    CHECK(!first);
    OK(cuUserObjectRelease(a, 1));
    CHECK(soon(&first));

    CUgraph g = new_graph();
    kernel_node(g, NULL, 0, "fill", p, 1, N);
    OK(cuUserObjectCreate(&b, &second, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(g, b, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraphExec e = instantiate(g);
    hold_t h = hold(s);
    OK(cuGraphLaunch(e, s));
    OK(cuGraphDestroy(g));
    OK(cuGraphExecDestroy(e));
    usleep(2000);
    CHECK(!second);
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(soon(&second));
}
