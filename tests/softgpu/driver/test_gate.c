/* The gate in front of every driver function: faults on demand, the call trace. The variables are read when the library is
 * loaded, so each scene is a run of this program of its own (a child that is this program, with arguments). */
#include "driver_test.h"

#include <sys/wait.h>

/* ---- scenes, in the child ---- */

static void print_results(int count, const CUresult *results)
{
    for (int i = 0; i < count; i++)
        printf("%s%d", i ? " " : "", (int)results[i]);
    printf("\n");
}

static CUdeviceptr start(void)
{
    CUcontext context;
    CUdeviceptr p = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        exit(3);
    return p;
}

static void scene_allocations(void)
{
    CUresult results[6];
    CUdeviceptr p[3] = {0}, q;
    void *host;
    start();
    for (int i = 0; i < 3; i++)
        results[i] = cuMemAlloc(&p[i], 4096);
    results[3] = cuMemAllocAsync(&q, 4096, NULL);
    results[4] = cuMemAllocHost(&host, 4096);
    results[5] = cuMemFree(p[0]);
    print_results(6, results);
}

static void scene_copies(void)
{
    CUresult results[4];
    CUdeviceptr p = start();
    int value = 1, read = 0;
    OK(cuMemAlloc(&p, 4096));
    results[0] = cuMemcpyHtoD(p, &value, sizeof value);
    value = 2;
    results[1] = cuMemcpyHtoD(p, &value, sizeof value); /* fails: nothing is copied */
    results[2] = cuMemcpyDtoH(&read, p, sizeof read);
    results[3] = read == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    print_results(4, results);
}

static void scene_sticky(void)
{
    CUresult results[3];
    CUdeviceptr p;
    start();
    results[0] = cuMemAlloc(&p, 4096);
    results[1] = cuCtxSynchronize();
    results[2] = cuMemAlloc(&p, 4096);
    print_results(3, results);
}

/* More arguments than there are registers for. */
static void scene_launch(void)
{
    CUresult results[2];
    CUdeviceptr p = start();
    float value = 3, read = 0;
    int n = 1;
    CUfunction f;
    OK(cuModuleLoad(&test_module, KERNELS));
    OK(cuModuleGetFunction(&f, test_module, "_Z4fillPffi"));
    OK(cuMemAlloc(&p, 4096));
    results[0] = cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&p, &value, &n}, NULL);
    OK(cuMemcpyDtoH(&read, p, sizeof read));
    results[1] = read == 3.0f ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    print_results(2, results);
}

/* Of PTX: what is loaded, three launches, and how many of them have run. */
static void scene_ptx(void)
{
    static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry count(.param .u64 p)\n{\n.reg .b32 %r<2>;\n.reg .b64 %a<2>;\n"
                              "ld.param.u64 %a1, [p];\natom.global.add.u32 %r1, [%a1], 1;\nret;\n}\n";
    CUresult results[5];
    CUdeviceptr p = start();
    int count = 0;
    CUfunction f;
    results[0] = cuModuleLoadData(&test_module, ptx);
    if (results[0])
        OK(cuModuleLoadData(&test_module, ptx));
    OK(cuModuleGetFunction(&f, test_module, "count"));
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD32(p, 0, 1));
    for (int i = 1; i < 4; i++)
        results[i] = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p}, NULL);
    results[4] = cuMemcpyDtoH(&count, p, sizeof count);
    print_results(5, results);
    printf("%d\n", count);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {{"allocations", scene_allocations},
              {"copies", scene_copies},
              {"sticky", scene_sticky},
              {"launch", scene_launch},
              {"ptx", scene_ptx}};

/* ---- running them ---- */

/* What the scene prints on stdout and stderr, with one variable set. */
static const char *run(const char *scene, const char *variable, const char *value)
{
    static char output[16384];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_gate", scene, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], output + n, sizeof output - 1 - n)) > 0;)
        n += (size_t)got;
    output[n] = 0;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return output;
}

