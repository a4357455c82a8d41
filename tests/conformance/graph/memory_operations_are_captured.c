/* behaviour: writes of values to memory, and waits for them, become nodes that give out their operations; each launch writes,
 * and waits for what the memory holds then.
 * rules: none
 * source: CUDA driver API, cuStreamWriteValue32, cuGraphAddBatchMemOpNode, cuGraphExecBatchMemOpNodeSetParams
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr word = device_alloc(64), p = device_alloc(N * sizeof(int));
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING), s = new_stream(CU_STREAM_NON_BLOCKING);
    if (cuStreamWriteValue32(s, word, 0, 0) != CUDA_SUCCESS)
        SKIP("no memory operations in streams");
    OK(cuStreamSynchronize(s));

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWaitValue32(s, word, 5, CU_STREAM_WAIT_VALUE_GEQ));
    fill(s, p, 9, N);
    OK(cuStreamWriteValue32(s, word + 4, 77, 0));
    CUgraph g = end_capture(s);
    CHECK(count_nodes(g) == 3);
    CUgraphExec e = instantiate(g);
    fill(NULL, p, 0, N);
    OK(cuCtxSynchronize());
    OK(cuGraphLaunch(e, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    OK(cuStreamWriteValue32(other, word, 6, 0));
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 9, N) && read_int(word + 4) == 77);
    run(e, s); /* at once: the word still holds 6 */

    CUstreamBatchMemOpParams op[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word + 8, .value = 1}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word + 12, .value = 2}}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS m = {.ctx = context, .count = 2, .paramArray = op}, asked;
    CUgraph built = new_graph();
    CUgraphNode node;
    OK(cuGraphAddBatchMemOpNode(&node, built, NULL, 0, &m));
    CUgraphExec other_exec = instantiate(built);
    run(other_exec, s);
    CHECK(read_int(word + 8) == 1 && read_int(word + 12) == 2);
    OK(cuGraphBatchMemOpNodeGetParams(node, &asked));
    CHECK(asked.count == 2 && asked.paramArray != op && asked.paramArray[1].writeValue.value == 2);
    op[0].writeValue.value = 10;
    OK(cuGraphExecBatchMemOpNodeSetParams(other_exec, node, &m));
    run(other_exec, s);
    CHECK(read_int(word + 8) == 10);
    m.count = 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecBatchMemOpNodeSetParams(other_exec, node, &m));
}
