/* The readers of data files, under the address sanitizer: what is damaged, cut off or foreign is refused by a line that
 * names the file and the field, and never read outside its bounds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "model/data/choices.h"
#include "model/data/data.h"
#include "model/data/tokenizer.h"
#include "model/files/safetensors.h"
#include "model/files/state.h"

#define VOCAB 500
#define FILES 6

/* Reads a file and all that is in it; false with a fault. */
typedef bool (*read_fn)(const char *path, fault_t *fault);

static bool read_shard(const char *path, fault_t *fault)
{
    dataset_t data;
    uint64_t hash;
    if (!dataset_open(&data, "--data", path, DATA_TOKENS, VOCAB, fault))
        return false;
    int *tokens = malloc((size_t)data.count * sizeof *tokens);
    bool good = dataset_split(&data, 4, true, fault) && dataset_fingerprint(&data, &hash, fault) &&
                dataset_read(&data, 0, (size_t)data.count, tokens, fault);
    for (uint64_t i = 0; good && i < data.count; i++)
        assert_in_range(tokens[i], 0, VOCAB - 1);
    free(tokens);
    dataset_close(&data);
    return good;
}

static bool read_tokenizer(const char *path, fault_t *fault)
{
    tokenizer_t t;
    int tokens[11];
    size_t length, count;
    if (!tokenizer_open(&t, path, fault))
        return false;
    for (int i = 0; i < t.count; i++) {
        const unsigned char *bytes = tokenizer_decode(&t, i, &length);
        assert_true(length > 0);
        assert_true(tokenizer_find(&t, bytes, length) <= i);
    }
    tokenizer_decode(&t, t.end, &length);
    (void)tokenizer_encode(&t, "a few words", 11, tokens, &count);
    tokenizer_close(&t);
    return true;
}

static bool read_choices(const char *path, fault_t *fault)
{
    choices_t choices;
    if (!choices_open(&choices, path, VOCAB, fault))
        return false;
    for (int i = 0; i < choices.count; i++) {
        example_t e = choices_example(&choices, i);
        for (int c = 0; c < e.completions; c++)
            for (int k = 0; k < e.lengths[c]; k++)
                assert_in_range(e.tokens[c][k], 0, VOCAB - 1);
        assert_in_range(e.right, 0, e.completions - 1);
    }
    choices_close(&choices);
    return true;
}

static bool read_safetensors(const char *path, fault_t *fault)
{
    safetensors_t file;
    bool good = true;
    if (!safetensors_open(&file, "--init", path, fault))
        return false;
    for (size_t i = 0; good && i < file.count; i++) {
        const stored_t *tensor = &file.tensors[i];
        assert_ptr_equal(safetensors_find(&file, tensor->name), tensor);
        float *values = malloc((size_t)tensor->count * sizeof *values + 1);
        good = safetensors_read(&file, tensor, 0, (size_t)tensor->count, values, fault);
        free(values);
    }
    safetensors_close(&file);
    return good;
}

static bool read_state(const char *path, fault_t *fault)
{
    state_file_t state;
    uint64_t counts[3], count;
    double real;
    float floats[FILES_STATE_FLOATS];
    bool good =
        state_open(&state, path, fault) && state_get_count(&state, "step", &count, fault) &&
        state_get_real(&state, "lr", &real, fault) && state_get_counts(&state, "tensors", counts, 3, fault) &&
        state_get_floats(&state, "m.0", floats, FILES_STATE_FLOATS, fault) && state_end(&state, fault);
    state_close(&state);
    if (good)
        assert_true(count == 100 && real == 0.5 && counts[2] == 30 &&
                    floats[FILES_STATE_FLOATS - 1] == FILES_STATE_FLOATS - 1);
    return good;
}

static void make_files(char paths[FILES][256])
{
    uint32_t tokens[300];
    static const char *const texts[] = {"a", "b", "ab", " ", " a", "few", "\n", "words"};
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = files_draw(1, i, VOCAB);
    files_shard(files_path(paths[0], "short.bin"), tokens, 300, 2);
    files_shard(files_path(paths[1], "long.bin"), tokens, 300, 4);
    files_tokenizer(files_path(paths[2], "tokens.bin"), 2, texts, 8, 6);
    files_choices(files_path(paths[3], "choices.bin"), 5, 6, VOCAB);
    files_safetensors(files_path(paths[4], "model.safetensors"));
    files_state(files_path(paths[5], "state.bin"));
}

static const read_fn readers[] = {read_shard,   read_shard,       read_tokenizer,
                                  read_choices, read_safetensors, read_state};

/* Names the file, and is one line. */
static void assert_told(const fault_t *fault, const char *path, unsigned seed)
{
    if (strstr(fault->text, path) == NULL || strchr(fault->text, '\n') != NULL)
        fail_msg("seed %u: the fault does not name %s in one line: %s", seed, path, fault->text);
}

