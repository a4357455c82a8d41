/* test_nvrtc.c: sources that a program compiles while it runs, as NVRTC takes them: linked against the toolkit's library, run on softgpu's. */
#include <cuda.h>
#include <math.h>
#include <nvrtc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const options[] = {"--std=c++17", "--gpu-architecture=sm_80", "-default-device"};

/* The caller's. */
static char *log_of(nvrtcProgram program)
{
    size_t bytes = 0;
    assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), NVRTC_SUCCESS);
    char *text = malloc(bytes);
    assert_non_null(text);
    assert_int_equal(nvrtcGetProgramLog(program, text), NVRTC_SUCCESS);
    assert_int_equal(strlen(text) + 1, bytes);
    return text;
}

/* Fails with the log if it cannot be. */
static void compile(nvrtcProgram program)
{
    const nvrtcResult result = nvrtcCompileProgram(program, 3, options);
    if (result)
        fail_msg("%s: %s", nvrtcGetErrorString(result), log_of(program));
}

static nvrtcProgram compiled(const char *source)
{
    nvrtcProgram program;
    assert_int_equal(nvrtcCreateProgram(&program, source, NULL, 0, NULL, NULL), NVRTC_SUCCESS);
    compile(program);
    return program;
}

static CUmodule load(nvrtcProgram program)
{
    size_t bytes;
    CUmodule module;
    assert_int_equal(nvrtcGetCUBINSize(program, &bytes), NVRTC_SUCCESS);
    char *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(nvrtcGetCUBIN(program, image), NVRTC_SUCCESS);
    assert_int_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    free(image);
    return module;
}

/* One block of `count` threads over so many floats; `values` is replaced by what the kernel has made of it. */
static void run(CUmodule module, const char *name, float *values, unsigned count)
{
    CUfunction kernel;
    CUdeviceptr memory;
    void *arguments[] = {&memory};
    assert_int_equal(cuModuleGetFunction(&kernel, module, name), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&memory, count * sizeof *values), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyHtoD(memory, values, count * sizeof *values), CUDA_SUCCESS);
    assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, count, 1, 1, 0, NULL, arguments, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(values, memory, count * sizeof *values), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(memory), CUDA_SUCCESS);
}

/* As PyTorch has them: own integer types and an own namespace std, functions without a word of CUDA's. */
static void source_without_headers_computes(void **state)
{
    (void)state;
    static const char source[] = "typedef long long int int64_t;\n"
                                 "typedef unsigned long long uint64_t;\n"
                                 "namespace std { template <typename T> T square(T x) { return x * x; } }\n"
                                 "template <typename T> T of(T x) { return erfinv(tanh(x)) + std::square(x) "
                                 "+ abs(x) + max(x, T(1)); }\n"
                                 "extern \"C\" __global__ void f(float *x)\n"
                                 "{\n"
                                 "    int64_t i = threadIdx.x;\n"
                                 "    x[i] = of(x[i]);\n"
                                 "}\n";
    enum { COUNT = 64 };
    float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = y[i] = (float)(i - 31) / 16;
    nvrtcProgram program = compiled(source);
    CUmodule module = load(program);
    run(module, "f", y, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const double a = x[i], inverse = y[i] - a * a - fabs(a) - fmax(a, 1);
        assert_true(fabs(erf(inverse) - tanh(a)) < 2e-6);
    }
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
    assert_null(program);
}

