/* Samples by a cache of keys and values: the logits of a pass over the whole window, the same text, and a time for each
 * token that does not grow with the text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/rng.h"
#include "model/layers/linear.h"
#include "model/train/decode.h"
#include "model/train/sample.h"
#include "trainer.h"

enum { CONTEXT = 24, CLASSES = 256, WANTED = 70 };

static const char *const models[] = {
    "--model=tiny --dtype=fp32 --attention=flash",
    "--model=tiny --dtype=bf16 --attention=flash",
    "--model=tiny --dtype=fp32 --attention=naive",
    "--model=llama:tiny --kv-heads=1 --hidden=72 --dtype=fp32 --attention=flash",
    "--model=llama:tiny --kv-heads=2 --hidden=72 --dtype=bf16 --attention=flash --save=lean",
};
enum { MODELS = sizeof models / sizeof *models };

typedef struct fixture {
    options_t options;
    gpu_t gpu;
    transformer_t model;
    batch_ring_t ring;
    tokenizer_t tokenizer;
    char words[512], data[160];
} fixture_t;

/* Weights so large that attention looks at single tokens, and logits are far apart. */
static void fill(transformer_t *model)
{
    for (int g = 0; g < model->parameters.group_count; g++) {
        size_t count = model->parameters.groups[g].count;
        float *values = malloc(count * sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i + 1 < count; i += 2) {
            double pair[2];
            rng_normal_pair((uint64_t)g + 100, i / 2, pair);
            values[i] = (float)(0.25 * pair[0]);
            values[i + 1] = (float)(0.25 * pair[1]);
        }
        parameters_upload(&model->parameters, g, values);
        free(values);
    }
}

static fixture_t *fixture_open(const char *model, const char *more)
{
    fixture_t *f = calloc(1, sizeof *f);
    char *arguments[32] = {"ebb-train", f->data};
    int count = 2;
    fault_t fault;
    assert_non_null(f);
    snprintf(f->data, sizeof f->data, "--data=%s", trainer_text());
    snprintf(f->words, sizeof f->words, "%s --layers=2 --width=64 --heads=4 --context=24 --batch=2 %s", model,
             more);
    for (char *word = strtok(f->words, " "); word != NULL; word = strtok(NULL, " "))
        arguments[count++] = word;
    options_parse(&f->options, count, arguments);
    assert_true(tokenizer_open(&f->tokenizer, NULL, &fault));
    gpu_open(&f->gpu, 0);
    linear_open(&f->gpu, 1 << 16);
    transformer_open(&f->model, &f->gpu, NULL, &f->options);
    fill(&f->model);
    batch_ring_open(&f->ring, &f->gpu, f->options.batch * f->options.context, f->options.vocab, 2);
    return f;
}

static void fixture_close(fixture_t *f)
{
    batch_ring_close(&f->ring);
    transformer_close(&f->model);
    linear_close(&f->gpu);
    gpu_close(&f->gpu);
    tokenizer_close(&f->tokenizer);
    free(f);
}

static int largest(const float *logits)
{
    int at = 0;
    for (int i = 1; i < CLASSES; i++)
        if (logits[i] > logits[at])
            at = i;
    return at;
}

