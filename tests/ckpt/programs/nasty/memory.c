/* memory.c: traits of when memory is allocated and freed, and where pointers point. */
#include "nasty.h"

#include <stdlib.h>

/* ---- kept: a variable keeps the output while the next one is made, and it is used there ---- */

static void kept_middle(worker_t *w)
{
    float by = 0.25f;
    if (w->a)
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[w->layers], &w->a, &by, &w->n);
    if (w->a)
        nasty_free(w, w->a);
    w->a = NULL;
}

static void kept_release(worker_t *w, float **p)
{
    if (p == &w->x[w->layers])
        w->a = *p;
    else
        nasty_free(w, *p);
}

static void kept_finish(worker_t *w)
{
    nasty_read(w, w->a, w->n * sizeof(float));
    nasty_free(w, w->a);
}

/* ---- losses: a small buffer of each step, of which all activations are made, is kept in a list, which is added up and given back when it is full; some
 * are given back in the middle of their own step; each is made of the one before ---- */

enum { LOSSES_FLOATS = 4096 };

static void losses_set_up(worker_t *w)
{
    w->b = nasty_keep(w, LOSSES_FLOATS * sizeof(float));
}

static void losses_begin(worker_t *w)
{
    unsigned seed = 31 + w->step, count = LOSSES_FLOATS;
    float by = 0.125f;
    w->c = nasty_alloc(w, count * sizeof(float));
    LAUNCH(w, fill, blocks_of(count), &w->c, &seed, &count);
    if (w->count)
        LAUNCH(w, accumulate, blocks_of(count), &w->c, &w->late[w->count - 1], &by, &count);
}

static void losses_forward(worker_t *w, unsigned i)
{
    float by = 0.25f;
    unsigned count = LOSSES_FLOATS;
    LAUNCH(w, accumulate, blocks_of(count), &w->x[i + 1], &w->c, &by, &count);
}

static void losses_middle(worker_t *w)
{
    if (w->step % 7 != 3)
        return;
    nasty_free(w, w->c);
    w->c = NULL;
}

static void losses_give_back(worker_t *w)
{
    float by = 0.5f;
    unsigned count = LOSSES_FLOATS;
    while (w->count) {
        float *p = w->late[--w->count];
        LAUNCH(w, accumulate, blocks_of(count), &w->b, &p, &by, &count);
        nasty_free(w, p);
    }
}

static void losses_after(worker_t *w)
{
    if (w->count == NASTY_LATE)
        losses_give_back(w);
    if (w->c)
        w->late[w->count++] = w->c;
}

/* ---- running: a small buffer that is made from the last step's, which is given back then; with evaluations in between ---- */

static void running_begin(worker_t *w)
{
    unsigned seed = 47 + w->step, count = LOSSES_FLOATS;
    float *last = w->c, by = 0.5f;
    w->c = nasty_alloc(w, count * sizeof(float));
    LAUNCH(w, fill, blocks_of(count), &w->c, &seed, &count);
    if (!last)
        return;
    LAUNCH(w, accumulate, blocks_of(count), &w->c, &last, &by, &count);
    nasty_free(w, last);
}

static void running_after(worker_t *w)
{
    if (w->step % 5 == 0)
        nasty_evaluate(w, w->layers);
}

static void running_finish(worker_t *w)
{
    nasty_read(w, w->c, LOSSES_FLOATS * sizeof(float));
    nasty_free(w, w->c);
}

/* ---- late: some activations live on for a while, into the next step, and are looked at once more ---- */

static void late_free_one(worker_t *w)
{
    float *p = w->late[--w->count];
    LAUNCH(w, sums, blocks_of(w->n), &w->b, &p, &w->n);
    nasty_free(w, p);
}

static void late_set_up(worker_t *w)
{
    w->b = nasty_keep(w, blocks_of(NASTY_FLOATS) * sizeof(float));
}

static void late_release(worker_t *w, float **p)
{
    if (w->step > 4 && w->count < NASTY_LATE && nasty_random(w, 12) == 0)
        w->late[w->count++] = *p;
    else
        nasty_free(w, *p);
}

static void late_forward(worker_t *w, unsigned i)
{
    (void)i;
    if (w->count && nasty_random(w, 6) == 0)
        late_free_one(w);
}

static void late_finish(worker_t *w)
{
    while (w->count)
        late_free_one(w);
}

/* ---- early: a buffer that lives until its layer's backward pass; in every third step it is given up before ---- */

