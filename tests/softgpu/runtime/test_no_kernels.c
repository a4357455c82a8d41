/* A program without a kernel library: it loads and runs, but its kernels have no image for this device. */
#include "runtime_test.h"
#include "kernels.h"

static void launch_has_no_image_every_time(void **state)
{
    (void)state;
    float *p = device_alloc(4000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(launch_fill(p, 1.0f, 1000, 1, NULL), cudaErrorNoKernelImageForDevice);
        assert_int_equal(launch_add(p, 1.0f, 1000, NULL), cudaErrorNoKernelImageForDevice);
    }
    OK(cudaGetLastError());
    OK(cudaMemset(p, 0, 4000)); /* the device works all the same */
    OK(cudaFree(p));
}

static void query_has_no_image(void **state)
{
    (void)state;
    struct cudaFuncAttributes attributes;
    cudaKernel_t kernel = NULL;
    assert_int_equal(cudaFuncGetAttributes(&attributes, fill_kernel), cudaErrorNoKernelImageForDevice);
    assert_int_equal(cudaGetKernel(&kernel, fill_kernel), cudaErrorNoKernelImageForDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_has_no_image_every_time),
        cmocka_unit_test(query_has_no_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
