/* simt_test.h: what the tests of SIMT and checked mode share. A test that breaks the context runs in a process of its own:
 * in_child(). */
#ifndef SIMT_TEST_H
#define SIMT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext test_context;
static CUmodule test_module;

static inline void start_device(void)
{
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&test_context, 0));
    OK(cuCtxSetCurrent(test_context));
    OK(cuModuleLoad(&test_module, KERNELS));
}

static inline int simt_setup(void **state)
{
    (void)state;
    start_device();
    return 0;
}

static inline CUfunction kernel(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, test_module, name));
    return f;
}

#define LAUNCH_SHARED(name, grid, block, shared, ...)                                                        \
    cuLaunchKernel(kernel(name), (unsigned)(grid), 1, 1, (unsigned)(block), 1, 1, (unsigned)(shared), NULL,  \
                   (void *[]){__VA_ARGS__}, NULL)
#define LAUNCH(name, grid, block, ...) LAUNCH_SHARED(name, grid, block, 0, __VA_ARGS__)

static inline CUdeviceptr device_zeros(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemsetD8(p, 0, bytes));
    return p;
}

static inline CUdeviceptr device_ints(const int *values, size_t n)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, n * sizeof *values));
    OK(cuMemcpyHtoD(p, values, n * sizeof *values));
    return p;
}

static inline void read_back(void *to, CUdeviceptr from, size_t bytes)
{
    OK(cuMemcpyDtoH(to, from, bytes));
}

/* Runs `body` in a child with its own device; its stderr, cut to `bytes`, in `log`. The child must not have been started
 * from a process that uses the device. Returns the child's exit status. */
static inline int in_child(void (*body)(void), char *log, size_t bytes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        body();
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; used + 1 < bytes && (n = read(ends[0], log + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    log[used] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In a child, where assertions of cmocka have nowhere to go. */
#define CHILD_CHECK(condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                    \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static inline void child_device(void)
{
    CHILD_CHECK(cuInit(0) == CUDA_SUCCESS);
    CHILD_CHECK(cuDevicePrimaryCtxRetain(&test_context, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuCtxSetCurrent(test_context) == CUDA_SUCCESS);
    CHILD_CHECK(cuModuleLoad(&test_module, KERNELS) == CUDA_SUCCESS);
}

static inline CUdeviceptr child_zeros(size_t bytes)
{
    CUdeviceptr p;
    CHILD_CHECK(cuMemAlloc(&p, bytes) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemsetD8(p, 0, bytes) == CUDA_SUCCESS);
    return p;
}

static inline CUfunction child_kernel(const char *name)
{
    CUfunction f = NULL;
    CHILD_CHECK(cuModuleGetFunction(&f, test_module, name) == CUDA_SUCCESS);
    return f;
}

/* The next line of SOFTGPU_ACCESS_LOG: `strided`, which reads every third of 192 words and writes 64 in a row. */
static inline void expect_strided_logged(FILE *log, int blocks)
{
    char line[8192], want[4096];
    assert_non_null(fgets(line, sizeof line, log));
    assert_non_null(strstr(line, "\"kernel\":\"strided\""));
    snprintf(want, sizeof want, "\"grid\":[%d,1,1],\"block\":[64,1,1],\"read\":[{\"buffer\":\"0x", blocks);
    assert_non_null(strstr(line, want));
    size_t at = (size_t)snprintf(want, sizeof want, "\"bytes\":768,\"ranges\":[");
    for (int i = 0; i < 64; i++)
        at += (size_t)snprintf(want + at, sizeof want - at, "%s[%d,%d]", i ? "," : "", 12 * i, 12 * i + 4);
    snprintf(want + at, sizeof want - at, "]}],\"write\":[{\"buffer\":\"0x");
    assert_non_null(strstr(line, want));
    assert_non_null(strstr(line, "\"bytes\":256,\"ranges\":[[0,256]]}]}\n"));
}

#define CHILD_LAUNCH_SHARED(name, grid, block, shared, ...)                                                  \
    CHILD_CHECK(cuLaunchKernel(child_kernel(name), (unsigned)(grid), 1, 1, (unsigned)(block), 1, 1,          \
                               (unsigned)(shared), NULL, (void *[]){__VA_ARGS__}, NULL) == CUDA_SUCCESS)
#define CHILD_LAUNCH(name, grid, block, ...) CHILD_LAUNCH_SHARED(name, grid, block, 0, __VA_ARGS__)

#endif