static void early_set_up(worker_t *w)
{
    w->table = calloc(NASTY_LAYERS, sizeof *w->table); /* on the host */
}

static void early_forward(worker_t *w, unsigned i)
{
    float by = 0.0625f;
    w->table[i] = new_activation(w);
    LAUNCH(w, forward, blocks_of(w->n), &w->table[i], &w->x[i], &w->w[i], &w->n, &w->m[i]);
    if (w->step > 5 && w->step % 3 == 0) {
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->table[i], &by, &w->n);
        nasty_free(w, w->table[i]);
        w->table[i] = NULL;
    }
}

static void early_backward(worker_t *w, unsigned i)
{
    float by = 0.0625f;
    if (!w->table[i])
        return;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->table[i], &by, &w->n);
    nasty_free(w, w->table[i]);
}

static void early_finish(worker_t *w)
{
    free(w->table);
}

/* ---- epochs: a batch, of which all activations are made, is there until the step is over; every sixth one, the last of its epoch, is given back before
 * the update, or before the backward pass ---- */

enum { EPOCHS_BATCH = 20000 };

static void epochs_begin(worker_t *w)
{
    unsigned seed = 17 + w->step, count = EPOCHS_BATCH;
    w->a = nasty_alloc(w, count * sizeof(float));
    LAUNCH(w, fill, blocks_of(count), &w->a, &seed, &count);
    w->b = new_activation(w);
    LAUNCH(w, fill, blocks_of(w->n), &w->b, &seed, &w->n);
}

static void epochs_forward(worker_t *w, unsigned i)
{
    float by = 0.25f;
    unsigned count = i % 2 ? w->n : EPOCHS_BATCH;
    LAUNCH(w, accumulate, blocks_of(count), &w->x[i + 1], i % 2 ? &w->b : &w->a, &by, &count);
}

static void epochs_give_back(worker_t *w)
{
    if (w->a) {
        nasty_free(w, w->a);
        nasty_free(w, w->b);
    }
    w->a = w->b = NULL;
}

static void epochs_middle(worker_t *w)
{
    if (w->step % 12 == 0)
        epochs_give_back(w);
}

static void epochs_end(worker_t *w)
{
    if (w->step % 12 == 6)
        epochs_give_back(w);
}

/* ---- exchanged: of two buffers one is freed behind the step, the other in the middle of the next one; in every fourth step it is the other
 * way round ---- */

static void exchanged_middle(worker_t *w)
{
    float by = 0.25f;
    float **kept = w->a ? &w->a : &w->b;
    if (*kept) {
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[w->layers], kept, &by, &w->n);
        nasty_free(w, *kept);
    }
    *kept = NULL;
    w->a = new_activation(w);
    LAUNCH(w, forward, blocks_of(w->n), &w->a, &w->x[w->layers], &w->w[0], &w->n, &w->m[0]);
}

static void exchanged_backward(worker_t *w, unsigned i)
{
    if (i != 1)
        return;
    w->b = new_activation(w);
    LAUNCH(w, forward, blocks_of(w->n), &w->b, &w->x[1], &w->w[1], &w->n, &w->m[1]);
}

static void exchanged_after(worker_t *w)
{
    float **freed = w->step > 12 && w->step % 4 == 0 ? &w->a : &w->b;
    nasty_free(w, *freed);
    *freed = NULL;
}

static void exchanged_finish(worker_t *w)
{
    float *kept = w->a ? w->a : w->b;
    nasty_read(w, kept, w->n * sizeof(float));
    nasty_free(w, kept);
}

/* ---- synchronous: cudaMalloc and cudaFree, right behind the launches that use the memory ---- */

static void synchronous_forward(worker_t *w, unsigned i)
{
    float by = -0.0625f;
    unsigned seed = w->step + i;
    float *noise = nasty_alloc_at_once(w->n * sizeof(float));
    LAUNCH(w, fill, blocks_of(w->n), &noise, &seed, &w->n);
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &noise, &by, &w->n);
    nasty_free_at_once(noise);
}

/* ---- small: buffers that share slabs, freed and handed out again at once, with another content each time ---- */

