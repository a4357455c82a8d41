/* step_graph.h: --graph: a training step as CUDA graphs: one for the first micro-batch, one for those that add to its gradients,
 * one for the last of these, one for the optimizer. What ranks do together is in them, too. Each is captured from the calls that issue the step otherwise, so its kernels, and their results,
 * are the same; a step then takes two operations for each micro-batch (its tokens, the graph) and two for the optimizer.
 *
 * What changes from step to step is in device memory, which is written before the launch: the tokens, the Philox counter of
 * dropout's masks, the learning rate and what goes with it.
 *
 * The first step of a process is issued call by call: so all modules are loaded, and all products have their algorithm.
 * Memory that a pass allocates is the graphs' from then on, at addresses that stay; the pool gives back what it had for it.
 * Where a capture fails (under a memory budget that does not hold the graphs' memory, say), one line says why, and the
 * training goes on call by call.
 *
 * Threads: one. Source: CUDA C++ Programming Guide, "CUDA Graphs", "Graph Memory Nodes".
 */
#ifndef EBB_MODEL_STEP_GRAPH_H
#define EBB_MODEL_STEP_GRAPH_H

#include "model/data/batch.h"
#include "model/layers/transformer.h"
#include "model/train/optimizer.h"

typedef struct captured {
    cudaGraphExec_t exec; /* NULL: not captured yet */
    size_t bytes;         /* that a launch allocates, at most at once */
} captured_t;

typedef struct step_graph {
    gpu_t *gpu; /* borrowed; NULL: there are no graphs */
    bool ready; /* to capture and launch */
    batch_t batch;
    tensor_t workspace;      /* cuBLAS's, which would allocate in every captured product otherwise */
    tensor_t scalars;        /* adamw_scalars_t[OPTIMIZER_SCALARS] */
    adamw_scalars_t *pinned; /* [slots, OPTIMIZER_SCALARS] */
    int slots;               /* of the pinned ones: steps that may be in flight */
    bool failed;             /* to capture: not tried again */
    captured_t micro[2][2];  /* the first micro-batch or a further one; not the last or the last */
    captured_t optimizer;
} step_graph_t;

void step_graph_open(step_graph_t *graph, gpu_t *gpu, const options_t *options, int slots);
void step_graph_close(step_graph_t *graph);

/* Before a step that is not the process's first one. False: it is to be issued call by call. */
bool step_graph_ready(step_graph_t *graph, parameters_t *parameters);

/* As batch_upload, transformer_train and batch_free with micro; the batch has the size of open's options. The number of
 * micro-batches, rates and seeds are those of all steps. */
void step_graph_train(step_graph_t *graph, transformer_t *model, batch_ring_t *ring, const int *inputs,
                      const int *targets, micro_batch_t micro);

/* As optimizer_step. */
void step_graph_optimize(step_graph_t *graph, optimizer_t *optimizer, float *result, const float *loss,
                         double rate, int step);

#endif