static void name_expression_has_a_lowered_name(void **state)
{
    (void)state;
    static const char source[] =
        "namespace n { __device__ float by; template <typename T, int twice> __global__ void scale(T *x) { "
        "x[threadIdx.x] *= by * twice; } }\n";
    static const char kernel[] = "n::scale<float, 2>", variable[] = "&n::by";
    const char *name = NULL;
    const float by = 1.5F;
    nvrtcProgram program;
    assert_int_equal(nvrtcCreateProgram(&program, source, NULL, 0, NULL, NULL), NVRTC_SUCCESS);
    assert_int_equal(nvrtcAddNameExpression(program, kernel), NVRTC_SUCCESS);
    assert_int_equal(nvrtcAddNameExpression(program, variable), NVRTC_SUCCESS);
    assert_int_equal(nvrtcGetLoweredName(program, kernel, &name),
                     NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    compile(program);
    assert_int_equal(nvrtcAddNameExpression(program, "n::scale<int, 2>"),
                     NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
    assert_int_equal(nvrtcGetLoweredName(program, "n::scale<int, 2>", &name),
                     NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
    CUmodule module = load(program);
    CUdeviceptr at;
    size_t bytes;
    float x[2] = {1, -2};
    assert_int_equal(nvrtcGetLoweredName(program, variable, &name), NVRTC_SUCCESS);
    assert_int_equal(cuModuleGetGlobal(&at, &bytes, module, name), CUDA_SUCCESS);
    assert_int_equal(bytes, sizeof by);
    assert_int_equal(cuMemcpyHtoD(at, &by, sizeof by), CUDA_SUCCESS);
    assert_int_equal(nvrtcGetLoweredName(program, kernel, &name), NVRTC_SUCCESS);
    run(module, name, x, 2);
    assert_true(x[0] == 3 && x[1] == -6);
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
}

static void headers_and_macros_are_those_given(void **state)
{
    (void)state;
    const char *texts[] = {"#define BASE 5\n"}, *names[] = {"folder/base.h"},
               *more[] = {"-DADDED=2", "-arch=compute_80"};
    nvrtcProgram program;
    static const char source[] = "#include <folder/base.h>\nextern \"C\" __global__ void f(float *x) { "
                                 "x[threadIdx.x] = BASE + ADDED; }\n";
    assert_int_equal(nvrtcCreateProgram(&program, source, "named.cu", 1, texts, names), NVRTC_SUCCESS);
    assert_int_equal(nvrtcCompileProgram(program, 2, more), NVRTC_SUCCESS);
    size_t bytes = 1;
    assert_int_equal(nvrtcGetCUBINSize(program, &bytes), NVRTC_SUCCESS);
    assert_int_equal(bytes, 0); /* of a virtual architecture */
    assert_int_equal(nvrtcGetPTXSize(program, &bytes), NVRTC_SUCCESS);
    char *ptx = malloc(bytes);
    assert_int_equal(nvrtcGetPTX(program, ptx), NVRTC_SUCCESS);
    assert_int_equal(strlen(ptx) + 1, bytes);
    CUmodule module;
    assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
    float x = 0;
    run(module, "f", &x, 1);
    assert_true(x == 7);
    free(ptx);
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
    names[0] = "../base.h";
    assert_int_equal(nvrtcCreateProgram(&program, source, NULL, 1, texts, names), NVRTC_ERROR_INVALID_INPUT);
}

static void mistake_is_in_the_log(void **state)
{
    (void)state;
    nvrtcProgram program;
    assert_int_equal(nvrtcCreateProgram(&program, "__global__ void f(float *x)\n{\n    *x = missing;\n}\n",
                                        NULL, 0, NULL, NULL),
                     NVRTC_SUCCESS);
    assert_int_equal(nvrtcCompileProgram(program, 0, NULL), NVRTC_ERROR_COMPILATION);
    char *text = log_of(program);
    assert_non_null(strstr(text, ":3:"));
    assert_non_null(strstr(text, "missing"));
    free(text);
    size_t bytes;
    assert_int_equal(nvrtcGetPTXSize(program, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
    assert_int_equal(nvrtcCompileProgram(program, 0, NULL), NVRTC_ERROR_INVALID_PROGRAM); /* once only */
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    int major = 0, minor = -1, count = 0;
    size_t bytes;
    nvrtcProgram program = compiled("extern \"C\" __global__ void f() {}\n");
    assert_int_equal(nvrtcGetOptiXIRSize(program, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
    assert_int_equal(nvrtcGetLTOIRSize(program, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
    assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_ERROR_INVALID_PROGRAM);
    assert_int_equal(nvrtcVersion(&major, &minor), NVRTC_SUCCESS);
    assert_int_equal(major, 13);
    assert_int_equal(nvrtcGetNumSupportedArchs(&count), NVRTC_SUCCESS);
    int *all = calloc((size_t)count, sizeof *all);
    assert_int_equal(nvrtcGetSupportedArchs(all), NVRTC_SUCCESS);
    assert_true(count > 0 && all[count - 1] == 90);
    free(all);
    assert_string_equal(nvrtcGetErrorString(NVRTC_ERROR_COMPILATION), "NVRTC_ERROR_COMPILATION");
}

static int begin(void **state)
{
    CUdevice device;
    CUcontext context;
    (void)state;
    return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
           cuCtxSetCurrent(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_without_headers_computes),
        cmocka_unit_test(name_expression_has_a_lowered_name),
        cmocka_unit_test(headers_and_macros_are_those_given),
        cmocka_unit_test(mistake_is_in_the_log),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
