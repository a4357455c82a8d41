/* The table of a model's tensors: it has no gaps, its names, shapes and counts are the published ones, and initial values are
 * those that its header describes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/layout.h"
#include "model/base/rng.h"

static const shape_t gpt2 = {.family = FAMILY_GPT2,
                             .layers = 3,
                             .width = 12,
                             .heads = 3,
                             .kv_heads = 3,
                             .hidden = 48,
                             .context = 7,
                             .vocab = 20,
                             .tied = true,
                             .norm_eps = 1e-5};
static const shape_t llama = {.family = FAMILY_LLAMA,
                              .layers = 2,
                              .width = 24,
                              .heads = 6,
                              .kv_heads = 2,
                              .hidden = 40,
                              .context = 7,
                              .vocab = 20,
                              .norm_eps = 1e-5,
                              .rope_theta = 1e4,
                              .rope_factor = 1};

/* What any table must be like. */
static void check(const layout_t *layout)
{
    int group = -1;
    size_t offset = 0, total = 0;
    for (int i = 0; i < layout->tensor_count; i++) {
        const layout_tensor_t *tensor = &layout->tensors[i];
        if (tensor->group != group) {
            assert_true(group < 0 || offset == layout->groups[group].count);
            assert_int_equal(tensor->group, group + 1);
            group++;
            offset = 0;
        }
        assert_int_equal(tensor->offset, offset);
        assert_int_equal(tensor->decayed, offset < layout->groups[group].decayed);
        assert_int_equal(tensor->decayed, !tensor->vector);
        assert_true(layout->offset[tensor->array] <= offset);
        offset += layout_elements(tensor);
        total += layout_elements(tensor);
        assert_ptr_equal(layout_find(layout, tensor->name), tensor); /* no name twice */
        for (int j = 0; j < i; j++)
            assert_true(layout->tensors[j].stream != tensor->stream || tensor->init != INIT_NORMAL ||
                        layout->tensors[j].init != INIT_NORMAL);
    }
    assert_int_equal(group + 1, layout->group_count);
    assert_int_equal(offset, layout->groups[group].count);
    assert_int_equal(total, layout_parameters(layout));
    assert_null(layout_find(layout, "h.0.attn.c_attn"));
}

/* Llama 3 8B's adapters of rank 16 on all matrices are 41,943,040 parameters, as PEFT prints. */
static void adapters_have_the_names_and_counts_of_peft(void **state)
{
    (void)state;
    const lora_t all = {.rank = 16, .targets = "all-linear"}, usual = {.rank = 4},
                 some = {.rank = 4, .targets = "c_proj"};
    const shape_t llama_8b = {.family = FAMILY_LLAMA,
                              .layers = 32,
                              .width = 4096,
                              .heads = 32,
                              .kv_heads = 8,
                              .hidden = 14336,
                              .context = 8192,
                              .vocab = 128256};
    layout_t layout;
    layout_open(&layout, llama_8b, &all);
    assert_int_equal(layout_trained(&layout), 41943040);
    assert_int_equal(layout_parameters(&layout), 8030261248 + 41943040);
    layout_close(&layout);

    layout_open(&layout, llama, &usual);
    check(&layout);
    const layout_tensor_t *a = layout_find(&layout,
                                           "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight"),
                          *b = layout_find(&layout,
                                           "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight");
    assert_non_null(a);
    assert_non_null(b);
    assert_true(a->rows == 4 && a->columns == llama.width && b->rows == llama.width / 3 && b->columns == 4);
    assert_int_equal(a->group, layout_adapters(&layout, 1));
    assert_null(layout_find(&layout, "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight"));
    assert_int_equal(layout.adapted[MATRIX_QKV].count, 2);
    assert_int_equal(layout.adapted[MATRIX_QKV].targets[1].first, llama.width + llama.width / 3);
    assert_int_equal(layout.adapted[MATRIX_UP].count, 0);
    layout_close(&layout);

    layout_open(&layout, gpt2, &some); /* both that are named so */
    check(&layout);
    assert_non_null(layout_find(&layout, "base_model.model.transformer.h.0.attn.c_proj.lora_A.weight"));
    assert_non_null(layout_find(&layout, "base_model.model.transformer.h.2.mlp.c_proj.lora_B.weight"));
    assert_int_equal(layout_trained(&layout), 3 * 4 * (12 + 12 + 12 + 48));
    layout_close(&layout);

    int length = 0;
    assert_null(layout_bad_target(FAMILY_LLAMA, "q_proj,mlp.up_proj", &length));
    assert_null(layout_bad_target(FAMILY_GPT2, "all-linear", &length));
    assert_string_equal(layout_bad_target(FAMILY_GPT2, "c_fc,proj,c_attn", &length), "proj,c_attn");
    assert_int_equal(length, 4);
    assert_non_null(layout_bad_target(FAMILY_LLAMA, "input_layernorm", &length));
    assert_non_null(layout_bad_target(FAMILY_LLAMA, "layers.0.self_attn.q_proj", &length)); /* of one block */
    assert_non_null(layout_bad_target(FAMILY_GPT2, "0.attn.c_attn", &length));
    assert_non_null(layout_bad_target(FAMILY_GPT2, "attn", &length));
}

static void table_of_any_shape_has_no_gaps(void **state)
{
    (void)state;
    shape_t shapes[] = {gpt2, gpt2, llama, llama};
    shapes[1].tied = false;
    shapes[3].tied = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        layout_t layout;
        layout_open(&layout, shapes[i], NULL);
        check(&layout);
        layout_close(&layout);
    }
}

