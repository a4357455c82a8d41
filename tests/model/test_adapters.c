/* Low-rank adapters (--lora-rank): a checkpoint has them alone, in PEFT's form; a training or generate takes them up again with the
 * model that they were trained on, and what does not go together is refused. Where PEFT is installed (TEST_PYTHON, or python3) it gets the
 * same loss of them, and ebb-train the same of what PEFT writes. Their arithmetic is compared with PyTorch's in
 * test_reference.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "python.h"
#include "trainer.h"

#define SMALL "--layers 2 --width 48 --heads 3 --context 16 --batch 4 "

/* The path of a file in one of the tests' folders; several are good at once. */
static const char *in(const char *folder, const char *name)
{
    static char paths[8][512];
    static int next;
    char path[256];
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s%s", files_path(path, folder), name);
    return paths[next];
}

static outcome_t run(const char *format, ...)
{
    char arguments[1800], all[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(all, sizeof all, "--data %s --log %s %s", trainer_text(), in("log", ""), arguments);
    return trainer_run(all);
}

static history_t train(const char *format, ...)
{
    char arguments[1800];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    const outcome_t outcome = run("%s", arguments);
    if (outcome.exit_code != 0)
        fail_msg("%s: exit code %d: %s", arguments, outcome.exit_code, outcome.error);
    return trainer_read_log(in("log", ""));
}

static void assert_refused(const outcome_t *outcome, const char *words)
{
    if (outcome->exit_code != 2 || strstr(outcome->error, words) == NULL)
        fail_msg("exit code %d: '%s' lacks '%s'", outcome->exit_code, outcome->error, words);
}

static const struct {
    const char *model, *adapters, *tolerance;
} cases[] = {
    {"--model tiny", "--lora-rank 4 --lora-alpha 12", "2e-5"},
    {"--model tiny --dtype bf16", "--lora-rank 3 --lora-targets all-linear", "2e-3"},
    {"--model llama:tiny --kv-heads 1 --hidden 72", "--lora-rank 8 --lora-targets all-linear", "2e-5"},
    {"--model llama:tiny --kv-heads 3 --hidden 72 --dtype bf16",
     "--lora-rank 8 --lora-targets v_proj,mlp.up_proj", "2e-3"}};
enum { CASES = sizeof cases / sizeof *cases };

/* A model in "base", trained a little, and adapters of it in "kept", trained more: how that went. */
static history_t make(size_t i)
{
    (void)train(SMALL "%s --steps 5 --lr 0.02 --sample 0 --checkpoint %s", cases[i].model, in("base", ""));
    return train(SMALL "%s --steps 12 --lr 0.02 --seed 9 --sample 60 --init %s %s --checkpoint %s",
                 cases[i].model, in("base", "/step-00000005"), cases[i].adapters, in("kept", ""));
}

static void adapters_alone_are_kept_and_taken_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        const history_t base = train(SMALL "%s --steps 5 --lr 0.02 --sample 0", cases[i].model),
                        trained = make(i);
        if (!(trained.held_out_loss < base.held_out_loss - 0.005))
            fail_msg("%s: %g after %g", cases[i].adapters, trained.held_out_loss, base.held_out_loss);
        assert_int_equal(access(in("kept", "/step-00000012/adapter_model.safetensors"), F_OK), 0);
        assert_int_equal(access(in("kept", "/step-00000012/adapter_config.json"), F_OK), 0);
        assert_int_not_equal(access(in("kept", "/step-00000012/model.safetensors"), F_OK), 0);
        /* The base is as it was: with adapters that have learned nothing the loss is the base's. */
        const history_t fresh = train(SMALL "%s --steps 0 --sample 0 --init %s %s", cases[i].model,
                                      in("base", "/step-00000005"), cases[i].adapters);
        if (i != 1) /* there GELU is not part of the products any more, so BF16 is rounded elsewhere */
            assert_string_equal(fresh.held_out_loss_hex, base.held_out_loss_hex);
        assert_true(relative(fresh.held_out_loss, base.held_out_loss) < 1e-4);
        const history_t again = train(SMALL "%s --steps 0 --sample 0 --seed 4 --init %s --lora %s",
                                      cases[i].model, in("base", "/step-00000005"), in("kept", ""));
        assert_string_equal(again.held_out_loss_hex, trained.held_out_loss_hex);
        files_clean();
    }
}