static void small_forward(worker_t *w, unsigned i)
{
    float by = 0.1f;
    for (unsigned k = 0; k < 4; k++) {
        unsigned n = 2000 + 5000 * k + 100 * (w->step % 2), seed = w->step * 100 + i * 4 + k;
        float *a = nasty_alloc(w, n * sizeof(float)), *b;
        LAUNCH(w, fill, blocks_of(n), &a, &seed, &n);
        nasty_free(w, a);
        b = nasty_alloc(w, n * sizeof(float)); /* where the last one was, as like as not */
        LAUNCH(w, forward, blocks_of(n), &b, &w->x[i], &w->w[i], &n, &w->m[i]);
        LAUNCH(w, accumulate, blocks_of(n), &w->x[i + 1], &b, &by, &n);
        nasty_free(w, b);
    }
}

/* ---- ends: whole chunks, and an argument that points behind the last element ---- */

static void ends_set_up(worker_t *w)
{
    w->n = (2 << 20) / sizeof(float);
}

static void ends_forward(worker_t *w, unsigned i)
{
    float gain = 0.98f, *end = w->x[i + 1] + w->n;
    LAUNCH(w, span, blocks_of(w->n), &w->x[i + 1], &end, &gain);
}

/* ---- batches: every other step has twice as much of everything ---- */

static void batches_begin(worker_t *w)
{
    w->n = w->step % 2 ? NASTY_FLOATS : 2 * NASTY_FLOATS;
}

/* ---- lengths: every step has another size of everything ---- */

static void lengths_begin(worker_t *w)
{
    w->n = NASTY_FLOATS + NASTY_SLICE * nasty_random(w, NASTY_FLOATS / NASTY_SLICE);
}

/* ---- documents: as long as texts are (log-normal), now and then longer than any before ---- */

static void documents_begin(worker_t *w)
{
    unsigned n = NASTY_FLOATS;
    for (int i = 0; i < 8; i++)
        n = n * (12 + nasty_random(w, 9)) / 16;
    w->n = n < 2 * NASTY_FLOATS ? n : 2 * NASTY_FLOATS;
}

/* ---- bucketed: the same, padded to one of a few lengths, as batches of similar texts are ---- */

enum { BUCKETS = 6 };

static void bucketed_begin(worker_t *w)
{
    const size_t bucket = 2 * NASTY_FLOATS / BUCKETS;
    documents_begin(w);
    w->n = (w->n + bucket - 1) / bucket * bucket;
}

/* ---- sorted: each step is longer than the one before, until it begins anew ---- */

enum { LENGTHS = 48 };

static void sorted_begin(worker_t *w)
{
    w->n = 2 * NASTY_FLOATS / 3 + w->step % LENGTHS * (4 * NASTY_FLOATS / 3 / LENGTHS);
}

/* ---- padded: only whole slices are computed; what is left is as it was filled, in none of the first steps ---- */

enum { FULL_STEPS = 30 };

static void padded_begin(worker_t *w)
{
    w->n = NASTY_FLOATS + nasty_random(w, NASTY_FLOATS);
    if (w->step < FULL_STEPS)
        w->n -= w->n % NASTY_SLICE;
}

static bool padded_layer(worker_t *w, unsigned i)
{
    unsigned seed = 77, whole = w->n - w->n % NASTY_SLICE;
    LAUNCH(w, fill, blocks_of(w->n), &w->x[i + 1], &seed, &w->n);
    LAUNCH(w, forward, blocks_of(whole), &w->x[i + 1], &w->x[i], &w->w[i], &whole, &w->m[i]);
    return true;
}

/* ---- loader: as documents; a batch's tokens are there until the next one's are ---- */

static void loader_begin(worker_t *w)
{
    float *last = w->a;
    unsigned seed = 31 + w->step;
    documents_begin(w);
    w->count = w->n / 8;
    w->a = nasty_alloc(w, w->count * sizeof(float));
    LAUNCH(w, fill, blocks_of(w->count), &w->a, &seed, &w->count);
    if (last)
        nasty_free(w, last);
}

static void loader_forward(worker_t *w, unsigned i)
{
    float by = 0.5f;
    if (!i)
        LAUNCH(w, accumulate, blocks_of(w->count), &w->x[1], &w->a, &by, &w->count);
}

static void loader_finish(worker_t *w)
{
    nasty_free(w, w->a);
}

/* ---- listed: as documents; what is allocated first is a list, whose length has nothing to do with theirs ---- */

static void listed_begin(worker_t *w)
{
    unsigned seed = 57 + w->step;
    documents_begin(w);
    w->count = 1000 + nasty_random(w, 30000);
    w->a = nasty_alloc(w, w->count * sizeof(float));
    LAUNCH(w, fill, blocks_of(w->count), &w->a, &seed, &w->count);
}

