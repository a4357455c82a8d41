/* lanes.c: a training loop on three streams, as trainers have them, that can be told to misbehave. It knows nothing of ebb.
 *
 *   lanes [layers=N] [steps=N] [mib=N] [turn=STEP] [sync=STEP] [more=STEP] [fresh=STEP] [short=N] [together=1]
 *
 * A step: the batch comes on the stream `upload`; forward and backward on `compute`; beside them, on `aside`, every second activation is
 * looked at in the forward pass and weights are updated as soon as their gradients are there. Events order them, and
 * activations are freed on the stream that has used them last.
 *
 * turn=STEP   from this step on, in every second one, aside's launches are issued behind compute's next ones: another order
 * sync=STEP   the same, but it is the host that waits for aside, not the stream
 * more=STEP   the same, but one launch more on aside, which reads a live activation
 * fresh=STEP  before this step, `upload` is destroyed and another one created
 * short=N     every N-th step has half the batch
 * together=1  aside looks by cooperative kernels
 *
 * The last line of output is a hash of weights, counter and sums. Exit code 3: a call failed (its error is on stderr).
 */
#include <stdbool.h>

#define TRAINER "lanes"
#include "loop.cuh"
#include "trainer_parts.h"

enum { LAYERS_MAX = 32 };

typedef struct lanes {
    int layers, steps, turn, sync, more, fresh, half, together, step;
    size_t n, m;    /* floats of an activation (of this step), of a layer's weights */
    size_t n_whole; /* of one of a whole batch */
    cudaStream_t compute, aside, upload;
    cudaEvent_t uploaded, done[LAYERS_MAX + 1], looked[LAYERS_MAX + 1], gradient[LAYERS_MAX], updated;
    float *w[LAYERS_MAX], *dw[LAYERS_MAX], *x[LAYERS_MAX + 1];
    float *sums, *seen; /* compute's, aside's */
    unsigned *counter;
    float *batch; /* pinned */
    int put_off;  /* activation that aside is to look at yet, or -1 */
} lanes_t;

static float *new_floats(size_t count, cudaStream_t stream)
{
    void *p = NULL;
    CHECK(cudaMallocAsync(&p, count * sizeof(float), stream));
    return p;
}

static void *new_permanent(size_t bytes)
{
    void *p = NULL;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 0, bytes));
    return p;
}

static void order(cudaStream_t waits, cudaStream_t stream, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(waits, event, 0));
}

static void new_event(cudaEvent_t *event)
{
    CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

static void set_up(lanes_t *l)
{
    void *pinned = NULL;
    cudaStream_t *streams[] = {&l->compute, &l->aside, &l->upload};
    for (int i = 0; i < 3; i++)
        CHECK(cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking));
    new_event(&l->uploaded);
    new_event(&l->updated);
    for (int i = 0; i <= l->layers; i++) {
        new_event(&l->done[i]);
        new_event(&l->looked[i]);
    }
    for (int i = 0; i < l->layers; i++) {
        new_event(&l->gradient[i]);
        l->w[i] = new_permanent(l->m * sizeof(float));
        l->dw[i] = new_permanent(l->m * sizeof(float));
        CHECK(cudaDeviceSynchronize());
        CHECK(loop_fill(l->w[i], (unsigned)i, l->m, l->compute));
    }
    l->sums = new_permanent((l->n_whole / 16384 + 1) * sizeof(float));
    l->seen = new_permanent((l->n_whole / 16384 + 1) * sizeof(float));
    l->counter = new_permanent(sizeof *l->counter);
    CHECK(cudaMallocHost(&pinned, l->n_whole * sizeof(float)));
    l->batch = pinned;
    for (size_t i = 0; i < l->n_whole; i++)
        l->batch[i] = (float)(i * 2654435761u >> 12 & 0xfff) / 4096 - 0.5f;
    CHECK(cudaDeviceSynchronize());
}

/* Whether an option that began with a step applies to this one. */
static bool is_on(const lanes_t *l, int first)
{
    return first && l->step >= first && (l->step - first) % 2 == 0;
}

static void look(lanes_t *l, int i)
{
    CHECK(cudaStreamWaitEvent(l->aside, l->done[i], 0));
    CHECK((l->together ? loop_probe_together : loop_probe)(l->seen, l->x[i], l->n, l->aside));
    CHECK(cudaEventRecord(l->looked[i], l->aside));
}

