/* Modules, kernel libraries, launches and their arguments. */
#include "driver_test.h"

struct mixed {
    char tag;
    double x;
    int y[5];
};

static void arguments_of_every_kind_arrive(void **state)
{
    (void)state;
    double host[5];
    CUdeviceptr out = device_alloc(sizeof host);
    char c = 'c';
    struct mixed m = {1, 2.5, {0, 0, 40, 0, 0}};
    short s = -7;
    float f = 0.125f;
    void *args[] = {&out, &c, &m, &s, &f};
    OK(cuLaunchKernel(kernel("_Z14take_argumentsPdc5mixedsf"), 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(host, out, sizeof host));
    assert_true(host[0] == 'c' && host[1] == 43.5 && host[2] == -7 && host[3] == 0.125 && host[4] == 0);
    OK(cuMemFree(out));
}

/* The argument block given whole, as some frameworks do. */
static void packed_arguments_arrive(void **state)
{
    (void)state;
    CUfunction f = kernel("_Z4fillPffi");
    CUdeviceptr p = device_alloc(400);
    char block[64] = {0};
    size_t bytes = 0, offset, size;
    float value = 3.5f, host[100];
    int n = 100;
    const void *values[] = {&p, &value, &n};
    for (size_t i = 0; i < 3; i++) {
        OK(cuFuncGetParamInfo(f, i, &offset, &size));
        memcpy(block + offset, values[i], size);
        bytes = offset + size;
    }
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH(host, p, 400));
    assert_true(host[0] == 3.5f && host[99] == 3.5f);
    bytes++; /* one too many */
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra),
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    bytes = offset; /* without the last one, which is anything then */
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    OK(cuMemFree(p));
}

static void parameters_are_described_with_offsets_and_sizes(void **state)
{
    (void)state;
    const size_t want[5][2] = {{0, 8}, {8, 1}, {16, sizeof(struct mixed)}, {56, 2}, {60, 4}};
    CUfunction f = kernel("_Z14take_argumentsPdc5mixedsf");
    size_t offset, size;
    for (size_t i = 0; i < 5; i++) {
        OK(cuFuncGetParamInfo(f, i, &offset, &size));
        assert_int_equal(offset, want[i][0]);
        assert_int_equal(size, want[i][1]);
    }
    assert_int_equal(cuFuncGetParamInfo(f, 5, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

/* What ptxas makes of it is at these offsets (nvcc 13.0). */
static void over_aligned_parameters_lie_where_the_architecture_has_them(void **state)
{
    (void)state;
    static const struct {
        int major;
        size_t offset[3];
    } want[] = {{8, {32, 160, 288}}, {9, {112, 240, 368}}, {10, {0, 128, 256}}};
    CUfunction f = kernel("take_maps");
    size_t offset, size;
    int major;
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < 3 && major == want[k].major; i++) {
            OK(cuFuncGetParamInfo(f, i, &offset, &size));
            assert_int_equal(offset, want[k].offset[i]);
        }
}

/* A buffer has the offsets that are reported: a structure in C is another layout, unless the constant bank is aligned as it is. */
static void over_aligned_arguments_arrive_in_both_forms(void **state)
{
    (void)state;
    struct {
        CUtensorMap first;
        CUdeviceptr out;
        struct {
            int n;
            CUtensorMap map;
        } second;
    } block;
    memset(&block, 0, sizeof block);
    cuuint64_t host[32], expected[32];
    block.out = device_alloc(sizeof host);
    for (unsigned i = 0; i < 32; i++)
        expected[i] = (i < 16 ? block.first.opaque : block.second.map.opaque)[i % 16] = 1000 + i;
    void *params[] = {&block.first, &block.out, &block.second};
    const CUfunction f = kernel("take_maps");
    char buffer[1024] = {0};
    size_t bytes = 0, in_c = sizeof block, offset, size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    void *as_in_c[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &in_c,
                       CU_LAUNCH_PARAM_END};
    for (size_t i = 0; i < 3; i++) {
        OK(cuFuncGetParamInfo(f, i, &offset, &size));
        memcpy(buffer + offset, params[i], size);
        bytes = offset + size;
    }
    for (int by_buffer = 0; by_buffer < 2; by_buffer++) {
        OK(cuMemsetD8(block.out, 0, sizeof host));
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, by_buffer ? NULL : params,
                          by_buffer ? extra : NULL));
        OK(cuMemcpyDtoH(host, block.out, sizeof host));
        assert_memory_equal(host, expected, sizeof host);
    }
    if (in_c >= bytes) /* a shorter one would have its last argument cut short, and the address elsewhere */
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, as_in_c),
                         bytes == in_c ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    OK(cuCtxSynchronize());
    OK(cuMemFree(block.out));
}

