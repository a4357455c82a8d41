/* The last error: per thread, cleared by reading, unless the context is lost. */
#include "runtime_test.h"
#include "kernels.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void last_error_is_kept_until_read(void **state)
{
    (void)state;
    OK(cudaGetLastError());
    assert_int_equal(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
    OK(cudaFree(NULL)); /* success does not clear it */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    OK(cudaPeekAtLastError());
    OK(cudaGetLastError());
}

static void last_error_is_the_newest(void **state)
{
    (void)state;
    assert_int_equal(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
    assert_int_equal(cudaSetDevice(1000), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
}

static void *fail_in_thread(void *out)
{
    cudaError_t *errors = out;
    errors[0] = cudaPeekAtLastError();
    errors[1] = cudaSetDevice(-1);
    errors[2] = cudaGetLastError();
    return NULL;
}

static void last_error_belongs_to_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    cudaError_t errors[3];
    assert_int_equal(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, errors), 0);
    pthread_join(thread, NULL);
    assert_int_equal(errors[0], cudaSuccess);
    assert_int_equal(errors[1], cudaErrorInvalidDevice);
    assert_int_equal(errors[2], cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void out_of_memory_is_not_sticky(void **state)
{
    (void)state;
    void *p = &p;
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    assert_null(p);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaFree(device_alloc(1 << 20)));
    OK(cudaGetLastError());
}

static void errors_have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorString(cudaErrorNoKernelImageForDevice),
                        "no kernel image is available for execution on the device");
    assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
}

static void pop_without_push_is_a_missing_configuration(void **state)
{
    (void)state;
    extern cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
                     cudaErrorMissingConfiguration);
    cudaGetLastError();
}

static void *call_in_thread(void *out)
{
    void *p;
    *(cudaError_t *)out = cudaMalloc(&p, 16);
    return NULL;
}

/* An illegal address destroys the context: every call says so, in every thread, and reading the error does
 * not clear it. Returns the number of the first step that went wrong. */
static int lose_the_context(void)
{
    pthread_t thread;
    cudaError_t other = cudaSuccess;
    void *p;
    if (launch_wild_store() != cudaSuccess) /* found out later */
        return 1;
    if (cudaDeviceSynchronize() != cudaErrorIllegalAddress)
        return 2;
    if (cudaGetLastError() != cudaErrorIllegalAddress || cudaGetLastError() != cudaErrorIllegalAddress)
        return 3;
    if (cudaMalloc(&p, 16) != cudaErrorIllegalAddress)
        return 4;
    /* Another error does not hide it. */
    if (cudaSetDevice(1000) != cudaErrorInvalidDevice || cudaPeekAtLastError() != cudaErrorIllegalAddress)
        return 5;
    if (pthread_create(&thread, NULL, call_in_thread, &other) || pthread_join(thread, NULL))
        return 6;
    return other == cudaErrorIllegalAddress ? 0 : 7;
}

/* In a process of its own, which must be forked before this one uses the device. */
static void illegal_address_is_sticky(void **state)
{
    (void)state;
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(lose_the_context());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(illegal_address_is_sticky), /* first: it forks */
        cmocka_unit_test(last_error_is_kept_until_read),
        cmocka_unit_test(last_error_is_the_newest),
        cmocka_unit_test(last_error_belongs_to_the_thread),
        cmocka_unit_test(out_of_memory_is_not_sticky),
        cmocka_unit_test(errors_have_names_and_texts),
        cmocka_unit_test(pop_without_push_is_a_missing_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
