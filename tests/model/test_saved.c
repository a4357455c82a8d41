/* What a forward pass saves for its backward pass: which tensors, by name, and how many bytes for each token and channel
 * of a layer; with --save lean, less, and the same training. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/data/batch.h"
#include "model/layers/linear.h"
#include "model/layers/transformer.h"
#include "trainer.h"

/* Of layer 1. */
typedef struct list {
    char names[512]; /* each followed by a space */
    size_t bytes;
    size_t elsewhere; /* of other layers and the last norm */
} list_t;

static void add(void *context, int layer, const char *name, size_t bytes)
{
    list_t *list = context;
    if (layer != 1) {
        list->elsewhere += bytes;
        return;
    }
    size_t length = strlen(list->names);
    snprintf(list->names + length, sizeof list->names - length, "%s ", name);
    list->bytes += bytes;
}

enum { B = 2, T = 32, C = 256 };
#define SHAPE "--layers=3", "--width=256", "--heads=4", "--context=32", "--batch=2", "--dropout=0.1"

/* What one micro-batch saves. */
static list_t saved_by(char *model, char *dtype, char *save, char *attention)
{
    char data[160], *arguments[] = {"ebb-train", data,  model,          dtype,         save,
                                    attention,   SHAPE, "--kv-heads=0", "--hidden=688"};
    int count = (int)(sizeof arguments / sizeof *arguments) - (strstr(model, "llama") != NULL ? 0 : 2);
    list_t list = {.bytes = 0};
    options_t options;
    gpu_t gpu;
    batch_ring_t ring;
    transformer_t transformer;
    int inputs[B * T], targets[B * T];
    for (int n = 0; n < B * T; n++) {
        inputs[n] = n * 7 % 256;
        targets[n] = (n + 1) * 7 % 256;
    }
    snprintf(data, sizeof data, "--data=%s", trainer_text());
    options_parse(&options, count, arguments);
    gpu_open(&gpu, 0);
    linear_open(&gpu, 1 << 20);
    transformer_open(&transformer, &gpu, NULL, &options);
    batch_ring_open(&ring, &gpu, B * T, options.vocab, 1);
    tensor_t loss = tensor_new(&gpu, DTYPE_FP32, 1);
    size_t before = gpu.live_bytes;
    batch_t batch = batch_upload(&ring, inputs, targets, B, T);
    transformer.saved = add;
    transformer.saved_context = &list;
    transformer_train(
        &transformer, &batch,
        (micro_batch_t){.loss = loss.data, .scale = 1.0f / (B * T), .dropout = 0.1f, .seed = 1});
    batch_free(&ring, &batch);
    assert_int_equal(gpu.live_bytes, before); /* nothing is left of it */
    tensor_free(&gpu, &loss);
    batch_ring_close(&ring);
    transformer_close(&transformer);
    linear_close(&gpu);
    gpu_close(&gpu);
    print_message("%s %s %s %s: %.1f bytes: %s\n", model, dtype, save, attention,
                  (double)list.bytes / (B * T * C), list.names);
    assert_true(list.elsewhere > 2 * list.bytes); /* two more layers, and the last norm */
    return list;
}

static void assert_saved(list_t list, double most, const char *names)
{
    double each = (double)list.bytes / (B * T * C);
    assert_string_equal(list.names, names);
    assert_true(each <= most);
    assert_true(each > 0.9 * most - 2);
}

/* GPT-2: at most 34 bytes for each token and channel, 17 in the lean mode. */
static void gpt2_in_bf16_saves_what_it_says(void **state)
{
    (void)state;
    assert_saved(saved_by("--model=tiny", "--dtype=bf16", "--save=full", "--attention=flash"), 34,
                 "norm1.x norm1.out norm1.stats norm2.x norm2.out norm2.stats attention.qkv attention.lse "
                 "attention.out mlp.up mlp.act ");
    assert_saved(saved_by("--model=tiny", "--dtype=bf16", "--save=lean", "--attention=flash"), 17,
                 "norm1.x norm1.stats norm2.x norm2.stats attention.lse attention.out mlp.up ");
}

