/* order.c: traits of streams, threads, launches that start early, and of what comes between steps. */
#include "nasty.h"

#include <cuda.h>
#include <string.h>

static void open_other(worker_t *w)
{
    CHECK(cudaStreamCreateWithFlags(&w->other, cudaStreamNonBlocking));
    for (unsigned i = 0; i < 4; i++)
        CHECK(cudaEventCreateWithFlags(&w->event[i], cudaEventDisableTiming));
}

/* `after` continues behind what `before` holds now. */
static void join(worker_t *w, cudaStream_t after, cudaStream_t before, unsigned event)
{
    CHECK(cudaEventRecord(w->event[event], before));
    CHECK(cudaStreamWaitEvent(after, w->event[event], 0));
}

/* ---- streams: a second one works beside the first; which is issued first differs from step to step ---- */

static void streams_set_up(worker_t *w)
{
    open_other(w);
    w->a = nasty_keep(w, NASTY_LAYERS * blocks_of(NASTY_FLOATS) * sizeof(float));
}

/* What layer i gives, summed up on the other stream. */
static void side_work(worker_t *w, unsigned i)
{
    float *to = w->a + i * blocks_of(w->n);
    LAUNCH_ON(w->other, sums, blocks_of(w->n), &to, &w->x[i + 1], &w->n);
}

static void streams_forward(worker_t *w, unsigned i)
{
    /* Sometimes the layer before has not been dealt with: both, then, or neither. */
    const bool puts_off = nasty_random(w, 2) && i + 1 < w->layers && !w->count;
    if (puts_off) {
        w->count = i + 1;
        return;
    }
    join(w, w->other, w->stream, 0);
    if (w->count)
        side_work(w, w->count - 1);
    side_work(w, i);
    w->count = 0;
}

/* The gradients' stream goes on only here, so that the side work runs beside the whole forward pass. */
static void streams_middle(worker_t *w)
{
    join(w, w->stream, w->other, 1);
}

/* ---- branches: half of the operations on each of two streams, in a fixed order of issue ---- */

static void branches_forward(worker_t *w, unsigned i)
{
    float by = 0.05f;
    float *copy = new_activation(w);
    unsigned seed = i + w->step;
    join(w, w->other, w->stream, 0);
    LAUNCH_ON(w->other, fill, blocks_of(w->n), &copy, &seed, &w->n);
    LAUNCH(w, centre, blocks_of(w->n), &w->x[i + 1], &w->a, &w->n); /* beside it */
    join(w, w->stream, w->other, 1);
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &copy, &by, &w->n);
    if (i % 2)
        nasty_free(w, copy);
    else {
        join(w, w->other, w->stream, 2);
        nasty_free_on(copy, w->other);
    }
}

/* ---- halves: only a table says that one stream writes the upper half of a buffer, of which another one reads it by an argument ---- */

enum {
    UPPER = 20 * (65536 / 4)
}; /* floats; no tile of those in which writes are looked for is in both halves */
_Static_assert((int)UPPER >= (int)NASTY_FLOATS, "the halves overlap");

static void halves_set_up(worker_t *w)
{
    unsigned n = NASTY_FLOATS, seed = 7;
    open_other(w);
    w->a = nasty_keep(w, (UPPER + NASTY_FLOATS) * sizeof(float));
    w->b = nasty_keep(w, NASTY_FLOATS * sizeof(float));
    w->c = nasty_keep(w, NASTY_FLOATS * sizeof(float));
    LAUNCH(w, fill, blocks_of(n), &w->c, &seed, &n);
    w->host_table = nasty_pinned(2 * sizeof(float *));
    w->host_table[0] = w->c;
    w->host_table[1] = w->a + UPPER;
    w->table = nasty_alloc_at_once(2 * sizeof(float *)); /* not hashed: addresses */
}

static void halves_forward(worker_t *w, unsigned i)
{
    float *upper = w->a + UPPER, by = 0.02f;
    if (i != 1)
        return;
    CHECK(cudaMemcpyAsync(w->table, w->host_table, 2 * sizeof(float *), cudaMemcpyHostToDevice, w->stream));
    LAUNCH(w, through_table, blocks_of(w->n), &w->table, &by, &w->n);
    join(w, w->other, w->stream, 0);
    LAUNCH_ON(w->other, accumulate, blocks_of(w->n), &w->b, &upper, &by, &w->n);
    join(w, w->stream, w->other, 1);
}

/* ---- words: a stream waits for a word in device memory, which is written after the wait was issued ---- */

static void driver(CUresult result, const char *call)
{
    nasty_check(result ? cudaErrorUnknown : cudaSuccess, call);
}

/* A first launch of side_work's kernel behind a wait would wait for it, and the write come behind that (CUDA programming guide, Lazy Loading). */
static void words_set_up(worker_t *w)
{
    cudaFunction_t kernel;
    streams_set_up(w);
    w->word = nasty_keep(w, sizeof *w->word);
    CHECK(cudaGetFuncBySymbol(&kernel, (const void *)sums));
    driver(cuFuncLoad(kernel), "cuFuncLoad");
}

static void make_wait(worker_t *w, unsigned value)
{
    driver(cuStreamWaitValue32(w->other, (CUdeviceptr)(uintptr_t)w->word, value, CU_STREAM_WAIT_VALUE_GEQ),
           "cuStreamWaitValue32");
}

