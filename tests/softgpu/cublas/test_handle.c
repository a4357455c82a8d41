/* Handles and what is set on them, names and version nodes, copies, and how cuBLAS reaches the driver. This
 * program has its own dlsym, as a preloaded layer would, and watches what cuBLAS launches. */
#define _GNU_SOURCE
#include <unistd.h>

#include "cublas_test.h"

#include "../watch.h"

/* watching */

static int asked_count, other_names;
static lookup_fn real_lookup;
static __typeof__(cuLaunchKernel) *real_launch;
static struct {
    int count;
    CUfunction function;
    CUstream stream;
    void *pointers[3];
    unsigned blocks;
} launched;

static CUresult watched_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    launched.count++;
    launched.function = f;
    launched.stream = stream;
    launched.blocks = gx * gy * gz;
    for (int i = 0; i < 3; i++)
        memcpy(&launched.pointers[i], params[i], sizeof(void *));
    return real_launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static CUresult watched_lookup(const char *name, void **out, int version, cuuint64_t flags,
                               CUdriverProcAddressQueryResult *status)
{
    CUresult result = real_lookup(name, out, version, flags, status);
    if (!strcmp(name, "cuLaunchKernel")) {
        memcpy(&real_launch, out, sizeof real_launch);
        *out = (void *)(uintptr_t)watched_launch;
    }
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *object, const char *name)
{
    void *symbol = libc_dlsym(object, name);
    if (!address_is_in(__builtin_return_address(0), "libcublas"))
        return symbol;
    asked_count++;
    if (strcmp(name, "cuGetProcAddress_v2")) {
        other_names++;
        return symbol;
    }
    memcpy(&real_lookup, &symbol, sizeof real_lookup);
    return (void *)(uintptr_t)watched_lookup;
}

/* tests */

static void driver_is_reached_by_one_symbol(void **state)
{
    (void)state;
    assert_int_equal(asked_count, 1);
    assert_int_equal(other_names, 0);
}

static void product_is_a_launch_with_visible_pointers(void **state)
{
    (void)state;
    enum { N = 600 };
    const float one = 1, zero = 0;
    cudaStream_t stream;
    float *host = random_matrix(N * N, 1), *a = to_device(host, N * N), *b = to_device(host, N * N),
          *c = to_device(host, N * N);
    OK(cudaStreamCreate(&stream));
    BLAS_OK(cublasSetStream(handle, stream));
    memset(&launched, 0, sizeof launched);
    BLAS_OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, a, N, b, N, &zero, c, N));
    assert_int_equal(launched.count, 1);
    assert_ptr_equal(launched.stream, stream);
    assert_true(launched.blocks > 1);
    assert_ptr_equal(launched.pointers[0], a);
    assert_ptr_equal(launched.pointers[1], b);
    assert_ptr_equal(launched.pointers[2], c);
    for (size_t i = 0; i < 3; i++) {
        size_t offset, size;
        OK(cuFuncGetParamInfo(launched.function, i, &offset, &size));
        assert_int_equal(size, 8);
        assert_int_equal(offset % 8, 0);
    }
    BLAS_OK(cublasSetStream(handle, NULL));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
    free(host);
}

static void settings_are_kept(void **state)
{
    (void)state;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math;
    cublasAtomicsMode_t atomics;
    int version = 0, major = 0;
    BLAS_OK(cublasGetPointerMode(handle, &pointer_mode));
    assert_int_equal(pointer_mode, CUBLAS_POINTER_MODE_HOST);
    BLAS_OK(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH));
    BLAS_OK(cublasGetMathMode(handle, &math));
    assert_int_equal(math, CUBLAS_PEDANTIC_MATH);
    BLAS_OK(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
    BLAS_OK(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_ALLOWED));
    BLAS_OK(cublasGetAtomicsMode(handle, &atomics));
    assert_int_equal(atomics, CUBLAS_ATOMICS_ALLOWED);
    BLAS_OK(cublasGetVersion(handle, &version));
    BLAS_OK(cublasGetProperty(MAJOR_VERSION, &major));
    assert_int_equal(version, CUBLAS_VERSION);
    assert_int_equal(major, CUBLAS_VER_MAJOR);
    BLAS_OK(cublasSetWorkspace(handle, NULL, 0));
    assert_int_equal(cublasSetWorkspace(handle, (void *)8, 100), CUBLAS_STATUS_INVALID_VALUE);
}

