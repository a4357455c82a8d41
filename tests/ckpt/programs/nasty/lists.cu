/* lists.cu: a kernel with the name and the structure of one of PyTorch's, which says itself which of its words are meant (ckpt/run/tracker/tracker.h).
 * What it does is ours. */
#include "slices.cuh"

namespace at
{
namespace native
{

/* nasty_lists in C. */
template <int Lists> struct TensorListMetadata {
    float *address[Lists][NASTY_LISTED];
    long long elements[NASTY_LISTED];
    unsigned char tensor_of_block[NASTY_LISTED_BLOCKS];
    int slice_of_block[NASTY_LISTED_BLOCKS];
    int first;
};

struct Subtract {
};

template <typename Lists, typename Functor>
__global__ void multi_tensor_apply_kernel(Lists lists, Functor, float rate)
{
    const unsigned tensor = lists.tensor_of_block[blockIdx.x],
                   begin = (unsigned)lists.slice_of_block[blockIdx.x] * NASTY_SLICE;
    const unsigned n = (unsigned)lists.elements[tensor],
                   end = n < begin + NASTY_SLICE ? n : begin + NASTY_SLICE;
    for (unsigned i = begin + threadIdx.x; i < end; i += blockDim.x)
        lists.address[0][tensor][i] -= rate * lists.address[1][tensor][i];
}

template __global__ void multi_tensor_apply_kernel<TensorListMetadata<2>, Subtract>(TensorListMetadata<2>,
                                                                                    Subtract, float);

} // namespace native
} // namespace at

extern "C" const void *nasty_update_lists(void)
{
    return (const void *)
        at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, at::native::Subtract>;
}