static void every_block_of_a_grid_runs_once(void **state)
{
    (void)state;
    const unsigned grids[][3] = {{1, 1, 1}, {7, 5, 3}, {1000, 1, 1}, {1, 300, 2}};
    CUdeviceptr p = device_alloc(4000);
    int host[1000];
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++) {
        const unsigned *g = grids[k];
        unsigned n = g[0] * g[1] * g[2];
        OK(cuMemsetD32(p, 0, n));
        void *args[] = {&p};
        OK(cuLaunchKernel(kernel("_Z12count_blocksPi"), g[0], g[1], g[2], 32, 1, 1, 0, NULL, args, NULL));
        OK(cuMemcpyDtoH(host, p, 4 * n));
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(host[i], 1);
    }
    OK(cuMemFree(p));
}

static void impossible_launches_are_refused(void **state)
{
    (void)state;
    CUfunction f = kernel("_Z12count_blocksPi");
    CUdeviceptr p = device_alloc(64);
    void *args[] = {&p};
    assert_int_equal(cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 1, 65536, 1, 32, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 65, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 200 << 10, NULL, args, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, (CUstream)&p, args, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(p));
}

/* Not in fast mode, which would run its first thread alone. */
static void unmarked_kernel_runs_all_its_threads(void **state)
{
    (void)state;
    CUdeviceptr p = device_alloc(400);
    float host[100];
    int n = 100;
    void *args[] = {&p, &n};
    OK(cuMemsetD8(p, 0, 400));
    OK(cuLaunchKernel(kernel("_Z8unmarkedPfi"), 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(host, p, 400));
    for (int i = 0; i < n; i++)
        assert_true(host[i] == 1);
    OK(cuMemFree(p));
}

static void module_without_a_kernel_library_has_no_binary_for_the_device(void **state)
{
    (void)state;
    static const char image[] = "some image";
    CUmodule m;
    char path[] = "/tmp/softgpu-test-XXXXXX", *copy = malloc(64);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(cuModuleLoad(&m, path), CUDA_ERROR_NO_BINARY_FOR_GPU);
    unlink(path);
    assert_int_equal(cuModuleLoad(&m, path), CUDA_ERROR_FILE_NOT_FOUND);
    assert_int_equal(cuModuleLoadData(&m, image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cuModuleLoadData(&m, copy), CUDA_ERROR_NO_BINARY_FOR_GPU); /* in no file at all */
    free(copy);
}

/* Rule 3: a folder of kernel libraries. */
static void kernel_library_is_found_in_the_search_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/softgpu-test-XXXXXX", module[64], library[96], target[512], path[128];
    CUmodule m;
    CUfunction f;
    assert_non_null(mkdtemp(folder));
    snprintf(module, sizeof module, "%s/m.fatbin", folder);
    snprintf(path, sizeof path, "/nonexistent:%s/kernels", folder);
    snprintf(library, sizeof library, "%s/kernels", folder);
    snprintf(target, sizeof target, "mkdir %s && touch %s && ln -s %s.softgpu.so %s/m.fatbin.softgpu.so",
             library, module, KERNELS, library);
    assert_int_equal(system(target), 0);
    assert_int_equal(cuModuleLoad(&m, module), CUDA_ERROR_NO_BINARY_FOR_GPU);
    setenv("SOFTGPU_KERNEL_PATH", path, 1);
    OK(cuModuleLoad(&m, module));
    OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
    OK(cuModuleUnload(m));
    unsetenv("SOFTGPU_KERNEL_PATH");
    snprintf(target, sizeof target, "rm -r %s", folder);
    assert_int_equal(system(target), 0);
}

static void run_command(const char *text, ...)
{
    char line[1024];
    va_list list;
    va_start(list, text);
    vsnprintf(line, sizeof line, text, list);
    va_end(list);
    assert_int_equal(system(line), 0);
}

/* Beside the module lies the kernel library of another one, as after a build that was not finished. */
static void kernel_library_of_another_build_is_passed_over(void **state)
{
    (void)state;
    char folder[] = "/tmp/softgpu-test-XXXXXX", module[64], path[64];
    CUmodule m;
    CUfunction f;
    assert_non_null(mkdtemp(folder));
    snprintf(module, sizeof module, "%s/m.fatbin", folder);
    snprintf(path, sizeof path, "%s/kernels", folder);
    run_command("mkdir %s && cp %s %s", path, KERNELS, module);
    run_command("ln -s %s.softgpu.so %s.softgpu.so", OTHER_KERNELS, module);
    assert_int_equal(cuModuleLoad(&m, module), CUDA_ERROR_NO_BINARY_FOR_GPU);
    run_command("ln -s %s.softgpu.so %s/m.fatbin.softgpu.so", KERNELS, path);
    setenv("SOFTGPU_KERNEL_PATH", path, 1);
    OK(cuModuleLoad(&m, module));
    OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
    OK(cuModuleUnload(m));
    unsetenv("SOFTGPU_KERNEL_PATH");
    run_command("rm -r %s", folder);
}

/* Marks each entry of a fat binary as compressed, and nothing unpacks it. */
static void hide_names(const char *path)
{
    char image[65536];
    uint16_t header;
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    const size_t bytes = fread(image, 1, sizeof image, file);
    assert_true(bytes < sizeof image);
    memcpy(&header, image + 6, sizeof header);
    for (size_t at = header; at < bytes;) {
        uint32_t entry_header;
        uint64_t entry_bytes;
        image[at + 41] = (char)(image[at + 41] | 0x80);
        memcpy(&entry_header, image + at + 4, sizeof entry_header);
        memcpy(&entry_bytes, image + at + 8, sizeof entry_bytes);
        image[at + entry_header] = (char)~image[at + entry_header];
        at += entry_header + entry_bytes;
    }
    rewind(file);
    assert_int_equal(fwrite(image, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void kernel_library_of_an_unreadable_image_has_to_be_in_a_named_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/softgpu-test-XXXXXX", module[64];
    CUmodule m;
    assert_non_null(mkdtemp(folder));
    snprintf(module, sizeof module, "%s/m.fatbin", folder);
    run_command("cp %s %s && ln -s %s.softgpu.so %s.softgpu.so", KERNELS, module, KERNELS, module);
    OK(cuModuleLoad(&m, module));
    OK(cuModuleUnload(m));
    hide_names(module);
    assert_int_equal(cuModuleLoad(&m, module), CUDA_ERROR_NO_BINARY_FOR_GPU);
    setenv("SOFTGPU_KERNEL_PATH", folder, 1);
    OK(cuModuleLoad(&m, module));
    OK(cuModuleUnload(m));
    unsetenv("SOFTGPU_KERNEL_PATH");
    run_command("rm -r %s", folder);
}

static void names_and_handles_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    CUfunction f;
    CUmodule m;
    OK(cuModuleLoad(&m, KERNELS));
    assert_int_equal(cuModuleGetFunction(&f, m, "_Z4nonePf"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleUnload(m));
    assert_int_equal(cuModuleGetFunction(&f, m, "_Z4fillPffi"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_every_kind_arrive),
        cmocka_unit_test(packed_arguments_arrive),
        cmocka_unit_test(parameters_are_described_with_offsets_and_sizes),
        cmocka_unit_test(over_aligned_parameters_lie_where_the_architecture_has_them),
        cmocka_unit_test(over_aligned_arguments_arrive_in_both_forms),
        cmocka_unit_test(every_block_of_a_grid_runs_once),
        cmocka_unit_test(impossible_launches_are_refused),
        cmocka_unit_test(unmarked_kernel_runs_all_its_threads),
        cmocka_unit_test(module_without_a_kernel_library_has_no_binary_for_the_device),
        cmocka_unit_test(kernel_library_is_found_in_the_search_path),
        cmocka_unit_test(kernel_library_of_another_build_is_passed_over),
        cmocka_unit_test(kernel_library_of_an_unreadable_image_has_to_be_in_a_named_folder),
        cmocka_unit_test(names_and_handles_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
