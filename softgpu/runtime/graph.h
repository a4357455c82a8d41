/* graph.h: what the runtime's files on graphs share. Handles of graphs and nodes are the driver's own; only the
 * descriptions of kernel, copy and set nodes have to be translated (graph_nodes.c).
 */
#ifndef SOFTGPU_RUNTIME_GRAPH_H
#define SOFTGPU_RUNTIME_GRAPH_H

#include "softgpu/runtime/runtime.h"

/* Where a new node goes. */
#define NODE_PARAMETERS                                                                                      \
    cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count
#define NODE_ARGUMENTS node, graph, dependencies, count

/* Defines a public function that is one call of the driver's. */
#define PASS(name, parameters, function, ...)                                                                \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        return RT_PASS(function, __VA_ARGS__);                                                               \
    }

#endif
