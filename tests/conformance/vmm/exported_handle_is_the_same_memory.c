/* behaviour: a handle exported as a file descriptor and imported again is the same memory; the descriptor may be closed.
 * rules: none
 * source: CUDA driver API, cuMemExportToShareableHandle and cuMemImportFromShareableHandle
 */
#include "vmm.h"

#include <unistd.h>

CONFORMANCE
{
    size_t g = granularity();
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        SKIP("no file descriptors");
    CUmemAllocationProp props = device_memory();
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle h, again, plain = create(g);
    OK(cuMemCreate(&h, g, &props, 0));
    int fd = -1;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemExportToShareableHandle(&fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(fd >= 0);
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CUdeviceptr p = map_new(g, h), q = map_new(g, again);
    fill(NULL, p, 77, 8);
    OK(cuCtxSynchronize());
    CHECK(read_int(q) == 77);
}
