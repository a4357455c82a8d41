/* behaviour: a pool made for it is exported as a file descriptor; a pointer from it is imported elsewhere as the same memory,
 * and nothing is allocated from an imported pool.
 * rules: none
 * source: CUDA driver API, cuMemPoolExportToShareableHandle and cuMemPoolImportPointer
 */
#include "conformance.h"

CONFORMANCE
{
    if (!(device_attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) &
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        SKIP("pools are not exported");
    CUmemPoolProps props = pool_props();
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool, imported;
    OK(cuMemPoolCreate(&pool, &props));
    CUstream s = new_stream(0);
    CUdeviceptr p, q;
    OK(cuMemAllocFromPoolAsync(&p, 1 << 16, pool, s));
    fill(s, p, 71, 16);
    OK(cuStreamSynchronize(s));
    int fd = -1;
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUmemPoolPtrExportData data;
    OK(cuMemPoolExportPointer(&data, p));
    CUresult import = cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (import != CUDA_SUCCESS)
        SKIP("a process does not import its own pool here");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&q, 4096, imported, s));
    OK(cuMemPoolImportPointer(&q, imported, &data));
    CHECK(read_int(q + 60) == 71);
    OK(cuMemFree(q));
    CHECK(read_int(p) == 71);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}
