/* trace_families.c: steps by chance whose data flow is no chain; see traces.h. */
#include <stdlib.h>
#include <string.h>

#include "traces.h"

#define CHUNK (UINT64_C(2) << 20)
enum { MOST_NODES = 64, MOST_INPUTS = 4, NOTHING = -1 };

/* An operation of forward: what it reads, what it makes, and what it saves besides for its own backward. */
typedef struct node {
    int input[MOST_INPUTS];         /* nodes; NOTHING */
    uint32_t chunks, saved;         /* saved 0: nothing */
    uint32_t state, save, gradient; /* buffers */
} node_t;

typedef struct graph {
    node_t node[MOST_NODES];
    uint32_t count, seed;
} graph_t;

/* The step's input is node 0. */
static graph_t graph_of(uint32_t seed)
{
    graph_t g = {.count = 1, .seed = seed};
    g.node[0].chunks = 1;
    for (int i = 0; i < MOST_INPUTS; i++)
        g.node[0].input[i] = NOTHING;
    return g;
}

/* Reads node `from` and, unless they are NOTHING, two others. */
static int add_node(graph_t *g, uint32_t chunks, uint32_t saved, int from, int other, int third)
{
    if (g->count == MOST_NODES)
        abort();
    g->node[g->count] = (node_t){.input = {from, other, third, NOTHING}, .chunks = chunks, .saved = saved};
    return (int)g->count++;
}

static uint32_t add_buffer(ebb_trace_t *t, uint32_t chunks, bool born)
{
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    b->bytes = chunks * CHUNK;
    b->born = born ? t->operation_count : EBB_NONE;
    return t->buffer_count - 1;
}

static void add_operation(ebb_trace_t *t, graph_t *g, const char *name)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(t);
    strcpy(o->name, name);
    o->proofs = 3;
    o->duration_ns = CHAIN_NS / 10 * (1 + trace_draw(&g->seed, 20));
}

static void touch(ebb_trace_t *t, ebb_mode_t mode, uint32_t buffer)
{
    ebb_trace_operation_t *o = &t->operation[t->operation_count - 1];
    for (uint32_t i = o->first_access; o->access_count && i < t->access_count; i++)
        if (t->access[i].buffer == buffer)
            return;
    ebb_trace_access_t *a = ebb_trace_add_access(t);
    a->mode = mode;
    a->buffer = buffer;
    a->param_offset = 8 * o->access_count;
}

static void dies(ebb_trace_t *t, uint32_t buffer)
{
    if (t->buffer[buffer].born != EBB_NONE)
        t->buffer[buffer].dies = t->operation_count;
}

static void go_forward(ebb_trace_t *t, graph_t *g)
{
    g->node[0].state = add_buffer(t, g->node[0].chunks, false);
    for (uint32_t i = 1; i < g->count; i++) {
        node_t *n = &g->node[i];
        n->state = add_buffer(t, n->chunks, true);
        n->save = n->saved ? add_buffer(t, n->saved, true) : EBB_NONE;
        add_operation(t, g, "forward");
        for (int k = 0; n->input[k] != NOTHING; k++)
            touch(t, EBB_READS, g->node[n->input[k]].state);
        touch(t, EBB_REPLACES, n->state);
        if (n->saved)
            touch(t, EBB_REPLACES, n->save);
    }
}

/* Of a node: reads the gradients of those that read it, which come before it in backward, and dies when its inputs have theirs. */
static void go_backward(ebb_trace_t *t, graph_t *g, uint32_t at)
{
    node_t *n = &g->node[at];
    n->gradient = add_buffer(t, n->chunks, true);
    add_operation(t, g, "backward");
    bool reads = false;
    for (uint32_t i = at + 1; i < g->count; i++)
        for (int k = 0; g->node[i].input[k] != NOTHING; k++)
            if (g->node[i].input[k] == (int)at) {
                touch(t, EBB_READS, g->node[i].gradient);
                reads = true;
            }
    if (!reads)
        touch(t, EBB_READS, n->state); /* the loss */
    for (int k = 0; n->input[k] != NOTHING; k++)
        touch(t, EBB_READS, g->node[n->input[k]].state);
    if (n->saved)
        touch(t, EBB_READS, n->save);
    touch(t, EBB_REPLACES, n->gradient);
}

