/* behaviour: A program of kernels, copies and sets in several streams, ordered by events, leaves the same memory when it is
 * run at once and when it is captured and launched, and again when the graph's clone is.
 * rules: none
 * source: CUDA Programming Guide, Stream Capture
 */
#include "graph/graphs.h"

enum { BUFFERS = 6, STREAMS = 4, STEPS = 60, LENGTH = 3000, PROGRAMS = 12 };

static uint64_t state;

static unsigned next(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

static CUdeviceptr buffer[BUFFERS];
static CUstream stream[STREAMS];
static CUevent event[STEPS + 2 * STREAMS];

/* Per buffer: the event behind its last write, and those behind the reads since. */
static struct {
    int write, reads[STEPS * 2];
    int read_count;
} use[BUFFERS];

static void wait_for(CUstream s, int e)
{
    if (e >= 0)
        OK(cuStreamWaitEvent(s, event[e], 0));
}

static void before_read(CUstream s, unsigned b)
{
    wait_for(s, use[b].write);
}

static void before_write(CUstream s, unsigned b)
{
    wait_for(s, use[b].write);
    for (int i = 0; i < use[b].read_count; i++)
        wait_for(s, use[b].reads[i]);
}

static void after_write(unsigned b, int e)
{
    use[b].write = e;
    use[b].read_count = 0;
}

static void step(int number)
{
    CUstream s = stream[next(STREAMS)];
    unsigned out = next(BUFFERS), a = next(BUFFERS), b = next(BUFFERS), kind = next(8), c = next(1000);
    int n = LENGTH;
    before_write(s, out);
    if (kind < 6) {
        before_read(s, a);
        before_read(s, b);
    }
    if (kind == 7)
        OK(cuMemsetD32Async(buffer[out], c, LENGTH, s));
    else if (kind == 6)
        OK(cuMemsetD8Async(buffer[out] + c, (unsigned char)c, LENGTH, s));
    else if (kind == 5 && a != out)
        OK(cuMemcpyDtoDAsync(buffer[out] + c, buffer[a], LENGTH, s));
    else
        OK(LAUNCH(s, "mix", 3, &buffer[out], &buffer[a], &buffer[b], &c, &n));
    OK(cuEventRecord(event[number], s));
    after_write(out, number);
    if (kind < 6) {
        use[a].reads[use[a].read_count++] = number;
        use[b].reads[use[b].read_count++] = number;
    }
}

/* The whole program: forks from stream 0 and joins into it. */
static void program(uint64_t seed)
{
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int b = 0; b < BUFFERS; b++)
        use[b].write = -1, use[b].read_count = 0;
    OK(cuEventRecord(event[STEPS], stream[0]));
    for (int i = 1; i < STREAMS; i++)
        OK(cuStreamWaitEvent(stream[i], event[STEPS], 0));
    for (int i = 0; i < STEPS; i++)
        step(i);
    for (int i = 1; i < STREAMS; i++) {
        OK(cuEventRecord(event[STEPS + i], stream[i]));
        OK(cuStreamWaitEvent(stream[0], event[STEPS + i], 0));
    }
}

static unsigned first[BUFFERS][LENGTH], second[BUFFERS][LENGTH];

static void reset(void)
{
    for (int b = 0; b < BUFFERS; b++)
        OK(cuMemsetD32(buffer[b], (unsigned)b + 1, LENGTH));
    OK(cuCtxSynchronize());
}

static void save(unsigned to[BUFFERS][LENGTH])
{
    OK(cuStreamSynchronize(stream[0]));
    for (int b = 0; b < BUFFERS; b++)
        OK(cuMemcpyDtoH(to[b], buffer[b], LENGTH * sizeof(unsigned)));
}

static void expect_same(uint64_t seed, const char *how)
{
    if (!memcmp(first, second, sizeof first))
        return;
    printf("seed %llu: %s differs\n", (unsigned long long)seed, how);
    CHECK(!"the memory is the same");
}

static void try(uint64_t seed)
{
    CUgraph g, clone;
    reset();
    program(seed);
    save(first);

    reset();
    OK(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    program(seed);
    g = end_capture(stream[0]);
    OK(cuGraphClone(&clone, g));
    CUgraphExec e = instantiate(g), of_clone = instantiate(clone);
    OK(cuGraphLaunch(e, stream[0]));
    save(second);
    expect_same(seed, "the graph");
    reset();
    OK(cuGraphLaunch(of_clone, stream[0]));
    save(second);
    expect_same(seed, "the clone");

    /* Twice: launches of one graph are ordered. */
    reset();
    program(seed);
    program(seed);
    save(first);
    reset();
    OK(cuGraphLaunch(e, stream[0]));
    OK(cuGraphLaunch(e, stream[1]));
    OK(cuStreamSynchronize(stream[1]));
    save(second);
    expect_same(seed, "the second launch");
    OK(cuGraphExecDestroy(e));
    OK(cuGraphExecDestroy(of_clone));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(clone));
}

CONFORMANCE
{
    const char *given = getenv("PROGRAM_SEED");
    for (int b = 0; b < BUFFERS; b++)
        buffer[b] = device_alloc(LENGTH * sizeof(unsigned));
    for (int i = 0; i < STREAMS; i++)
        stream[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof event / sizeof event[0]; i++)
        event[i] = new_event(CU_EVENT_DISABLE_TIMING);
    if (given)
        try(strtoull(given, NULL, 0));
    for (uint64_t seed = 1; !given && seed <= PROGRAMS; seed++)
        try(seed);
}
