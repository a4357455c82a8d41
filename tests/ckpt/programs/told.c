/* told.c: a small training loop that knows of ebb (ckpt/run/ebb.h), and runs without it as well.
 *
 *   told [steps=N] [at=STEP] [short=N] [mark=1] [pause=1] [keep=1] [hold=1] [within=1] [greedy=1] [small=MIB large=MIB]
 *
 * A step: forward through LAYERS layers, each activation its own stream-ordered allocation, backward, update. From step `at` to step 2 * `at`
 *
 *   pause=1  decisions are paused
 *   keep=1   the activation of layer 1 is kept in each step, from when it is made until it is read
 *   hold=1   weights and gradients of all layers are kept
 *   within=1 the weights are kept from the beginning of each step to its end
 *   greedy=1 in step `at` alone, activations are kept until there is no room for more, and released at once
 *   small=   the budget is so many MiB, and `large` before and after
 *
 * mark=1: each step is marked, and has a name. short=N: every N-th step has half the batch.
 *
 * The last line of output is a hash of the weights. Under ebb, what ebb says of itself is on stderr: "told: WHERE: key value, .." at `at`, at 2 * `at` and in
 * the end. Exit code 3: a call of CUDA's failed; 4: one of ebb's did not do what its header says.
 */
#include <errno.h>
#include <stdbool.h>

#include "ckpt/run/ebb.h"

#define TRAINER "told"
#include "loop.cuh"
#include "trainer_parts.h"

#ifndef EBB_CHUNK_KIB
#define EBB_CHUNK_KIB 2048
#endif
enum { LAYERS = 8, CHUNK_FLOATS = EBB_CHUNK_KIB * 256, N = 2 * CHUNK_FLOATS };

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, TRAINER ": line %d: %s does not hold\n", __LINE__, #condition);                  \
            exit(4);                                                                                         \
        }                                                                                                    \
    } while (0)

typedef struct told {
    int steps, at, half, mark, pause, keep, hold, within, greedy, small, large;
    size_t n; /* floats of an activation of this step */
    cudaStream_t stream;
    float *w[LAYERS], *dw[LAYERS], *x[LAYERS + 1];
    unsigned *counter;
    int *flag;
} told_t;

static bool is_there(void)
{
    return ebb_version != NULL;
}

static void *new_permanent(size_t bytes)
{
    void *p = NULL;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 0, bytes));
    return p;
}

static float *new_floats(const told_t *t)
{
    void *p = NULL;
    CHECK(cudaMallocAsync(&p, t->n * sizeof(float), t->stream));
    return p;
}

static void set_up(told_t *t)
{
    CHECK(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking));
    for (int i = 0; i < LAYERS; i++) {
        t->w[i] = new_permanent(CHUNK_FLOATS * sizeof(float));
        t->dw[i] = new_permanent(CHUNK_FLOATS * sizeof(float));
        CHECK(cudaDeviceSynchronize());
        CHECK(loop_fill(t->w[i], (unsigned)i, CHUNK_FLOATS, t->stream));
    }
    t->counter = new_permanent(sizeof *t->counter);
    t->flag = new_permanent(sizeof *t->flag);
    CHECK(cudaDeviceSynchronize());
}

static bool is_between(const told_t *t, int step)
{
    return step >= t->at && step < 2 * t->at;
}

static uint64_t fetches(void)
{
    ebb_statistics_t s;
    ebb_statistics(&s, sizeof s);
    return s.fetches;
}

/* What is kept has not left, whatever has been allocated since. */
static void look_at_kept(const told_t *t, bool keeps)
{
    const uint64_t before = keeps ? fetches() : 0;
    CHECK(loop_adjust(t->x[1], t->flag, 1, t->n, t->stream));
    EXPECT(!keeps || fetches() == before);
}

static void keep_weights(const told_t *t, int (*does)(const void *address, size_t bytes))
{
    for (int i = 0; i < LAYERS; i++)
        EXPECT(!does(t->w[i], CHUNK_FLOATS * sizeof(float)));
}

