#include "model/train/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/base/ranges.h"
#include "model/base/rng.h"
#include "model/train/decode.h"

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

size_t sample_window(size_t count, size_t context)
{
    size_t half = context > 1 ? context / 2 : 1;
    return count <= context ? 0 : (count - context + half - 1) / half * half;
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
    size_t context = (size_t)model->shape.context, most = count + wanted, begin = 0;
    decode_t decode;
    decode_open(&decode, model, ring, (int)(most < context ? most : context));
    for (size_t i = 0; i < wanted; i++) {
        size_t from = sample_window(count, context);
        if (i == 0 || from != begin)
            decode_start(&decode, tokens + from, (int)(count - from), logits, classes);
        else
            decode_next(&decode, tokens[count - 1], logits, classes);
        begin = from;
        tokens[count++] =
            sample_choose(logits, classes, options->temperature, options->top_k, rng_at(key, i));
    }
    decode_close(&decode);
    memcpy(sample, tokens + count - wanted, wanted * sizeof *sample);
    free(tokens);
    free(logits);
    range_end();
}

unsigned char *sample_text(transformer_t *model, batch_ring_t *ring, const options_t *options,
                           const tokenizer_t *tokenizer, size_t *length)
{
    size_t count = (size_t)options->sample;
    int *tokens = calloc(count + 1, sizeof *tokens);
    unsigned char *text = malloc(count * TOKEN_MAX_BYTES + 1);
    if (tokens == NULL || text == NULL)
        fatal("no host memory for a sample of %zu tokens", count);
    sample_tokens(model, ring, options, tokenizer, tokens);
    *length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const unsigned char *token = tokenizer_decode(tokenizer, tokens[i], &bytes);
        memcpy(text + *length, token, bytes);
        *length += bytes;
    }
    free(tokens);
    return text;
}

void sample_print(const options_t *options, const unsigned char *text, size_t length)
{
    fputs(options->prompt, stdout);
    for (size_t i = 0; i < length; i++)
        putchar((text[i] >= 0x20 && text[i] != 0x7f) || text[i] == '\n' || text[i] == '\t' ? text[i] : '.');
    putchar('\n');
}
