/* Kernels that are templates, of types, numbers and functions. */
#include "check.h"

struct add {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct larger {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a > b ? a : b;
    }
};

template <typename T, int N, typename F> __global__ void fold(const T *in, T *out, F f)
{
    T sum = in[threadIdx.x * N];
#pragma unroll
    for (int i = 1; i < N; i++)
        sum = f(sum, in[threadIdx.x * N + i]);
    out[threadIdx.x] = sum;
}

template <typename T, int N> void try_it()
{
    array<T> in(N * 33), sum(33), most(33);
    for (int i = 0; i < N * 33; i++)
        in[i] = (T)((i * 37) % 101);
    in.up();
    fold<T, N><<<1, 33>>>(in.device, sum.device, add());
    fold<T, N><<<1, 33>>>(in.device, most.device, larger());
    sum.down(), most.down();
    for (int k = 0; k < 33; k++) {
        T s = 0, m = in[k * N];
        for (int i = 0; i < N; i++) {
            s += in[k * N + i];
            m = in[k * N + i] > m ? in[k * N + i] : m;
        }
        CHECK(sum[k] == s && most[k] == m);
    }
}

int main()
{
    try_it<int, 3>();
    try_it<double, 7>();
    try_it<unsigned char, 2>();
    try_it<long long, 5>();
}