static void whole_files_are_read(void **state)
{
    (void)state;
    char paths[FILES][256];
    fault_t fault;
    make_files(paths);
    for (int i = 0; i < FILES; i++)
        if (!readers[i](paths[i], &fault))
            fail_msg("%s", fault.text);
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    char paths[FILES][256], path[256];
    fault_t fault;
    make_files(paths);
    files_path(path, "cut.bin");
    for (int i = 0; i < FILES; i++) {
        size_t size;
        unsigned char *bytes = files_read(paths[i], &size);
        for (size_t cut = 0; cut < size; cut += cut < 1000 ? 37 : 1) {
            files_write(path, bytes, cut);
            assert_false(readers[i](path, &fault));
            assert_told(&fault, path, (unsigned)cut);
        }
        bytes[size] = 0; /* one byte too many */
        files_write(path, bytes, size + 1);
        assert_false(readers[i](path, &fault));
        assert_told(&fault, path, 0);
        free(bytes);
    }
}

/* Each reader is given the other kinds of files, and a text. */
static void foreign_files_are_refused(void **state)
{
    (void)state;
    static const char *const words[FILES] = {"magic is ",           "magic is ",
                                             "magic is ",           "magic is ",
                                             "header's length is ", "this is no state of a training"};
    char paths[FILES][256], path[256], text[3000];
    fault_t fault;
    make_files(paths);
    memset(text, 'x', sizeof text);
    files_write(files_path(path, "text"), text, sizeof text);
    for (int i = 0; i < FILES; i++) {
        for (int k = 0; k < FILES; k++) {
            if (readers[i] == readers[k])
                continue;
            assert_false(readers[i](paths[k], &fault));
            assert_non_null(
                strstr(fault.text, i < 4 && k == 4 ? "header" : words[i])); /* number 4 is short */
            assert_told(&fault, paths[k], 0);
        }
        assert_false(readers[i](path, &fault));
        assert_non_null(strstr(fault.text, words[i]));
        assert_false(readers[i]("/nowhere/at/all", &fault));
        assert_non_null(strstr(fault.text, "/nowhere/at/all: No such file"));
    }
    dataset_t data;
    assert_false(dataset_open(&data, "--data", "/nowhere/*.bin", DATA_AUTO, VOCAB, &fault));
    assert_non_null(strstr(fault.text, "--data /nowhere/*.bin: no file matches"));
    assert_false(dataset_open(&data, "--data", "/", DATA_AUTO, VOCAB, &fault));
    assert_non_null(strstr(fault.text, "not a regular file"));
}

/* Bytes changed, moved, gone and doubled: refused, or still a file of its kind. */
static void mutated_files_are_refused_or_of_their_kind(void **state)
{
    (void)state;
    char paths[FILES][256], path[256];
    make_files(paths);
    files_path(path, "mutant.bin");
    for (int i = 0; i < FILES; i++) {
        size_t whole;
        unsigned char *bytes = files_read(paths[i], &whole);
        unsigned refused = 0;
        for (unsigned seed = 1; seed <= 300; seed++) {
            fault_t fault = {""};
            unsigned char *mutant = malloc(2 * whole);
            size_t size = whole;
            size_t from = files_draw(seed, 0, seed % 2 ? (uint32_t)whole : 16);
            size_t to = files_draw(seed, 1, (uint32_t)whole);
            size_t length = 1 + files_draw(seed, 2, (uint32_t)(whole - from));
            memcpy(mutant, bytes, whole);
            switch (files_draw(seed, 3, 4)) {
            case 0:
                mutant[from] = (unsigned char)files_draw(seed, 4, 256);
                break;
            case 1: /* gone */
                memmove(mutant + from, bytes + from + length, whole - from - length);
                size -= length;
                break;
            case 2: /* doubled elsewhere */
                memmove(mutant + to + length, bytes + to, whole - to);
                memcpy(mutant + to, bytes + from, length);
                size += length;
                break;
            default: /* a run of one value: all ones makes every length as large as it gets */
                memset(mutant + from, files_draw(seed, 4, 2) ? 0xff : 0, length < 8 ? length : 8);
            }
            files_write(path, mutant, size);
            bool changed = size != whole || memcmp(mutant, bytes, whole) != 0;
            if (readers[i] == read_state && changed) /* checksums: whatever is changed is found */
                assert_false(readers[i](path, &fault));
            if (!readers[i](path, &fault)) {
                assert_told(&fault, path, seed);
                refused++;
            }
            free(mutant);
        }
        print_message("%s: seeds 1 to 300, %u refused\n", strrchr(paths[i], '/') + 1, refused);
        assert_true(refused > 120);
        free(bytes);
    }
}

