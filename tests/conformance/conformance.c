/* conformance.c: the program of an area, which runs the case that its argument names, and what the cases share. */
#include "conformance.h"

int conformance_failures, conformance_device;
CUdevice device;
CUcontext context;
CUmodule module;

static const char *name_of(CUresult code)
{
    const char *name = NULL;
    return cuGetErrorName(code, &name) == CUDA_SUCCESS && name ? name : "(no name)";
}

void conformance_expect(CUresult got, CUresult want, const char *call, const char *file, int line)
{
    if (got == want)
        return;
    conformance_failures++;
    printf("%s:%d: %s: %s, expected %s\n", file, line, call, name_of(got), name_of(want));
}

void conformance_check(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    conformance_failures++;
    printf("%s:%d: %s does not hold\n", file, line, what);
}

int device_attribute(CUdevice_attribute which)
{
    int value = 0;
    OK(cuDeviceGetAttribute(&value, which, device));
    return value;
}

const char *conformance_kernels(void)
{
    const char *elsewhere = getenv("CONFORMANCE_KERNELS");
    return elsewhere ? elsewhere : CONFORMANCE_KERNELS;
}

static CUmodule load_kernels(void)
{
    CUmodule m;
    CUfunction functions[64];
    unsigned count;
    OK(cuModuleLoad(&m, conformance_kernels()));
    OK(cuModuleGetFunctionCount(&count, m));
    CHECK(count <= sizeof functions / sizeof functions[0]);
    OK(cuModuleEnumerateFunctions(functions, count, m));
    for (unsigned i = 0; i < count; i++)
        OK(cuFuncLoad(functions[i]));
    OK(cuCtxSynchronize()); /* loading may go on behind the call */
    return m;
}

CUfunction kernel(const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

void fill(CUstream stream, CUdeviceptr p, int value, int n)
{
    OK(LAUNCH(stream, "fill", (n + 1023) / 1024, &p, &value, &n));
}

void add(CUstream stream, CUdeviceptr p, int value, int n)
{
    OK(LAUNCH(stream, "add", (n + 1023) / 1024, &p, &value, &n));
}

hold_t hold(CUstream stream)
{
    hold_t h;
    void *p;
    CUdeviceptr seen;
    OK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 0, 4096);
    h.gate = p;
    OK(cuMemHostGetDevicePointer(&seen, p, 0));
    OK(cuLaunchKernel(kernel("wait_for"), 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&seen}, NULL));
    return h;
}

void let_go(hold_t h)
{
    *h.gate = 1;
    __sync_synchronize();
}

CUdeviceptr device_alloc(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

CUmemPoolProps pool_props(void)
{
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

int read_int(CUdeviceptr p)
{
    int value = 0;
    OK(cuMemcpyDtoH(&value, p, sizeof value));
    return value;
}

CUstream new_stream(unsigned flags)
{
    CUstream s;
    OK(cuStreamCreate(&s, flags));
    return s;
}

CUevent new_event(unsigned flags)
{
    CUevent e;
    OK(cuEventCreate(&e, flags));
    return e;
}

/* ---- cases ---- */

static conformance_case_t *cases;

void conformance_add(conformance_case_t *added)
{
    added->next = cases;
    cases = added;
}

static bool is_called(const conformance_case_t *c, const char *name)
{
    const char *slash = strrchr(c->file, '/'), *base = slash ? slash + 1 : c->file;
    size_t length = strlen(name);
    return !strncmp(base, name, length) && !strcmp(base + length, ".c");
}

static int run(const conformance_case_t *c)
{
    if (c->before)
        c->before();
    CUresult started = cuInit(0);
    if (started == CUDA_ERROR_NO_DEVICE)
        SKIP("no device");
    OK(started);
    OK(cuDeviceGet(&device, conformance_device));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    module = load_kernels();
    c->body();
    return conformance_failures ? 1 : 0;
}

int main(int argc, char **argv)
{
    for (const conformance_case_t *c = cases; c && argc == 2; c = c->next)
        if (is_called(c, argv[1]))
            return run(c);
    fprintf(stderr, "usage: %s CASE, a file of its area without .c\n", argv[0]);
    return 2;
}
