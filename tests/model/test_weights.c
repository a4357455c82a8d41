/* A model's weights in safetensors: both families, both element types, back again bit by bit; and as Hugging Face's
 * `transformers` sees them, where it is installed (TEST_PYTHON, or python3). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "python.h"
#include "model/base/rng.h"
#include "model/files/element.h"
#include "model/files/weights.h"
#include "model/options/options.h"

static const shape_t shapes[] = {
    {.family = FAMILY_GPT2,
     .layers = 2,
     .width = 24,
     .heads = 3,
     .kv_heads = 3,
     .hidden = 96,
     .context = 20,
     .vocab = 50,
     .tied = true,
     .norm_eps = 1e-5,
     .rope_theta = 1e4,
     .rope_factor = 1},
    {.family = FAMILY_GPT2,
     .layers = 1,
     .width = 16,
     .heads = 2,
     .kv_heads = 2,
     .hidden = 40,
     .context = 12,
     .vocab = 30,
     .tied = false,
     .norm_eps = 1e-5,
     .rope_theta = 1e4,
     .rope_factor = 1},
    {.family = FAMILY_LLAMA,
     .layers = 2,
     .width = 32,
     .heads = 4,
     .kv_heads = 2,
     .hidden = 88,
     .context = 64,
     .vocab = 50,
     .tied = false,
     .norm_eps = 1e-6,
     .rope_theta = 1e4,
     .rope_factor = 1},
    {.family = FAMILY_LLAMA,
     .layers = 1,
     .width = 32,
     .heads = 4,
     .kv_heads = 1,
     .hidden = 48,
     .context = 64,
     .vocab = 40,
     .tied = true,
     .norm_eps = 1e-5,
     .rope_theta = 5e5,
     .rope_factor = 1},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* Element i of a group: exact in BF16 too if asked for. */
static float value_at(int group, size_t i, bool narrow)
{
    float value = (float)(rng_unit(rng_at((uint64_t)group, i)) - 0.5);
    return narrow ? float_of_bf16(bf16_of_float(value)) : value;
}

typedef struct model {
    const layout_t *layout;
    bool narrow;
    int taken; /* groups */
} model_t;

static void fetch(void *context, int group, float *values)
{
    model_t *model = context;
    for (size_t i = 0; i < model->layout->groups[group].count; i++)
        values[i] = value_at(group, i, false);
}

static void take(void *context, int group, const float *values)
{
    model_t *model = context;
    assert_int_equal(model->taken++, group);
    for (size_t i = 0; i < model->layout->groups[group].count; i++)
        if (values[i] != value_at(group, i, model->narrow))
            fail_msg("group %d, element %zu", group, i);
}

static void weights_written_are_read_again(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            char path[256];
            fault_t fault;
            layout_t layout;
            layout_open(&layout, shapes[s], NULL);
            uint64_t hashes[2][64];
            model_t model = {&layout, narrow, 0};
            files_path(path, "model.safetensors");
            assert_true(layout.tensor_count <= 64);
            if (!weights_write(path, &layout, false, narrow ? ELEMENT_BF16 : ELEMENT_F32, fetch, &model,
                               hashes[0], &fault) ||
                !weights_read("--init", path, &layout, false, take, &model, hashes[1], &fault))
                fail_msg("%s", fault.text);
            assert_int_equal(model.taken, layout.group_count);
            assert_memory_equal(hashes[0], hashes[1], (size_t)layout.tensor_count * sizeof(uint64_t));
            for (int i = 1; i < layout.tensor_count; i++)
                assert_int_not_equal(hashes[0][i], hashes[0][i - 1]);
            layout_close(&layout);
            files_clean();
        }
    }
}

