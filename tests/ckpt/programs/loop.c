/* loop.c: a small training loop that can be told to misbehave. It knows nothing of ebb.
 *
 *   loop [layers=N] [steps=N] [mib=N] [through=1] [keep=N] [swap=1] [short=N] [look=N] [mix=SEED] [probe=STEP] [evaluate=N] [couple=1] [clear=1] [pad=1] [blend=STEP [behind=N]] [poll=1] [bring=1] [deviate=SEED] [diverge=STEP how=WAY every=N until=STEP] [each=STEP] [more=STEP] [grow=STEP] [peek=STEP] [flag=STEP] [hidden=STEP] [fork=STEP] [reset=1]
 *
 * A step: forward through `layers` layers, each activation (mib MiB, in a build with small chunks so many halves of one) its own stream-ordered allocation,
 * backward, update.
 *
 * through=1     each layer's forward goes through another buffer, which is freed at once
 * keep=N        the outputs of the last N steps stay, and are looked at in each; then the oldest is freed
 * swap=1        two buffers change places with every step: one is read, the other written
 * short=N       every N-th step is one of half the batch
 * look=N        behind every N-th step the sums are copied to the host, and waited for
 * mix=SEED      any step may be one of half the batch, at random
 * probe=STEP    from this step on, behind each: all that is free is allocated, or half of it, and so on, and given back
 * evaluate=N    behind every N-th step a forward pass of two batches, for nothing but the sums
 * couple=1      each activation has a partner of its size, made from the same input; one launch changes both in place, and backward reads both
 * clear=1       weight gradients are added to, and zeroed behind each step's update; clear=2: in front of each step; clear=3: behind it, by a factor
 *               of 0, which leaves zeros of either sign
 * pad=1         each layer has a buffer of rows that end with padding, which is zeroed once: forward writes the rows, backward adds up all of it
 * blend=STEP    each layer has a buffer that forward replaces, and from this step on adds to: only a factor among the arguments says so;
 *               with behind=N only those of layers from N on
 * bring=1       weights are copied from pinned memory to a buffer of their own before a layer is used, forward and backward, which is freed behind
 *               it; in the end of each step they go back there
 * poll=1        behind each step the stream is asked until it has nothing left to do; it is never waited for
 * deviate=SEED  in a third of the steps after the eighth, at a random place: a launch more (which reads a live
 *               activation), an allocation more, a forward pass that is given up half-way, a free that comes
 *               late; or an activation read after its last use
 * diverge=STEP  from this step on, every third step is another one at one launch, N launches later each time. WAY: 0 a launch
 *               more, which changes a live activation; 1 one less, or a memset instead; 2 a launch of other geometry; 3 on
 *               other buffers; 4 an allocation more; 5 a synchronous copy of a live activation, out and back with a change; 6 an activation
 *               is freed that is still needed (another one stands in); 7 one is freed in the next step, at that launch; 8 a copy within one by a function
 *               of the driver that is newer than CUDA 13.0
 *               with until, every step in front of that one, at its launch N
 * each=STEP     from this step on, in every second one: a launch more, which changes a live activation, each time
 *               one launch later
 * more=STEP     the same, but it only reads one, and there is an allocation for its result
 * grow=STEP     before this step, 6 MiB of managed memory come that are never used
 * peek=STEP     from this step on the first activation is read between forward and backward through an address in disguise
 * flag=STEP     a kernel that writes only where a flag on the device is set: from this step on it is
 * hidden=STEP   launches read a number in host memory, to which only a table on the device leads; from this step
 *               on it changes between forward and backward: a replay would give other bits
 *
 * fork=STEP     before this step a child is forked, which ends as any program does, and is waited for
 * reset=1       in the end the device is reset
 *
 * The last line of output is a hash of weights, counter and sums. Exit code 3: a call failed (its error is on
 * stderr).
 */
#include "loop.h"

#include <sys/wait.h>
#include <unistd.h>

static void *new_permanent(size_t bytes)
{
    void *p = NULL;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 0, bytes));
    return p;
}

/* No more than an activation has. */
static size_t own_floats(const loop_t *l)
{
    return l->full < l->m ? l->full : l->m;
}

