/* fuzz_mean.c: see fuzz.h. What it decides comes from random numbers of its own, so that seeds keep their programs. Nothing here changes
 * what the program computes: allocations that may or may not succeed are given back unused. */
#include <pthread.h>
#include <stdlib.h>

#include "fuzz.h"

enum { FOREIGN = 2 };

typedef struct foreign {
    CUdeviceptr at; /* 0: none */
    size_t bytes;
    unsigned until;
} foreign_t;

/* A free in another thread, beside what the worker does next. */
typedef struct job {
    size_t bytes; /* 0: there is none */
    bool running;
    pthread_t thread;
    CUcontext context;
    CUdeviceptr address;
    CUstream stream;
    bool ordered;
    CUresult result;
} job_t;

struct fuzz_mean {
    fuzz_worker_t dice; /* only its random numbers */
    unsigned moments;
    unsigned refusals, takings, elsewhere; /* percent */
    foreign_t foreign[FOREIGN];
    size_t foreign_bytes, foreign_peak;
    job_t job;
};

bool fuzz_is_mean;

static unsigned one_of(fuzz_worker_t *dice, const unsigned values[8])
{
    return values[fuzz_below(dice, 8)];
}

void fuzz_mean_open(fuzz_worker_t *w, uint64_t seed)
{
    if (!fuzz_is_mean)
        return;
    fuzz_mean_t *m = w->mean = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->dice.random = seed * 2000029 + w->index;
    m->refusals = one_of(&m->dice, (const unsigned[]){0, 0, 0, 0, 5, 5, 20, 100});
    m->takings = one_of(&m->dice, (const unsigned[]){0, 0, 0, 0, 0, 0, 4, 15});
    m->elsewhere = one_of(&m->dice, (const unsigned[]){0, 0, 0, 0, 0, 0, 0, 30});
}

fuzz_worker_t *fuzz_mean_dice(fuzz_worker_t *w)
{
    return w->mean ? &w->mean->dice : NULL;
}

size_t fuzz_mean_foreign_bytes(const fuzz_worker_t *w)
{
    return w->mean ? w->mean->foreign_peak : 0;
}

/* May fail for want of memory; with faults, for anything that may. */
static bool has(fuzz_worker_t *w, CUresult result)
{
    if (result && result != CUDA_ERROR_OUT_OF_MEMORY && fuzz_faults)
        w->errors++;
    else if (result && result != CUDA_ERROR_OUT_OF_MEMORY) {
        fprintf(stderr, "fuzz: worker %u, operation %u: not so: only memory is short\n", w->index,
                w->operations);
        exit(5);
    }
    return !result;
}

/* More than there is, or merely more than a budget leaves. */
static void ask_for_much(fuzz_worker_t *w)
{
    fuzz_worker_t *dice = &w->mean->dice;
    const size_t bytes =
        fuzz_chance(dice, 30) ? (size_t)1 << 36 : w->most_bytes / 4 * (1 + fuzz_below(dice, 12));
    CUdeviceptr p;
    if (fuzz_chance(dice, 50)) {
        const CUstream s = w->stream[fuzz_below(dice, w->streams)];
        if (has(w, cuMemAllocAsync(&p, bytes, s)))
            CALL(w, cuMemFreeAsync(p, s));
    } else if (has(w, cuMemAlloc(&p, bytes))) {
        CALL(w, cuMemFree(p));
    }
}

/* ---- memory that the driver serves, which ebb cannot move ---- */

static void give_back(fuzz_worker_t *w, foreign_t *f)
{
    CALL(w, cuMemFree(f->at));
    w->mean->foreign_bytes -= f->bytes;
    f->at = 0;
}

static void take(fuzz_worker_t *w, foreign_t *f)
{
    fuzz_mean_t *m = w->mean;
    const size_t chunks = 1 + fuzz_below(&m->dice, 3), bytes = chunks * FUZZ_CHUNK;
    /* What the program needs includes it, whether it is to be had or not. */
    if (m->foreign_bytes + bytes > m->foreign_peak)
        m->foreign_peak = m->foreign_bytes + bytes;
    f->until = m->moments + 1 + fuzz_below(&m->dice, 12);
    if (!has(w, cuMemAllocManaged(&f->at, bytes, CU_MEM_ATTACH_GLOBAL))) {
        f->at = 0;
        return;
    }
    f->bytes = bytes;
    m->foreign_bytes += bytes;
}

/* ---- frees in other threads ---- */

static void *free_here(void *argument)
{
    job_t *job = argument;
    job->result = cuCtxSetCurrent(job->context);
    if (!job->result)
        job->result = job->ordered ? cuMemFreeAsync(job->address, job->stream) : cuMemFree(job->address);
    return NULL;
}

static CUresult result_of(job_t *job)
{
    if (!job->running)
        free_here(job); /* has failed, and is tried again */
    else if (pthread_join(job->thread, NULL))
        abort();
    job->running = false;
    return job->result;
}

static void end_job(fuzz_worker_t *w)
{
    job_t *job = &w->mean->job;
    if (job->bytes)
        CALL(w, result_of(job));
    job->bytes = 0;
}

bool fuzz_mean_free(fuzz_worker_t *w, const fuzz_buffer_t *b, CUstream stream, bool ordered)
{
    if (!w->mean || !fuzz_chance(&w->mean->dice, w->mean->elsewhere))
        return false;
    /* The stream would be another one there; and cuMemFree does not wait for who uses memory of a pool. */
    if (ordered ? stream == CU_STREAM_PER_THREAD : b->of_pool)
        return false;
    job_t *job = &w->mean->job;
    end_job(w);
    *job = (job_t){.address = b->address, .stream = stream, .ordered = ordered};
    CALL(w, cuCtxGetCurrent(&job->context));
    if (pthread_create(&job->thread, NULL, free_here, job))
        abort();
    job->running = true;
    job->bytes = (size_t)b->words * 4;
    return true;
}

size_t fuzz_mean_freeing_bytes(const fuzz_worker_t *w)
{
    return w->mean ? w->mean->job.bytes : 0;
}

/* ---- */

void fuzz_mean_between(fuzz_worker_t *w)
{
    fuzz_mean_t *m = w->mean;
    if (!m)
        return;
    end_job(w);
    m->moments++;
    for (unsigned i = 0; i < FOREIGN; i++) {
        foreign_t *f = &m->foreign[i];
        if (f->at && f->until <= m->moments)
            give_back(w, f);
        else if (!f->at && fuzz_chance(&m->dice, m->takings))
            take(w, f);
    }
    if (fuzz_chance(&m->dice, m->refusals))
        ask_for_much(w);
}

void fuzz_mean_close(fuzz_worker_t *w)
{
    if (!w->mean)
        return;
    end_job(w);
    for (unsigned i = 0; i < FOREIGN; i++)
        if (w->mean->foreign[i].at)
            give_back(w, &w->mean->foreign[i]);
}

void fuzz_mean_discard(fuzz_worker_t *w)
{
    if (w->mean && w->mean->job.running)
        result_of(&w->mean->job);
    free(w->mean);
}
