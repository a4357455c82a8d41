/* The runtime where the driver is missing, too old, without a device, or lacks functions. One of these per
 * process: FAKE_DRIVER (fake_driver.c) says which; unset: there is no driver library at all. */
#include "runtime_test.h"

#include <dlfcn.h>

static int expected_version;
static cudaError_t expected;

static void every_call_says_what_is_wrong(void **state)
{
    (void)state;
    int count = 77, version = 77;
    void *p;
    cudaStream_t stream;
    OK(cudaDriverGetVersion(&version));
    assert_int_equal(version, expected_version);
    OK(cudaPeekAtLastError());
    assert_int_equal(cudaGetDeviceCount(&count), expected);
    assert_int_equal(count, 0);
    assert_int_equal(cudaGetLastError(), expected);
    OK(cudaGetLastError());
    assert_int_equal(cudaMalloc(&p, 16), expected);
    assert_int_equal(cudaStreamCreate(&stream), expected);
    assert_int_equal(cudaSetDevice(0), expected);
    assert_int_equal(cudaFree(NULL), expected);
    cudaGetLastError();
}

static void missing_functions_are_not_supported(void **state)
{
    (void)state;
    int count = 0;
    void *p;
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(count, 1);
    OK(cudaSetDevice(0));
    OK(cudaFree(NULL));
    assert_int_equal(cudaMalloc(&p, 16), cudaErrorNotSupported);
    assert_null(p);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorNotSupported);
    assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
}

int main(void)
{
    const char *kind = getenv("FAKE_DRIVER");
    const struct CMUnitTest broken[] = {cmocka_unit_test(every_call_says_what_is_wrong)};
    const struct CMUnitTest bare[] = {cmocka_unit_test(missing_functions_are_not_supported)};
    if (kind && !strcmp(kind, "bare"))
        return cmocka_run_group_tests(bare, NULL, NULL);
    if (!kind && dlopen("libcuda.so.1", RTLD_NOW)) {
        fprintf(stderr, "this machine has a driver\n");
        return 77;
    }
    expected = kind && !strcmp(kind, "no_device") ? cudaErrorNoDevice : cudaErrorInsufficientDriver;
    expected_version = !kind ? 0 : !strcmp(kind, "old") ? 12020 : 13000;
    return cmocka_run_group_tests(broken, NULL, NULL);
}
