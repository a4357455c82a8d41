/* reload.c: a training loop whose kernels come from a module that is unloaded and loaded again.
 *
 *   reload MODULE [STEP... | dear]
 *
 * A step makes six activations of 2 MiB from one another, and gradients from them in reverse order. At the steps that
 * are named the module is reloaded: at their beginning, in the middle if the number is odd; behind a minus another one is, from
 * which nothing is launched. Prints a hash of the gradients.
 *
 * `dear`: another step, in which two buffers that take 41 launches each lie idle only while a large one is worked on.
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, FLOATS = (2 << 20) / 4, STEPS = 48, DEAR_STEPS = 28, BLOCKS = FLOATS / 4096 };

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        CUresult result_ = (call);                                                                           \
        if (result_) {                                                                                       \
            fprintf(stderr, "reload: %s: %d\n", #call, (int)result_);                                        \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

static CUmodule module, other;
static CUfunction layer, gradient, exchange;
static CUstream stream;

static void load(const char *path)
{
    if (module)
        CHECK(cuModuleUnload(module));
    CHECK(cuModuleLoad(&module, path));
    CHECK(cuModuleGetFunction(&layer, module, "layer"));
    CHECK(cuModuleGetFunction(&gradient, module, "gradient"));
    CHECK(cuModuleGetFunction(&exchange, module, "ncclDevKernel_AllReduce"));
}

static void load_other(const char *path)
{
    if (other)
        CHECK(cuModuleUnload(other));
    CHECK(cuModuleLoad(&other, path));
}

static void launch(CUfunction f, CUdeviceptr to, CUdeviceptr from)
{
    size_t n = FLOATS;
    void *both[] = {&to, &from, &n}, *one[] = {&to, &n};
    CHECK(cuLaunchKernel(f, BLOCKS, 1, 1, 256, 1, 1, 0, stream, from ? both : one, NULL));
}

static void step(CUdeviceptr data, CUdeviceptr d, const char *path, int reload)
{
    CUdeviceptr x[LAYERS + 1] = {data};
    void (*again)(const char *) = reload > 0 ? load : load_other;
    if (reload && reload % 2 == 0)
        again(path);
    for (int i = 0; i < LAYERS; i++) {
        CHECK(cuMemAllocAsync(&x[i + 1], FLOATS * sizeof(float), stream));
        launch(layer, x[i + 1], x[i]);
    }
    if (reload % 2)
        again(path);
    for (int i = LAYERS; i > 0; i--) {
        launch(gradient, d, x[i]);
        CHECK(cuMemFreeAsync(x[i], stream));
    }
    launch(exchange, d, 0);
}

static void dear_step(CUdeviceptr data, CUdeviceptr d)
{
    const size_t large = 4 * FLOATS * sizeof(float);
    CUdeviceptr x[2], t;
    for (int k = 0; k < 2; k++) {
        CHECK(cuMemAllocAsync(&x[k], FLOATS * sizeof(float), stream));
        launch(layer, x[k], data);
        for (int i = 0; i < 40; i++)
            launch(gradient, x[k], data);
    }
    CHECK(cuMemAllocAsync(&t, large, stream));
    CHECK(cuMemsetD8Async(t, 0, large, stream));
    launch(gradient, t, data);
    launch(layer, t, data);
    launch(gradient, d, t);
    CHECK(cuMemFreeAsync(t, stream));
    for (int k = 0; k < 2; k++) {
        launch(gradient, d, x[k]);
        CHECK(cuMemFreeAsync(x[k], stream));
    }
    launch(exchange, d, 0);
}

int main(int argc, char **argv)
{
    static float host[FLOATS];
    CUdevice device;
    CUcontext context;
    CUdeviceptr data, d;
    if (argc < 2)
        return 2;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&data, sizeof host));
    CHECK(cuMemAlloc(&d, sizeof host));
    for (int i = 0; i < FLOATS; i++)
        host[i] = (float)(i % 1000) * 0.001f;
    CHECK(cuMemcpyHtoD(data, host, sizeof host));
    CHECK(cuMemsetD8(d, 0, sizeof host));
    load(argv[1]);
    load_other(argv[1]);
    const bool dear = argc > 2 && !strcmp(argv[2], "dear");
    for (int s = 1, at = 2; s <= (dear ? DEAR_STEPS : STEPS); s++) {
        const int reload = at < argc && abs(atoi(argv[at])) == s ? atoi(argv[at++]) : 0;
        if (dear)
            dear_step(data, d);
        else
            step(data, d, argv[1], reload);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemcpyDtoH(host, d, sizeof host));
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof host; i++)
        hash = (hash ^ ((unsigned char *)host)[i]) * 1099511628211u;
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
