/* ebb-train on token shards, with validation shards, a tokenizer and multiple-choice questions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "trainer.h"

#define SMALL "--layers 1 --width 16 --heads 2 --context 32 --batch 4 "

/* The test text's bytes as tokens, in shards of these sizes. */
static void text_as_shards(const size_t *counts, int files)
{
    size_t size, at = 0;
    unsigned char *text = files_read(trainer_text(), &size);
    for (int i = 0; i < files; i++) {
        char path[256], name[32];
        uint32_t *tokens = malloc(counts[i] * sizeof *tokens);
        for (size_t k = 0; k < counts[i]; k++)
            tokens[k] = text[at++];
        snprintf(name, sizeof name, "text-%d.bin", i);
        files_shard(files_path(path, name), tokens, counts[i], 2);
        free(tokens);
    }
    free(text);
}

/* Runs it, with a log, and returns the whole log. */
static char *run_log(const char *arguments)
{
    static char text[1 << 18];
    char log[128], all[2048];
    size_t size;
    trainer_path(log, sizeof log, "log");
    snprintf(all, sizeof all, "--log %s %s", log, arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: exit code %d: %s", all, outcome.exit_code, outcome.error);
    unsigned char *bytes = files_read(log, &size);
    assert_true(size < sizeof text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    free(bytes);
    return text;
}

static const char *record(const char *log, const char *kind)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "{\"kind\": \"%s\"", kind);
    const char *line = strstr(log, wanted);
    if (line == NULL)
        fail_msg("the log has no record '%s'", kind);
    return line;
}

/* The same tokens, as a text and as shards: the same held-out loss to the last bit. */
static void held_out_loss_of_shards_is_that_of_the_text(void **state)
{
    (void)state;
    static const size_t counts[] = {30000, 29000, 1000};
    char arguments[1024], pattern[256], hex[2][32];
    text_as_shards(counts, 3);
    files_path(pattern, "text-*.bin");
    for (int shards = 0; shards < 2; shards++) {
        snprintf(arguments, sizeof arguments, SMALL "--steps 0 --sample 0 --data %s",
                 shards ? pattern : trainer_text());
        const char *log = run_log(arguments);
        assert_true(json_text(record(log, "final"), "held_out_loss_hex", hex[shards], sizeof hex[shards]));
        assert_true(json_number(record(log, "run"), "train_tokens") == 57000);
        assert_true(json_number(record(log, "run"), "held_out_tokens") == 3000);
    }
    assert_string_equal(hex[0], hex[1]);

    /* As validation shards of their own, too. */
    size_t size;
    char part[256];
    unsigned char *text = files_read(trainer_text(), &size);
    uint32_t tokens[3000];
    for (size_t i = 0; i < 3000; i++)
        tokens[i] = text[57000 + i];
    free(text);
    files_shard(files_path(part, "held-out.bin"), tokens, 3000, 4);
    snprintf(arguments, sizeof arguments, SMALL "--steps 0 --sample 0 --data %s --eval-data %s", pattern,
             part);
    const char *log = run_log(arguments);
    assert_true(json_text(record(log, "final"), "held_out_loss_hex", hex[1], sizeof hex[1]));
    assert_string_equal(hex[0], hex[1]);
    assert_true(json_number(record(log, "run"), "train_tokens") == 60000);
    files_clean();
}

static void training_on_shards_learns_and_repeats(void **state)
{
    (void)state;
    static const size_t counts[] = {20000, 20000, 20000};
    char arguments[1024], pattern[256], hash[2][32];
    double loss[2];
    text_as_shards(counts, 3);
    files_path(pattern, "text-*.bin");
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments, SMALL "--steps 60 --sample 0 --accumulate 2 --data %s",
                 pattern);
        const char *log = run_log(arguments);
        assert_true(json_text(record(log, "final"), "state_hash", hash[i], sizeof hash[i]));
        loss[i] = json_number(record(log, "final"), "held_out_loss");
    }
    assert_string_equal(hash[0], hash[1]);
    assert_true(loss[0] < 4.5); /* from 5.5 */
    files_clean();
}

