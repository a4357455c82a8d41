/* BF16 runs against fp32 runs of the same model: the gradients of one step, tensor by tensor, by way of what the dump has
 * of them: after the first step, without clipping, the first moment is (1 - beta1) times the gradient. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/layout.h"
#include "model/options/options.h"
#include "trainer.h"

enum { LAYERS = 3 };
#define COMMON                                                                                               \
    "--layers 3 --width 64 --heads 4 --context 48 --batch 6 --steps 1 --warmup 0 --clip 0 --accumulate 2 "

/* First moments of all groups, as the dump of a run has them. Owned by the caller. */
static float *first_moments(const layout_t *layout, const char *arguments)
{
    char path[128], all[1024];
    trainer_path(path, sizeof path, "dump");
    snprintf(all, sizeof all, "%s --dump %s", arguments, path);
    (void)trainer_train(all);
    float *moments = malloc(layout_parameters(layout) * sizeof *moments), *to = moments;
    FILE *file = fopen(path, "rb");
    assert_non_null(moments);
    assert_non_null(file);
    for (int g = 0; g < layout->group_count; g++) {
        size_t count = layout->groups[g].count;
        assert_int_equal(fseek(file, (long)(count * sizeof *to), SEEK_CUR), 0);
        assert_int_equal(fread(to, sizeof *to, count, file), count);
        assert_int_equal(fseek(file, (long)(count * sizeof *to), SEEK_CUR), 0);
        to += count;
    }
    fclose(file);
    return moments;
}

static double distance(const float *a, const float *b, size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    assert_true(norm > 0);
    return sqrt(error / norm);
}

/* mode: the software device's, of the BF16 run; NULL: fast. */
static void assert_gradients_agree_in(const char *mode, shape_t shape, const char *model)
{
    layout_t layout;
    char arguments[512];
    layout_open(&layout, shape, NULL);
    snprintf(arguments, sizeof arguments, COMMON "%s --dtype fp32", model);
    float *single = first_moments(&layout, arguments);
    snprintf(arguments, sizeof arguments, COMMON "%s --dtype bf16", model);
    if (mode != NULL)
        setenv("SOFTGPU_MODE", mode, 1);
    float *half = first_moments(&layout, arguments);
    unsetenv("SOFTGPU_MODE");

    double worst = 0, all = distance(half, single, layout_parameters(&layout));
    const char *name = "";
    size_t base = 0;
    for (int i = 0, group = 0; i < layout.tensor_count; i++) {
        const layout_tensor_t *tensor = &layout.tensors[i];
        for (; group < tensor->group; group++)
            base += layout.groups[group].count;
        size_t at = base + tensor->offset;
        double off = distance(half + at, single + at, layout_elements(tensor));
        if (off > worst) {
            worst = off;
            name = tensor->name;
        }
    }
    print_message("%s: gradients off by %.1e, worst %s by %.1e\n", model, all, name, worst);
    assert_true(all > 1e-5); /* it was BF16 */
    assert_true(worst < 1e-2);
    free(single);
    free(half);
    layout_close(&layout);
}

static void assert_gradients_agree(shape_t shape, const char *model)
{
    assert_gradients_agree_in(NULL, shape, model);
}

static const shape_t gpt2 = {.family = FAMILY_GPT2,
                             .layers = LAYERS,
                             .width = 64,
                             .heads = 4,
                             .kv_heads = 4,
                             .hidden = 256,
                             .context = 48,
                             .vocab = 256,
                             .tied = true};
static const shape_t llama = {.family = FAMILY_LLAMA,
                              .layers = LAYERS,
                              .width = 64,
                              .heads = 4,
                              .kv_heads = 2,
                              .hidden = 176,
                              .context = 48,
                              .vocab = 256};

static void gradients_of_gpt2_are_those_of_fp32(void **state)
{
    (void)state;
    shape_t shape = gpt2;
    assert_gradients_agree(shape, "--model tiny");
    assert_gradients_agree(shape, "--model tiny --attention naive --dropout 0.2");
    shape.tied = false;
    assert_gradients_agree(shape, "--model tiny --tied no --dropout 0.2");
}

static void gradients_of_llama_are_those_of_fp32(void **state)
{
    (void)state;
    assert_gradients_agree(llama, "--model llama:tiny --hidden 176");
    assert_gradients_agree(llama, "--model llama:tiny --hidden 176 --attention naive --dropout 0.2");
}

/* Whole warps' instructions are there in SIMT mode only. */
static void gradients_by_matrix_instructions_are_those_of_fp32(void **state)
{
    (void)state;
    shape_t one_head = gpt2;
    one_head.heads = one_head.kv_heads = 1;
    assert_gradients_agree_in("simt", one_head, "--model tiny --heads 1 --attention auto --dropout 0.2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_gpt2_are_those_of_fp32),
        cmocka_unit_test(gradients_of_llama_are_those_of_fp32),
        cmocka_unit_test(gradients_by_matrix_instructions_are_those_of_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