static void forward(lanes_t *l)
{
    l->x[0] = new_floats(l->n, l->upload);
    CHECK(cudaMemcpyAsync(l->x[0], l->batch, l->n * sizeof(float), cudaMemcpyHostToDevice, l->upload));
    order(l->compute, l->upload, l->uploaded);
    l->put_off = -1;
    for (int i = 0; i < l->layers; i++) {
        l->x[i + 1] = new_floats(l->n, l->compute);
        CHECK(loop_forward(l->x[i + 1], l->x[i], l->w[i], NULL, l->n, l->m, l->compute));
        if (l->put_off >= 0)
            look(l, l->put_off);
        l->put_off = -1;
        CHECK(cudaEventRecord(l->done[i + 1], l->compute));
        if (i % 2 == 0 && is_on(l, l->turn) && i + 1 < l->layers)
            l->put_off = i + 1;
        else if (i % 2 == 0)
            look(l, i + 1);
    }
    if (is_on(l, l->more))
        look(l, l->layers - 1 + l->layers % 2); /* once more at the last one that was looked at */
}

static void backward(lanes_t *l)
{
    float *dout = new_floats(l->n, l->compute);
    CHECK(loop_fill(dout, (unsigned)l->step, l->n, l->compute));
    for (int i = l->layers; i-- > 0;) {
        float *din = new_floats(l->n, l->compute);
        CHECK(loop_backward(din, l->dw[i], dout, l->x[i], l->x[i + 1], l->w[i], l->n, l->m, 0, l->compute));
        order(l->aside, l->compute, l->gradient[i]);
        CHECK(loop_update(l->w[i], l->dw[i], l->counter, 1e-3f, l->m, l->aside));
        if (i % 2 == 0 && is_on(l, l->sync))
            CHECK(cudaEventSynchronize(l->looked[i + 1]));
        else if (i % 2 == 0)
            CHECK(cudaStreamWaitEvent(l->compute, l->looked[i + 1], 0));
        CHECK(cudaFreeAsync(l->x[i + 1], l->compute));
        CHECK(cudaFreeAsync(dout, l->compute));
        dout = din;
    }
    CHECK(loop_probe(l->sums, dout, l->n, l->compute));
    CHECK(cudaFreeAsync(dout, l->compute));
    order(l->upload, l->compute, l->done[0]);
    CHECK(cudaFreeAsync(l->x[0], l->upload));
    order(l->compute, l->aside, l->updated);
}

static void run_step(lanes_t *l)
{
    if (l->fresh && l->step == l->fresh) {
        CHECK(cudaStreamDestroy(l->upload));
        CHECK(cudaStreamCreateWithFlags(&l->upload, cudaStreamNonBlocking));
    }
    l->n = l->half && l->step % l->half == 0 ? l->n_whole / 2 : l->n_whole;
    forward(l);
    backward(l);
}

int main(int argc, char **argv)
{
    static lanes_t l;
    l.layers = trainer_option(argc, argv, "layers", 8);
    l.steps = trainer_option(argc, argv, "steps", 20);
    l.turn = trainer_option(argc, argv, "turn", 0);
    l.sync = trainer_option(argc, argv, "sync", 0);
    l.more = trainer_option(argc, argv, "more", 0);
    l.fresh = trainer_option(argc, argv, "fresh", 0);
    l.half = trainer_option(argc, argv, "short", 0);
    l.together = trainer_option(argc, argv, "together", 0);
    l.n_whole = (size_t)trainer_option(argc, argv, "mib", 4) << 18;
    l.m = (size_t)1 << 19;
    if (l.layers < 2 || l.layers > LAYERS_MAX)
        return 2;
    set_up(&l);
    for (l.step = 1; l.step <= l.steps; l.step++)
        run_step(&l);
    CHECK(cudaDeviceSynchronize());
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < l.layers; i++)
        hash = trainer_hash(l.w[i], l.m * sizeof(float), hash);
    hash = trainer_hash(l.counter, sizeof *l.counter, hash);
    hash = trainer_hash(l.sums, (l.n_whole / 16384 + 1) * sizeof(float), hash);
    hash = trainer_hash(l.seen, (l.n_whole / 16384 + 1) * sizeof(float), hash);
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
