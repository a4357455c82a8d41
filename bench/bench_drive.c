/* bench_drive.c: nanoseconds per allocation, launch and free of a step that is the same each time, one line per figure: name,
 * nanoseconds.
 *
 * The same program is run with libebb.so preloaded, which learns the step and drives a plan for it, and without (drive.sh), on
 * the driver that does nothing (null_driver.c). A step allocates its buffers, launches, and frees them; what counts is the
 * fastest of the steps behind the first ones: what the layer costs, not what else the machine does.
 */
#include "bench_driver.h"

enum { STEPS = 400, WARM = 100, BORN = 128, WEIGHTS = 64, LAUNCHES = 512, MOST_PARAMS = 12 };

static CUstream stream;
static CUdeviceptr weight[WEIGHTS], born[BORN];
static CUfunction function[MOST_PARAMS + 1];

typedef struct times {
    uint64_t alloc, launch, release;
} times_t;

static void set_up(void)
{
    CUmodule module;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, ""));
    for (unsigned n = 0; n <= MOST_PARAMS; n++) {
        char name[8];
        snprintf(name, sizeof name, "p%u", n);
        OK(cuModuleGetFunction(&function[n], module, name));
    }
    for (unsigned i = 0; i < WEIGHTS; i++)
        OK(cuMemAlloc(&weight[i], i % 4 ? 3 << 20 : 3 << 10));
}

static void allocate(void)
{
    for (unsigned i = 0; i < BORN; i++)
        OK(cuMemAllocAsync(&born[i], i % 4 ? 5 << 20 : 5 << 10, stream));
}

/* As many parameters as operators have: 1 to 12, 6 on average; half of them weights. */
static void launch(void)
{
    void *params[MOST_PARAMS];
    for (unsigned i = 0; i < LAUNCHES; i++) {
        const unsigned n = 1 + (i * 2654435761u >> 13) % MOST_PARAMS;
        for (unsigned k = 0; k < n; k++)
            params[k] = k % 2 ? &weight[(i * 5 + k) % WEIGHTS] : &born[(i * 3 + k) % BORN];
        OK(cuLaunchKernel(function[n], 1 + i % 7, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    }
}

static void release(void)
{
    for (unsigned i = 0; i < BORN; i++)
        OK(cuMemFreeAsync(born[i], stream));
}

/* A clock that has not moved tells nothing. */
static void least(uint64_t *best, uint64_t ns)
{
    *best = ns && ns < *best ? ns : *best;
}

static void step(times_t *best)
{
    const uint64_t a = now_ns();
    allocate();
    const uint64_t b = now_ns();
    launch();
    const uint64_t c = now_ns();
    release();
    const uint64_t d = now_ns();
    least(&best->alloc, b - a);
    least(&best->launch, c - b);
    least(&best->release, d - c);
}

int main(void)
{
    times_t best = {0};
    open_device();
    set_up();
    for (unsigned i = 0; i < STEPS; i++) {
        if (i == 0 || i == WARM)
            best = (times_t){UINT64_MAX, UINT64_MAX, UINT64_MAX};
        step(&best);
    }
    OK(cuStreamSynchronize(stream));
    printf("allocation %.1f\nlaunch %.1f\nfree %.1f\n", (double)best.alloc / BORN,
           (double)best.launch / LAUNCHES, (double)best.release / BORN);
    return 0;
}