static void set_up(loop_t *l)
{
    CHECK(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
    for (int i = 0; i < l->layers; i++) {
        l->w[i] = new_permanent(l->m * sizeof(float));
        l->dw[i] = new_permanent(l->m * sizeof(float));
        CHECK(cudaDeviceSynchronize());
        CHECK(loop_fill(l->w[i], (unsigned)i, l->m, l->stream));
    }
    for (int i = 0; i < l->layers && l->bring; i++) {
        void *away = NULL;
        CHECK(cudaMallocHost(&away, l->m * sizeof(float)));
        l->away[i] = away;
        CHECK(cudaMemcpyAsync(away, l->w[i], l->m * sizeof(float), cudaMemcpyDeviceToHost, l->stream));
    }
    for (int i = 0; i < l->layers && (l->pad || l->blend); i++)
        l->own[i] = new_permanent(own_floats(l) * sizeof(float));
    for (int i = 0; i < 2 && l->swap; i++)
        l->pair[i] = new_permanent(l->n * sizeof(float));
    l->sums = new_permanent((l->n / 16384 + 1) * sizeof(float));
    l->counter = new_permanent(sizeof *l->counter);
    l->flag_word = new_permanent(sizeof *l->flag_word);
    void *pinned = NULL;
    CHECK(cudaMallocHost(&pinned, sizeof(float)));
    l->shift = pinned;
    l->shift[0] = 0.1f;
    l->table = new_permanent(sizeof *l->table);
    CHECK(cudaMemcpy(l->table, &l->shift, sizeof l->shift, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
}

/* The result goes to memory of its own, and from there to the sums: something that a plan need not know. */
static void look_once_more(loop_t *l, const float *x, size_t count)
{
    float *out = new_floats(l, l->n / 16384 + 1);
    CHECK(loop_fill(out, 3, l->n / 16384 + 1, l->stream));
    CHECK(loop_probe(out, x, count, l->stream));
    CHECK(loop_probe(l->sums, out, 1, l->stream));
    free_floats(l, &out);
}

/* A launch of the step comes next, about x[count]. True: it is not to be. */
static bool launch(loop_t *l, loop_launch_t what, float *x, size_t count)
{
    const int first = l->each ? l->each : l->more, at = l->step - first,
              i = l->filled ? l->step % l->filled : 0;
    const bool left_out = loop_diverge(l, what, x, count);
    if (l->launches++ != at / 2 || !first || at < 0 || at % 2)
        return left_out;
    const bool live = l->filled && l->x[i];
    if (l->more)
        look_once_more(l, live ? l->x[i] : l->w[0], live ? l->n : l->m);
    else
        CHECK(loop_probe(live ? l->x[i] : l->w[0], l->w[1], l->m, l->stream));
    return left_out;
}

/* Of an activation that is gone already, another one. */
static const float *activation(const loop_t *l, int i)
{
    return l->x[i] ? l->x[i] : l->x[0];
}

/* The layer's weights, to be given back. */
static float *weights(const loop_t *l, int i)
{
    if (!l->bring)
        return l->w[i];
    float *w = new_floats(l, l->m);
    CHECK(cudaMemcpyAsync(w, l->away[i], l->m * sizeof(float), cudaMemcpyHostToDevice, l->stream));
    return w;
}

static void give_back(const loop_t *l, float *w)
{
    if (l->bring)
        free_floats(l, &w);
}

static void forward_layer(loop_t *l, float *out, const float *in, const float *w)
{
    float *const *table = l->hidden ? l->table : NULL;
    float *between = l->through ? new_floats(l, l->n) : NULL;
    if (between)
        CHECK(loop_forward(between, in, w, table, l->n, l->m, l->stream));
    CHECK(loop_forward(out, between ? between : in, w, table, l->n, l->m, l->stream));
    if (between)
        free_floats(l, &between);
}

/* Layers 0 .. count - 1. */
static void forward(loop_t *l, int step, int count, int extra_at, int extra)
{
    int one = l->flag && step >= l->flag;
    CHECK(cudaMemcpyAsync(l->flag_word, &one, sizeof one, cudaMemcpyHostToDevice, l->stream));
    l->x[0] = new_floats(l, l->n);
    l->backward_at = l->layers;
    if (!launch(l, MAKES, l->x[0], l->n))
        CHECK(loop_fill(l->x[0], (unsigned)(step * 7919), l->n, l->stream));
    for (int i = 0; i < count; i++) {
        float *w = weights(l, i);
        l->filled = i + 1;
        l->x[i + 1] = new_floats(l, l->n);
        if (!launch(l, MAKES, l->x[i + 1], l->n))
            forward_layer(l, l->x[i + 1], l->x[i], w);
        give_back(l, w);
        if (l->couple) {
            l->y[i] = new_floats(l, l->n);
            CHECK(loop_forward(l->y[i], l->x[i], l->w[(i + 1) % l->layers], NULL, l->n, l->m, l->stream));
            CHECK(loop_couple(l->x[i + 1], l->y[i], l->n, l->stream));
        }
        if (!launch(l, CHANGES, l->x[i + 1], l->n))
            CHECK(loop_adjust(l->x[i + 1], l->flag_word, 0.99f, l->n, l->stream));
        if (l->pad)
            CHECK(loop_rows(l->own[i], l->x[i + 1], own_floats(l), l->stream));
        if (l->blend)
            CHECK(loop_blend(l->own[i], l->x[i + 1], step < l->blend || i < l->behind ? 0 : 0.5f,
                             own_floats(l), l->stream));
        if (i == extra_at && extra == 0)
            CHECK(loop_probe(l->sums, l->x[rand() % (i + 2)], l->n, l->stream));
        if (i == extra_at && extra == 1) {
            float *more = new_floats(l, l->n / 3);
            CHECK(loop_fill(more, 5, l->n / 3, l->stream));
            free_floats(l, &more);
        }
    }
}

static void backward(loop_t *l, int extra_at, int extra)
{
    float *dout = new_floats(l, l->n);
    if (!launch(l, MAKES, dout, l->n))
        CHECK(loop_fill(dout, 99, l->n, l->stream));
    l->filled = l->layers + 1;
    for (int i = l->layers; i-- > 0;) {
        float *din = new_floats(l, l->n), *w = weights(l, i);
        l->backward_at = i;
        if (!launch(l, MAKES, din, l->n))
            CHECK(loop_backward(din, l->dw[i], dout, activation(l, i), activation(l, i + 1), w, l->n, l->m,
                                l->clear, l->stream));
        give_back(l, w);
        if (l->own[i])
            CHECK(loop_probe(l->sums, l->own[i], own_floats(l), l->stream));
        if (l->y[i]) {
            CHECK(loop_probe(l->sums, l->y[i], l->n, l->stream));
            free_floats(l, &l->y[i]);
        }
        if (i == extra_at && extra == 4)
            CHECK(loop_probe(l->sums, l->x[rand() % (i + 2)], l->n, l->stream));
        if ((i == extra_at && extra == 3) || loop_keeps(l, i + 1)) {
            l->late = l->x[i + 1];
            l->late_n = l->n;
        } else if (l->x[i + 1]) {
            free_floats(l, &l->x[i + 1]);
        }
        free_floats(l, &dout);
        dout = din;
    }
    if (!launch(l, CHANGES, l->sums, 1))
        CHECK(loop_probe(l->sums, dout, l->n, l->stream));
    free_floats(l, &dout);
    free_floats(l, &l->x[0]);
}

/* The new output comes to the kept ones; the oldest goes. */
static void keep_output(loop_t *l)
{
    for (int i = l->keep; i > 0; i--)
        l->kept[i] = l->kept[i - 1];
    l->kept[0] = new_floats(l, l->n);
    if (!launch(l, MAKES, l->kept[0], l->n))
        CHECK(loop_forward(l->kept[0], l->x[l->layers], l->w[0], NULL, l->n, l->m, l->stream));
    for (int i = 1; i <= l->keep && l->kept[i]; i++) {
        if (!launch(l, CHANGES, l->sums, 1))
            CHECK(loop_probe(l->sums, l->kept[i], l->n, l->stream));
    }
    if (l->kept[l->keep])
        free_floats(l, &l->kept[l->keep]);
}

static void swap_pair(loop_t *l)
{
    float *last = l->pair[0];
    l->pair[0] = l->pair[1];
    l->pair[1] = last;
    if (!launch(l, MAKES, l->pair[0], l->n))
        CHECK(loop_forward(l->pair[0], last, l->w[1], NULL, l->n, l->m, l->stream));
    if (!launch(l, CHANGES, l->sums, 1))
        CHECK(loop_probe(l->sums, l->pair[0], l->n, l->stream));
}

static void zero_gradients(const loop_t *l)
{
    for (int i = 0; i < l->layers; i++)
        CHECK(cudaMemsetAsync(l->dw[i], 0, l->m * sizeof(float), l->stream));
}

static void run_step(loop_t *l, int step)
{
    int extra_at = -1, extra = -1;
    void *managed = NULL;
    if (step == l->grow)
        CHECK(cudaMallocManaged(&managed, 6 << 20, cudaMemAttachGlobal));
    l->step = step;
    l->launches = l->filled = 0;
    if (l->deviate && step > 8 && rand() % 3 == 0) {
        extra = rand() % 5;
        extra_at = rand() % l->layers;
    }
    if (extra == 2) { /* a forward pass for nothing */
        forward(l, step, extra_at, -1, -1);
        for (int i = extra_at; i >= 0; i--)
            free_floats(l, &l->x[i]);
        extra = -1;
    }
    float *late = l->diverge ? NULL : l->late;
    l->late = l->diverge ? l->late : NULL;
    if (l->clear == 2)
        zero_gradients(l);
    forward(l, step, l->layers, extra_at, extra);
    if (late) {
        CHECK(loop_probe(l->sums, late, l->late_n, l->stream));
        free_floats(l, &late);
    }
    if (l->hidden && step >= l->hidden) {
        CHECK(cudaStreamSynchronize(l->stream));
        l->shift[0] += 0.25f;
    }
    if (l->peek)
        CHECK(loop_peek(l->sums,
                        (unsigned long long)(uintptr_t)(step >= l->peek ? l->x[0] : l->sums) ^ LOOP_MASK,
                        l->stream));
    if (l->keep)
        keep_output(l);
    backward(l, extra_at, extra);
    if (l->swap)
        swap_pair(l);
    for (int i = 0; i < l->layers; i++) {
        if (!launch(l, CHANGES, l->w[i], l->m))
            CHECK(loop_update(l->w[i], l->dw[i], l->counter, 1e-3f, l->m, l->stream));
        if (l->bring)
            CHECK(cudaMemcpyAsync(l->away[i], l->w[i], l->m * sizeof(float), cudaMemcpyDeviceToHost,
                                  l->stream));
    }
    if (l->clear == 1)
        zero_gradients(l);
    for (int i = 0; i < l->layers && l->clear == 3; i++)
        CHECK(loop_scale(l->dw[i], 0, l->m, l->stream));
    loop_diverge_end(l);
    if (l->hidden)
        CHECK(cudaStreamSynchronize(l->stream));
}

static void look(loop_t *l)
{
    float sum = 0;
    unsigned bits;
    CHECK(cudaMemcpyAsync(&sum, l->sums, sizeof sum, cudaMemcpyDeviceToHost, l->stream));
    CHECK(cudaStreamSynchronize(l->stream));
    memcpy(&bits, &sum, sizeof bits);
    l->read = (l->read ^ bits) * 16777619u;
}

static cudaError_t poll_stream(const loop_t *l)
{
    cudaError_t result;
    while ((result = cudaStreamQuery(l->stream)) == cudaErrorNotReady)
        cudaGetLastError();
    return result;
}

/* Each activation is gone as soon as the next one is there. */
static void evaluate(loop_t *l, int step)
{
    for (int batch = 0; batch < 2; batch++) {
        float *x = new_floats(l, l->n);
        CHECK(loop_fill(x, (unsigned)(step * 31 + batch), l->n, l->stream));
        for (int i = 0; i < l->layers; i++) {
            float *out = new_floats(l, l->n);
            CHECK(loop_forward(out, x, l->w[i], NULL, l->n, l->m, l->stream));
            free_floats(l, &x);
            x = out;
        }
        CHECK(loop_probe(l->sums, x, l->n, l->stream));
        free_floats(l, &x);
    }
}

static void probe_free(const loop_t *l)
{
    size_t bytes, total;
    void *p = NULL;
    CHECK(cudaMemGetInfo(&bytes, &total));
    while (bytes && cudaMallocAsync(&p, bytes, l->stream) == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        bytes /= 2;
    }
    CHECK(cudaFreeAsync(p, l->stream));
}

/* Nothing of the child's is on stdout, where the parent's output may wait. */
static void fork_child(void)
{
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (!child)
        exit(0);
    if (waitpid(child, &status, 0) != child || status)
        exit(4);
}

static bool hash_step(int seed, int step)
{
    const unsigned h = ((unsigned)seed * 7919u + (unsigned)step) * 2654435761u;
    return (h ^ h >> 15) >> 7 & 1;
}

int main(int argc, char **argv)
{
    static loop_t l;
    l.layers = trainer_option(argc, argv, "layers", 8);
    l.steps = trainer_option(argc, argv, "steps", 20);
    l.deviate = trainer_option(argc, argv, "deviate", 0);
    l.diverge = trainer_option(argc, argv, "diverge", 0);
    l.how = trainer_option(argc, argv, "how", 0);
    l.every = trainer_option(argc, argv, "every", 1);
    l.until = trainer_option(argc, argv, "until", 0);
    l.each = trainer_option(argc, argv, "each", 0);
    l.more = trainer_option(argc, argv, "more", 0);
    l.grow = trainer_option(argc, argv, "grow", 0);
    l.peek = trainer_option(argc, argv, "peek", 0);
    l.through = trainer_option(argc, argv, "through", 0);
    l.keep = trainer_option(argc, argv, "keep", 0);
    l.swap = trainer_option(argc, argv, "swap", 0);
    l.flag = trainer_option(argc, argv, "flag", 0);
    l.hidden = trainer_option(argc, argv, "hidden", 0);
    l.small = trainer_option(argc, argv, "short", 0);
    l.look = trainer_option(argc, argv, "look", 0);
    l.mix = trainer_option(argc, argv, "mix", 0);
    l.evaluate = trainer_option(argc, argv, "evaluate", 0);
    l.probe = trainer_option(argc, argv, "probe", 0);
    l.poll = trainer_option(argc, argv, "poll", 0);
    l.couple = trainer_option(argc, argv, "couple", 0);
    l.clear = trainer_option(argc, argv, "clear", 0);
    l.pad = trainer_option(argc, argv, "pad", 0);
    l.blend = trainer_option(argc, argv, "blend", 0);
    l.behind = trainer_option(argc, argv, "behind", 0);
    l.bring = trainer_option(argc, argv, "bring", 0);
    const int fork_at = trainer_option(argc, argv, "fork", 0), reset = trainer_option(argc, argv, "reset", 0);
    l.n = l.full = (size_t)trainer_option(argc, argv, "mib", 4) * CHUNK_FLOATS / 2;
    l.m = CHUNK_FLOATS;
    if (l.layers < 2 || l.layers > LAYERS_MAX || l.keep > KEEP_MAX)
        return 2;
    srand((unsigned)l.deviate);
    set_up(&l);
    for (int step = 1; step <= l.steps; step++) {
        if (step == fork_at)
            fork_child();
        const bool half = l.mix ? hash_step(l.mix, step) : l.small && step % l.small == 0;
        l.n = half ? l.full / 2 : l.full;
        run_step(&l, step);
        if (l.poll)
            CHECK(poll_stream(&l));
        l.n = l.full;
        if (l.look && step % l.look == 0)
            look(&l);
        if (l.evaluate && step % l.evaluate == 0)
            evaluate(&l, step);
        if (l.probe && step >= l.probe)
            probe_free(&l);
    }
    CHECK(cudaStreamSynchronize(l.stream));
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < l.layers; i++)
        hash = trainer_hash(l.w[i], l.m * sizeof(float), hash);
    hash = trainer_hash(l.counter, sizeof *l.counter, hash);
    hash = trainer_hash(l.sums, (l.n / 16384 + 1) * sizeof(float), hash);
    for (int i = 0; i < l.keep; i++)
        hash = trainer_hash(l.kept[i], l.n * sizeof(float), hash);
    for (int i = 0; i < 2 && l.swap; i++)
        hash = trainer_hash(l.pair[i], l.n * sizeof(float), hash);
    hash ^= l.read;
    printf("%016llx\n", (unsigned long long)hash);
    if (reset)
        CHECK(cudaDeviceReset());
    return 0;
}
