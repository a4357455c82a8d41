/* fuzz.c: fuzz SEED [--faults] [--repeat] [--streams] [--threads] [--arenas] [--tables] [--mean] [--lengths] [--interface] [--brings]. Runs the program that belongs to a seed (fuzz.h) and prints hashes of what it has
 * computed; then "size PEAK NEED SMALL CHUNKS": bytes that were live at most, that one operation touches in large buffers at
 * most, that were live in small ones, and that large ones took at most, in whole chunks. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

CUmemoryPool fuzz_pool;

static CUcontext context;
static fuzz_worker_t worker[FUZZ_WORKERS];
static unsigned workers;

static void load_kernels(fuzz_worker_t *w)
{
    static const char *const names[] = {"fill", "mix", "gather", "gather_by", "perhaps", "span", "dawdle"};
    CUmodule module;
    const char *elsewhere = getenv("FUZZ_KERNELS");
    CALL(w, cuModuleLoad(&module, elsewhere ? elsewhere : FUZZ_KERNEL_FILE));
    for (unsigned i = 0; i < FUZZ_KERNELS; i++)
        CALL(w, cuModuleGetFunction(&fuzz_kernel[i], module, names[i]));
}

static void set_up(fuzz_worker_t *w)
{
    CUdevice device;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CALL(w, cuInit(0));
    CALL(w, cuDeviceGet(&device, 0));
    CALL(w, cuDevicePrimaryCtxRetain(&context, device));
    CALL(w, cuCtxSetCurrent(context));
    load_kernels(w);
    if (fuzz_chance(w, 50))
        CALL(w, cuMemPoolCreate(&fuzz_pool, &props));
}

/* Straight on, or the same operations over and over, on what the ones before have left. */
static void work(fuzz_worker_t *w)
{
    if (fuzz_repeats) {
        fuzz_repeat(w);
        return;
    }
    const unsigned operations = w->operations, kept = w->buffers;
    const uint64_t random = w->random;
    char name[32];
    for (unsigned i = 0; i < kept; i++)
        w->buffer[i].permanent = w->iterations > 1;
    w->operations = 0;
    for (unsigned round = 0; round < w->iterations; round++) {
        w->random = random;
        w->salt = round * 7919;
        for (unsigned i = 0; i < operations; i++) {
            fuzz_operate(w);
            if (w->iterations == 1 && i % 40 == 39) {
                snprintf(name, sizeof name, "operation %u", i + 1);
                fuzz_checkpoint(w, name);
            }
        }
        while (w->iterations > 1 && w->buffers > kept)
            fuzz_free(w, w->buffers - 1);
    }
    fuzz_checkpoint(w, "end");
}

static void begin(fuzz_worker_t *w)
{
    fuzz_open_streams(w);
    const unsigned first = 3 + fuzz_below(w, 8);
    for (unsigned i = 0; i < first; i++)
        fuzz_allocate(w, fuzz_chance(w, 80));
}

static void end(fuzz_worker_t *w)
{
    w->slots = false;
    while (w->buffers) {
        if (!w->buffer[w->buffers - 1].address || (w->buffer[w->buffers - 1].shared && w->index))
            w->buffers--;
        else
            fuzz_free(w, w->buffers - 1);
    }
    fuzz_arena_close(w);
    fuzz_close_tables(w);
    fuzz_mean_close(w);
    fuzz_interface_close(w);
    /* ebb learns how far a stream is by an event that it records when it first wants to know: the second wait finds it. */
    CALL(w, cuCtxSynchronize());
    CALL(w, cuCtxSynchronize());
    fuzz_close_streams(w);
}

static void *run(void *argument)
{
    fuzz_worker_t *w = argument;
    if (setjmp(w->stop))
        return NULL;
    CALL(w, cuCtxSetCurrent(context));
    begin(w);
    work(w);
    end(w);
    return NULL;
}

/* The other workers read what the first one has at its start. */
static void share(fuzz_worker_t *first)
{
    fuzz_wait_all(first);
    for (unsigned i = 0; i < first->buffers; i++)
        first->buffer[i].shared = true;
    for (unsigned k = 1; k < workers; k++) {
        memcpy(worker[k].buffer, first->buffer, first->buffers * sizeof first->buffer[0]);
        worker[k].buffers = first->buffers;
    }
}

