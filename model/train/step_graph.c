#include "model/train/step_graph.h"

#include <stdio.h>
#include <string.h>

#include "model/base/check.h"
#include "model/kernels/launches.h"

/* What cuBLAS takes by itself: 32 MiB from compute capability 9.0 on, 4 MiB before (its documentation, cublasSetWorkspace). */
static size_t workspace_bytes(const gpu_t *gpu)
{
    int major = 0;
    CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu->device));
    return (size_t)(major >= 9 ? 32 : 4) << 20;
}

void step_graph_open(step_graph_t *graph, gpu_t *gpu, const options_t *o, int slots)
{
    *graph = (step_graph_t){.slots = slots};
    if (!o->graph)
        return;
    graph->gpu = gpu;
    graph->batch = batch_reserve(gpu, o->vocab, o->batch, o->context);
    graph->workspace =
        tensor_new_permanent(gpu, MEMORY_WORKSPACE, DTYPE_FP32, workspace_bytes(gpu) / sizeof(float));
    BLAS(cublasSetWorkspace(gpu->blas, graph->workspace.data, graph->workspace.bytes));
    size_t bytes = OPTIMIZER_SCALARS * sizeof(adamw_scalars_t);
    graph->scalars = tensor_new_permanent(gpu, MEMORY_OTHER, DTYPE_FP32, bytes / sizeof(float));
    void *pinned = NULL;
    CUDA(cudaMallocHost(&pinned, (size_t)slots * bytes));
    graph->pinned = pinned;
}

/* Of what is freed in the order of the stream, the pool keeps so much for what is allocated next. */
static void let_pool_keep(const gpu_t *gpu, uint64_t bytes)
{
    cudaMemPool_t pool;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, gpu->device));
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
    CUDA(cudaStreamSynchronize(gpu->stream));
    if (bytes == 0)
        CUDA(cudaMemPoolTrimTo(pool, 0));
}

/* From here on the step is issued call by call. */
static void give_up(step_graph_t *graph)
{
    captured_t *all[] = {&graph->micro[0][0], &graph->micro[0][1], &graph->micro[1][0], &graph->micro[1][1],
                         &graph->optimizer};
    let_pool_keep(graph->gpu, UINT64_MAX);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->exec != NULL)
            CUDA(cudaGraphExecDestroy(all[i]->exec));
        *all[i] = (captured_t){0};
    }
    CUDA(cudaDeviceGraphMemTrim(graph->gpu->device));
    graph->ready = false;
}

/* cuBLAS has its own again. */
static void return_workspace(step_graph_t *graph)
{
    CUDA(cudaStreamSynchronize(graph->gpu->stream));
    BLAS(cublasSetStream(graph->gpu->blas, graph->gpu->stream)); /* forgets the workspace */
    tensor_free_permanent(graph->gpu, &graph->workspace);
}

void step_graph_close(step_graph_t *graph)
{
    if (graph->gpu == NULL)
        return;
    give_up(graph);
    tensor_free(graph->gpu, &graph->batch.memory);
    tensor_free_permanent(graph->gpu, &graph->scalars);
    CUDA(cudaFreeHost(graph->pinned));
    return_workspace(graph);
    *graph = (step_graph_t){0};
}

bool step_graph_ready(step_graph_t *graph, parameters_t *parameters)
{
    if (graph->gpu == NULL || graph->ready || graph->failed)
        return graph->ready;
    parameters_settle(parameters);
    let_pool_keep(graph->gpu, 0); /* the graphs have memory of their own: the pool's would lie idle */
    graph->ready = true;
    return true;
}

/* ---- capturing ---- */

typedef void (*issue_fn)(void *context);

/* Instantiates what `issue` issues, which is not executed. False: it cannot be, and that has been said. */
static bool capture(step_graph_t *graph, captured_t *to, issue_fn issue, void *context)
{
    gpu_t *gpu = graph->gpu, before = *gpu;
    cudaGraph_t drawn = NULL;
    check_text_t why;
    uint64_t count = launches_issued;
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    gpu->span_peak_bytes = gpu->live_bytes;
    checks_hold();
    CUDA(cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaStreamIsCapturing(gpu->stream, &status));
    if (status != cudaStreamCaptureStatusNone) {
        issue(context);
        CUDA(cudaStreamEndCapture(gpu->stream, &drawn));
    }
    if (drawn != NULL)
        CUDA(cudaGraphInstantiate(&to->exec, drawn, 0));
    checks_release(why);
    launches_issued = count;
    to->bytes = gpu->span_peak_bytes - before.live_bytes;
    gpu->span_peak_bytes = before.span_peak_bytes;
    if (drawn != NULL)
        CUDA(cudaGraphDestroy(drawn));
    if (why[0] == '\0')
        return true;
    (void)cudaGetLastError();
    gpu->live_bytes = before.live_bytes;
    memcpy(gpu->live_by, before.live_by, sizeof gpu->live_by);
    fprintf(stderr, "--graph: the step cannot be captured (%s): it is issued call by call\n", why);
    give_up(graph);
    return_workspace(graph);
    graph->failed = true;
    return false;
}

static void launch(const step_graph_t *graph, const captured_t *captured)
{
    gpu_t *gpu = graph->gpu;
    if (gpu->live_bytes + captured->bytes > gpu->span_peak_bytes)
        gpu->span_peak_bytes = gpu->live_bytes + captured->bytes;
    launched();
    CUDA(cudaGraphLaunch(captured->exec, gpu->stream));
}

typedef struct training {
    transformer_t *model;
    const batch_t *batch;
    micro_batch_t micro;
} training_t;

static void issue_training(void *context)
{
    training_t *t = context;
    transformer_train(t->model, t->batch, t->micro);
}

void step_graph_train(step_graph_t *graph, transformer_t *model, batch_ring_t *ring, const int *inputs,
                      const int *targets, micro_batch_t micro)
{
    captured_t *captured = &graph->micro[micro.accumulate != 0][micro.last];
    uint64_t counter = transformer_counter(model, graph->batch.B, graph->batch.T, micro.number);
    batch_refill(ring, &graph->batch, inputs, targets, counter);
    micro.counter = graph->batch.counter;
    training_t training = {model, &graph->batch, micro};
    if (captured->exec != NULL || capture(graph, captured, issue_training, &training))
        launch(graph, captured);
    else
        issue_training(&training);
}

typedef struct optimizing {
    optimizer_t *optimizer;
    float *result;
    const float *loss;
    const adamw_scalars_t *scalars;
} optimizing_t;

static void issue_optimizing(void *context)
{
    optimizing_t *o = context;
    optimizer_any_step(o->optimizer, o->result, o->loss, o->scalars);
}

void step_graph_optimize(step_graph_t *graph, optimizer_t *optimizer, float *result, const float *loss,
                         double rate, int step)
{
    adamw_scalars_t *pinned = graph->pinned + (size_t)(step % graph->slots) * OPTIMIZER_SCALARS;
    optimizer_scalars(optimizer, rate, step, pinned);
    CUDA(cudaMemcpyAsync(graph->scalars.data, pinned, graph->scalars.bytes, cudaMemcpyHostToDevice,
                         graph->gpu->stream));
    launched();
    optimizing_t optimizing = {optimizer, result, loss, graph->scalars.data};
    if (graph->optimizer.exec != NULL || capture(graph, &graph->optimizer, issue_optimizing, &optimizing))
        launch(graph, &graph->optimizer);
    else
        issue_optimizing(&optimizing);
}
