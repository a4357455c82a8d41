/* behaviour: a batch of 3D copies between pointers: rows and layers as given, 0 for tightly packed.
 * rules: none
 * source: CUDA driver API, cuMemcpy3DBatchAsync (13.0)
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(1 << 16);
    static unsigned char from[10 * 4 * 2], to[10 * 4 * 2];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i + 1);
    CUDA_MEMCPY3D_BATCH_OP op;
    memset(&op, 0, sizeof op);
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = (CUdeviceptr)(uintptr_t)from;
    op.dst.op.ptr.ptr = p;
    op.dst.op.ptr.rowLength = 16;
    op.dst.op.ptr.layerHeight = 5;
    op.extent.width = 10;
    op.extent.height = 4;
    op.extent.depth = 2;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    OK(cuMemcpy3DBatchAsync(1, &op, 0, s));
    op.src.op.ptr.ptr = p;
    op.src.op.ptr.rowLength = 16;
    op.src.op.ptr.layerHeight = 5;
    op.dst.op.ptr.ptr = (CUdeviceptr)(uintptr_t)to;
    op.dst.op.ptr.rowLength = op.dst.op.ptr.layerHeight = 0;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    OK(cuMemcpy3DBatchAsync(1, &op, 0, s));
    OK(cuStreamSynchronize(s));
    CHECK(!memcmp(from, to, sizeof from));
    op.src.op.ptr.rowLength = 9;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 0, s));
}