static void no_handle_is_not_initialized(void **state)
{
    (void)state;
    cudaStream_t stream;
    assert_int_equal(cublasCreate(NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasDestroy(NULL), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(cublasSetStream(NULL, NULL), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(cublasGetStream(handle, NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasGetStream(NULL, &stream), CUBLAS_STATUS_NOT_INITIALIZED);
}

static void statuses_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
    assert_string_equal(cublasGetStatusString(CUBLAS_STATUS_NOT_INITIALIZED),
                        "the library was not initialized");
    assert_string_equal(cublasGetStatusName((cublasStatus_t)99), "unrecognized status");
}

static void vectors_and_matrices_are_copied(void **state)
{
    (void)state;
    enum { ROWS = 30, COLUMNS = 20 };
    float *from = random_matrix(ROWS * COLUMNS, 1), to[ROWS * COLUMNS];
    void *d;
    OK(cudaMalloc(&d, sizeof to));
    BLAS_OK(cublasSetVector(ROWS * COLUMNS, sizeof *from, from, 1, d, 1));
    BLAS_OK(cublasGetVector(ROWS * COLUMNS, sizeof *from, d, 1, to, 1));
    assert_memory_equal(from, to, sizeof to);
    memset(to, 0, sizeof to);
    BLAS_OK(cublasSetMatrix(ROWS, COLUMNS, sizeof *from, from, ROWS, d, ROWS));
    BLAS_OK(cublasGetMatrixAsync(ROWS, COLUMNS, sizeof *from, d, ROWS, to, ROWS, NULL));
    OK(cudaStreamSynchronize(NULL));
    assert_memory_equal(from, to, sizeof to);
    assert_int_equal(cublasSetMatrix(ROWS, COLUMNS, sizeof *from, from, ROWS - 1, d, ROWS),
                     CUBLAS_STATUS_INVALID_VALUE);
    /* With gaps it takes the driver's rectangle copies, which it may not have. */
    cublasStatus_t status = cublasGetMatrix(ROWS - 5, COLUMNS, sizeof *from, d, ROWS, to, ROWS);
    assert_true(status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED);
    OK(cudaFree(d));
    free(from);
}

/* NAMES lists the real library's. */
static void every_name_has_the_version_node(void **state)
{
    (void)state;
    void *library = dlopen("libcublas.so.13", RTLD_NOW);
    FILE *names = fopen(NAMES, "r");
    assert_non_null(library);
    if (!names)
        skip(); /* the toolkit lacks NVIDIA's */
    char name[128];
    int count = 0;
    for (; fscanf(names, "%127s", name) == 1; count++)
        if (!dlvsym(library, name, "libcublas.so.13"))
            fail_msg("%s@libcublas.so.13 is missing", name);
    fclose(names);
    assert_true(count > 700);
    assert_null(dlsym(library, "cblas_sgemm"));
    assert_null(dlsym(library, "blas_launch"));
}

/* By name: the header for builds without NVIDIA's cuBLAS does not declare what is not provided. */
static void unprovided_routine_is_not_supported(void **state)
{
    (void)state;
    int (*routine)(void);
    void *symbol = dlsym(dlopen("libcublas.so.13", RTLD_NOW), "cublasZhemm_v2");
    if (!symbol && access(NAMES, R_OK))
        skip(); /* the toolkit lacks NVIDIA's */
    assert_non_null(symbol);
    memcpy(&routine, &symbol, sizeof routine);
    assert_int_equal(routine(), CUBLAS_STATUS_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_is_reached_by_one_symbol),
        cmocka_unit_test(product_is_a_launch_with_visible_pointers),
        cmocka_unit_test(settings_are_kept),
        cmocka_unit_test(no_handle_is_not_initialized),
        cmocka_unit_test(statuses_have_names_and_texts),
        cmocka_unit_test(vectors_and_matrices_are_copied),
        cmocka_unit_test(every_name_has_the_version_node),
        cmocka_unit_test(unprovided_routine_is_not_supported),
    };
    return cmocka_run_group_tests(tests, blas_setup, blas_teardown);
}
