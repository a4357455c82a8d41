/* nasty.c: nasty TRAIT [steps=N] [layers=N]; nasty --list. See nasty.h. */
#include "nasty.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 2 << 20, SMALL = 1 << 20, LIVE = 4096 };

static worker_t worker[NASTY_WORKERS];

void nasty_check(cudaError_t error, const char *call)
{
    if (!error)
        return;
    fprintf(stderr, "nasty: %s: %s\n", call, cudaGetErrorName(error));
    fflush(NULL);
    _Exit(3); /* other threads may be in the middle of things */
}

/* ---- memory, and what it comes to ---- */

static struct {
    pthread_mutex_t lock;
    struct {
        const void *p;
        size_t bytes;
    } live[LIVE];
    size_t large, large_peak, small, small_peak, largest, stays;
} size = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count(const void *p, size_t bytes)
{
    pthread_mutex_lock(&size.lock);
    unsigned i = 0;
    while (size.live[i].p && size.live[i].p != p)
        i++;
    if (bytes <= SMALL) {
        size.small += bytes;
        size.small_peak = size.small > size.small_peak ? size.small : size.small_peak;
    } else {
        bytes = (bytes + CHUNK - 1) / CHUNK * CHUNK;
        size.large += bytes;
        size.large_peak = size.large > size.large_peak ? size.large : size.large_peak;
        size.largest = bytes > size.largest ? bytes : size.largest;
    }
    if (i + 1 < LIVE) {
        size.live[i].p = p;
        size.live[i].bytes = bytes;
    }
    pthread_mutex_unlock(&size.lock);
}

static void discount(const void *p)
{
    pthread_mutex_lock(&size.lock);
    unsigned i = 0, last = 0;
    while (size.live[i].p != p)
        i++;
    for (last = i; size.live[last + 1].p; last++)
        ;
    *(size.live[i].bytes <= SMALL ? &size.small : &size.large) -= size.live[i].bytes;
    size.live[i] = size.live[last];
    size.live[last].p = NULL;
    pthread_mutex_unlock(&size.lock);
}

void *nasty_alloc(worker_t *w, size_t bytes)
{
    void *p = NULL;
    cudaError_t error;
    while ((error = cudaMallocAsync(&p, bytes, w->stream)) == cudaErrorMemoryAllocation &&
           w->trait->shortage && w->trait->shortage(w))
        cudaGetLastError();
    CHECK(error);
    count(p, bytes);
    return p;
}

void nasty_free_on(void *p, cudaStream_t stream)
{
    discount(p);
    CHECK(cudaFreeAsync(p, stream));
}

void nasty_free(worker_t *w, void *p)
{
    nasty_free_on(p, w->stream);
}

void *nasty_alloc_at_once(size_t bytes)
{
    void *p = NULL;
    CHECK(cudaMalloc(&p, bytes));
    count(p, bytes);
    return p;
}

void nasty_free_at_once(void *p)
{
    discount(p);
    CHECK(cudaFree(p));
}

void *nasty_keep(worker_t *w, size_t bytes)
{
    void *p = nasty_alloc_at_once(bytes);
    CHECK(cudaMemset(p, 0, bytes));
    CHECK(cudaDeviceSynchronize());
    if (w->kept_count == NASTY_KEPT)
        abort();
    w->kept[w->kept_count++] = (kept_t){p, bytes};
    return p;
}

void *nasty_pinned(size_t bytes)
{
    void *p = NULL;
    CHECK(cudaHostAlloc(&p, bytes, cudaHostAllocMapped));
    memset(p, 0, bytes);
    return p;
}

void nasty_stays(size_t bytes)
{
    pthread_mutex_lock(&size.lock);
    size.stays += bytes;
    pthread_mutex_unlock(&size.lock);
}

unsigned nasty_random(worker_t *w, unsigned limit)
{
    w->seed =
        w->seed * 1664525u + 1013904223u; /* Knuth's "quick and dirty" generator, as in Numerical Recipes */
    return (unsigned)((uint64_t)w->seed * limit >> 32);
}

static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

void nasty_read(worker_t *w, const void *device, size_t bytes)
{
    void *host = malloc(bytes);
    CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, w->stream));
    CHECK(cudaStreamSynchronize(w->stream));
    w->hash = hash_of(w->hash, host, bytes);
    free(host);
}

/* ---- the loop ---- */

static void release(worker_t *w, float **p)
{
    if (w->trait->release)
        w->trait->release(w, p);
    else
        nasty_free(w, *p);
    *p = NULL;
}

static void go_forward(worker_t *w, unsigned layers)
{
    const trait_t *t = w->trait;
    unsigned seed = w->step * 7919 + w->index;
    w->x[0] = new_activation(w);
    LAUNCH(w, fill, blocks_of(w->n), &w->x[0], &seed, &w->n);
    for (unsigned i = 0; i < layers; i++) {
        w->x[i + 1] = new_activation(w);
        if (!t->layer || !t->layer(w, i))
            LAUNCH(w, forward, blocks_of(w->n), &w->x[i + 1], &w->x[i], &w->w[i], &w->n, &w->m[i]);
        if (t->forward)
            t->forward(w, i);
    }
}

static void note_loss(worker_t *w, float *of, unsigned index)
{
    unsigned count = blocks_of(w->n);
    LAUNCH(w, sums, count, &w->partial, &of, &w->n);
    LAUNCH(w, total, 1, &w->losses, &index, &w->partial, &count);
}

void nasty_evaluate(worker_t *w, unsigned layers)
{
    go_forward(w, layers);
    note_loss(w, w->x[layers], NASTY_STEPS_MOST + w->step);
    for (unsigned i = 0; i <= layers; i++)
        release(w, &w->x[i]);
}

