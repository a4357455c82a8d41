/* Atomic operations on device and shared memory, of all types, and loops of compare-and-swap. */
#include "check.h"

struct sums {
    int add, most, least;
    unsigned bits, wrapped, swapped;
    unsigned long long large;
    float f;
    double d, by_cas;
};

__device__ void add_by_cas(double *at, double by)
{
    auto *bits = reinterpret_cast<unsigned long long *>(at);
    unsigned long long old = *bits, seen;
    do {
        seen = old;
        old = atomicCAS(bits, seen, (unsigned long long)__double_as_longlong(__longlong_as_double((long long)seen) + by));
    } while (old != seen);
}

__global__ void collect(sums *s, int *histogram)
{
    __shared__ int local[4];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 4)
        local[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&local[i % 4], 1);
    atomicAdd(&s->add, i);
    atomicMax(&s->most, i);
    atomicMin(&s->least, -i);
    atomicOr(&s->bits, 1u << (i % 32));
    atomicInc(&s->wrapped, 9);
    atomicExch(&s->swapped, 77u);
    atomicAdd(&s->large, 1ull << 33);
    atomicAdd(&s->f, 0.5f);
    atomicAdd(&s->d, 0.25);
    add_by_cas(&s->by_cas, 2.0);
    __syncthreads();
    if (threadIdx.x < 4)
        atomicAdd(&histogram[threadIdx.x], local[threadIdx.x]);
}

int main()
{
    array<sums> s(1);
    array<int> histogram(4);
    collect<<<3, 64>>>(s.device, histogram.device);
    s.down(), histogram.down();
    CHECK(s[0].add == 191 * 192 / 2 && s[0].most == 191 && s[0].least == -191);
    CHECK(s[0].bits == 0xffffffffu && s[0].wrapped == 192 % 10 && s[0].swapped == 77);
    CHECK(s[0].large == 192ull << 33 && s[0].f == 96 && s[0].d == 48 && s[0].by_cas == 384);
    for (int i = 0; i < 4; i++)
        CHECK(histogram[i] == 48);
}