/* [in,out] in GPT-2's blocks, [out,in] elsewhere. */
static void matrices_are_stored_as_transformers_has_them(void **state)
{
    (void)state;
    char path[256];
    fault_t fault;
    layout_t layout;
    safetensors_t file;
    uint64_t hashes[64];
    layout_open(&layout, shapes[0], NULL);
    model_t model = {&layout, false, 0};
    files_path(path, "model.safetensors");
    assert_true(weights_write(path, &layout, false, ELEMENT_F32, fetch, &model, hashes, &fault));
    assert_true(safetensors_open(&file, "--init", path, &fault));
    assert_int_equal(file.count, 2 + 2 + 2 * 12);
    const stored_t *stored = safetensors_find(&file, "transformer.h.1.attn.c_attn.weight");
    const layout_tensor_t *tensor = layout_find(&layout, "h.1.attn.c_attn.weight");
    assert_non_null(stored);
    assert_int_equal(stored->shape[0], 24);
    assert_int_equal(stored->shape[1], 72);
    float values[24 * 72];
    assert_true(safetensors_read(&file, stored, 0, 24 * 72, values, &fault));
    for (size_t in = 0; in < 24; in++)
        for (size_t out = 0; out < 72; out++)
            assert_true(values[in * 72 + out] == value_at(2, tensor->offset + out * 24 + in, false));
    stored = safetensors_find(&file, "transformer.wte.weight");
    assert_int_equal(stored->shape[0], 50);
    assert_int_equal(stored->shape[1], 24);
    safetensors_close(&file);
    layout_close(&layout);
    files_clean();
}

/* Every tensor of the class finds its place, with the values that we say. */
static void transformers_loads_every_tensor(void **state)
{
    (void)state;
    const char *python = python_with("torch, transformers, safetensors");
    if (python == NULL)
        skip();
    for (int s = 0; s < SHAPES; s++) {
        char folder[256], path[300], command[900];
        fault_t fault;
        layout_t layout;
        uint64_t hashes[64];
        layout_open(&layout, shapes[s], NULL);
        model_t model = {&layout, false, 0};
        files_path(folder, "checkpoint");
        snprintf(command, sizeof command, "mkdir %s", folder);
        assert_int_equal(system(command), 0);
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        assert_true(weights_write(path, &layout, false, ELEMENT_F32, fetch, &model, hashes, &fault));
        snprintf(path, sizeof path, "%s/config.json", folder);
        assert_true(config_write(path, &shapes[s], ELEMENT_F32, 0.1, 7, &fault));
        snprintf(path, sizeof path, "%s/elements",
                 folder); /* name, first and last element, as the class has them */
        FILE *file = fopen(path, "w");
        for (int i = 0; i < layout.tensor_count; i++) {
            const layout_tensor_t *t = &layout.tensors[i];
            fprintf(file, "%s %d %.9g %.9g\n", t->name, t->transposed,
                    (double)value_at(t->group, t->offset + 1, false),
                    (double)value_at(t->group, t->offset + layout_elements(t) - 1, false));
        }
        fclose(file);
        snprintf(command, sizeof command, "%s %s %s", python, TRANSFORMERS_SCRIPT, folder);
        assert_int_equal(system(command), 0);
        layout_close(&layout);
        files_clean();
    }
}

/* ---- config.json ---- */

static void assert_same_shape(const shape_t *a, const shape_t *b)
{
    assert_int_equal(a->family, b->family);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->tied, b->tied);
    assert_true(a->norm_eps == b->norm_eps);
    assert_true(a->rope_theta == b->rope_theta && a->rope_factor == b->rope_factor);
}

static void config_written_is_read_again(void **state)
{
    (void)state;
    char path[256];
    fault_t fault;
    files_path(path, "config.json");
    for (int s = 0; s < 2 * SHAPES; s++) {
        shape_t shape = shapes[s % SHAPES], again;
        element_t element = s < SHAPES ? ELEMENT_F32 : ELEMENT_BF16, stored;
        if (shape.family == FAMILY_LLAMA && s >= SHAPES)
            shape.rope_factor = 32;
        assert_true(config_write(path, &shape, element, 0.1, 7, &fault));
        if (!config_read("--checkpoint", path, &again, &stored, &fault))
            fail_msg("%s", fault.text);
        assert_same_shape(&again, &shape);
        assert_int_equal(stored, element);
    }
}

static bool read_config(const char *text, shape_t *shape, element_t *element, fault_t *fault)
{
    char path[256];
    files_write(files_path(path, "config.json"), text, strlen(text));
    return config_read("--checkpoint", path, shape, element, fault);
}

static void assert_shape_of_preset(const shape_t *shape, const char *preset, const char *context)
{
    char words[3][32] = {"--dry-run"};
    char *arguments[] = {"ebb-train", words[0], words[1], words[2], NULL};
    options_t options;
    snprintf(words[1], sizeof words[1], "%s", preset);
    snprintf(words[2], sizeof words[2], "%s", context);
    options_parse(&options, 4, arguments);
    shape_t expected = options_shape(&options);
    assert_same_shape(shape, &expected);
}

