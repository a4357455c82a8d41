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

/* The toolkit's min and max are for both sides. */
template <typename A, typename B> __host__ __device__ double of_both(A a, B b)
{
    return min(a, b) * 1000.0 + max(a, b);
}

__host__ __device__ double extremes(int sign)
{
    return of_both(sign * 3, 2) + of_both(3u, sign * 2) + of_both(7L, sign * 5L) + of_both(9UL, 8L) +
           of_both(6ULL, 4ULL) + of_both(sign * 1.5f, 2.5) + of_both(0.25f, sign * 0.5f);
}

__global__ void extremes_of(double *out)
{
    out[threadIdx.x] = extremes(threadIdx.x ? -1 : 1);
}

int main()
{
    array<double> both(2);
    extremes_of<<<1, 2>>>(both.device);
    both.down();
    CHECK(both[0] == extremes(1) && both[1] == extremes(-1) &&
          both[0] == 2003 + 2003 + 5007 + 8009 + 4006 + 1502.5 + 250.5);
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