static void listed_forward(worker_t *w, unsigned i)
{
    float by = 0.5f;
    LAUNCH(w, accumulate, blocks_of(w->count), &w->x[i + 1], &w->a, &by, &w->count);
}

static void listed_backward(worker_t *w, unsigned i)
{
    if (!i)
        nasty_free(w, w->a);
}

/* ---- targets: as documents, and each has a second text, whose length has nothing to do with that of the first ---- */

enum { FEW_LAYERS = 4 }; /* one in so many */

static void targets_begin(worker_t *w)
{
    documents_begin(w);
    w->count = NASTY_FLOATS + nasty_random(w, NASTY_FLOATS);
}

/* Added to a layer's activation, and kept for its gradients. */
static void add_to(worker_t *w, unsigned i, unsigned which, unsigned n)
{
    float by = 0.25f, **t = &w->late[which];
    unsigned seed = w->step * 31 + which, both = n < w->n ? n : w->n;
    *t = nasty_alloc(w, n * sizeof(float));
    LAUNCH(w, fill, blocks_of(n), t, &seed, &n);
    LAUNCH(w, accumulate, blocks_of(both), &w->x[i + 1], t, &by, &both);
}

static void take_back(worker_t *w, unsigned i, unsigned which, unsigned n)
{
    float by = -0.25f;
    unsigned both = n < w->n ? n : w->n;
    LAUNCH(w, accumulate, blocks_of(both), &w->x[i + 1], &w->late[which], &by, &both);
    nasty_free(w, w->late[which]);
}

static void targets_forward(worker_t *w, unsigned i)
{
    if (i % FEW_LAYERS == 0)
        add_to(w, i, i / FEW_LAYERS, w->count);
}

static void targets_backward(worker_t *w, unsigned i)
{
    if (i % FEW_LAYERS == 0)
        take_back(w, i, i / FEW_LAYERS, w->count);
}

/* ---- behind: as documents, with two arrays in one buffer, the second behind the first, wherever that ends ---- */

static void add_half(worker_t *w, unsigned i, float by)
{
    float *second = w->late[i / FEW_LAYERS] + w->n;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &second, &by, &w->n);
}

static void behind_forward(worker_t *w, unsigned i)
{
    if (i % FEW_LAYERS)
        return;
    float **both = &w->late[i / FEW_LAYERS];
    *both = nasty_alloc(w, 2 * w->n * sizeof(float));
    for (unsigned k = 0; k < 2; k++) {
        float *half = *both + k * w->n;
        unsigned seed = w->step * 31 + 2 * i + k;
        LAUNCH(w, fill, blocks_of(w->n), &half, &seed, &w->n);
    }
    add_half(w, i, 0.25f);
}

static void behind_backward(worker_t *w, unsigned i)
{
    if (i % FEW_LAYERS)
        return;
    add_half(w, i, -0.25f);
    nasty_free(w, w->late[i / FEW_LAYERS]);
}

/* ---- experts: every step has as much, and some layers spread it over two experts, by chance ---- */

static unsigned expert_floats(const worker_t *w, unsigned i, unsigned expert)
{
    return NASTY_FLOATS / 2 + (w->step * 2654435761u ^ (2 * i + expert) * 40503u * 65537u) % NASTY_FLOATS;
}

static void experts_forward(worker_t *w, unsigned i)
{
    for (unsigned e = 0; e < 2 && i % FEW_LAYERS == 0; e++)
        add_to(w, i, 2 * (i / FEW_LAYERS) + e, expert_floats(w, i, e));
}

static void experts_backward(worker_t *w, unsigned i)
{
    for (unsigned e = 0; e < 2 && i % FEW_LAYERS == 0; e++)
        take_back(w, i, 2 * (i / FEW_LAYERS) + e, expert_floats(w, i, e));
}

/* ---- routed: in some layers each token goes to two of four experts, as a table of the step says; the host reads how many have come to
 * each, and leaves out an expert that has none ---- */

enum { EXPERTS = 4, ROUTED_LAYERS = 8 /* one in so many */ };

static unsigned *index_of(worker_t *w, unsigned i)
{
    return w->tokens + (size_t)(i / ROUTED_LAYERS * EXPERTS) * (w->n / NASTY_TOKEN);
}

static void routed_begin(worker_t *w)
{
    w->n = NASTY_FLOATS * 2 / NASTY_TOKEN * NASTY_TOKEN;
}