static void sample_is_that_of_the_training(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        char sample[1024], arguments[1024];
        (void)make(i);
        const outcome_t training = run(SMALL "%s --steps 12 --lr 0.02 --seed 9 --sample 60 --init %s %s",
                                       cases[i].model, in("base", "/step-00000005"), cases[i].adapters);
        const char *begin = strstr(training.out, "\nsample:\n");
        assert_non_null(begin);
        snprintf(sample, sizeof sample, "%s", begin + strlen("\nsample:\n"));
        snprintf(arguments, sizeof arguments, "generate --checkpoint %s --lora %s --sample 60 --seed 9",
                 in("base", ""), in("kept", ""));
        const outcome_t out = trainer_run(arguments);
        assert_int_equal(out.exit_code, 0);
        assert_true(strlen(out.out) > 50 && strncmp(out.out, sample, strlen(out.out)) == 0);
        snprintf(arguments, sizeof arguments, "generate --checkpoint %s --sample 60 --seed 9",
                 in("base", ""));
        const outcome_t base = trainer_run(arguments);
        assert_string_not_equal(base.out, out.out);
        files_clean();
    }
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    (void)make(0);
    char base[512], kept[512];
    snprintf(base, sizeof base, "%s", in("base", "/step-00000005"));
    snprintf(kept, sizeof kept, "%s", in("kept", ""));
    outcome_t out = run(SMALL "--lora-targets q_proj --lora-rank 4");
    assert_refused(&out, "--lora-targets: \"q_proj\" is no matrix of a GPT-2 block");
    out = run(SMALL "--lora-alpha 4");
    assert_refused(&out, "--lora-rank N is missing");
    out = run(SMALL "--lora %s --lora-rank 4", kept);
    assert_refused(&out, "it says itself what rank, alpha and targets are");
    out = run(SMALL "--lora-rank 4 --compress top");
    assert_refused(&out, "--compress: adapters' gradients are small already");
    out = run(SMALL "--lora /nowhere");
    assert_refused(&out, "--lora /nowhere: no such folder");
    out = run(SMALL "--model llama:tiny --kv-heads 1 --hidden 72 --lora %s", kept);
    assert_refused(&out, "is no matrix of the model's blocks");
    out = run(SMALL "--width 96 --lora %s", kept);
    assert_refused(&out, "lora_A.weight: \"shape\" is [4, 48], of this model it is [4, 96]");
    /* Going on. */
    out = run(SMALL "--seed 9 --steps 13 --init %s --resume %s", base, kept);
    assert_refused(&out, "a training of adapters: --lora-rank is missing");
    out = run(SMALL "--seed 9 --steps 13 --lora-rank 4 --lora-alpha 12 --resume %s", kept);
    assert_refused(&out, "field base is");
    out = run(SMALL "--seed 9 --steps 13 --lora-rank 4 --init %s --resume %s", base, kept);
    assert_refused(&out, "field lora_alpha is 12, of this training it is 8");
    out = run(SMALL
              "--seed 9 --steps 13 --lora-rank 4 --lora-alpha 12 --lora-targets c_fc --init %s --resume %s",
              base, kept);
    assert_refused(&out, "c_fc.lora_A.weight is missing");
    out = run(
        SMALL
        "--seed 9 --steps 13 --lora-rank 4 --lora-alpha 12 --lora-targets all-linear --init %s --resume %s",
        base, kept);
    assert_refused(&out, "lora_A.weight is missing");
    out = run(SMALL "--steps 13 --lora-rank 4 --resume %s", in("base", ""));
    assert_refused(&out, "a training of all weights");
    out = run(SMALL "--seed 9 --steps 13 --lora-rank 4 --lora-alpha 12 --init %s --resume %s", base, kept);
    assert_int_equal(out.exit_code, 0);
    files_clean();
}

static void configs_of_other_arithmetic_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *words;
    } faults[] = {
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\"], \"r\": 4, \"use_dora\": true}",
         "\"use_dora\" is set"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\"], \"r\": 4, \"rank_pattern\": "
         "{\"c_attn\": 8}}",
         "\"rank_pattern\" is set"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\"], \"r\": 4, \"bias\": \"all\"}",
         "\"bias\" is \"all\""},
        {"{\"peft_type\": \"IA3\", \"target_modules\": [\"c_attn\"]}", "\"peft_type\" is \"IA3\""},
        {"{\"peft_type\": \"LORA\", \"target_modules\": \"h.*attn\", \"r\": 4}",
         "\"target_modules\" is neither"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [], \"r\": 4}", "\"target_modules\" is neither"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [7], \"r\": 4}", "\"target_modules\" is neither"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\"], \"r\": 4.5}", "\"r\" is 4.5"},
        {"{\"peft_type\": \"LORA\", \"target_modules\": [\"c_attn\"], \"init_lora_weights\": "
         "\"pissa_niter_4\"}",
         "that changes the frozen weights"},
        {"[1]", "no JSON object"}};
    char command[600];
    snprintf(command, sizeof command, "mkdir %s", in("published", ""));
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        files_write(in("published", "/adapter_config.json"), faults[i].config, strlen(faults[i].config));
        const outcome_t out = run(SMALL "--lora %s", in("published", ""));
        assert_refused(&out, faults[i].words);
    }
    files_clean();
}

/* Other people's code, in both directions. In BF16 they compute in fp32 with the rounded weights. */
static void peft_has_the_same_loss(void **state)
{
    (void)state;
    char command[2600];
    const char *python = python_with("torch, transformers, peft");
    if (python == NULL)
        skip();
    for (size_t i = 0; i < CASES; i++) {
        const history_t trained = make(i);
        snprintf(command, sizeof command, "%s %s %s %s 16 %.9g %s %s %s", python, TRANSFORMERS_SCRIPT,
                 in("base", "/step-00000005"), trainer_text(), trained.held_out_loss, cases[i].tolerance,
                 in("kept", "/step-00000012"), in("theirs", ""));
        assert_int_equal(system(command), 0);
        const history_t again = train(SMALL "%s --steps 0 --sample 0 --init %s --lora %s", cases[i].model,
                                      in("base", "/step-00000005"), in("theirs", ""));
        assert_string_equal(again.held_out_loss_hex, trained.held_out_loss_hex);
        files_clean();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_alone_are_kept_and_taken_up),
        cmocka_unit_test(sample_is_that_of_the_training),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(configs_of_other_arithmetic_are_refused),
        cmocka_unit_test(peft_has_the_same_loss),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