/* A language of one sentence: the completion that belongs to it is found, in batches of any size. */
static void questions_are_answered_after_training(void **state)
{
    (void)state;
    enum { TOKENS = 4000, PERIOD = 7, EXAMPLES = 10 };
    static uint32_t tokens[TOKENS];
    uint16_t words[EXAMPLES * 64];
    uint32_t header[256] = {20240522, 1, EXAMPLES};
    char data[256], path[256], arguments[1024];
    size_t count = 0;
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = 3 + i % PERIOD;
    files_shard(files_path(data, "sentence.bin"), tokens, TOKENS, 2);
    for (uint16_t e = 0; e < EXAMPLES; e++) { /* 9 tokens of context, 4 completions of 3 */
        size_t begin = count;
        uint16_t right = e % 4;
        const uint16_t fixed[] = {65535, 0, e, right, 4, 9};
        memcpy(words + count, fixed, sizeof fixed);
        count += 6;
        for (uint32_t i = 0; i < 9; i++)
            words[count++] = (uint16_t)tokens[e + i];
        for (uint16_t c = 0; c < 4; c++) {
            words[count++] = 3;
            for (uint32_t i = 0; i < 3; i++)
                words[count++] =
                    c == right ? (uint16_t)tokens[e + 9u + i] : (uint16_t)(3 + (c + 2u * i + e) % PERIOD);
        }
        words[begin + 1] = (uint16_t)(2 * (count - begin));
    }
    header[3] = words[1];
    unsigned char bytes[sizeof header + sizeof words];
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + sizeof header, words, 2 * count);
    files_write(files_path(path, "questions.bin"), bytes, sizeof header + 2 * count);

    static const int batches[] = {4, 3};
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments,
                 "--layers 1 --width 16 --heads 2 --context 16 --vocab 12 --steps 120 --lr 0.02 --sample 0 "
                 "--batch %d "
                 "--data %s --choices %s",
                 batches[i], data, path);
        const char *said = record(run_log(arguments), "choices");
        assert_true(json_number(said, "examples") == EXAMPLES);
        assert_true(json_number(said, "accuracy") == 1.0);
        assert_true(json_number(said, "accuracy_norm") == 1.0);
    }
    files_clean();
}

/* Of the tokens with a text, and from the prompt on. */
static void sample_is_decoded_by_the_tokenizer(void **state)
{
    (void)state;
    char data[256], tokenizer[256], arguments[1024];
    files_story(data, tokenizer);
    snprintf(
        arguments, sizeof arguments,
        "--layers 1 --width 16 --heads 2 --context 16 --vocab 12 --steps 120 --lr 0.02 --batch 4 --sample 7 "
        "--temperature 0 --data %s --tokenizer %s --prompt once",
        data, tokenizer);
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(strstr(outcome.out, "sample:\nonce "));
    assert_non_null(strstr(outcome.out, " once upon a time"));
    assert_non_null(strstr(outcome.out, "nats per token, over "));

    snprintf(arguments, sizeof arguments, SMALL "--vocab 12 --steps 1 --data %s", data);
    outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(strstr(outcome.out, "no sample: only --tokenizer FILE"));
    files_clean();
}

static void bad_inputs_exit_2_with_one_line(void **state)
{
    (void)state;
    static const size_t counts[] = {4000, 20};
    static const char *const texts[] = {"a", "b", "c"};
    char shard[256], small[256], tokenizer[256], arguments[1024];
    text_as_shards(counts, 2);
    files_path(shard, "text-0.bin");
    files_path(small, "text-1.bin");
    files_tokenizer(files_path(tokenizer, "tokens.bin"), 2, texts, 3, 0);
    const struct {
        const char *data, *flag, *value, *words;
    } cases[] = {
        {shard, "--vocab", "100", "text-0.bin: token number "},
        {shard, "--data-kind", "tokens --eval-data /nowhere", "--eval-data /nowhere: No such file"},
        {shard, "--eval-data", trainer_text(), "one of it and --data is a text, the other is not"},
        {shard, "--tokenizer", shard, "magic is 20240520, of a tokenizer it is 20240328"},
        {shard, "--choices", shard, "magic is 20240520, of such questions it is 20240522"},
        {shard, "--vocab", "2 --tokenizer", "--tokenizer needs a value"},
        {small, "--context", "16",
         "a text of 20 tokens is too short for a context of 16 tokens, which needs 40"},
        {trainer_text(), "--tokenizer", tokenizer, "the tokens of a text are its bytes"},
        {trainer_text(), "--data-kind", "tokens", "magic is "},
        {tokenizer, "--context", "16", "magic is 20240328, of a token shard it is 20240520 or 20240801"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(arguments, sizeof arguments, "--data %s --steps 2 --sample 0 %s %s", cases[i].data,
                 cases[i].flag, cases[i].value);
        outcome_t outcome = trainer_run(arguments);
        if (outcome.exit_code != 2 || strstr(outcome.error, cases[i].words) == NULL)
            fail_msg("%s: exit code %d: '%s' lacks '%s'", arguments, outcome.exit_code, outcome.error,
                     cases[i].words);
        assert_int_equal(strncmp(outcome.error, "ebb-train: ", 11), 0);
        assert_ptr_equal(strchr(outcome.error, '\n'), outcome.error + strlen(outcome.error) - 1);
    }
    files_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_out_loss_of_shards_is_that_of_the_text),
        cmocka_unit_test(training_on_shards_learns_and_repeats),
        cmocka_unit_test(questions_are_answered_after_training),
        cmocka_unit_test(sample_is_decoded_by_the_tokenizer),
        cmocka_unit_test(bad_inputs_exit_2_with_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
