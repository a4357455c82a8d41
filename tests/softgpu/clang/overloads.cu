/* Functions for host and device, and overloads of them, give the same on both sides. */
#include "check.h"

__host__ __device__ int twice(int x)
{
    return 2 * x;
}
__host__ __device__ float twice(float x)
{
    return x + x + 0.5f;
}
struct point {
    int x, y;
    __host__ __device__ point operator+(const point &other) const
    {
        return {x + other.x, y + other.y};
    }
};

__global__ void all(int *i, float *f, point *p)
{
    i[threadIdx.x] = twice(i[threadIdx.x]);
    f[threadIdx.x] = twice(f[threadIdx.x]);
    p[threadIdx.x] = p[threadIdx.x] + point{1, -1};
}

int main()
{
    array<int> i(40);
    array<float> f(40);
    array<point> p(40);
    for (int k = 0; k < 40; k++) {
        i[k] = k;
        f[k] = 0.25f * k;
        p[k] = {k, k};
    }
    i.up(), f.up(), p.up();
    all<<<1, 40>>>(i.device, f.device, p.device);
    i.down(), f.down(), p.down();
    for (int k = 0; k < 40; k++)
        CHECK(i[k] == twice(k) && f[k] == twice(0.25f * k) && p[k].x == k + 1 && p[k].y == k - 1);
}
