/* c10_cuda.c: a library with the name of PyTorch's allocator, which has the driver make device memory as that does for expandable segments. */
#include <cuda.h>

CUresult create_segment(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop);

CUresult create_segment(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop)
{
    const CUresult result = cuMemCreate(out, bytes, prop, 0);
    return result
               ? result
               : cuMemRelease(*out); /* not the last thing: a call in its place would come from the program */
}
