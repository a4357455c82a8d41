/* Random graphs against a naive model: the model runs the steps one after another on the host; the graph has only the
 * edges that their buffers demand, is created in another order, partly as child graphs, and runs in lanes. A seed can be
 * given as PROGRAM_SEED. */
#include "driver_test.h"

#include <stdbool.h>

enum { BUFFERS = 5, LENGTH = 1500, STEPS = 40, PROGRAMS = 40 };

static uint64_t state;

static unsigned next(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

static CUdeviceptr buffer[BUFFERS];
static float model[BUFFERS][LENGTH], got[LENGTH];

typedef struct step {
    enum { FILL, ADD, COPY, SET } kind;
    unsigned out, a, b;
    float value;
    unsigned pattern, from, to, count;
    bool child; /* a graph of its own: twice the same step, one after another */
    bool disabled;
} step_t;

static step_t random_step(void)
{
    step_t s = {.kind = next(4),
                .out = next(BUFFERS),
                .a = next(BUFFERS),
                .b = next(BUFFERS),
                .value = (float)next(100),
                .pattern = next(1u << 30),
                .from = next(LENGTH / 2),
                .to = next(LENGTH / 2),
                .count = 1 + next(LENGTH / 2),
                .child = !next(5)};
    if (s.kind == COPY && s.a == s.out)
        s.a = (s.out + 1) % BUFFERS;
    return s;
}

/* ---- the model ---- */

static void model_once(const step_t *s)
{
    float *out = model[s->out];
    if (s->kind == FILL)
        for (int i = 0; i < LENGTH; i++)
            out[i] = s->value;
    else if (s->kind == ADD)
        for (int i = 0; i < LENGTH; i++)
            out[i] = model[s->a][i] + model[s->b][i];
    else if (s->kind == COPY)
        memcpy(out + s->to, model[s->a] + s->from, s->count * sizeof *out);
    else
        for (unsigned i = 0; i < s->count; i++)
            memcpy(out + s->to + i, &s->pattern, sizeof *out);
}

static void run_model(const step_t *steps)
{
    for (int i = 0; i < STEPS; i++)
        for (int times = 0; times < 1 + steps[i].child && !steps[i].disabled; times++)
            model_once(&steps[i]);
}

/* ---- the graph ---- */

static CUgraphNode kernel_node(CUgraph g, const char *name, void **args)
{
    CUDA_KERNEL_NODE_PARAMS k = {
        .func = kernel(name),
        .gridDimX = slices(LENGTH),
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 64,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = args,
    };
    CUgraphNode node;
    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &k));
    return node;
}

static CUgraphNode add_once(CUgraph g, const step_t *s)
{
    CUgraphNode node;
    int n = LENGTH;
    CUdeviceptr out = buffer[s->out], a = buffer[s->a], b = buffer[s->b];
    float value = s->value;
    if (s->kind == FILL)
        return kernel_node(g, "_Z4fillPffi", (void *[]){&out, &value, &n});
    if (s->kind == ADD)
        return kernel_node(g, "_Z3addPfPKfS1_i", (void *[]){&out, &a, &b, &n});
    if (s->kind == COPY) {
        CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = a + s->from * sizeof(float),
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = out + s->to * sizeof(float),
                           .WidthInBytes = s->count * sizeof(float),
                           .Height = 1,
                           .Depth = 1};
        OK(cuGraphAddMemcpyNode(&node, g, NULL, 0, &c, test_context));
        return node;
    }
    CUDA_MEMSET_NODE_PARAMS m = {.dst = out + s->to * sizeof(float),
                                 .value = s->pattern,
                                 .elementSize = 4,
                                 .width = s->count,
                                 .height = 1};
    OK(cuGraphAddMemsetNode(&node, g, NULL, 0, &m, test_context));
    return node;
}

static CUgraphNode add_step(CUgraph g, const step_t *s)
{
    if (!s->child)
        return add_once(g, s);
    CUgraph child;
    CUgraphNode first, second, node;
    OK(cuGraphCreate(&child, 0));
    first = add_once(child, s);
    second = add_once(child, s);
    OK(cuGraphAddDependencies(child, &first, &second, NULL, 1));
    OK(cuGraphAddChildGraphNode(&node, g, NULL, 0, child));
    OK(cuGraphDestroy(child));
    return node;
}