static void keep_all_that_fit(const told_t *t)
{
    const size_t activation = t->n * sizeof(float), weight = CHUNK_FLOATS * sizeof(float);
    int kept = 0, result = 0;
    while (kept < 3 * LAYERS && !result) {
        const int layer = kept / 3;
        float *const of_layer[] = {t->x[layer], t->w[layer], t->dw[layer]};
        result = ebb_memory_keep(of_layer[kept % 3], kept % 3 ? weight : activation);
        kept += !result;
    }
    EXPECT(result == -ENOMEM);
    for (; kept--;) {
        float *const of_layer[] = {t->x[kept / 3], t->w[kept / 3], t->dw[kept / 3]};
        EXPECT(!ebb_memory_release(of_layer[kept % 3], kept % 3 ? weight : activation));
    }
}

static void train(told_t *t, int step)
{
    t->n = t->half && step % t->half == 0 ? N / 2 : N;
    const bool keeps = is_there() && t->keep && is_between(t, step);
    const bool within = is_there() && t->within && is_between(t, step);
    if (within)
        keep_weights(t, ebb_memory_keep);
    t->x[0] = new_floats(t);
    CHECK(loop_fill(t->x[0], (unsigned)step * 7919u, t->n, t->stream));
    for (int i = 0; i < LAYERS; i++) {
        t->x[i + 1] = new_floats(t);
        CHECK(loop_forward(t->x[i + 1], t->x[i], t->w[i], NULL, t->n, CHUNK_FLOATS, t->stream));
        if (keeps && i == 0)
            EXPECT(!ebb_memory_keep(t->x[1], t->n * sizeof(float)));
    }
    if (t->keep)
        look_at_kept(t, keeps);
    if (is_there() && t->greedy && step == t->at)
        keep_all_that_fit(t);
    float *dout = new_floats(t);
    CHECK(loop_fill(dout, 99, t->n, t->stream));
    for (int i = LAYERS; i-- > 0;) {
        float *din = new_floats(t);
        CHECK(loop_backward(din, t->dw[i], dout, t->x[i], t->x[i + 1], t->w[i], t->n, CHUNK_FLOATS, 0,
                            t->stream));
        if (keeps && i == 0)
            EXPECT(!ebb_memory_release(t->x[1], t->n * sizeof(float)));
        CHECK(cudaFreeAsync(t->x[i + 1], t->stream));
        CHECK(cudaFreeAsync(dout, t->stream));
        dout = din;
    }
    CHECK(cudaFreeAsync(dout, t->stream));
    CHECK(cudaFreeAsync(t->x[0], t->stream));
    for (int i = 0; i < LAYERS; i++)
        CHECK(loop_update(t->w[i], t->dw[i], t->counter, 1e-3f, CHUNK_FLOATS, t->stream));
    if (within)
        keep_weights(t, ebb_memory_release);
}

/* ---- what it tells ebb, and asks ---- */

static void say(const char *where)
{
    ebb_statistics_t s;
    ebb_statistics(&s, sizeof s);
    fprintf(
        stderr, "told: %s: driven %llu, plans %llu, fetches %llu, evictions %llu, mapped %llu, budget %zu\n",
        where, (unsigned long long)s.steps_driven, (unsigned long long)s.plans, (unsigned long long)s.fetches,
        (unsigned long long)s.evictions, (unsigned long long)s.mapped_bytes, ebb_budget(0));
}

static void set_budget(int mib)
{
    char text[32];
    snprintf(text, sizeof text, "%dMiB", mib);
    EXPECT(!ebb_budget_set(-1, text));
    EXPECT(ebb_budget(0) == (size_t)mib << 20);
    ebb_statistics_t s;
    ebb_statistics(&s, sizeof s);
    EXPECT(s.mapped_bytes + s.overhead_bytes <= (uint64_t)mib << 20);
}

static void update_by_nothing(const told_t *t)
{
    for (int i = 0; i < LAYERS; i++)
        CHECK(loop_update(t->w[i], t->dw[i], t->counter, 0.0f, CHUNK_FLOATS, t->stream));
}

