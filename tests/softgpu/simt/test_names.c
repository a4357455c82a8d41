/* Kernels and variables that are hard to name, and variables: copies, kernels that change them, modules with their own. */
#include "simt_test.h"

/* nvcc puts a hash into the names of what is local to a file: any will do. */
#define IN_FILE(rest) "_ZN36_GLOBAL__N__0badcafe_10_kernels_cu_0" rest

static void templates_of_a_kernel_have_their_names(void **state)
{
    (void)state;
    int ints[6] = {1, 2, 3, 4, 5, 6};
    double doubles[6] = {1, 2, 3, 4, 5, 6};
    CUdeviceptr p = device_ints(ints, 6), q;
    OK(cuMemAlloc(&q, sizeof doubles));
    OK(cuMemcpyHtoD(q, doubles, sizeof doubles));
    OK(LAUNCH("_Z6scaledIiLi3EEvPT_", 1, 6, &p));
    OK(LAUNCH("_Z6scaledIdLi4EEvPT_", 1, 6, &q));
    read_back(ints, p, sizeof ints);
    read_back(doubles, q, sizeof doubles);
    for (int i = 0; i < 6; i++)
        assert_true(ints[i] == 3 * (i + 1) && doubles[i] == 4 * (i + 1));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

static void kernels_of_a_file_have_their_names(void **state)
{
    (void)state;
    int got[4];
    struct {
        int a, b;
    } v = {5, 6};
    CUdeviceptr p = device_zeros(sizeof got);
    OK(LAUNCH("_Z12of_this_filePi", 1, 4, &p));
    read_back(got, p, sizeof got);
    assert_int_equal(got[3], 11);
    OK(LAUNCH_SHARED(IN_FILE("7unnamedENS_4pairEPi"), 1, 4, 16, &v, &p));
    read_back(got, p, sizeof got);
    assert_int_equal(got[3], 11 + 21);
    OK(LAUNCH(IN_FILE("16unnamed_templateIsEEvPT_"), 1, 4, &p));
    read_back(got, p, sizeof got);
    assert_int_equal(got[1], 13 | 13 << 16);
    OK(cuMemFree(p));
}

static void all_kernels_are_listed(void **state)
{
    (void)state;
    unsigned count;
    CUfunction all[64];
    const char *name;
    bool found = false;
    OK(cuModuleGetFunctionCount(&count, test_module));
    assert_true(count > 20 && count < 64);
    OK(cuModuleEnumerateFunctions(all, count, test_module));
    for (unsigned i = 0; i < count; i++) {
        OK(cuFuncGetName(&name, all[i]));
        found = found || !strcmp(name, "grid_sum");
    }
    assert_true(found);
}

static CUdeviceptr global(CUmodule module, const char *name, size_t want)
{
    CUdeviceptr at = 0;
    size_t bytes = 0;
    OK(cuModuleGetGlobal(&at, &bytes, module, name));
    assert_int_equal(bytes, want);
    return at;
}

static int int_at(CUdeviceptr at)
{
    int value;
    read_back(&value, at, sizeof value);
    return value;
}

static void variables_begin_as_written_and_kernels_change_them(void **state)
{
    (void)state;
    CUmodule m;
    CUfunction use, follow;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&use, m, "use_variables"));
    OK(cuModuleGetFunction(&follow, m, "follow_variable"));
    CUdeviceptr counter = global(m, "counter", 4), table = global(m, "table", 16),
                factors = global(m, "factors", 12);
    const int values[3] = {100, 200, 300};
    float t[4];
    assert_int_equal(int_at(counter), 5);
    read_back(t, table, sizeof t);
    assert_true(t[0] == 1 && t[3] == 4);
    assert_int_equal(int_at(factors), 0);
    OK(cuMemcpyHtoD(factors, values, sizeof values));

    CUdeviceptr out = device_zeros(4);
    OK(cuLaunchKernel(use, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&out}, NULL));
    assert_int_equal(int_at(out), 5 + 600 + 7 + 9 + 3);
    assert_int_equal(int_at(counter), 6);
    read_back(t, table, sizeof t);
    assert_true(t[2] == 30 && t[3] == 4);
    OK(cuLaunchKernel(follow, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&out}, NULL));
    assert_int_equal(int_at(out), 6);

    assert_int_equal(int_at(global(m, "_ZN5named6numberE", 8)), 0); /* low word of 1.5 */
    assert_int_equal(
        int_at(global(
            m,
            "_ZN34_INTERNAL_0badcafe_10_kernels_cu_036_GLOBAL__N__0badcafe_10_kernels_cu_015hidden_variableE",
            4)),
        21);
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
}

static void a_variable_is_a_buffer_with_bounds(void **state)
{
    (void)state;
    CUdeviceptr table = global(test_module, "table", 16), base;
    size_t bytes;
    float t[8];
    assert_int_equal(cuMemcpyDtoH(t, table, 20), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH(t, table + 12, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree(table), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(table + 4, 0, 1));
    read_back(t, table, 16);
    assert_true(t[0] == 1 && t[1] == 0 && t[2] == 3);
    OK(cuMemGetAddressRange(&base, &bytes, table + 5));
    assert_true(base == table && bytes == 16);
    assert_int_equal(cuModuleGetGlobal(&base, &bytes, test_module, "no_such"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetGlobal(NULL, NULL, test_module, "table"), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleGetGlobal(&base, NULL, test_module, "table"));
}

/* Two modules of one file: each its own variables, and a module loaded anew has fresh ones. */
static void modules_have_variables_of_their_own(void **state)
{
    (void)state;
    CUmodule a, b;
    CUfunction add;
    int by = 1000;
    OK(cuModuleLoad(&a, KERNELS));
    OK(cuModuleLoad(&b, KERNELS));
    CUdeviceptr of_a = global(a, "counter", 4), of_b = global(b, "counter", 4);
    assert_true(of_a != of_b);
    OK(cuModuleGetFunction(&add, b, "add_to_counter"));
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&by}, NULL));
    assert_int_equal(int_at(of_a), 5);
    assert_int_equal(int_at(of_b), 1005);
    OK(cuModuleUnload(b));
    OK(cuModuleLoad(&b, KERNELS));
    assert_int_equal(int_at(global(b, "counter", 4)), 5);
    OK(cuModuleUnload(a));
    OK(cuModuleUnload(b));
}

/* In auto, one kernel runs fast, the other one in SIMT mode. */
static void modes_share_the_variables(void **state)
{
    (void)state;
    CUmodule m;
    CUfunction add, use;
    int by = 50;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&add, m, "add_to_counter"));
    OK(cuModuleGetFunction(&use, m, "use_variables"));
    CUdeviceptr out = device_zeros(4), counter = global(m, "counter", 4);
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&by}, NULL));
    OK(cuLaunchKernel(use, 1, 1, 1, 40, 1, 1, 0, NULL, (void *[]){&out}, NULL));
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&by}, NULL));
    assert_int_equal(int_at(counter), 5 + 50 + 40 + 50);
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_of_a_kernel_have_their_names),
        cmocka_unit_test(kernels_of_a_file_have_their_names),
        cmocka_unit_test(all_kernels_are_listed),
        cmocka_unit_test(variables_begin_as_written_and_kernels_change_them),
        cmocka_unit_test(a_variable_is_a_buffer_with_bounds),
        cmocka_unit_test(modules_have_variables_of_their_own),
        cmocka_unit_test(modes_share_the_variables),
    };
    return cmocka_run_group_tests(tests, simt_setup, NULL);
}
