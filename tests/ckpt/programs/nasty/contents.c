/* contents.c: traits of what kernels write, and of what a hash of it says. */
#include "nasty.h"

#include <stdlib.h>

/* ---- zeros: something is added to every activation, and it is zero: written, and the bits are the same ---- */

static void zeros_set_up(worker_t *w)
{
    w->a = nasty_keep(w, NASTY_FLOATS * sizeof(float));
}

static void zeros_forward(worker_t *w, unsigned i)
{
    float by = 0.5f;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->a, &by, &w->n);
}

/* ---- flag: a kernel writes only where a word on the device says so; every third step it does ---- */

static void flag_set_up(worker_t *w)
{
    w->word = nasty_keep(w, sizeof *w->word);
    w->host = nasty_pinned(2 * sizeof *w->host);
    w->host[1] = 1;
}

static void flag_begin(worker_t *w)
{
    const unsigned *from = &w->host[w->step % 3 == 0];
    CHECK(cudaMemcpyAsync(w->word, from, sizeof *from, cudaMemcpyHostToDevice, w->stream));
}

static void flag_forward(worker_t *w, unsigned i)
{
    float gain = 0.99f;
    LAUNCH(w, perhaps, blocks_of(w->n), &w->x[i + 1], &w->word, &gain, &w->n);
}

/* ---- later: a kernel begins to write an operand in the eighth step ---- */

static void later_set_up(worker_t *w)
{
    w->word = nasty_keep(w, sizeof *w->word);
}

static void later_begin(worker_t *w)
{
    LAUNCH(w, advance, 1, &w->word);
}

static void later_forward(worker_t *w, unsigned i)
{
    unsigned from = 8;
    LAUNCH(w, later, blocks_of(w->n), &w->x[i + 1], &w->word, &from, &w->n);
}

/* ---- frozen: every layer has a large buffer that steps only read, twice; now and then the host, or a kernel between two steps, writes
 * one. thawed: the same, and from the 30th step on a kernel of the step writes them all ---- */

static void frozen_set_up(worker_t *w)
{
    w->word = nasty_keep(w, sizeof *w->word);
    w->table = calloc(w->layers, sizeof *w->table);
    w->host_floats = nasty_pinned(NASTY_FLOATS * sizeof(float));
    for (unsigned i = 0; i < w->layers; i++) {
        unsigned seed = 1000 + i;
        w->table[i] = nasty_keep(w, NASTY_FLOATS * sizeof(float));
        LAUNCH(w, fill, blocks_of(w->n), &w->table[i], &seed, &w->n);
    }
}

static void frozen_forward(worker_t *w, unsigned i)
{
    float by = 0.125f;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->table[i], &by, &w->n);
}

static void frozen_after(worker_t *w)
{
    unsigned seed = w->step, at = w->step % w->layers, what = nasty_random(w, 9);
    if (w->step >= 14 && what == 0) {
        CHECK(cudaStreamSynchronize(w->stream));
        for (unsigned i = 0; i < w->n; i++)
            w->host_floats[i] = (float)((w->step + i) % 64) / 64;
        CHECK(cudaMemcpyAsync(w->table[at], w->host_floats, w->n * sizeof(float), cudaMemcpyHostToDevice,
                              w->stream));
    } else if (w->step >= 14 && what == 1) {
        LAUNCH(w, fill, blocks_of(w->n), &w->table[at], &seed, &w->n);
    }
}

static void thawed_begin(worker_t *w)
{
    LAUNCH(w, advance, 1, &w->word);
}

static void thawed_forward(worker_t *w, unsigned i)
{
    unsigned from = 30;
    LAUNCH(w, later, blocks_of(w->n), &w->table[i], &w->word, &from, &w->n);
    frozen_forward(w, i);
}

static void frozen_finish(worker_t *w)
{
    free(w->table);
}

/* ---- semaphore: a counter that the last block resets: 0 before and after ---- */

static void semaphore_set_up(worker_t *w)
{
    w->word = nasty_keep(w, sizeof *w->word);
    w->a = nasty_keep(w, (NASTY_LAYERS + blocks_of(NASTY_FLOATS)) * sizeof(float));
    w->b = w->a + NASTY_LAYERS;
}

