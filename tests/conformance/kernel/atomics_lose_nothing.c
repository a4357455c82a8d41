/* behaviour: atomic functions on one word by all threads of a grid take effect each, in some order.
 * rules: none
 * source: CUDA C++ Programming Guide, Atomic Functions
 */
#include "conformance.h"

CONFORMANCE
{
    enum { BLOCKS = 10, N = BLOCKS * 128 };
    int c[10] = {0}, xors = 0;
    float sum;
    c[4] = -1;
    for (int i = 0; i < N; i++)
        xors ^= i;
    CUdeviceptr p = device_alloc(sizeof c);
    OK(cuMemcpyHtoD(p, c, sizeof c));
    OK(LAUNCH(NULL, "atomics", BLOCKS, &p));
    OK(cuMemcpyDtoH(c, p, sizeof c));
    memcpy(&sum, &c[8], sizeof sum);
    CHECK(c[0] == 2 * N);
    CHECK(c[1] == -(N * (N - 1) / 2));
    CHECK(c[2] == 1 - N);
    CHECK(c[3] == N - 1);
    CHECK((unsigned)c[4] == 1u << 31);
    CHECK(c[5] == 0x7fffffff);
    CHECK(c[6] == xors);
    CHECK(c[7] == N % 10);
    CHECK(sum == 0.5f * N);
    CHECK(c[9] == 3 * N);
    OK(cuMemFree(p));
}
