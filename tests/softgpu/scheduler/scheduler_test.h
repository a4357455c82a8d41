/* scheduler_test.h: bodies that run in a process of their own, under the deterministic scheduler with a seed and a
 * profile, and hand a result back.
 */
#ifndef SCHEDULER_TEST_H
#define SCHEDULER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

/* In a child no assertion of CMocka's may fail: it would go on as a second test program. */
#define OK(call) expect_ok((call), #call, __LINE__)

static inline void expect_ok(CUresult result, const char *call, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "line %d: %s: error %d\n", line, call, (int)result);
    _exit(99);
}

static CUmodule module;

/* Else the first launch of each would wait for the context: hazards hide behind it, and what spins for it never ends. */
static inline void load_all(void)
{
    CUfunction functions[64];
    unsigned count;
    OK(cuModuleGetFunctionCount(&count, module));
    assert_true(count <= sizeof functions / sizeof functions[0]);
    OK(cuModuleEnumerateFunctions(functions, count, module));
    for (unsigned i = 0; i < count; i++)
        OK(cuFuncLoad(functions[i]));
}

static inline void child_setup(unsigned seed)
{
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    setenv("SOFTGPU_SCHEDULER", "deterministic", 1);
    setenv("SOFTGPU_SEED", text, 1);
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, KERNELS));
    load_all();
}

/* Runs `body` with the seed in a child; what it writes to `out` is there afterwards. */
static inline void run_seeded(unsigned seed, void (*body)(void *), void *out, size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    memcpy(shared, out, bytes);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        alarm(60);
        child_setup(seed);
        body(shared);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    memcpy(out, shared, bytes);
    munmap(shared, bytes);
}

/* ---- in the child ---- */

static inline CUfunction kernel(const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

/* One block; the arguments are addresses of values. Looked up before, for calls cost time. */
#define LAUNCH(stream, f, ...)                                                                               \
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, (void *[]){__VA_ARGS__}, NULL))

static inline CUdeviceptr device_alloc(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemsetD8(p, 0, bytes));
    OK(cuCtxSynchronize());
    return p;
}

static inline void *pinned_alloc(size_t bytes)
{
    void *p = NULL;
    OK(cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(p, 0, bytes);
    return p;
}

static inline CUstream new_stream(int priority)
{
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, priority));
    return s;
}

static inline CUevent new_event(void)
{
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
    return e;
}

/* In nanoseconds: floats hold them exactly up to 16 ms. */
static inline int64_t elapsed_ns(CUevent from, CUevent to)
{
    float ms = -1;
    OK(cuEventElapsedTime(&ms, from, to));
    return (int64_t)((double)ms * 1e6 + (ms < 0 ? -0.5 : 0.5));
}

#endif