static void semaphore_forward(worker_t *w, unsigned i)
{
    float *result = w->a + i;
    LAUNCH(w, tally, blocks_of(w->n), &result, &w->b, &w->word, &w->x[i + 1], &w->n);
}

/* ---- spinning: blocks that wait for one another by a word; with another word in it they wait for ever ---- */

static void spinning_forward(worker_t *w, unsigned i)
{
    float *result = w->a + i;
    LAUNCH(w, in_turn, blocks_of(w->n), &result, &w->word, &w->x[i + 1], &w->n);
}

/* ---- inplace: every activation is changed where it stands, twice, by what is not kept ---- */

static void inplace_forward(worker_t *w, unsigned i)
{
    float by = -0.125f;
    float *noise = new_activation(w);
    unsigned seed = w->step * 31 + i;
    LAUNCH(w, fill, blocks_of(w->n), &noise, &seed, &w->n);
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &noise, &by, &w->n);
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->x[i], &by, &w->n);
    nasty_free(w, noise);
}

/* ---- statistics: running ones, updated by the forward pass: once a step, however often that is repeated ---- */

static void statistics_set_up(worker_t *w)
{
    w->a = nasty_keep(w, 2 * NASTY_LAYERS * sizeof(float));
    w->b = nasty_keep(w, NASTY_LAYERS * sizeof(float));
}

static void statistics_forward(worker_t *w, unsigned i)
{
    float *running = w->a + 2 * i, *batch = w->b + i;
    LAUNCH(w, statistics, 1, &running, &batch, &w->x[i + 1], &w->n);
    LAUNCH(w, centre, blocks_of(w->n), &w->x[i + 1], &batch, &w->n);
}

/* ---- random: dropout whose random numbers are counted on the device, by the kernel itself ---- */

static void random_set_up(worker_t *w)
{
    w->word = nasty_keep(w, 2 * sizeof *w->word);
}

static void random_forward(worker_t *w, unsigned i)
{
    float *out = new_activation(w);
    LAUNCH(w, dropout, blocks_of(w->n), &out, &w->x[i + 1], &w->word, &w->n);
    nasty_free(w, w->x[i + 1]);
    w->x[i + 1] = out;
}

/* ---- nondeterministic: other bits every time, of which only what is the same is used ---- */

static void nondeterministic_set_up(worker_t *w)
{
    w->count = blocks_of(NASTY_FLOATS);
}

static void nondeterministic_forward(worker_t *w, unsigned i)
{
    unsigned *stamps = nasty_alloc(w, w->n * sizeof *stamps),
             *tickets = nasty_alloc(w, (w->count + 1) * sizeof *tickets);
    unsigned *cursor = tickets + w->count;
    CHECK(cudaMemsetAsync(cursor, 0, sizeof *cursor, w->stream));
    LAUNCH(w, scatter, w->count, &tickets, &stamps, &cursor, &w->n);
    LAUNCH(w, collect, 1, &w->x[i + 1], &tickets, &w->count);
    nasty_free(w, stamps);
    nasty_free(w, tickets);
}

/* ---- scalars: arguments whose bits look like addresses, and others in every step ---- */

static void scalars_forward(worker_t *w, unsigned i)
{
    float by = 1.0f / (float)(w->step * 17 + i);
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->x[i], &by, &w->n);
}

/* ---- foreach: one launch for all parameters, their addresses in a structure ---- */

static bool foreach_update(worker_t *w)
{
    struct nasty_pairs pairs = {.count = w->layers};
    float rate = 1e-3f / (float)w->step;
    for (unsigned i = 0; i < w->layers; i++) {
        pairs.m[i] = w->m[i];
        pairs.w[i] = w->w[i];
        pairs.dw[i] = w->dw[i];
    }
    LAUNCH(w, update_all, blocks_of(w->m[0]), &pairs, &rate);
    return true;
}

/* ---- stale_words: a structure by value of which the host fills in a part; the rest is what others have left on its stack: pointers
 * to buffers that are in use and to their ends, others in each step. stale: also to what was freed since, numbers, and nothing at all.
 * sometimes: they look no different, and in a few late steps the kernel goes by them. grown: the same of stale ones. hidden: the
 * same, and only a word on the device says so. lists: as stale_words, in a structure that says how much of it is meant ---- */