static void draw(fuzz_worker_t *w, unsigned index, uint64_t seed)
{
    w->index = index;
    w->random = seed * 1000003 + index;
    w->next_id = index * 100000;
    w->most_bytes = (size_t)(12 + fuzz_below(w, 52)) * FUZZ_SMALL;
    w->largest_bytes = (size_t)(2 + fuzz_below(w, 9)) * FUZZ_SMALL;
    if (fuzz_repeats) { /* many buffers, so that there is something to plan */
        w->most_bytes = (size_t)(32 + fuzz_below(w, 32)) * FUZZ_SMALL;
        w->largest_bytes = (size_t)(2 + fuzz_below(w, 3)) * FUZZ_SMALL;
    }
    w->iterations = workers == 1 && fuzz_chance(w, 25) ? 8 + fuzz_below(w, 12) : 1;
    w->lone = fuzz_repeats && workers == 1 && !fuzz_streams && fuzz_chance(w, 60);
    w->operations = w->iterations > 1 ? 10 + fuzz_below(w, 25) : 40 + fuzz_below(w, 160);
    if (workers > 1)
        w->most_bytes /= 2;
    w->out = open_memstream(&w->text, &w->text_bytes);
    if (!w->out)
        abort();
    fuzz_trace_open(w);
    fuzz_mean_open(w, seed);
    fuzz_interface_open(w, seed);
}

/* The first worker's stages happen around the others' lives, but for its work. */
static void run_all(void)
{
    pthread_t thread[FUZZ_WORKERS];
    fuzz_worker_t *first = &worker[0];
    if (setjmp(first->stop))
        return;
    set_up(first);
    begin(first);
    if (workers > 1)
        share(first);
    for (unsigned k = 1; k < workers; k++)
        if (pthread_create(&thread[k], NULL, run, &worker[k]))
            abort();
    if (!setjmp(first->stop))
        work(first);
    for (unsigned k = 1; k < workers; k++)
        pthread_join(thread[k], NULL);
    if (!first->stopped && !setjmp(first->stop))
        end(first);
}

static bool read_switch(const char *word)
{
    static const struct {
        const char *name;
        bool *value;
    } rows[] = {
        {"--faults", &fuzz_faults},   {"--repeat", &fuzz_repeats},  {"--streams", &fuzz_streams},
        {"--threads", &fuzz_threads}, {"--arenas", &fuzz_arenas},   {"--tables", &fuzz_tables},
        {"--mean", &fuzz_is_mean},    {"--lengths", &fuzz_lengths}, {"--interface", &fuzz_uses_interface},
        {"--brings", &fuzz_brings}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(word, rows[i].name))
            return *rows[i].value = true;
    fprintf(stderr, "fuzz: %s? See fuzz.c's first lines.\n", word);
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const uint64_t seed = strtoull(argv[1], NULL, 10);
    for (int i = 2; i < argc; i++)
        if (!read_switch(argv[i]))
            return 2;
    fuzz_worker_t dice = {.random = seed};
    workers = fuzz_chance(&dice, fuzz_threads ? 0 : 70) ? 1 : 2 + fuzz_below(&dice, FUZZ_WORKERS - 1);
    for (unsigned k = 0; k < workers; k++)
        draw(&worker[k], k, seed);
    run_all();

    size_t peak = 0, need = 0, small = 0, chunks = 0, foreign = 0;
    unsigned errors = 0;
    bool stopped = false;
    for (unsigned k = 0; k < workers; k++) {
        fuzz_worker_t *w = &worker[k];
        fclose(w->out);
        fwrite(w->text, 1, w->text_bytes, stdout);
        peak += w->peak;
        small += w->small_peak + (fuzz_tables ? FUZZ_TABLE_BYTES : 0);
        chunks += w->chunks_peak;
        need = w->need > need ? w->need : need;
        foreign += fuzz_mean_foreign_bytes(w) + fuzz_interface_kept_bytes(w);
        fuzz_mean_discard(w);
        fuzz_interface_discard(w);
        errors += w->errors;
        stopped |= w->stopped;
    }
    if (!stopped)
        printf("size %zu %zu %zu %zu\n", peak, need + foreign, small, chunks);
    if (errors)
        fprintf(stderr, "fuzz: %u errors\n", errors);
    return 0;
}