static void the_nth_call_of_a_kind_fails(void **state)
{
    (void)state;
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", ""), "0 0 0 0 0 0\n");
    /* All that allocates device memory is one kind; host memory is another. */
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "alloc@2"), "0 2 0 0 0 0\n");
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "alloc@3+"), "0 0 2 2 0 0\n");
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "host@1,free@1=INVALID_HANDLE"),
                        "0 0 0 0 2 400\n");
}

static void a_kind_may_be_a_name_or_a_pattern(void **state)
{
    (void)state;
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "cuMemAllocAsync@1"), "0 0 0 2 0 0\n");
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "cuMemAlloc@1=CUDA_ERROR_NOT_PERMITTED"),
                        "800 0 0 0 0 0\n");
    assert_string_equal(run("allocations", "SOFTGPU_FAULT", "cuMem*@6=999"), "0 0 0 0 0 999\n");
}

static void a_failing_call_has_no_effect(void **state)
{
    (void)state;
    assert_string_equal(run("copies", "SOFTGPU_FAULT", "cuMemcpyHtoD@2"), "0 719 0 0\n");
}

static void a_sticky_fault_stays(void **state)
{
    (void)state;
    const char *output = run("sticky", "SOFTGPU_FAULT", "sync@1=ILLEGAL_ADDRESS!");
    assert_non_null(strstr(output, "0 700 700\n"));
}

static void kernels_of_ptx_fail_like_others(void **state)
{
    (void)state;
    assert_string_equal(run("ptx", "SOFTGPU_FAULT", ""), "0 0 0 0 0\n3\n");
    assert_string_equal(run("ptx", "SOFTGPU_FAULT", "launch@2"), "0 0 719 0 0\n2\n");
    assert_string_equal(run("ptx", "SOFTGPU_FAULT", "cuModuleLoadData@1=OUT_OF_MEMORY,launch@3"),
                        "2 0 0 719 0\n2\n");
    assert_non_null(strstr(run("ptx", "SOFTGPU_FAULT", "launch@2=ILLEGAL_ADDRESS!"), "0 0 700 700 700\n0\n"));
}

static void a_rule_that_makes_no_sense_is_said(void **state)
{
    (void)state;
    assert_non_null(strstr(run("copies", "SOFTGPU_FAULT", "copy"), "'copy' is not KIND@N"));
    assert_non_null(strstr(run("copies", "SOFTGPU_FAULT", "copy@0"), "'copy@0' is not KIND@N"));
    assert_non_null(strstr(run("copies", "SOFTGPU_FAULT", "copy@1=NONSENSE"), "is not KIND@N"));
}

static void the_trace_has_names_arguments_and_results(void **state)
{
    (void)state;
    const char *output = run("launch", "SOFTGPU_TRACE", "-");
    assert_non_null(strstr(output, " cuInit(Flags=0) = CUDA_SUCCESS\n"));
    assert_non_null(strstr(output, "bytesize=4096) = CUDA_SUCCESS\n"));
    /* Those on the stack are read as well. */
    assert_non_null(strstr(output,
                           "gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=128, blockDimY=1, blockDimZ=1, "
                           "sharedMemBytes=0, hStream=0"));
    assert_non_null(strstr(output, "\n0 0\n"));
}

static void the_trace_tells_of_faults(void **state)
{
    (void)state;
    setenv("SOFTGPU_TRACE", "-", 1);
    const char *output = run("copies", "SOFTGPU_FAULT", "copy@2");
    unsetenv("SOFTGPU_TRACE");
    assert_non_null(strstr(output, "= CUDA_ERROR_LAUNCH_FAILED (wanted)\n"));
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof scenes[0]; i++)
        if (!strcmp(argv[1], scenes[i].name)) {
            scenes[i].run();
            return 0;
        }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_of_a_kind_fails),
        cmocka_unit_test(a_kind_may_be_a_name_or_a_pattern),
        cmocka_unit_test(a_failing_call_has_no_effect),
        cmocka_unit_test(a_sticky_fault_stays),
        cmocka_unit_test(kernels_of_ptx_fail_like_others),
        cmocka_unit_test(a_rule_that_makes_no_sense_is_said),
        cmocka_unit_test(the_trace_has_names_arguments_and_results),
        cmocka_unit_test(the_trace_tells_of_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