static void routed_set_up(worker_t *w)
{
    routed_begin(w);
    w->tokens = nasty_keep(w, NASTY_LATE * (w->n / NASTY_TOKEN) * sizeof(unsigned));
    w->word = nasty_keep(w, NASTY_LATE * sizeof(unsigned));
    w->host = nasty_pinned(NASTY_LATE * sizeof(unsigned));
}

static void routed_forward(worker_t *w, unsigned i)
{
    unsigned seed = w->step * 31 + i, tokens = w->n / NASTY_TOKEN, experts = EXPERTS, *index = index_of(w, i);
    const unsigned first = i / ROUTED_LAYERS * EXPERTS;
    unsigned *count = w->word + first;
    float by = 0.5f;
    if (i % ROUTED_LAYERS)
        return;
    LAUNCH(w, route, 1, &index, &count, &seed, &tokens, &experts);
    CHECK(
        cudaMemcpyAsync(w->host + first, count, EXPERTS * sizeof *count, cudaMemcpyDeviceToHost, w->stream));
    CHECK(cudaStreamSynchronize(w->stream));
    for (unsigned e = 0; e < EXPERTS; e++, index += tokens) {
        unsigned n = w->host[first + e] * NASTY_TOKEN;
        float **rows = &w->late[first + e];
        if (!n)
            continue;
        *rows = nasty_alloc(w, n * sizeof(float));
        LAUNCH(w, gather, blocks_of(n), rows, &w->x[i + 1], &index, &n);
        LAUNCH(w, add_rows, blocks_of(n), &w->x[i + 1], rows, &index, &by, &n);
    }
}

static void routed_backward(worker_t *w, unsigned i)
{
    unsigned tokens = w->n / NASTY_TOKEN, *index = index_of(w, i);
    const unsigned first = i / ROUTED_LAYERS * EXPERTS;
    float by = -0.5f;
    for (unsigned e = 0; e < EXPERTS && i % ROUTED_LAYERS == 0; e++, index += tokens) {
        unsigned n = w->host[first + e] * NASTY_TOKEN;
        if (!n)
            continue;
        LAUNCH(w, add_rows, blocks_of(n), &w->x[i + 1], &w->late[first + e], &index, &by, &n);
        nasty_free(w, w->late[first + e]);
    }
}

/* ---- micro: as documents, in micro-batches of two lengths that have nothing to do with each other ---- */

static void micro_end(worker_t *w)
{
    documents_begin(w);
    nasty_train(w);
}

/* ---- accumulated: three micro-batches for each update; the first one's gradients stay, and the others' are added to them ---- */

enum { ACCUMULATED = 3 };

static void accumulated_set_up(worker_t *w)
{
    w->table = calloc(NASTY_LAYERS, sizeof *w->table); /* on the host */
}

/* Of a micro-batch behind the first one. */
static void accumulated_add(worker_t *w, unsigned i)
{
    float by = 1;
    if (w->dw[i] == w->table[i])
        return;
    LAUNCH(w, accumulate, blocks_of(w->m[i]), &w->table[i], &w->dw[i], &by, &w->m[i]);
    nasty_free(w, w->dw[i]);
}

static void accumulated_backward(worker_t *w, unsigned i)
{
    if (i + 1 < w->layers)
        accumulated_add(w, i + 1);
    w->dw[i] = nasty_alloc(w, w->m[i] * sizeof(float));
    if (!w->table[i])
        w->table[i] = w->dw[i];
}

static void accumulated_end(worker_t *w)
{
    for (unsigned k = 1; k < ACCUMULATED; k++) {
        nasty_train(w);
        accumulated_add(w, 0);
    }
}

static bool accumulated_update(worker_t *w)
{
    float rate = 1e-3f;
    for (unsigned i = 0; i < w->layers; i++)
        LAUNCH(w, update, blocks_of(w->m[i]), &w->w[i], &w->table[i], &rate, &w->m[i]);
    for (unsigned i = 0; i < w->layers; i++) {
        nasty_free(w, w->table[i]);
        w->table[i] = NULL;
    }
    return true;
}

static void accumulated_finish(worker_t *w)
{
    free(w->table);
}

/* ---- examined: as documents, and after every fifth step a forward pass for nothing, of another length ---- */

static void examined_after(worker_t *w)
{
    documents_begin(w);
    if (w->step % 5 == 0)
        nasty_evaluate(w, w->layers);
}

/* ---- surprised: the same at any time ---- */