static void fields_are_named(void **state)
{
    (void)state;
    static const struct {
        int file;
        size_t at; /* 32-bit words */
        uint32_t value;
        const char *words;
    } cases[] = {
        {0, 0, 20240326, "magic is 20240326, of a token shard it is 20240520 or 20240801"},
        {0, 1, 2, "version is 2, with magic 20240520 it must be 1"},
        {1, 1, 1, "version is 1, with magic 20240801 it must be 7"},
        {0, 2, 301, "token count is 301, for which the file would have 1626 bytes; it has 1624"},
        {0, 2, 0, "token count is 0"},
        {1, 256 + 17, 500, "token number 17 is 500; the model has 500 classes"},
        {1, 256 + 17, 0xffffffff, "token number 17 is 2147483647"},
        {2, 0, 1, "magic is 1, of a tokenizer it is 20240328"},
        {2, 1, 3, "version is 3"},
        {2, 2, 7, "token count is 7, but more follows the last token"},
        {2, 2, 1 << 20, "token count is 1048576, but the file is too short"},
        {2, 3, 8, "end-of-text token is 8, it must be below the token count"},
        {2, 256, 0, "a token's length is 0"},
        {3, 1, 2, "version is 2"},
        {3, 2, 5, "example count is 5, but more follows"},
        {3, 2, 7, "example 6: what is left of the file is 0"},
        {3, 3, 2, "longest example is 2, not the bytes of the longest one"},
        {5, 0, 0x2e626265, "this is no state of a training"},
        {5, 2, 3, "version is 3; this ebb-train reads version 2"},
        {5, 4, 0x00706574, "field step is expected, \"tep\" is there"},
        {5, 14, 2, "field step: its type is 2, not 1"},
        {5, 16, 2, "field step: it has 2 elements, not 1"},
        {5, 20, 101, "field step: its checksum is wrong"},
        {5, 22, 0x00737973, "field lr is expected, \"sys\" is there"},
        {5, 16 + 3 * 18 + 40, 5, "field m.0: its checksum is wrong"},
        {3, 256, 65534, "example 0: start is 65534"},
        {3, 256, 65535 | 11u << 16, "example 0: bytes is 11"},
        {3, 257, 9, "example 0: number is 9"},
        {3, 257, 9u << 16, "example 0: label is 9"},
        {3, 258, 1, "example 0: completion count is 1"},
        {3, 258, 4 | 60000u << 16, "example 0: context length is 60000"},
    };
    char paths[FILES][256], path[256];
    make_files(paths);
    files_path(path, "field.bin");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t size;
        fault_t fault;
        unsigned char *bytes = files_read(paths[cases[c].file], &size);
        memcpy(bytes + 4 * cases[c].at, &cases[c].value, 4);
        files_write(path, bytes, size);
        assert_false(readers[cases[c].file](path, &fault));
        if (strstr(fault.text, cases[c].words) == NULL)
            fail_msg("'%s' lacks '%s'", fault.text, cases[c].words);
        free(bytes);
    }
}

/* Without being told what a file is: a damaged shard does not become a text. */
static void unknown_files_are_recognised(void **state)
{
    (void)state;
    char paths[FILES][256], path[256];
    fault_t fault;
    dataset_t data;
    make_files(paths);
    files_write(files_path(path, "text"), "words and words\n", 16);
    assert_true(dataset_open(&data, "--data", path, DATA_AUTO, VOCAB, &fault));
    assert_int_equal(data.token_bytes, 1);
    dataset_close(&data);
    assert_true(dataset_open(&data, "--data", paths[1], DATA_AUTO, VOCAB, &fault));
    assert_int_equal(data.token_bytes, 4);
    dataset_close(&data);
    assert_false(dataset_open(&data, "--data", paths[2], DATA_AUTO, VOCAB, &fault));
    assert_non_null(strstr(fault.text, "magic is 20240328, of a token shard it is 20240520 or 20240801"));
    assert_true(dataset_open(&data, "--data", paths[2], DATA_TEXT, VOCAB, &fault));
    assert_int_equal(data.token_bytes, 1);
    dataset_close(&data);

    char pattern[256];
    files_path(pattern, "sh*t*.bin"); /* short.bin, and no other */
    assert_true(dataset_open(&data, "--data", pattern, DATA_AUTO, VOCAB, &fault));
    assert_int_equal(data.shard_count, 1);
    dataset_close(&data);
    files_path(pattern, "[sl]*o*.bin"); /* long.bin, short.bin: of two forms */
    assert_false(dataset_open(&data, "--data", pattern, DATA_AUTO, VOCAB, &fault));
    assert_non_null(strstr(fault.text, "short.bin: magic is 20240520, another than of the files before it"));
    assert_false(dataset_open(&data, "--data", pattern, DATA_TEXT, VOCAB, &fault));
    assert_non_null(strstr(fault.text, "2 files match, but a text is one file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_are_read),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(mutated_files_are_refused_or_of_their_kind),
        cmocka_unit_test(fields_are_named),
        cmocka_unit_test(unknown_files_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