typedef struct expected {
    const char *name;
    int group, rows, columns; /* as a file has them; columns 0: a vector */
    size_t offset;
} expected_t;

static void assert_has(const layout_t *layout, const expected_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const layout_tensor_t *tensor = layout_find(layout, expected[i].name);
        if (tensor == NULL)
            fail_msg("there is no %s", expected[i].name);
        assert_int_equal(tensor->group, expected[i].group);
        assert_int_equal(tensor->offset, expected[i].offset);
        assert_int_equal(tensor->vector, expected[i].columns == 0);
        if (tensor->vector) {
            assert_int_equal(tensor->columns, expected[i].rows);
        } else {
            assert_int_equal(tensor->transposed ? tensor->columns : tensor->rows, expected[i].rows);
            assert_int_equal(tensor->transposed ? tensor->rows : tensor->columns, expected[i].columns);
        }
    }
}

/* Shapes as in the published checkpoints: those of Conv1D are [in,out]. */
static void gpt2_names_and_shapes_are_those_of_hugging_face(void **state)
{
    (void)state;
    static const expected_t expected[] = {
        {"wte.weight", 0, 20, 12, 0},
        {"wpe.weight", 0, 7, 12, 240},
        {"ln_f.weight", 0, 12, 0, 324},
        {"ln_f.bias", 0, 12, 0, 336},
        {"h.0.attn.c_attn.weight", 1, 12, 36, 0},
        {"h.2.attn.c_attn.weight", 3, 12, 36, 0},
        {"h.2.attn.c_proj.weight", 3, 12, 12, 432},
        {"h.2.mlp.c_fc.weight", 3, 12, 48, 576},
        {"h.2.mlp.c_proj.weight", 3, 48, 12, 1152},
        {"h.2.ln_1.weight", 3, 12, 0, 1728},
        {"h.2.ln_1.bias", 3, 12, 0, 1740},
        {"h.2.attn.c_attn.bias", 3, 36, 0, 1752},
        {"h.2.attn.c_proj.bias", 3, 12, 0, 1788},
        {"h.2.ln_2.weight", 3, 12, 0, 1800},
        {"h.2.ln_2.bias", 3, 12, 0, 1812},
        {"h.2.mlp.c_fc.bias", 3, 48, 0, 1824},
        {"h.2.mlp.c_proj.bias", 3, 12, 0, 1872},
    };
    layout_t layout;
    layout_open(&layout, gpt2, NULL);
    assert_has(&layout, expected, sizeof expected / sizeof *expected);
    assert_int_equal(layout.tensor_count, 4 + 3 * 12);
    assert_int_equal(layout.offset[ARRAY_HEAD], LAYOUT_NONE);
    layout_close(&layout);
}

static void llama_names_and_shapes_are_those_of_hugging_face(void **state)
{
    (void)state;
    static const expected_t expected[] = {
        {"model.embed_tokens.weight", 0, 20, 24, 0},
        {"lm_head.weight", 0, 20, 24, 480},
        {"model.norm.weight", 0, 24, 0, 960},
        {"model.layers.1.self_attn.q_proj.weight", 2, 24, 24, 0},
        {"model.layers.1.self_attn.k_proj.weight", 2, 8, 24, 576},
        {"model.layers.1.self_attn.v_proj.weight", 2, 8, 24, 768},
        {"model.layers.1.self_attn.o_proj.weight", 2, 24, 24, 960},
        {"model.layers.1.mlp.gate_proj.weight", 2, 40, 24, 1536},
        {"model.layers.1.mlp.up_proj.weight", 2, 40, 24, 2496},
        {"model.layers.1.mlp.down_proj.weight", 2, 24, 40, 3456},
        {"model.layers.1.input_layernorm.weight", 2, 24, 0, 4416},
        {"model.layers.1.post_attention_layernorm.weight", 2, 24, 0, 4440},
    };
    layout_t layout;
    layout_open(&layout, llama, NULL);
    assert_has(&layout, expected, sizeof expected / sizeof *expected);
    assert_int_equal(layout.tensor_count, 3 + 2 * 9);
    assert_int_equal(layout.offset[ARRAY_QKV_W], 0);
    assert_int_equal(layout.offset[ARRAY_UP_W], 1536);
    assert_int_equal(layout.offset[ARRAY_QKV_B], LAYOUT_NONE);
    assert_int_equal(layout.offset[ARRAY_WPE], LAYOUT_NONE);
    layout_close(&layout);
}

static void initial_values_follow_their_streams(void **state)
{
    (void)state;
    layout_t layout;
    layout_open(&layout, llama, NULL);
    float *values = malloc(layout.groups[2].count * sizeof *values);
    assert_non_null(values);
    layout_initial(&layout, 2, 9, values);
    const struct {
        size_t offset;
        uint64_t stream, element;
        double deviation;
    } cases[] = {{0, 9, 0, 0.02}, {576 + 3, 10, 3, 0.02}, {960 + 8, 12, 8, 0.01}, {3456 + 1, 15, 1, 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double normals[2];
        rng_normal_pair(rng_at(9, cases[i].stream), cases[i].element / 2, normals);
        assert_true(values[cases[i].offset] == (float)(cases[i].deviation * normals[cases[i].element % 2]));
    }
    assert_true(values[4416] == 1.0f && values[4463] == 1.0f);
    free(values);
    layout_close(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_any_shape_has_no_gaps),
        cmocka_unit_test(adapters_have_the_names_and_counts_of_peft),
        cmocka_unit_test(gpt2_names_and_shapes_are_those_of_hugging_face),
        cmocka_unit_test(llama_names_and_shapes_are_those_of_hugging_face),
        cmocka_unit_test(initial_values_follow_their_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
