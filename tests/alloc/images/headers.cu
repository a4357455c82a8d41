/* headers.cu: the variables that NVIDIA's headers bring along: empty objects, a table of cuRAND's, that of the sine. Nothing writes them. */
namespace thrust
{
struct sequential {
};
static __device__ const sequential seq;
} // namespace thrust

namespace cuda
{
namespace std
{
struct begin_of {
};
namespace ranges
{
static __device__ begin_of begin;
}
} // namespace std
} // namespace cuda

static __device__ unsigned mrg32k3aM1[2][3][3] = {{{82758667, 871391091, 3316493933u}}};

extern "C" __global__ void turns(float *x, unsigned *y)
{
    x[threadIdx.x] = sinf(x[threadIdx.x]);
    y[threadIdx.x] = mrg32k3aM1[0][0][threadIdx.x % 3];
}
