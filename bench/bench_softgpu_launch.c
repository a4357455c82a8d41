/* bench_softgpu_launch: what single calls cost the host, in nanoseconds.
 *
 *     bench_softgpu_launch [streams events]     that exist beside those in use (default 0 0)
 *
 * Prints a JSON document. Each figure is the median of many batches (and the fastest one): a batch is as many calls as
 * a GPU's queue would take without waiting, and ends with a synchronisation that is not counted unless the name says so.
 */
#define _DEFAULT_SOURCE /* getloadavg */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "empty.h"

enum { BATCH = 200, ROUNDS = 200 };

static CUstream stream;
static CUevent event;
static CUfunction function;
static CUdeviceptr device_memory;
static void *pinned;

static void check(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "bench_softgpu_launch: %s: error %d\n", what, error);
        exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* ---- what is measured ---- */

static void driver_launch(void)
{
    int n = 1;
    void *args[] = {&device_memory, &n};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL));
}

static void driver_launch_and_wait(void)
{
    driver_launch();
    CHECK(cuStreamSynchronize(stream));
}

static void runtime_launch(void)
{
    empty_launch((cudaStream_t)stream);
}

static void runtime_launch_and_wait(void)
{
    runtime_launch();
    CHECK(cudaStreamSynchronize((cudaStream_t)stream));
}

static void record(void)
{
    CHECK(cuEventRecord(event, stream));
}

static void record_and_wait_event(void)
{
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
}

static void query(void)
{
    CUresult result = cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY)
        CHECK(result);
}

static void small_copy(void)
{
    CHECK(cuMemcpyHtoDAsync(device_memory, pinned, 4096, stream));
}

static void small_copy_and_wait(void)
{
    int value;
    CHECK(cuMemcpyDtoH(&value, device_memory, sizeof value));
}

static void alloc_and_free(void)
{
    CUdeviceptr p;
    CHECK(cuMemAllocAsync(&p, 1 << 16, stream));
    CHECK(cuMemFreeAsync(p, stream));
}

static const struct {
    const char *name;
    void (*body)(void);
} cases[] = {
    {"cuLaunchKernel", driver_launch},
    {"cuLaunchKernel and cuStreamSynchronize", driver_launch_and_wait},
    {"<<<>>>", runtime_launch},
    {"<<<>>> and cudaStreamSynchronize", runtime_launch_and_wait},
    {"cuEventRecord", record},
    {"cuEventRecord and cuStreamWaitEvent", record_and_wait_event},
    {"cuStreamQuery", query},
    {"cuMemcpyHtoDAsync, 4 KiB, pinned", small_copy},
    {"cuMemcpyDtoH, 4 bytes", small_copy_and_wait},
    {"cuMemAllocAsync and cuMemFreeAsync, 64 KiB", alloc_and_free},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int i)
{
    double ns[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int k = 0; k < BATCH; k++)
            cases[i].body();
        ns[round] = (now_ns() - start) / BATCH;
        CHECK(cuCtxSynchronize());
    }
    qsort(ns, ROUNDS, sizeof *ns, ascending);
    printf("    \"%s\": {\"median_ns\": %.0f, \"fastest_ns\": %.0f}%s\n", cases[i].name, ns[ROUNDS / 2],
           ns[0], i + 1 < CASES ? "," : "");
}

/* ---- the document ---- */

static void print_cpu(void)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        printf("    \"cpu\": \"%s\",\n", colon + 2);
        break;
    }
    if (f)
        fclose(f);
    printf("    \"cores\": %ld,\n", sysconf(_SC_NPROCESSORS_ONLN));
    double load = 0;
    if (getloadavg(&load, 1) != 1)
        load = -1;
    printf("    \"load_before\": %.1f\n", load);
}

static void setup(int streams, int events)
{
    CUcontext context;
    CUstream unused;
    CUevent unused_event;
    cudaFunction_t f;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < streams; i++)
        CHECK(cuStreamCreate(&unused, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < events; i++)
        CHECK(cuEventCreate(&unused_event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&device_memory, 1 << 20));
    CHECK(cuMemAllocHost(&pinned, 1 << 20));
    CHECK(cudaGetFuncBySymbol(&f, empty_symbol()));
    function = (CUfunction)f;
}

int main(int argc, char **argv)
{
    int streams = argc > 2 ? atoi(argv[1]) : 0, events = argc > 2 ? atoi(argv[2]) : 0;
    char date[32], device[128];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    setup(streams, events);
    CHECK(cuDeviceGetName(device, sizeof device, 0));
    printf("{\n  \"date\": \"%s\",\n  \"command\": \"bench_softgpu_launch %d %d\",\n", date, streams, events);
    printf("  \"device\": \"%s\",\n  \"machine\": {\n", device);
    print_cpu();
    printf("  },\n  \"calls\": {\n");
    for (int i = 0; i < CASES; i++)
        measure(i);
    printf("  }\n}\n");
    return 0;
}
