#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ranges.h"
#include "rng.h"

typedef struct candidate {
    float logit;
    int class;
} candidate_t;

static int by_logit(const void *left, const void *right)
{
    const candidate_t *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->class - b->class;
}

/* Of candidates in order. */
static int draw(const candidate_t *candidates, int classes, double temperature, int top_k, uint64_t random)
{
    int count = top_k > 0 && top_k < classes ? top_k : classes;
    double total = 0;
    for (int i = 0; i < count; i++)
        total += exp(((double)candidates[i].logit - (double)candidates[0].logit) / temperature);
    double left = rng_unit(random) * total;
    for (int i = 0; i < count - 1; i++) {
        left -= exp(((double)candidates[i].logit - (double)candidates[0].logit) / temperature);
        if (left <= 0)
            return candidates[i].class;
    }
    return candidates[count - 1].class;
}

int sample_choose(const float *logits, int classes, double temperature, int top_k, uint64_t random)
{
    candidate_t *candidates = malloc((size_t)classes * sizeof *candidates);
    if (candidates == NULL)
        fatal("no host memory to sort %d classes", classes);
    for (int i = 0; i < classes; i++)
        candidates[i] = (candidate_t){logits[i], i};
    qsort(candidates, (size_t)classes, sizeof *candidates, by_logit);
    int chosen =
        temperature == 0 ? candidates[0].class : draw(candidates, classes, temperature, top_k, random);
    free(candidates);
    return chosen;
}

/* Logits of the first `classes` classes after the last tokens, as many as the model sees. */
static void read_next_logits(transformer_t *model, batch_ring_t *ring, const int *tokens, size_t count,
                             float *logits, int classes)
{
    gpu_t *gpu = model->gpu;
    size_t context = (size_t)model->shape.context;
    size_t T = count < context ? count : context;
    const int *window = tokens + count - T;
    batch_t batch = batch_upload(ring, window, window, 1, (int)T); /* no loss: the targets are any tokens */
    tensor_t next = transformer_next(model, &batch);               /* [V] */
    CUDA(cudaMemcpyAsync(logits, next.data, (size_t)classes * sizeof *logits, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &next);
    batch_free(ring, &batch);
}

void sample_tokens(transformer_t *model, batch_ring_t *ring, const options_t *options,
                   const tokenizer_t *tokenizer, int *sample)
{
    range_begin("sample");
    size_t length = strlen(options->prompt), wanted = (size_t)options->sample, count;
    int classes = tokenizer->count;
    int *tokens = calloc(length + 1 + wanted, sizeof *tokens);
    float *logits = calloc((size_t)classes, sizeof *logits);
    if (tokens == NULL || logits == NULL)
        fatal("no host memory for a sample of %zu tokens", wanted);
    if (!tokenizer_encode(tokenizer, options->prompt, length, tokens, &count))
        usage_error("--prompt: it has a byte that is no token of --tokenizer %s", options->tokenizer);
    if (count == 0)
        tokens[count++] = tokenizer->end;

    uint64_t key = rng_at(options->seed, RNG_SAMPLE);
    for (size_t i = 0; i < wanted; i++) {
        read_next_logits(model, ring, tokens, count, logits, classes);
        tokens[count++] =
            sample_choose(logits, classes, options->temperature, options->top_k, rng_at(key, i));
    }
    memcpy(sample, tokens + count - wanted, wanted * sizeof *sample);
    free(tokens);
    free(logits);
    range_end();
}
