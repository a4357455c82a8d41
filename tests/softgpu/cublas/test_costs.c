/* What the kernels of cuBLAS say that they would cost a GPU: by shape and types, whatever the pointers are. */
#include "cublas_test.h"

#include "softgpu/blas/gemm.h"
#include "softgpu/blas/vector.h"

#include <dlfcn.h>

static const softgpu_kernel_t *find(const char *name)
{
    const softgpu_kernel_table_t *table = dlsym(dlopen("libcublas.so.13", RTLD_NOW), "softgpu_kernel_table");
    assert_non_null(table);
    assert_int_equal(table->abi_version, SOFTGPU_ABI_VERSION);
    for (uint32_t i = 0; i < table->kernel_count; i++)
        if (!strcmp(table->kernels[i]->name, name))
            return table->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static softgpu_cost_t cost_of(const char *name, const void *params)
{
    return find(name)->cost(&(softgpu_launch_t){.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params});
}

static void every_kernel_declares_a_cost(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *library = i ? "libcublasLt.so.13" : "libcublas.so.13";
        const softgpu_kernel_table_t *table = dlsym(dlopen(library, RTLD_NOW), "softgpu_kernel_table");
        assert_int_equal(table->kernel_count, BLAS_KERNEL_COUNT);
        for (uint32_t k = 0; k < table->kernel_count; k++)
            assert_true(table->kernels[k]->cost != NULL);
    }
}

static void a_product_costs_its_multiplications(void **state)
{
    (void)state;
    const gemm_direct_t direct = {
        .shape = {.m = 100, .n = 50, .k = 200, .batch = 3, .arithmetic = SOFTGPU_TF32}};
    softgpu_cost_t c = cost_of("softgpu_sgemm", &direct);
    assert_true(c.operations == 3 * 2e6);
    assert_int_equal(c.kind, SOFTGPU_TF32);
    assert_true(c.bytes == 3 * 4.0 * (100 * 200 + 200 * 50 + 100 * 50));

    gemm_mixed_t mixed = {.shape = {.m = 100,
                                    .n = 50,
                                    .k = 200,
                                    .batch = 1,
                                    .splits = 1,
                                    .beta = 1,
                                    .type_ab = CUDA_R_16BF,
                                    .type_d = CUDA_R_32F,
                                    .epilogue = GEMM_GELU | GEMM_AUX | GEMM_BIAS,
                                    .arithmetic = SOFTGPU_BF16}};
    c = cost_of("softgpu_gemm", &mixed);
    assert_true(c.operations == 2e6);
    assert_int_equal(c.kind, SOFTGPU_BF16);
    assert_true(c.bytes == 2.0 * (100 * 200 + 200 * 50) + 3 * 4.0 * 100 * 50 + 4.0 * 100);

    /* In two launches the parts are written by one and read by the other. */
    mixed.shape.splits = 4;
    mixed.shape.epilogue = 0;
    mixed.shape.beta = 0;
    c = cost_of("softgpu_gemm_splitk", &mixed);
    assert_true(c.bytes == 2.0 * (100 * 200 + 200 * 50) + 4 * 4.0 * 100 * 50);
    c = cost_of("softgpu_splitk_reduce", &mixed);
    assert_true(c.operations == 4.0 * 100 * 50);
    assert_true(c.bytes == 4 * 4.0 * 100 * 50 + 4.0 * 100 * 50);
}

static void vectors_cost_their_bytes(void **state)
{
    (void)state;
    float x;
    vector_arguments_t v = {.x = &x, .y = &x, .shape = {.n = 1000, .type = CUDA_R_16F}};
    assert_true(cost_of("softgpu_axpy", &v).bytes == 3 * 2000.0);
    assert_true(cost_of("softgpu_copy", &v).bytes == 2 * 2000.0);
    v.result = &x;
    assert_true(cost_of("softgpu_dot", &v).bytes == 2 * 2000.0);
    const geam_arguments_t g = {
        .shape = {.m = 10, .n = 20, .batch = 1, .alpha = 1, .type_a = CUDA_R_16F, .type_c = CUDA_R_32F}};
    assert_true(cost_of("softgpu_geam", &g).bytes == 200.0 * (2 + 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_declares_a_cost),
        cmocka_unit_test(a_product_costs_its_multiplications),
        cmocka_unit_test(vectors_cost_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
