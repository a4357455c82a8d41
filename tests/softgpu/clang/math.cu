/* Mathematical functions of the toolkit's library, single and double. */
#include "check.h"

#define FUNCTIONS(F)                                                                                         \
    F(sin) F(cos) F(tan) F(exp) F(log) F(log2) F(sqrt) F(cbrt) F(tanh) F(erf) F(atan) F(log1p) F(expm1) F(lgamma) F(floor) F(rint)

enum {
#define NUMBER(f) ID_##f,
    FUNCTIONS(NUMBER) COUNT
#undef NUMBER
};

template <typename T> __host__ __device__ void all(T x, T *out)
{
#define CALL(f) out[ID_##f] = f(x);
    FUNCTIONS(CALL)
#undef CALL
    out[COUNT] = pow(x, T(1.75));
    out[COUNT + 1] = fmod(x, T(0.3));
    out[COUNT + 2] = atan2(x, T(-2));
    out[COUNT + 3] = fma(x, x, T(-1));
    out[COUNT + 4] = hypot(x, T(3));
}

template <typename T> __global__ void run(const T *in, T *out)
{
    all(in[threadIdx.x], out + threadIdx.x * (COUNT + 5));
}

template <typename T> void compare(double relative)
{
    array<T> in(40), out(40 * (COUNT + 5));
    for (int i = 0; i < 40; i++)
        in[i] = T(0.01 + i * i * 0.37);
    in.up();
    run<<<1, 40>>>(in.device, out.device);
    out.down();
    for (int i = 0; i < 40; i++) {
        T expected[COUNT + 5];
        all(in[i], expected);
        for (int k = 0; k < COUNT + 5; k++)
            if (!near((double)out[i * (COUNT + 5) + k], (double)expected[k], relative)) {
                fprintf(stderr, "function %d of %g: %.17g, the host has %.17g\n", k, (double)in[i], (double)out[i * (COUNT + 5) + k],
                        (double)expected[k]);
                exit(1);
            }
    }
}

__global__ void quick(float x, float *out)
{
    out[0] = __expf(x);
    out[1] = __sinf(x);
    out[2] = rsqrtf(x);
    out[3] = __fdividef(1.0f, x);
    out[4] = __frcp_rn(x);
    out[5] = __fadd_rz(x, 1e-9f);
}

int main()
{
    compare<double>(1e-13);
    compare<float>(4e-6);
    array<float> q(6);
    quick<<<1, 1>>>(0.7f, q.device);
    q.down();
    CHECK(near(q[0], std::exp(0.7), 1e-6) && near(q[1], std::sin(0.7), 1e-6) && near(q[2], 1 / std::sqrt(0.7), 1e-6));
    CHECK(near(q[3], 1 / 0.7, 1e-6) && q[4] == 1.0f / 0.7f && q[5] == 0.7f);
}