static bool writes(const step_t *s, unsigned b)
{
    return s->out == b;
}

static bool reads(const step_t *s, unsigned b)
{
    return (s->kind == ADD && (s->a == b || s->b == b)) || (s->kind == COPY && s->a == b);
}

static bool conflict(const step_t *x, const step_t *y)
{
    for (unsigned b = 0; b < BUFFERS; b++)
        if ((writes(x, b) && (writes(y, b) || reads(y, b))) || (reads(x, b) && writes(y, b)))
            return true;
    return false;
}

/* Nodes in a random order of creation, edges afterwards; `order` makes two graphs that can update each other. */
static CUgraph build(const step_t *steps, const int *order, CUgraphNode *node)
{
    CUgraph g;
    OK(cuGraphCreate(&g, 0));
    for (int i = 0; i < STEPS; i++)
        node[order[i]] = add_step(g, &steps[order[i]]);
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < i; j++)
            if (conflict(&steps[j], &steps[i]))
                OK(cuGraphAddDependencies(g, &node[j], &node[i], NULL, 1));
    return g;
}

/* ---- trying ---- */

static void reset(void)
{
    for (int b = 0; b < BUFFERS; b++) {
        for (int i = 0; i < LENGTH; i++)
            model[b][i] = (float)(b + i % 7);
        OK(cuMemcpyHtoD(buffer[b], model[b], sizeof model[b]));
    }
}

static void expect_model(uint64_t seed, const char *what)
{
    OK(cuCtxSynchronize());
    for (int b = 0; b < BUFFERS; b++) {
        OK(cuMemcpyDtoH(got, buffer[b], sizeof got));
        if (memcmp(got, model[b], sizeof got))
            fail_msg("seed %llu: buffer %d after %s", (unsigned long long)seed, b, what);
    }
}

static void shuffle(int *order)
{
    for (int i = 0; i < STEPS; i++)
        order[i] = i;
    for (int i = STEPS - 1; i > 0; i--) {
        int j = (int)next((unsigned)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

/* Other values in the same places. */
static void change(step_t *steps)
{
    for (int i = 0; i < STEPS; i++) {
        steps[i].value += 1;
        steps[i].pattern ^= next(1000);
        steps[i].from = next(LENGTH / 2);
    }
}

static void try(uint64_t seed, CUstream s)
{
    static step_t steps[STEPS];
    static CUgraphNode node[STEPS], other[STEPS];
    int order[STEPS];
    CUgraphExec e;
    CUgraphExecUpdateResultInfo info;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < STEPS; i++)
        steps[i] = random_step();
    shuffle(order);
    CUgraph g = build(steps, order, node);
    OK(cuGraphInstantiate(&e, g, 0));
    reset();
    for (int i = 0; i < 2; i++) {
        OK(cuGraphLaunch(e, s));
        run_model(steps);
    }
    expect_model(seed, "two launches");

    for (int i = 0; i < STEPS; i++)
        if (!steps[i].child && !next(4)) {
            OK(cuGraphNodeSetEnabled(e, node[i], 0));
            steps[i].disabled = true;
        }
    reset();
    OK(cuGraphLaunch(e, s));
    run_model(steps);
    expect_model(seed, "nodes were disabled");

    change(steps);
    CUgraph with = build(steps, order, other);
    OK(cuGraphExecUpdate(e, with, &info));
    OK(cuGraphDestroy(with));
    reset();
    OK(cuGraphLaunch(e, s));
    run_model(steps);
    expect_model(seed, "an update");
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
}

static void random_graphs_equal_the_model(void **unused)
{
    (void)unused;
    const char *given = getenv("PROGRAM_SEED");
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int b = 0; b < BUFFERS; b++)
        buffer[b] = device_alloc(LENGTH * sizeof(float));
    if (given)
        try(strtoull(given, NULL, 0), s);
    for (uint64_t seed = 1; !given && seed <= PROGRAMS; seed++)
        try(seed, seed % 4 ? s : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_equal_the_model)};
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
