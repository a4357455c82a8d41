/* fuzz_interface.c: see fuzz.h. What it decides comes from random numbers of its own, and is the same without ebb, where the functions are NULL. */
#include <errno.h>
#include <stdlib.h>

#include "ckpt/run/ebb.h"
#include "fuzz.h"

typedef struct kept {
    CUdeviceptr at; /* 0: none */
    size_t bytes;
    unsigned until; /* moment */
} kept_t;

enum { KEPT = 2 };

struct fuzz_interface {
    fuzz_worker_t dice; /* only its random numbers */
    unsigned moments, paused_until;
    unsigned keeps, pauses, budgets; /* percent of moments */
    bool marks;                      /* every step */
    kept_t kept[KEPT];
    size_t kept_bytes, kept_peak; /* in whole chunks */
};

bool fuzz_uses_interface;

static void expect(int result, int allowed, const char *what)
{
    if (!result || result == allowed)
        return;
    fprintf(stderr, "fuzz: not so: %s gives %d\n", what, result);
    exit(5);
}

void fuzz_interface_open(fuzz_worker_t *w, uint64_t seed)
{
    if (!fuzz_uses_interface)
        return;
    fuzz_interface_t *f = w->interface = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->dice.random = seed * 3000017 + w->index;
    f->marks = fuzz_chance(&f->dice, 40);
    f->keeps = fuzz_arenas ? 0 : 5 * fuzz_below(&f->dice, 4); /* it would be a whole segment */
    f->pauses = fuzz_below(&f->dice, 4) / 2;
    f->budgets = fuzz_below(&f->dice, 4) / 3;
}

static void release(fuzz_worker_t *w, kept_t *k)
{
    if (ebb_memory_release)
        expect(ebb_memory_release((void *)(uintptr_t)k->at, k->bytes), -ENOENT, "releasing");
    w->interface->kept_bytes -= fuzz_chunks(k->bytes);
    k->at = 0;
}

static void keep(fuzz_worker_t *w, kept_t *k)
{
    fuzz_interface_t *f = w->interface;
    const fuzz_buffer_t *b = w->buffers ? &w->buffer[fuzz_below(&f->dice, w->buffers)] : NULL;
    const unsigned moments = 1 + fuzz_below(&f->dice, 40);
    if (!b || !b->address)
        return;
    *k = (kept_t){b->address, (size_t)b->words * 4, f->moments + moments};
    f->kept_bytes += fuzz_chunks(k->bytes);
    f->kept_peak = f->kept_bytes > f->kept_peak ? f->kept_bytes : f->kept_peak;
    const int result = ebb_memory_keep ? ebb_memory_keep((void *)(uintptr_t)k->at, k->bytes) : 0;
    if (result != -ENOENT) /* a pool's that the driver serves */
        expect(result, -ENOMEM, "keeping");
}

/* The same one, of which plans know nothing. */
static void set_budget(void)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", ebb_budget ? ebb_budget(0) : 0);
    if (ebb_budget_set && ebb_budget(0))
        expect(ebb_budget_set(fuzz_threads ? -1 : 0, text), -ENOMEM, "a budget");
}

static void end_pause(fuzz_interface_t *f)
{
    f->paused_until = 0;
    if (ebb_decisions_resume)
        ebb_decisions_resume();
}

static void end_of_what_is_over(fuzz_worker_t *w, unsigned now)
{
    fuzz_interface_t *f = w->interface;
    for (unsigned i = 0; i < KEPT; i++)
        if (f->kept[i].at && f->kept[i].until <= now)
            release(w, &f->kept[i]);
    if (f->paused_until && f->paused_until <= now)
        end_pause(f);
}

void fuzz_interface_moment(fuzz_worker_t *w, bool step)
{
    fuzz_interface_t *f = w->interface;
    if (!f)
        return;
    end_of_what_is_over(w, ++f->moments);
    kept_t *k = &f->kept[fuzz_below(&f->dice, KEPT)];
    if (fuzz_chance(&f->dice, f->keeps) && !k->at)
        keep(w, k);
    if (fuzz_chance(&f->dice, f->budgets))
        set_budget();
    if (fuzz_chance(&f->dice, f->pauses) && !f->paused_until) {
        f->paused_until = f->moments + 1 + fuzz_below(&f->dice, 60);
        if (ebb_decisions_pause)
            ebb_decisions_pause();
    }
    if (step && f->marks && ebb_step_mark)
        ebb_step_mark();
}

size_t fuzz_interface_kept_bytes(const fuzz_worker_t *w)
{
    return w->interface ? w->interface->kept_peak : 0;
}

void fuzz_interface_close(fuzz_worker_t *w)
{
    if (w->interface)
        end_of_what_is_over(w, UINT32_MAX);
}

void fuzz_interface_discard(fuzz_worker_t *w)
{
    free(w->interface);
}
