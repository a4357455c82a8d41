/* Arguments by value: structures with holes, arrays in them, many of them, alignments. */
#include "check.h"

struct __align__(16) large {
    char tag;
    double values[9];
    short last;
};
struct three {
    char a, b, c;
};

__global__ void run(char c, large l, three t, short s, float4 v, const double *p, double *out)
{
    double sum = c + l.tag + l.last + t.a * 2 + t.b * 3 + t.c * 4 + s + v.x + v.y * 2 + v.z * 3 + v.w * 4;
    for (int i = 0; i < 9; i++)
        sum += l.values[(i + (int)threadIdx.x) % 9] * (i + 1);
    out[threadIdx.x] = sum + p[threadIdx.x];
}

int main()
{
    large l = {7, {}, -9};
    array<double> p(9), out(9);
    for (int i = 0; i < 9; i++) {
        l.values[i] = 0.5 * i;
        p[i] = 1000.0 * i;
    }
    p.up();
    run<<<1, 9>>>('a', l, three{1, 2, 3}, -4, make_float4(1, 2, 3, 4), p.device, out.device);
    out.down();
    for (int t = 0; t < 9; t++) {
        double sum = 'a' + 7 - 9 + 2 + 6 + 12 - 4 + 1 + 4 + 9 + 16 + 1000.0 * t;
        for (int i = 0; i < 9; i++)
            sum += 0.5 * ((i + t) % 9) * (i + 1);
        CHECK(out[t] == sum);
    }
}
