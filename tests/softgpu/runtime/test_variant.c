/* The same kernels from an object that nvcc compiled with other options: run, and nothing else. */
#include "runtime_test.h"
#include "kernels.h"

static void kernels_run(void **state)
{
    (void)state;
    enum { N = 777 };
    float host[N], *p = device_alloc(sizeof host);
    OK(launch_fill(p, 1.0f, N, 5, NULL));
    OK(launch_add(p, 0.25f, N, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    assert_floats(host, N, 1.25f);
    OK(cudaFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