/* What is published with GPT-2 and with Llama 3.2 1B, in what matters here: fields that are missing have defaults. */
static void published_configs_are_read(void **state)
{
    (void)state;
    shape_t shape;
    element_t element;
    fault_t fault;
    assert_true(read_config(
        "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], "
        "\"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 768, "
        "\"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}",
        &shape, &element, &fault));
    assert_shape_of_preset(&shape, "--model=gpt2:124M", "--context=1024");
    assert_int_equal(element, ELEMENT_F32);
    assert_true(read_config(
        "{\"model_type\": \"llama\", \"attention_bias\": false, \"head_dim\": 64, \"hidden_act\": \"silu\", "
        "\"hidden_size\": 2048, \"intermediate_size\": 8192, \"max_position_embeddings\": 131072, "
        "\"mlp_bias\": false, \"num_attention_heads\": 32, \"num_hidden_layers\": 16, "
        "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 32.0, "
        "\"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, "
        "\"rope_type\": \"llama3\"}, \"rope_theta\": 500000.0, \"tie_word_embeddings\": true, "
        "\"torch_dtype\": \"bfloat16\", \"vocab_size\": 128256}",
        &shape, &element, &fault));
    assert_shape_of_preset(&shape, "--model=llama:1B", "--context=131072");
    assert_int_equal(element, ELEMENT_BF16);
}

#define GPT2 "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4, \"n_positions\": 32, "
#define LLAMA                                                                                                \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": "   \
    "4, "                                                                                                    \
    "\"intermediate_size\": 96, \"max_position_embeddings\": 32, \"vocab_size\": 50, "

static void configs_of_other_models_are_refused_by_field(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[]", "no JSON object"},
        {"{\"model_type\": \"gpt", "no JSON object"},
        {"{}", "\"model_type\" is \"\""},
        {"{\"model_type\": 2}", "\"model_type\" is no text"},
        {GPT2 "\"x\": 1}", "\"vocab_size\" is missing"},
        {GPT2 "\"vocab_size\": 2.5}", "\"vocab_size\" is 2.5, not a whole number"},
        {GPT2 "\"vocab_size\": -3}", "\"vocab_size\" is no positive number"},
        {GPT2 "\"vocab_size\": 1e30}", "\"vocab_size\" is 1e+30"},
        {GPT2 "\"vocab_size\": 50, \"activation_function\": \"relu\"}",
         "\"activation_function\" is \"relu\""},
        {LLAMA "\"hidden_act\": \"gelu\"}", "\"hidden_act\" is \"gelu\""},
        {LLAMA "\"attention_bias\": true}", "\"attention_bias\" is true"},
        {LLAMA "\"mlp_bias\": 1}", "\"mlp_bias\" is neither true nor false"},
        {LLAMA "\"head_dim\": 128}", "\"head_dim\" is 128: only 16"},
        {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "\"rope_type\" is \"linear\""},
        {LLAMA "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 2}}",
         "\"high_freq_factor\" is 2"},
    };
    shape_t shape;
    element_t element;
    fault_t fault;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (read_config(cases[i][0], &shape, &element, &fault) || strstr(fault.text, cases[i][1]) == NULL ||
            strncmp(fault.text, "--checkpoint /", 14) != 0)
            fail_msg("%s: '%s' lacks '%s'", cases[i][0], fault.text, cases[i][1]);
    assert_true(read_config(LLAMA "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 7e4}}",
                            &shape, &element, &fault));
    assert_true(shape.rope_theta == 7e4 && shape.kv_heads == 4 && !shape.tied && shape.norm_eps == 1e-6);
    assert_false(config_read("--checkpoint", "/nowhere/config.json", &shape, &element, &fault));
    assert_string_equal(fault.text, "--checkpoint /nowhere/config.json: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_written_are_read_again),
        cmocka_unit_test(matrices_are_stored_as_transformers_has_them),
        cmocka_unit_test(config_written_is_read_again),
        cmocka_unit_test(published_configs_are_read),
        cmocka_unit_test(configs_of_other_models_are_refused_by_field),
        cmocka_unit_test(transformers_loads_every_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
