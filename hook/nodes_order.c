/* nodes_order.c: a graph's nodes in an order that its edges allow. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "hook/internal.h"

typedef struct edges {
    CUgraphNode *node, *from, *to; /* [nodes], [edges] */
    CUgraphEdgeData
        *data; /* [edges] says more than order does: programmatic launches, which wait in full here */
    size_t nodes, edges;
} edges_t;

static bool ask(CUgraph graph, edges_t *e)
{
    if (ebb_driver.cuGraphGetNodes(graph, NULL, &e->nodes) ||
        ebb_driver.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &e->edges) || e->nodes > UINT32_MAX)
        return false;
    e->node = malloc((e->nodes + 1) * sizeof *e->node);
    e->from = malloc((e->edges + 1) * sizeof *e->from);
    e->to = malloc((e->edges + 1) * sizeof *e->to);
    e->data = malloc((e->edges + 1) * sizeof *e->data);
    return e->node && e->from && e->to && e->data &&
           (!e->nodes || !ebb_driver.cuGraphGetNodes(graph, e->node, &e->nodes)) &&
           (!e->edges || !ebb_driver.cuGraphGetEdges_v2(graph, e->from, e->to, e->data, &e->edges));
}

typedef struct numbered {
    uint64_t handle;
    uint32_t number;
} numbered_t;

/* [edges] from[i] before to[i], by number. */
static bool number_edges(const edges_t *e, uint32_t *from, uint32_t *to)
{
    ebb_table_t numbers = {.at = NULL};
    bool good = true, added;
    for (size_t i = 0; i < e->nodes && good; i++) {
        numbered_t *n = ebb_table_add(&numbers, sizeof *n, (uint64_t)(uintptr_t)e->node[i], &added);
        good = n != NULL;
        if (n)
            n->number = (uint32_t)i;
    }
    for (size_t i = 0; i < e->edges && good; i++) {
        const numbered_t *a = ebb_table_find(&numbers, sizeof *a, (uint64_t)(uintptr_t)e->from[i]),
                         *b = ebb_table_find(&numbers, sizeof *b, (uint64_t)(uintptr_t)e->to[i]);
        good = a && b;
        if (good) {
            from[i] = a->number;
            to[i] = b->number;
        }
    }
    free(numbers.at);
    return good;
}

/* Each node behind those that it waits for; else in the driver's order, which is that of their making wherever it was seen. False: some wait for
 * each other. */
static bool sort(uint32_t nodes, size_t edges, const uint32_t *from, const uint32_t *to, uint32_t *first,
                 uint32_t *before, uint32_t *stack, uint32_t *order)
{
    uint32_t placed = 0;
    memset(first, 0, (nodes + 2) * sizeof *first);
    for (size_t i = 0; i < edges; i++)
        first[to[i] + 2]++;
    for (uint32_t i = 0; i < nodes; i++)
        first[i + 2] += first[i + 1];
    for (size_t i = 0; i < edges; i++)
        before[first[to[i] + 1]++] = from[i];
    /* before[first[i]] to before[first[i + 1]]: what i waits for. On the stack are nodes that each wait for the next one; seen[i]: how many of
     * them were looked at, and one more. */
    uint32_t *seen = stack + nodes;
    memset(seen, 0, nodes * sizeof *seen);
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t height = 0;
        if (!seen[i])
            stack[height++] = i;
        while (height) {
            const uint32_t top = stack[height - 1], at = first[top] + (seen[top] ? seen[top] - 1 : 0);
            seen[top] = at - first[top] + 2;
            if (at == first[top + 1]) {
                seen[top] = UINT32_MAX;
                order[placed++] = top;
                height--;
            } else if (!seen[before[at]]) {
                stack[height++] = before[at];
            } else if (seen[before[at]] != UINT32_MAX) {
                return false;
            }
        }
    }
    return true;
}

/* Each one waits for the one in front of it. */
static bool is_chain(uint32_t nodes, const uint32_t *first, const uint32_t *before, const uint32_t *order)
{
    for (uint32_t i = 1; i < nodes; i++) {
        uint32_t k = first[order[i]];
        while (k < first[order[i] + 1] && before[k] != order[i - 1])
            k++;
        if (k == first[order[i] + 1])
            return false;
    }
    return true;
}

CUgraphNode *ebb_nodes_in_order(CUgraph graph, size_t *count, bool *chained)
{
    edges_t e = {.node = NULL};
    CUgraphNode *sorted = NULL;
    if (ask(graph, &e)) {
        const size_t nodes = e.nodes, edges = e.edges;
        uint32_t *room = malloc((3 * edges + 4 * nodes + 4) * sizeof *room);
        uint32_t *from = room, *to = room + edges, *before = to + edges, *first = before + edges,
                 *order = first + nodes + 2, *stack = order + nodes;
        sorted = room && number_edges(&e, from, to) ? malloc((nodes + 1) * sizeof(CUgraphNode)) : NULL;
        if (sorted && !sort((uint32_t)nodes, edges, from, to, first, before, stack, order)) {
            free(sorted);
            sorted = NULL;
        }
        *chained = sorted && is_chain((uint32_t)nodes, first, before, order);
        for (size_t i = 0; sorted && i < nodes; i++)
            sorted[i] = e.node[order[i]];
        free(room);
    }
    *count = e.nodes;
    free(e.node);
    free(e.from);
    free(e.to);
    free(e.data);
    return sorted;
}
