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

int sample_choose(const float *logits, int classes, double temperature, int top_k, uint64_t random)
{
    candidate_t candidates[BYTE_CLASSES];
    double weights[BYTE_CLASSES], total = 0;
    for (int i = 0; i < classes; i++)
        candidates[i] = (candidate_t){logits[i], i};
    qsort(candidates, (size_t)classes, sizeof *candidates, by_logit);
    if (temperature == 0)
        return candidates[0].class;

    int count = top_k > 0 && top_k < classes ? top_k : classes;
    for (int i = 0; i < count; i++)
        total += weights[i] = exp(((double)candidates[i].logit - (double)candidates[0].logit) / temperature);
    double left = rng_unit(random) * total;
    for (int i = 0; i < count - 1; i++) {
        left -= weights[i];
        if (left <= 0)
            return candidates[i].class;
    }
    return candidates[count - 1].class;
}

/* The text so far, and its last bytes as a corpus whose only sequence is the model's window. */
typedef struct window {
    unsigned char *bytes; /* prompt, then what was generated, then one spare byte */
    size_t length;
} window_t;

static void read_next_logits(transformer_t *model, batch_ring_t *ring, window_t *window, float *logits)
{
    gpu_t *gpu = model->gpu;
    size_t context = (size_t)model->shape.context;
    int T = (int)(window->length < context ? window->length : context);
    corpus_t corpus = {.bytes = window->bytes + window->length - (size_t)T, .count = (size_t)T + 1};
    size_t start = 0;
    batch_t batch = batch_upload(ring, &corpus, &start, 1, T);
    tensor_t next = transformer_next(model, &batch); /* [V] */
    CUDA(cudaMemcpyAsync(logits, next.data, BYTE_CLASSES * sizeof *logits, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &next);
    batch_free(ring, &batch);
}

void sample_text(transformer_t *model, batch_ring_t *ring, const options_t *options, unsigned char *text)
{
    range_begin("sample");
    const char *prompt = options->prompt[0] != '\0' ? options->prompt : "\n";
    size_t length = strlen(prompt), wanted = (size_t)options->sample;
    window_t window = {calloc(length + wanted + 1, 1), length};
    if (window.bytes == NULL)
        fatal("no host memory for a sample of %zu bytes", wanted);
    memcpy(window.bytes, prompt, length);

    float logits[BYTE_CLASSES];
    uint64_t key = rng_at(options->seed, RNG_SAMPLE);
    for (size_t i = 0; i < wanted; i++) {
        read_next_logits(model, ring, &window, logits);
        int class = sample_choose(logits, BYTE_CLASSES, options->temperature, options->top_k, rng_at(key, i));
        window.bytes[window.length++] = (unsigned char)class;
    }
    memcpy(text, window.bytes + length, wanted);
    free(window.bytes);
    range_end();
}