static void surprised_after(worker_t *w)
{
    if (nasty_random(w, 4))
        return;
    documents_begin(w);
    nasty_evaluate(w, w->layers);
}

/* ---- resized: one size for a while, then as documents ---- */

static void resized_begin(worker_t *w)
{
    if (w->step >= FULL_STEPS)
        documents_begin(w);
}

/* ---- retry: takes what it can get for a cache, and gives it back piece by piece when there is no more ---- */

enum { CACHES = 24, CACHE_BYTES = 3 << 20 };
static void *cache[CACHES];

static void retry_set_up(worker_t *w)
{
    while (w->count < CACHES) {
        cudaError_t error = cudaMalloc(&cache[w->count], CACHE_BYTES);
        if (error == cudaErrorMemoryAllocation)
            break;
        CHECK(error);
        CHECK(cudaMemset(cache[w->count++], 0xee, CACHE_BYTES));
    }
    cudaGetLastError();
}

static bool retry_shortage(worker_t *w)
{
    if (!w->count)
        return false;
    CHECK(cudaFree(cache[--w->count]));
    return true;
}

/* More than any device has; then on as if nothing had been. */
static void retry_middle(worker_t *w)
{
    void *p = NULL;
    const cudaError_t error = cudaMallocAsync(&p, (size_t)1 << 44, w->stream);
    CHECK(error == cudaErrorMemoryAllocation ? cudaSuccess : cudaErrorUnknown);
    cudaGetLastError();
}

static void retry_finish(worker_t *w)
{
    while (retry_shortage(w))
        ;
}

const trait_t nasty_memory[] = {
    {.name = "kept", .middle = kept_middle, .release = kept_release, .finish = kept_finish},
    {.name = "losses",
     .set_up = losses_set_up,
     .begin = losses_begin,
     .forward = losses_forward,
     .middle = losses_middle,
     .after = losses_after,
     .finish = losses_give_back},
    {.name = "running",
     .begin = running_begin,
     .forward = losses_forward,
     .after = running_after,
     .finish = running_finish},
    {.name = "late",
     .set_up = late_set_up,
     .release = late_release,
     .forward = late_forward,
     .finish = late_finish},
    {.name = "early",
     .set_up = early_set_up,
     .forward = early_forward,
     .backward = early_backward,
     .finish = early_finish},
    {.name = "epochs",
     .begin = epochs_begin,
     .forward = epochs_forward,
     .middle = epochs_middle,
     .end = epochs_end,
     .after = epochs_give_back},
    {.name = "exchanged",
     .middle = exchanged_middle,
     .backward = exchanged_backward,
     .after = exchanged_after,
     .finish = exchanged_finish},
    {.name = "synchronous", .forward = synchronous_forward},
    {.name = "small", .forward = small_forward},
    {.name = "ends", .set_up = ends_set_up, .forward = ends_forward},
    {.name = "batches", .begin = batches_begin},
    {.name = "lengths", .begin = lengths_begin},
    {.name = "documents", .begin = documents_begin},
    {.name = "bucketed", .begin = bucketed_begin},
    {.name = "sorted", .begin = sorted_begin},
    {.name = "loader", .begin = loader_begin, .forward = loader_forward, .finish = loader_finish},
    {.name = "listed", .begin = listed_begin, .forward = listed_forward, .backward = listed_backward},
    {.name = "targets", .begin = targets_begin, .forward = targets_forward, .backward = targets_backward},
    {.name = "behind", .begin = documents_begin, .forward = behind_forward, .backward = behind_backward},
    {.name = "micro", .begin = documents_begin, .end = micro_end},
    {.name = "accumulated",
     .set_up = accumulated_set_up,
     .backward = accumulated_backward,
     .end = accumulated_end,
     .update = accumulated_update,
     .finish = accumulated_finish},
    {.name = "examined", .begin = documents_begin, .after = examined_after},
    {.name = "surprised", .begin = documents_begin, .after = surprised_after},
    {.name = "experts", .forward = experts_forward, .backward = experts_backward},
    {.name = "routed",
     .set_up = routed_set_up,
     .begin = routed_begin,
     .forward = routed_forward,
     .backward = routed_backward},
    {.name = "resized", .begin = resized_begin},
    {.name = "padded", .begin = padded_begin, .layer = padded_layer},
    {.name = "retry",
     .set_up = retry_set_up,
     .middle = retry_middle,
     .finish = retry_finish,
     .shortage = retry_shortage},
    {.name = NULL},
};
