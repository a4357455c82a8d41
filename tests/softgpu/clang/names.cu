/* Kernels by every sort of name: extern "C", in namespaces, unnamed ones too, static, of one name and other parameters; as arguments. */
#include "check.h"

extern "C" __global__ void plain(int *x)
{
    x[0] = 1;
}
namespace outer {
namespace {
__global__ void hidden(int *x)
{
    x[1] = 2;
}
}
inline namespace v1 {
__global__ void same(int *x)
{
    x[2] = 3;
}
__global__ void same(int *x, int value)
{
    x[3] = value;
}
}
}
static __global__ void local(int *x)
{
    x[4] = 5;
}
template <int N> __global__ void numbered(int *x)
{
    x[N] = N + 1;
}

int main()
{
    array<int> x(7);
    void (*one)(int *) = outer::same;
    plain<<<1, 1>>>(x.device);
    outer::hidden<<<1, 1>>>(x.device);
    one<<<1, 1>>>(x.device);
    outer::same<<<1, 1>>>(x.device, 4);
    local<<<1, 1>>>(x.device);
    numbered<5><<<1, 1>>>(x.device);
    int *p = x.device, value = 7;
    void *args[] = {&p, &value};
    x.down();
    for (int i = 0; i < 6; i++)
        CHECK(x[i] == i + 1);
    OK(cudaLaunchKernel((const void *)(void (*)(int *, int))outer::same, 1, 1, args, 0, 0));
    x.down();
    CHECK(x[3] == 7);
}