/* Llama with F = 2.69 C, as 7B: 8 of the stream and the norms, 6 of qkv, 2 of the output, 10.75 of gate and up, 5.4 of what goes down. */
static void llama_in_bf16_saves_what_it_says(void **state)
{
    (void)state;
    assert_saved(saved_by("--model=llama:tiny", "--dtype=bf16", "--save=full", "--attention=flash"), 34,
                 "norm1.x norm1.out norm1.stats norm2.x norm2.out norm2.stats attention.qkv attention.lse "
                 "attention.out mlp.up mlp.act ");
    assert_saved(saved_by("--model=llama:tiny", "--dtype=bf16", "--save=lean", "--attention=flash"), 17,
                 "norm1.x norm1.stats norm2.x norm2.stats attention.lse attention.out mlp.up ");
}

static void fp32_saves_twice_as_much(void **state)
{
    (void)state;
    list_t half = saved_by("--model=tiny", "--dtype=bf16", "--save=full", "--attention=flash"),
           single = saved_by("--model=tiny", "--dtype=fp32", "--save=full", "--attention=flash");
    assert_string_equal(half.names, single.names);
    assert_true(single.bytes > half.bytes && single.bytes <= 2 * half.bytes);
}

/* Nothing of T x T in the lean mode. */
static void naive_attention_saves_its_output_alone_in_the_lean_mode(void **state)
{
    (void)state;
    list_t full = saved_by("--model=tiny", "--dtype=bf16", "--save=full", "--attention=naive");
    assert_string_equal(full.names,
                        "norm1.x norm1.out norm1.stats norm2.x norm2.out norm2.stats attention.q attention.k "
                        "attention.v attention.probs attention.dropped attention.out mlp.up mlp.act ");
    assert_saved(saved_by("--model=tiny", "--dtype=bf16", "--save=lean", "--attention=naive"), 17,
                 "norm1.x norm1.stats norm2.x norm2.stats attention.out mlp.up ");
}

#define SMALL                                                                                                \
    "--layers 2 --width 48 --heads 3 --context 40 --batch 3 --steps 6 --warmup 0.2 --dropout 0.2 "           \
    "--accumulate 2 "

static void assert_same_training(const char *arguments, double tolerance)
{
    char lean[512];
    history_t full = trainer_train(arguments);
    snprintf(lean, sizeof lean, "%s --save lean", arguments);
    history_t again = trainer_train(lean);
    for (int i = 0; i < full.steps; i++)
        assert_true(relative(again.loss[i], full.loss[i]) <= tolerance);
    if (tolerance == 0)
        assert_string_equal(full.state_hash, again.state_hash);
    assert_true(again.peak_bytes < full.peak_bytes);
}

/* All that is made again has the same bits; but for BF16's GELU, which is made of rounded sums. */
static void lean_training_is_full_training(void **state)
{
    (void)state;
    assert_same_training(SMALL, 0);
    assert_same_training(SMALL "--attention naive", 0);
    assert_same_training("--model llama:tiny --kv-heads 1 --hidden 72 --dtype bf16 --attention naive " SMALL,
                         0);
    assert_same_training("--model llama:tiny --kv-heads 1 --hidden 72 " SMALL, 0);
    assert_same_training("--model llama:tiny --kv-heads 1 --hidden 72 --dtype bf16 " SMALL, 0);
    assert_same_training("--dtype bf16 " SMALL, 2e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_in_bf16_saves_what_it_says),
        cmocka_unit_test(llama_in_bf16_saves_what_it_says),
        cmocka_unit_test(fp32_saves_twice_as_much),
        cmocka_unit_test(naive_attention_saves_its_output_alone_in_the_lean_mode),
        cmocka_unit_test(lean_training_is_full_training),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