static void go_backward(worker_t *w)
{
    unsigned seed = 99;
    float *dout = new_activation(w);
    LAUNCH(w, fill, blocks_of(w->n), &dout, &seed, &w->n);
    for (unsigned i = w->layers; i-- > 0;) {
        float *din = new_activation(w);
        if (w->trait->backward)
            w->trait->backward(w, i);
        LAUNCH(w, weight_gradient, blocks_of(w->m[i]), &w->dw[i], &dout, &w->x[i], &w->x[i + 1], &w->n,
               &w->m[i]);
        LAUNCH(w, input_gradient, blocks_of(w->n), &din, &dout, &w->x[i + 1], &w->w[i], &w->n, &w->m[i]);
        release(w, &w->x[i + 1]);
        nasty_free(w, dout);
        dout = din;
    }
    nasty_free(w, dout);
    release(w, &w->x[0]);
}

void nasty_train(worker_t *w)
{
    go_forward(w, w->layers);
    note_loss(w, w->x[w->layers], NASTY_STEPS_MOST + w->step);
    go_backward(w);
}

static void run_step(worker_t *w)
{
    const trait_t *t = w->trait;
    float rate = 1e-3f / (1.0f + 0.1f * (float)w->step);
    if (t->begin)
        t->begin(w);
    go_forward(w, w->layers);
    note_loss(w, w->x[w->layers], w->step);
    if (t->middle)
        t->middle(w);
    go_backward(w);
    if (t->end)
        t->end(w);
    if (!t->update || !t->update(w))
        for (unsigned i = 0; i < w->layers; i++)
            LAUNCH(w, update, blocks_of(w->m[i]), &w->w[i], &w->dw[i], &rate, &w->m[i]);
    if (t->after)
        t->after(w);
}

/* Every fourth layer's parameters are large. */
static void set_up(worker_t *w)
{
    CHECK(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
    w->n = NASTY_FLOATS;
    w->seed = 12345 + w->index;
    w->hash = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < w->layers; i++) {
        unsigned seed = i + 100 * w->index;
        w->m[i] = i % 4 ? 10000 : 280000;
        w->w[i] = nasty_keep(w, w->m[i] * sizeof(float));
        w->dw[i] = nasty_keep(w, w->m[i] * sizeof(float));
        LAUNCH(w, fill, blocks_of(w->m[i]), &w->w[i], &seed, &w->m[i]);
    }
    w->losses = nasty_keep(w, 2 * NASTY_STEPS_MOST * sizeof(float));
    w->partial = nasty_keep(w, blocks_of(2 * NASTY_FLOATS) * sizeof(float));
    if (w->trait->set_up)
        w->trait->set_up(w);
    CHECK(cudaDeviceSynchronize());
}

static void *run(void *argument)
{
    worker_t *w = argument;
    for (w->step = 1; w->step <= w->steps; w->step++)
        run_step(w);
    if (w->trait->finish)
        w->trait->finish(w);
    CHECK(cudaStreamSynchronize(w->stream));
    return NULL;
}

static void print_results(worker_t *w)
{
    static float losses[2 * NASTY_STEPS_MOST];
    CHECK(cudaMemcpy(losses, w->losses, sizeof losses, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < 2 * NASTY_STEPS_MOST; i++)
        if (losses[i] != 0.0f)
            printf("%u loss %u %a\n", w->index, i, (double)losses[i]);
    for (unsigned i = 0; i < w->kept_count; i++)
        nasty_read(w, w->kept[i].p, w->kept[i].bytes);
    printf("%u %016llx\n", w->index, (unsigned long long)w->hash);
}

/* ---- */

static const trait_t *const tables[] = {nasty_contents, nasty_memory, nasty_order, nasty_reach};
enum { TABLES = sizeof tables / sizeof *tables };

static const trait_t *find(const char *name)
{
    for (unsigned k = 0; k < TABLES; k++)
        for (const trait_t *t = tables[k]; t->name; t++)
            if (!strcmp(t->name, name))
                return t;
    return NULL;
}

static unsigned option(int argc, char **argv, const char *name, unsigned fallback)
{
    size_t length = strlen(name);
    for (int i = 2; i < argc; i++)
        if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
            return (unsigned)atoi(argv[i] + length + 1);
    return fallback;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (unsigned k = 0; k < TABLES; k++)
            for (const trait_t *t = tables[k]; t->name; t++)
                puts(t->name);
        return 0;
    }
    const trait_t *trait = argc > 1 ? find(argv[1]) : NULL;
    const unsigned steps = option(argc, argv, "steps", 24),
                   layers = option(argc, argv, "layers", NASTY_LAYERS);
    if (!trait || steps >= NASTY_STEPS_MOST || layers < 4 || layers > NASTY_LAYERS)
        return 2;
    const unsigned workers = trait->workers ? trait->workers : 1;
    pthread_t thread[NASTY_WORKERS];
    for (unsigned k = 0; k < workers; k++) {
        worker[k] = (worker_t){.trait = trait, .index = k, .layers = layers / workers, .steps = steps};
        set_up(&worker[k]);
    }
    for (unsigned k = 1; k < workers; k++)
        if (pthread_create(&thread[k], NULL, run, &worker[k]))
            abort();
    run(&worker[0]);
    for (unsigned k = 1; k < workers; k++)
        pthread_join(thread[k], NULL);
    for (unsigned k = 0; k < workers; k++)
        print_results(&worker[k]);
    fprintf(stderr, "size %zu %zu %zu %zu\n", size.large_peak,
            size.stays + workers * (trait->operands ? trait->operands : 4) * size.largest, size.small_peak,
            size.largest);
    return 0;
}
