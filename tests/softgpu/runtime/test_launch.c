/* Kernels: `<<<>>>`, cudaLaunchKernel and its relatives, what can be asked about them, what is refused. */
#include "runtime_test.h"
#include "kernels.h"

enum { N = 1000 };

static float *buffer;
static float host[2 * N];

static int setup(void **state)
{
    (void)state;
    buffer = device_alloc(sizeof host);
    return 0;
}

static void read_back(void)
{
    OK(cudaMemcpy(host, buffer, sizeof host, cudaMemcpyDeviceToHost));
}

static void angle_brackets_run_the_kernel(void **state)
{
    (void)state;
    OK(cudaMemset(buffer, 0, sizeof host));
    OK(launch_fill(buffer, 1.5f, N, 3, NULL));
    OK(launch_add(buffer, 2.0f, N, NULL));
    read_back();
    assert_floats(host, N, 3.5f);
    assert_floats(host + N, N, 0.0f);
}

/* The argument of one launch is computed by a function that launches. */
static void angle_brackets_nest(void **state)
{
    (void)state;
    OK(cudaMemset(buffer, 0, sizeof host));
    OK(launch_nested(buffer, N));
    read_back();
    assert_floats(host, N, 2.0f);
    assert_floats(host + N, N, 1.0f);
}

static void launch_kernel_runs_a_host_function(void **state)
{
    (void)state;
    float value = -4.0f;
    int n = N;
    void *args[] = {&buffer, &value, &n};
    OK(cudaLaunchKernel(fill_kernel, (dim3){2, 1, 1}, (dim3){32, 1, 1}, args, 0, NULL));
    read_back();
    assert_floats(host, N, -4.0f);
}

static void launch_kernel_runs_a_kernel_handle(void **state)
{
    (void)state;
    float value = 9.0f;
    int n = N;
    void *args[] = {&buffer, &value, &n};
    cudaKernel_t kernel = NULL;
    OK(cudaGetKernel(&kernel, fill_kernel));
    OK(cudaLaunchKernel((const void *)kernel, (dim3){2, 1, 1}, (dim3){32, 1, 1}, args, 0, NULL));
    read_back();
    assert_floats(host, N, 9.0f);
}

static void launch_kernel_ex_takes_a_configuration(void **state)
{
    (void)state;
    float value = 6.0f;
    int n = N;
    void *args[] = {&buffer, &value, &n};
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t config = {.gridDim = {2, 1, 1}, .blockDim = {32, 1, 1}, .stream = stream};
    OK(cudaLaunchKernelExC(&config, fill_kernel, args));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    read_back();
    assert_floats(host, N, 6.0f);
}

static void unknown_function_is_invalid(void **state)
{
    (void)state;
    void *args[] = {&buffer};
    assert_int_equal(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL),
                     cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

/* Whatever the mode is by default, each of its threads does its part. */
static void unmarked_kernel_runs_with_all_its_threads(void **state)
{
    (void)state;
    int ones[64];
    OK(cudaMemset(buffer, 0, sizeof ones));
    OK(launch_unmarked((int *)buffer));
    OK(cudaMemcpy(ones, buffer, sizeof ones, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        assert_int_equal(ones[i], i < 32);
}

static void impossible_geometry_is_an_invalid_configuration(void **state)
{
    (void)state;
    assert_int_equal(launch_too_wide(buffer), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_fill(buffer, 1.0f, N, 0, NULL), cudaErrorInvalidConfiguration);
    OK(cudaGetLastError());
}

static void function_attributes_are_filled(void **state)
{
    (void)state;
    struct cudaFuncAttributes attributes;
    memset(&attributes, 0x55, sizeof attributes);
    OK(cudaFuncGetAttributes(&attributes, fill_kernel));
    assert_true(attributes.maxThreadsPerBlock >= 32 && attributes.maxThreadsPerBlock <= 1024);
    assert_true(attributes.numRegs > 0);
    assert_int_equal(attributes.localSizeBytes, 0);
    OK(cudaFuncSetAttribute(fill_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    OK(cudaFuncGetAttributes(&attributes, fill_kernel));
    assert_int_equal(attributes.maxDynamicSharedSizeBytes, 64 << 10);
    assert_int_equal(cudaFuncGetAttributes(&attributes, host), cudaErrorInvalidDeviceFunction);
    cudaGetLastError();
}

static void function_name_and_parameters_are_known(void **state)
{
    (void)state;
    const char *name = NULL;
    const size_t want[3][2] = {{0, 8}, {8, 4}, {12, 4}};
    size_t offset, size;
    OK(cudaFuncGetName(&name, fill_kernel));
    assert_string_equal(name, "fill");
    for (size_t i = 0; i < 3; i++) {
        OK(cudaFuncGetParamInfo(fill_kernel, i, &offset, &size));
        assert_int_equal(offset, want[i][0]);
        assert_int_equal(size, want[i][1]);
    }
    assert_int_equal(cudaFuncGetParamInfo(fill_kernel, 3, &offset, &size), cudaErrorInvalidValue);
    cudaGetLastError();
}

static void occupancy_is_at_least_one_block(void **state)
{
    (void)state;
    int blocks = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_kernel, 128, 0));
    assert_true(blocks >= 1);
}

static void device_variable_is_copied_by_its_symbol(void **state)
{
    (void)state;
    int value = 77, got = 0;
    void *address;
    size_t size;
    OK(cudaMemcpyToSymbol(device_variable, &value, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromSymbol(&got, device_variable, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(got, 77);
    OK(cudaGetSymbolSize(&size, device_variable));
    assert_int_equal(size, 4);
    OK(cudaGetSymbolAddress(&address, device_variable));
    got = 0;
    OK(cudaMemcpy(&got, address, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(got, 77);
    assert_int_equal(cudaMemcpyToSymbol(device_variable, &value, 4, 1, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue); /* beyond its end */
    assert_int_equal(cudaGetSymbolSize(&size, host), cudaErrorInvalidSymbol);
    assert_int_equal(cudaMemcpyToSymbol(device_variable, &value, 4, 0, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angle_brackets_run_the_kernel),
        cmocka_unit_test(angle_brackets_nest),
        cmocka_unit_test(launch_kernel_runs_a_host_function),
        cmocka_unit_test(launch_kernel_runs_a_kernel_handle),
        cmocka_unit_test(launch_kernel_ex_takes_a_configuration),
        cmocka_unit_test(unknown_function_is_invalid),
        cmocka_unit_test(unmarked_kernel_runs_with_all_its_threads),
        cmocka_unit_test(impossible_geometry_is_an_invalid_configuration),
        cmocka_unit_test(function_attributes_are_filled),
        cmocka_unit_test(function_name_and_parameters_are_known),
        cmocka_unit_test(occupancy_is_at_least_one_block),
        cmocka_unit_test(device_variable_is_copied_by_its_symbol),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