static bool reads_node(const node_t *n, uint32_t at)
{
    for (int k = 0; n->input[k] != NOTHING; k++)
        if (n->input[k] == (int)at)
            return true;
    return false;
}

static ebb_trace_t *trace_of(graph_t *g)
{
    ebb_trace_t *t = ebb_trace_new(CHUNK);
    if (!t)
        abort();
    go_forward(t, g);
    for (uint32_t at = g->count; at-- > 1;) {
        go_backward(t, g, at);
        if (g->node[at].saved)
            dies(t, g->node[at].save);
        dies(t, g->node[at].state);
        for (uint32_t i = at + 1; i < g->count; i++) { /* whose inputs all have their gradients now */
            uint32_t first = g->count;
            for (uint32_t k = 1; k < i; k++)
                first = k < first && reads_node(&g->node[i], k) ? k : first;
            if (first == at)
                dies(t, g->node[i].gradient);
        }
    }
    for (uint32_t i = 1; i < g->count; i++)
        if (t->buffer[g->node[i].gradient].dies == EBB_NONE)
            dies(t, g->node[i].gradient);
    return t;
}

ebb_trace_t *trace_of_skips(uint32_t seed, uint32_t size)
{
    graph_t g = graph_of(seed);
    for (int i = 0; i < (int)size; i++)
        add_node(&g, 2 + trace_draw(&g.seed, 8), 0, i, i > 0 ? i - 1 : NOTHING, i > 1 ? i - 2 : NOTHING);
    return trace_of(&g);
}

ebb_trace_t *trace_of_lstm(uint32_t seed, uint32_t size)
{
    graph_t g = graph_of(seed);
    const uint32_t chunks = 1 + trace_draw(&g.seed, 3);
    int before[2] = {NOTHING, NOTHING};
    for (uint32_t moment = 0; moment < size; moment++)
        for (int layer = 0; layer < 2; layer++)
            before[layer] = add_node(&g, chunks, chunks + trace_draw(&g.seed, 3 * chunks),
                                     layer ? before[0] : 0, before[layer], NOTHING);
    return trace_of(&g);
}

ebb_trace_t *trace_of_unet(uint32_t seed, uint32_t size)
{
    graph_t g = graph_of(seed);
    int down[MOST_NODES] = {0}, at = 0;
    uint32_t chunks[MOST_NODES] = {0};
    for (uint32_t i = 0; i < size; i++) {
        chunks[i] = 1 + (8u >> (i < 3 ? i : 3)) - trace_draw(&g.seed, 2);
        at = down[i] = add_node(&g, chunks[i], trace_draw(&g.seed, 2) * chunks[i], at, NOTHING, NOTHING);
    }
    for (uint32_t i = size - 1; i-- > 0;)
        at = add_node(&g, chunks[i], trace_draw(&g.seed, 2) * chunks[i], at, down[i], NOTHING);
    return trace_of(&g);
}

ebb_trace_t *trace_of_two_levels(uint32_t seed, uint32_t stages)
{
    graph_t g = graph_of(seed);
    for (int i = 0; i < (int)stages; i++)
        add_node(&g, 6 + trace_draw(&g.seed, 5), 0, i, NOTHING, NOTHING);
    return trace_of(&g);
}

const trace_family_t trace_families[] = {{"chain", trace_of_stages, 2, 6},
                                         {"skips", trace_of_skips, 3, 8},
                                         {"lstm", trace_of_lstm, 2, 3},
                                         {"unet", trace_of_unet, 2, 4},
                                         {0}};