enum { STALE_WORDS = 4 };

static void stale_words_set_up(worker_t *w)
{
    w->table = calloc(STALE_WORDS, sizeof *w->table); /* on the host */
}

static struct nasty_pairs with_stale_words(worker_t *w, unsigned i, unsigned count)
{
    struct nasty_pairs pairs = {
        .count = count, .m = {w->n, w->n}, .w = {w->x[i + 1], w->x[i + 1]}, .dw = {w->x[i]}};
    for (unsigned k = 0; k < STALE_WORDS; k++)
        if (k % 2)
            pairs.w[1 + k] = w->table[k];
        else
            pairs.dw[1 + k] = w->table[k];
    return pairs;
}

static void launch_with_stale_words(worker_t *w, unsigned i, unsigned count)
{
    float rate = 0.01f;
    struct nasty_pairs pairs = with_stale_words(w, i, count);
    LAUNCH(w, update_all, blocks_of(w->n), &pairs, &rate);
}

static float *any_in_use(worker_t *w, unsigned i)
{
    float *in_use[] = {w->x[nasty_random(w, i + 1)], w->x[i + 1] + w->n, w->w[i], w->dw[0]};
    return in_use[nasty_random(w, sizeof in_use / sizeof *in_use)];
}

static void stale_words_forward(worker_t *w, unsigned i)
{
    for (unsigned k = 0; k < STALE_WORDS; k++)
        w->table[k] = any_in_use(w, i);
    launch_with_stale_words(w, i, 1);
}

/* A pointer, which may be stale soon; or a number, or nothing. */
static float *anything(worker_t *w, unsigned i)
{
    float *in_use = any_in_use(w, i);
    const unsigned number = nasty_random(w, 1000), which = nasty_random(w, 5);
    return which < 2 ? in_use : which < 4 ? (float *)(uintptr_t)(1 + number) : NULL;
}

static void remember_anything(worker_t *w, unsigned i)
{
    for (unsigned k = 0; k < STALE_WORDS; k++)
        if (nasty_random(w, 3) == 0)
            w->table[k] = anything(w, i);
}

static void stale_forward(worker_t *w, unsigned i)
{
    remember_anything(w, i);
    launch_with_stale_words(w, i, 1);
}

static bool goes_by_two(const worker_t *w)
{
    return w->step > w->steps / 2 + 3 && w->step % 4 == 0;
}

/* The second pair's gradients are what was the first stale word. */
static void sometimes_forward(worker_t *w, unsigned i)
{
    for (unsigned k = 0; k < STALE_WORDS; k++)
        w->table[k] = w->x[nasty_random(w, i + 1)];
    launch_with_stale_words(w, i, goes_by_two(w) ? 2 : 1);
}

static void remember_the_second(worker_t *w, unsigned i)
{
    remember_anything(w, i);
    float *second = w->x[nasty_random(w, i + 1)];
    w->table[0] = goes_by_two(w) ? second : w->table[0];
}

static void grown_forward(worker_t *w, unsigned i)
{
    remember_the_second(w, i);
    launch_with_stale_words(w, i, goes_by_two(w) ? 2 : 1);
}

static void hidden_set_up(worker_t *w)
{
    stale_words_set_up(w);
    w->word = nasty_keep(w, sizeof *w->word);
    w->host = nasty_pinned(2 * sizeof *w->host);
    w->host[0] = 1;
    w->host[1] = 2;
}

static void hidden_begin(worker_t *w)
{
    CHECK(cudaMemcpyAsync(w->word, &w->host[goes_by_two(w)], sizeof *w->word, cudaMemcpyHostToDevice,
                          w->stream));
}

static void hidden_forward(worker_t *w, unsigned i)
{
    float rate = 0.01f;
    remember_the_second(w, i);
    struct nasty_pairs pairs = with_stale_words(w, i, 0);
    LAUNCH(w, update_some, blocks_of(w->n), &pairs, &w->word, &rate);
}