/* |a - b| / |b| */
static double distance(const float *a, const float *b)
{
    double difference = 0, size = 0;
    for (int i = 0; i < CLASSES; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

static void logits_are_those_of_a_pass_over_all(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        fixture_t *f = fixture_open(models[i], "");
        bool half = f->options.dtype == DTYPE_BF16;
        decode_t decode, whole;
        float kept[CLASSES], again[CLASSES];
        int tokens[CONTEXT] = {7, 200, 31};
        size_t before = f->gpu.live_bytes;
        double worst = 0;
        decode_open(&decode, &f->model, &f->ring, CONTEXT);
        decode_open(&whole, &f->model, &f->ring, CONTEXT);
        decode_start(&decode, tokens, 3, kept, CLASSES);
        for (int count = 3; count < CONTEXT; count++) {
            tokens[count] = (largest(kept) + count) % CLASSES; /* not in a circle */
            decode_next(&decode, tokens[count], kept, CLASSES);
            decode_start(&whole, tokens, count + 1, again, CLASSES);
            worst = fmax(worst, distance(kept, again));
        }
        print_message("%s: logits differ by %.2g\n", models[i], worst);
        assert_true(worst < (half ? 3e-2 : 2e-6));
        decode_start(&decode, tokens, 1, kept, CLASSES); /* nothing of the old text is left */
        decode_start(&whole, tokens, 1, again, CLASSES);
        assert_memory_equal(kept, again, sizeof kept);
        decode_close(&decode);
        decode_close(&whole);
        assert_int_equal(f->gpu.live_bytes, before);
        fixture_close(f);
    }
}

/* As sample.h has it, without a cache: a pass over the window for each token. */
static void sample_slowly(fixture_t *f, const char *prompt, int *sample)
{
    int tokens[256];
    size_t count = strlen(prompt), from = 0;
    float logits[CLASSES];
    decode_t whole;
    uint64_t key = rng_at(f->options.seed, RNG_SAMPLE);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (unsigned char)prompt[i];
    decode_open(&whole, &f->model, &f->ring, CONTEXT);
    for (size_t i = 0; i < WANTED; i++) {
        while (count - from > CONTEXT) /* the older half is forgotten */
            from += CONTEXT / 2;
        decode_start(&whole, tokens + from, (int)(count - from), logits, CLASSES);
        tokens[count++] =
            sample_choose(logits, CLASSES, f->options.temperature, f->options.top_k, rng_at(key, i));
    }
    decode_close(&whole);
    memcpy(sample, tokens + count - WANTED, WANTED * sizeof *sample);
}

/* Also beyond the window, and from a prompt that is longer than it. */
static void samples_are_those_without_a_cache(void **state)
{
    (void)state;
    static const char *const ways[] = {"--temperature=0 --prompt=Bada", "--temperature=0.8 --prompt=Bada",
                                       "--temperature=1.5 --top-k=20 "
                                       "--prompt=a_prompt_that_is_longer_than_the_window_of_the_model"};
    for (int i = 0; i < MODELS; i++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            char more[256];
            int fast[WANTED], slow[WANTED];
            snprintf(more, sizeof more, "--sample=%d %s", WANTED, ways[k]);
            fixture_t *f = fixture_open(models[i], more);
            size_t before = f->gpu.live_bytes;
            sample_tokens(&f->model, &f->ring, &f->options, &f->tokenizer, fast);
            assert_int_equal(f->gpu.live_bytes, before);
            sample_slowly(f, f->options.prompt, slow);
            for (int n = 0; n < WANTED; n++)
                if (fast[n] != slow[n])
                    fail_msg("%s %s: token %d is %d instead of %d", models[i], ways[k], n, fast[n], slow[n]);
            fixture_close(f);
        }
}

static void window_moves_by_half_of_it(void **state)
{
    (void)state;
    for (size_t context = 1; context < 12; context++)
        for (size_t count = 1, from = 0; count < 60; count++) {
            size_t half = context > 1 ? context / 2 : 1;
            while (count - from > context)
                from += half;
            assert_int_equal(sample_window(count, context), from);
            assert_true(count <= context || count - from > context - half);
        }
}

/* Milliseconds of the device for one more token (tokens NULL), or for a new text. */
static float time_of(fixture_t *f, decode_t *decode, cudaEvent_t events[2], const int *tokens, int count)
{
    float logits[CLASSES], milliseconds;
    assert_int_equal(cudaEventRecord(events[0], f->gpu.stream), cudaSuccess);
    if (tokens != NULL)
        decode_start(decode, tokens, count, logits, CLASSES);
    else
        decode_next(decode, 5, logits, CLASSES);
    assert_int_equal(cudaEventRecord(events[1], f->gpu.stream), cudaSuccess);
    assert_int_equal(cudaEventSynchronize(events[1]), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, events[0], events[1]), cudaSuccess);
    return milliseconds;
}

/* By the device's computed clock: attention takes more, and nothing else. */
static void time_of_a_token_does_not_grow_with_the_text(void **state)
{
    (void)state;
    enum { LONG = 2000, SHORT = 100 };
    fixture_t *f = fixture_open(models[0], "--context=2048 --batch=1 --width=256");
    static int tokens[LONG];
    decode_t decode;
    cudaEvent_t events[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(cudaEventCreate(&events[i]), cudaSuccess);
    decode_open(&decode, &f->model, &f->ring, LONG + 1);
    (void)time_of(f, &decode, events, tokens, SHORT);
    float early = time_of(f, &decode, events, NULL, 0);
    float all = time_of(f, &decode, events, tokens, LONG);
    float late = time_of(f, &decode, events, NULL, 0);
    print_message("a token after %d: %.4f ms, after %d: %.4f ms; a pass over all: %.4f ms\n", SHORT,
                  (double)early, LONG, (double)late, (double)all);
    assert_true(early > 0 && late < 1.2f * early && all > 1.5f * late);
    decode_close(&decode);
    for (int i = 0; i < 2; i++)
        cudaEventDestroy(events[i]);
    fixture_close(f);
}

int main(void)
{
    setenv("SOFTGPU_SCHEDULER", "deterministic", 1); /* its clock is computed */
    setenv("SOFTGPU_PROFILE", "H100", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_a_pass_over_all),
        cmocka_unit_test(samples_are_those_without_a_cache),
        cmocka_unit_test(window_moves_by_half_of_it),
        cmocka_unit_test(time_of_a_token_does_not_grow_with_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