static void let_go(worker_t *w, unsigned value)
{
    driver(cuStreamWriteValue32(w->stream, (CUdeviceptr)(uintptr_t)w->word, value, 0),
           "cuStreamWriteValue32");
}

static void words_forward(worker_t *w, unsigned i)
{
    const unsigned value = w->step * NASTY_LAYERS + i;
    if (i % 4 != 3)
        return;
    make_wait(w, value);
    side_work(w, i);
    let_go(w, value);
}

/* ---- awaited: the same, twice; the other stream has used every layer before, and memory is asked for before the word is written ---- */

static void awaited_forward(worker_t *w, unsigned i)
{
    unsigned value = 2 * (w->step * NASTY_LAYERS + i);
    float *more[4];
    join(w, w->other, w->stream, 0);
    if (i % 4 != 3) {
        side_work(w, i);
        return;
    }
    make_wait(w, value);
    side_work(w, i);
    make_wait(w, value + 1);
    side_work(w, i - 1);
    for (unsigned k = 0; k < 4; k++) {
        more[k] = new_activation(w);
        LAUNCH(w, fill, blocks_of(w->n), &more[k], &value, &w->n);
    }
    let_go(w, value);
    let_go(w, value + 1);
    for (unsigned k = 0; k < 4; k++)
        nasty_free(w, more[k]);
}

/* ---- early_start: every layer may start while the one before is still at work ---- */

static bool early_start_layer(worker_t *w, unsigned i)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                     .val.programmaticStreamSerializationAllowed = 1};
    const cudaLaunchConfig_t config = {.gridDim = {blocks_of(w->n), 1, 1},
                                       .blockDim = {256, 1, 1},
                                       .stream = w->stream,
                                       .attrs = &attribute,
                                       .numAttrs = 1};
    void *args[] = {&w->x[i + 1], &w->x[i], &w->w[i], &w->n, &w->m[i]};
    CHECK(cudaLaunchKernelExC(&config, (const void *)forward, args));
    return true;
}

/* ---- clusters: every layer says how its blocks are to be placed, as libraries for Hopper do ---- */

static bool clusters_layer(worker_t *w, unsigned i)
{
    cudaLaunchAttribute attributes[3];
    memset(attributes, (int)(w->step & 0x7f), sizeof attributes); /* what is not filled in is anything */
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributePriority;
    attributes[1].val.priority = 0;
    attributes[2].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[2].val.sharedMemCarveout = 50;
    const cudaLaunchConfig_t config = {.gridDim = {blocks_of(w->n), 1, 1},
                                       .blockDim = {256, 1, 1},
                                       .stream = w->stream,
                                       .attrs = attributes,
                                       .numAttrs = 3};
    void *args[] = {&w->x[i + 1], &w->x[i], &w->w[i], &w->n, &w->m[i]};
    CHECK(cudaLaunchKernelExC(&config, (const void *)forward, args));
    return true;
}

/* ---- cooperative: a launch whose blocks may rely on one another ---- */

static void cooperative_set_up(worker_t *w)
{
    w->word = nasty_keep(w, sizeof *w->word);
    w->a = nasty_keep(w, NASTY_LAYERS * sizeof(float));
}

static void cooperative_forward(worker_t *w, unsigned i)
{
    float *result = w->a + i;
    void *args[] = {&result, &w->word, &w->x[i + 1], &w->n};
    if (i % 2)
        CHECK(cudaLaunchCooperativeKernel((const void *)in_turn, (dim3){blocks_of(w->n), 1, 1},
                                          (dim3){32, 1, 1}, args, 0, w->stream));
}

/* ---- evaluation: a forward pass for nothing after every fifth step ---- */

static void evaluation_after(worker_t *w)
{
    if (w->step % 5 == 0)
        nasty_evaluate(w, w->layers);
}

/* ---- saving: the loss is looked at in every fourth step, the parameters are copied out in every eighth ---- */

static void saving_after(worker_t *w)
{
    if (w->step % 4 == 0)
        nasty_read(w, w->losses + w->step, sizeof(float));
    for (unsigned i = 0; w->step % 8 == 0 && i < w->layers; i++)
        nasty_read(w, w->w[i], w->m[i] * sizeof(float));
}

/* ---- extra: now and then an operation more, at any place ---- */

static void extra_forward(worker_t *w, unsigned i)
{
    float by = 0.01f;
    if (w->step > 5 && nasty_random(w, 40) == 0)
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->x[i], &by, &w->n);
}

const trait_t nasty_order[] = {
    {.name = "streams", .set_up = streams_set_up, .forward = streams_forward, .middle = streams_middle},
    {.name = "branches", .set_up = streams_set_up, .forward = branches_forward},
    {.name = "halves", .set_up = halves_set_up, .forward = halves_forward},
    {.name = "words", .set_up = words_set_up, .forward = words_forward, .middle = streams_middle},
    {.name = "awaited", .set_up = words_set_up, .forward = awaited_forward, .middle = streams_middle},
    {.name = "threads", .workers = 3},
    {.name = "early_start", .layer = early_start_layer},
    {.name = "clusters", .layer = clusters_layer},
    {.name = "cooperative", .set_up = cooperative_set_up, .forward = cooperative_forward},
    {.name = "evaluation", .after = evaluation_after},
    {.name = "saving", .after = saving_after},
    {.name = "extra", .forward = extra_forward},
    {.name = NULL},
};