/* Weights and gradients are there when the call returns: nothing has to be fetched that a launch on all of them reads. */
static void hold(const told_t *t, bool begin)
{
    const size_t bytes = CHUNK_FLOATS * sizeof(float);
    ebb_statistics_t before, behind;
    for (int i = 0; i < LAYERS; i++) {
        EXPECT(!(begin ? ebb_memory_keep : ebb_memory_release)(t->w[i], bytes));
        EXPECT(!(begin ? ebb_memory_keep : ebb_memory_release)(t->dw[i], bytes));
    }
    ebb_statistics(&before, sizeof before);
    update_by_nothing(t);
    ebb_statistics(&behind, sizeof behind);
    EXPECT(!begin || (behind.fetches == before.fetches && behind.mapped_bytes >= 2 * LAYERS * bytes));
}

static void tell(const told_t *t, int step)
{
    if (t->mark) {
        if (step)
            ebb_range_pop();
        ebb_step_mark();
        ebb_range_push("told step");
    }
    if (step != t->at && step != 2 * t->at)
        return;
    const bool begins = step == t->at;
    say(begins ? "at" : "until");
    if (t->pause)
        (begins ? ebb_decisions_pause : ebb_decisions_resume)();
    if (t->small)
        set_budget(begins ? t->small : t->large);
    if (t->hold)
        hold(t, begins);
}

/* What means nothing is an error, and changes nothing. */
static void misuse(const told_t *t)
{
    const size_t budget = ebb_budget(0);
    size_t old[2] = {1, 1};
    EXPECT(ebb_device_count() == 1 && budget);
    EXPECT(ebb_budget_set(0, "60%peak") == -EINVAL && ebb_budget_set(0, "many") == -EINVAL);
    EXPECT(ebb_budget_set(0, "nan") == -EINVAL && ebb_budget_set(0, "20") == -EINVAL);
    EXPECT(ebb_budget_set(0, "0") == -EINVAL && ebb_budget_set(0, NULL) == -EINVAL &&
           ebb_budget_set(-2, "1GiB") == -EINVAL);
    EXPECT(ebb_budget_set(7, "1GiB") == -ENODEV && !ebb_budget(7) && ebb_budget(0) == budget);
    EXPECT(ebb_memory_keep(t->w[0], 0) == -EINVAL && ebb_memory_keep(&budget, 8) == -ENOENT);
    EXPECT(ebb_memory_release((char *)t->w[0] + CHUNK_FLOATS * sizeof(float), 1) == -ENOENT);
    ebb_statistics((ebb_statistics_t *)(void *)old, sizeof old[0]); /* of a header with one key */
    EXPECT(old[0] && old[1] == 1);
    char text[8192], little[8];
    const size_t length = ebb_statistics_json(text, sizeof text);
    EXPECT(length > 100 && length < sizeof text && strlen(text) == length && *text == '{');
    EXPECT(strstr(text, "\"steps_driven\": ") && strstr(text, "\"variants\": ["));
    EXPECT(ebb_statistics_json(little, sizeof little) >= 100 && strlen(little) == 7);
    ebb_decisions_resume(); /* more often than paused */
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal));
    EXPECT(ebb_budget_set(0, "1GiB") == -EBUSY && ebb_budget(0) == budget);
    CHECK(cudaStreamEndCapture(t->stream, &graph));
    CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    static told_t t;
    t.steps = trainer_option(argc, argv, "steps", 40);
    t.at = trainer_option(argc, argv, "at", 20);
    t.half = trainer_option(argc, argv, "short", 0);
    t.mark = trainer_option(argc, argv, "mark", 0);
    t.pause = trainer_option(argc, argv, "pause", 0);
    t.keep = trainer_option(argc, argv, "keep", 0);
    t.hold = trainer_option(argc, argv, "hold", 0);
    t.within = trainer_option(argc, argv, "within", 0);
    t.greedy = trainer_option(argc, argv, "greedy", 0);
    t.small = trainer_option(argc, argv, "small", 0);
    t.large = trainer_option(argc, argv, "large", 0);
    set_up(&t);
    if (is_there())
        misuse(&t);
    for (int step = 0; step < t.steps; step++) {
        if (is_there())
            tell(&t, step);
        else if (t.hold && (step == t.at || step == 2 * t.at))
            update_by_nothing(&t);
        train(&t, step);
    }
    CHECK(cudaStreamSynchronize(t.stream));
    if (is_there())
        say("end");
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < LAYERS; i++)
        hash = trainer_hash(t.w[i], CHUNK_FLOATS * sizeof(float), hash);
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
