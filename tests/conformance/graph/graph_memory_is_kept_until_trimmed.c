/* behaviour: Physical memory of graphs' allocations stays with the device's graphs until it is trimmed, which leaves alone what
 * is in use; the counters tell, and high-water marks can be reset.
 * rules: none
 * source: CUDA driver API, cuDeviceGraphMemTrim, cuDeviceGetGraphMemAttribute
 */
#include "graph/graphs.h"

enum { BYTES = 8 << 20 };

static cuuint64_t memory(CUgraphMem_attribute which)
{
    cuuint64_t value = 0;
    OK(cuDeviceGetGraphMemAttribute(device, which, &value));
    return value;
}

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUdeviceptr t = 0;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&t, BYTES, s));
    OK(cuMemsetD8Async(t, 1, BYTES, s));
    OK(cuMemFreeAsync(t, s));
    CUgraph g = end_capture(s);
    CUgraphExec e = instantiate(g);
    run(e, s);
    CHECK(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
    CHECK(memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= BYTES);
    OK(cuDeviceGraphMemTrim(device));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    OK(cuDeviceGraphMemTrim(device));
    CHECK(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    CHECK(memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    cuuint64_t zero = 0, one = 1;
    OK(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    OK(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    CHECK(memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 0);
    CHECK(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &one) != CUDA_SUCCESS);
}