static void lists_forward(worker_t *w, unsigned i)
{
    const unsigned half = blocks_of(w->n) / 2 * NASTY_SLICE;
    char functor = 0; /* without members */
    float rate = 0.01f;
    struct nasty_lists lists = {.w = {w->x[i + 1], w->x[i + 1] + half},
                                .dw = {w->x[i], w->x[i] + half},
                                .elements = {half, w->n - half}};
    for (unsigned b = 0; b < blocks_of(w->n); b++) {
        lists.tensor_of_block[b] = b >= half / NASTY_SLICE;
        lists.slice_of_block[b] = (int)(b - lists.tensor_of_block[b] * half / NASTY_SLICE);
    }
    for (unsigned k = 0; k < STALE_WORDS; k++)
        lists.w[2 + k] = lists.dw[2 + k] = any_in_use(w, i);
    LAUNCH(w, nasty_update_lists(), blocks_of(w->n), &lists, &functor, &rate);
}

static void stale_words_finish(worker_t *w)
{
    free(w->table);
}

/* ---- windows: each step reads another part of data that lies on the device, and writes another part of a history ---- */

static void windows_set_up(worker_t *w)
{
    unsigned seed = 77, n = 4 * w->n;
    w->a = nasty_keep(w, n * sizeof(float));
    w->b = nasty_keep(w, NASTY_FLOATS * sizeof(float));
    LAUNCH(w, fill, blocks_of(n), &w->a, &seed, &n);
}

static void windows_forward(worker_t *w, unsigned i)
{
    const float *part = w->a + w->step % 4 * w->n;
    float by = 0.125f;
    if (!i)
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &part, &by, &w->n);
}

static void windows_end(worker_t *w)
{
    unsigned seed = w->step, n = 1024;
    float *at = w->b + w->step % 64 * n;
    LAUNCH(w, fill, blocks_of(n), &at, &seed, &n);
}

const trait_t nasty_contents[] = {
    {.name = "plain"},
    {.name = "windows", .set_up = windows_set_up, .forward = windows_forward, .end = windows_end},
    {.name = "zeros", .set_up = zeros_set_up, .forward = zeros_forward},
    {.name = "flag", .set_up = flag_set_up, .begin = flag_begin, .forward = flag_forward},
    {.name = "frozen",
     .set_up = frozen_set_up,
     .forward = frozen_forward,
     .backward = frozen_forward,
     .after = frozen_after,
     .finish = frozen_finish},
    {.name = "thawed",
     .set_up = frozen_set_up,
     .begin = thawed_begin,
     .forward = thawed_forward,
     .backward = frozen_forward,
     .finish = frozen_finish},
    {.name = "later", .set_up = later_set_up, .begin = later_begin, .forward = later_forward},
    {.name = "semaphore", .set_up = semaphore_set_up, .forward = semaphore_forward},
    {.name = "spinning", .set_up = semaphore_set_up, .forward = spinning_forward},
    {.name = "inplace", .forward = inplace_forward},
    {.name = "statistics", .set_up = statistics_set_up, .forward = statistics_forward},
    {.name = "random", .set_up = random_set_up, .forward = random_forward},
    {.name = "nondeterministic", .set_up = nondeterministic_set_up, .forward = nondeterministic_forward},
    {.name = "scalars", .forward = scalars_forward},
    {.name = "foreach", .operands = 8, .update = foreach_update},
    {.name = "stale_words",
     .operands = 2 + STALE_WORDS,
     .set_up = stale_words_set_up,
     .forward = stale_words_forward,
     .finish = stale_words_finish},
    {.name = "stale",
     .operands = 2 + STALE_WORDS,
     .set_up = stale_words_set_up,
     .forward = stale_forward,
     .finish = stale_words_finish},
    {.name = "sometimes",
     .operands = 2 + STALE_WORDS,
     .set_up = stale_words_set_up,
     .forward = sometimes_forward,
     .finish = stale_words_finish},
    {.name = "grown",
     .operands = 2 + STALE_WORDS,
     .set_up = stale_words_set_up,
     .forward = grown_forward,
     .finish = stale_words_finish},
    {.name = "hidden",
     .operands = 3 + STALE_WORDS,
     .set_up = hidden_set_up,
     .begin = hidden_begin,
     .forward = hidden_forward,
     .finish = stale_words_finish},
    {.name = "lists", .operands = 4 + 2 * STALE_WORDS, .forward = lists_forward},
    {.name = NULL},
};
