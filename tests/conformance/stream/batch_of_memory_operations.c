/* behaviour: a batch of waits and writes happens in the order of the array; 256 and more, or flags, are INVALID_VALUE.
 * rules: none
 * source: CUDA driver API, cuStreamBatchMemOp
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemsetD32(p, 0, 64));
    OK(cuCtxSynchronize());
    CUstreamBatchMemOpParams ops[3];
    memset(ops, 0, sizeof ops);
    ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[0].waitValue.address = p;
    ops[0].waitValue.value = 1;
    ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[1].writeValue.address = p + 4;
    ops[1].writeValue.value = 44;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = p + 8;
    ops[2].writeValue.value64 = 0x500000006ull;
    CUresult first = cuStreamBatchMemOp(a, 3, ops, 0);
    if (first == CUDA_ERROR_NOT_SUPPORTED)
        SKIP("no operations on memory");
    OK(first);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuStreamWriteValue32(b, p, 3, 0));
    OK(cuStreamSynchronize(a));
    CHECK(read_int(p + 4) == 44 && read_int(p + 8) == 6 && read_int(p + 12) == 5);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a, 256, ops, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a, 1, ops, 1));
}
