#include "model/data/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PAD_ROWS 8 /* tensor cores take as many at once */

/* A slot belongs to the thread while it is one of the free ones, else to the taker. */
struct ahead {
    const dataset_t *data; /* borrowed */
    uint64_t seed, stride;
    uint64_t q; /* the thread's, the next batch's first sequence */
    int B;
    int T[AHEAD_BATCHES + 1]; /* of each slot's batch */
    int *tokens; /* owns [AHEAD_BATCHES + 1, 2, B, T]: one more than are laid out ahead, the taker's */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t made, taken; /* guarded by lock: batches */
    bool stop;            /* guarded by lock */
    bool failed;          /* guarded by lock: there is no batch number `made`, because of `fault` */
    fault_t fault;        /* written before `failed` */
};

static size_t batch_rows(const ahead_t *ahead)
{
    return (size_t)ahead->B * (size_t)ahead->data->T;
}

static int *slot_of(const ahead_t *ahead, uint64_t batch)
{
    return ahead->tokens + (size_t)(batch % (AHEAD_BATCHES + 1)) * 2 * batch_rows(ahead);
}

/* Of the next batch. */
static int longest(const ahead_t *ahead)
{
    int most = 0;
    for (int b = 0; b < ahead->B; b++) {
        int rows = dataset_sequence_rows(ahead->data, ahead->seed, ahead->q + (uint64_t)b);
        most = rows > most ? rows : most;
    }
    most = (most + PAD_ROWS - 1) / PAD_ROWS * PAD_ROWS;
    return most < ahead->data->T ? most : ahead->data->T;
}

static bool lay_out(ahead_t *ahead, int *inputs, int T)
{
    int *targets = inputs + batch_rows(ahead);
    for (int b = 0; b < ahead->B; b++) {
        size_t row = (size_t)b * (size_t)T;
        uint64_t start = dataset_sequence_start(ahead->data, ahead->seed, ahead->q + (uint64_t)b);
        int rows = dataset_sequence_rows(ahead->data, ahead->seed, ahead->q + (uint64_t)b);
        if (!dataset_sequence(ahead->data, start, rows, inputs + row, targets + row, &ahead->fault))
            return false;
        for (int t = rows; t < T; t++) {
            inputs[row + (size_t)t] = ahead->data->end;
            targets[row + (size_t)t] = -1;
        }
    }
    ahead->q += ahead->stride;
    return true;
}

static void *read_ahead(void *context)
{
    ahead_t *ahead = context;
    bool good = true;
    pthread_mutex_lock(&ahead->lock);
    while (good) {
        while (!ahead->stop && ahead->made - ahead->taken >= AHEAD_BATCHES)
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        if (ahead->stop)
            break;
        int *slot = slot_of(ahead, ahead->made), *T = &ahead->T[ahead->made % (AHEAD_BATCHES + 1)];
        pthread_mutex_unlock(&ahead->lock);
        *T = longest(ahead);
        good = lay_out(ahead, slot, *T);
        pthread_mutex_lock(&ahead->lock);
        ahead->made += good;
        ahead->failed = !good;
        pthread_cond_broadcast(&ahead->changed);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

/* Signals are for the training's thread. */
static int start_thread(ahead_t *ahead)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&ahead->thread, NULL, read_ahead, ahead);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

ahead_t *ahead_open(const dataset_t *data, uint64_t seed, uint64_t q, uint64_t stride, int B, fault_t *fault)
{
    ahead_t *ahead = calloc(1, sizeof *ahead);
    if (ahead != NULL) {
        *ahead = (ahead_t){.data = data, .seed = seed, .stride = stride, .q = q, .B = B};
        ahead->tokens = calloc((AHEAD_BATCHES + 1) * batch_rows(ahead), 2 * sizeof *ahead->tokens);
    }
    if (ahead == NULL || ahead->tokens == NULL) {
        fault_write(fault, "no memory to read batches of %d x %d tokens ahead", B, data->T);
        free(ahead);
        return NULL;
    }
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    int error = start_thread(ahead);
    if (error != 0) {
        fault_write(fault, "no thread to read data ahead: %s", strerror(error));
        pthread_cond_destroy(&ahead->changed);
        pthread_mutex_destroy(&ahead->lock);
        free(ahead->tokens);
        free(ahead);
        return NULL;
    }
    return ahead;
}

bool ahead_next(ahead_t *ahead, const int **inputs, const int **targets, int *T, fault_t *fault)
{
    pthread_mutex_lock(&ahead->lock);
    while (ahead->made == ahead->taken && !ahead->failed)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    bool good = ahead->made > ahead->taken; /* those made before a failure are good */
    if (good) {
        *T = ahead->T[ahead->taken % (AHEAD_BATCHES + 1)];
        *inputs = slot_of(ahead, ahead->taken++);
        *targets = *inputs + batch_rows(ahead);
        pthread_cond_broadcast(&ahead->changed);
    } else {
        *fault = ahead->fault;
    }
    pthread_mutex_unlock(&ahead->lock);
    return good;
}

void ahead_close(ahead_t *ahead)
{
    if (ahead == NULL)
        return;
    pthread_mutex_lock(&ahead->lock);
    ahead->stop = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    pthread_join(ahead->thread, NULL);
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    free(ahead->tokens);
    free(ahead);
}
