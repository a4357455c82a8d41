/* Tokenizers: bytes, files of both versions, and byte-pair encoding against pieces and joins worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/rng.h"
#include "model/data/tokenizer.h"

static void bytes_are_their_own_tokens(void **state)
{
    (void)state;
    tokenizer_t t;
    fault_t fault;
    char text[256];
    int tokens[256];
    size_t count;
    assert_true(tokenizer_open(&t, NULL, &fault));
    assert_int_equal(t.count, 256);
    for (int i = 0; i < 256; i++) {
        size_t length;
        const unsigned char *bytes = tokenizer_decode(&t, i, &length);
        assert_int_equal(length, 1);
        assert_int_equal(bytes[0], i);
        text[i] = (char)(255 - i);
    }
    assert_true(tokenizer_encode(&t, text, sizeof text, tokens, &count));
    assert_int_equal(count, 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(tokens[i], 255 - i);
    tokenizer_close(&t);
}

/* 95 printable characters and the new line, then the given longer tokens in their order. */
static tokenizer_t open_tokens(const char *const *longer, int count)
{
    static char characters[96][2];
    const char *texts[256];
    char path[256];
    tokenizer_t t;
    fault_t fault;
    for (int i = 0; i < 96; i++) {
        characters[i][0] = i < 95 ? (char)(' ' + i) : '\n';
        texts[i] = characters[i];
    }
    for (int i = 0; i < count; i++)
        texts[96 + i] = longer[i];
    files_tokenizer(files_path(path, "tokens"), 2, texts, (uint32_t)(96 + count), 7);
    if (!tokenizer_open(&t, path, &fault))
        fail_msg("%s", fault.text);
    return t;
}

/* The encoding of a text, its tokens' texts separated by '|'. */
static void assert_encodes(const tokenizer_t *t, const char *text, const char *expected)
{
    int tokens[256];
    size_t count;
    char said[1024] = "";
    assert_true(tokenizer_encode(t, text, strlen(text), tokens, &count));
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const unsigned char *bytes = tokenizer_decode(t, tokens[i], &length);
        size_t at = strlen(said);
        snprintf(said + at, sizeof said - at, "%s%.*s", i > 0 ? "|" : "", (int)length, (const char *)bytes);
    }
    assert_string_equal(said, expected);
}

static void pairs_are_joined_by_rank(void **state)
{
    (void)state;
    static const char *const longer[] = {"bc", "ab", "abc", "aa", "aaaa", "cd", "bcd"};
    tokenizer_t t = open_tokens(longer, 7);
    assert_int_equal(t.end, 7);
    assert_encodes(&t, "abc", "abc");      /* bc first, then a + bc */
    assert_encodes(&t, "abcd", "abc|d");   /* abc ranks before bcd */
    assert_encodes(&t, "xbcd", "x|bcd");   /* bc + d */
    assert_encodes(&t, "aaaaa", "aaaa|a"); /* of equal pairs, the leftmost */
    assert_encodes(&t, "abab", "ab|ab");
    assert_encodes(&t, "", "");
    tokenizer_close(&t);
}

/* With every two characters joined, what stays apart are pieces. */
static void text_falls_into_pieces(void **state)
{
    (void)state;
    static const char *const longer[] = {" a",  "ab",  "a1", "1a", "a'",  "'s", "s ",
                                         "  ",  " 1",  "a!", "!!", " !",  "12", "\n\n",
                                         "\n ", " \n", "'x", "'l", "'ll", "a ", "' "};
    tokenizer_t t = open_tokens(longer, 21);
    assert_encodes(&t, "ab", "ab");
    assert_encodes(&t, "a a", "a| a");
    assert_encodes(&t, "a  a", "a| | a"); /* the last space belongs to the word */
    assert_encodes(&t, "a   a", "a|  | a");
    assert_encodes(&t, "a  ", "a|  "); /* at the end it does not */
    assert_encodes(&t, "a12!!", "a|12|!!");
    assert_encodes(&t, "a 1 !", "a| 1| !");
    assert_encodes(&t, "a's a", "a|'s| a");
    assert_encodes(&t, "a'll", "a|'ll");
    assert_encodes(&t, "a'x", "a|'|x");
    assert_encodes(&t, "a\n\na", "a|\n|\n|a");
    assert_encodes(&t, "a\n a", "a|\n| a");
    assert_encodes(&t, "a\n\n", "a|\n\n");
    tokenizer_close(&t);
}

static void encoding_decodes_to_the_text(void **state)
{
    (void)state;
    static const char *const longer[] = {"th",  "he", "the", " t", " the", "in",
                                         "ing", "er", "re",  "  ", "12"};
    tokenizer_t t = open_tokens(longer, 11);
    for (uint64_t trial = 0; trial < 500; trial++) {
        char text[100], decoded[200];
        size_t length = 1 + files_draw(trial, 0, 99), at = 0, count;
        int tokens[100];
        for (size_t i = 0; i < length; i++)
            text[i] = "the ing12r\n'!"[files_draw(trial, 1 + i, 13)];
        assert_true(tokenizer_encode(&t, text, length, tokens, &count));
        for (size_t i = 0; i < count; i++) {
            size_t bytes;
            const unsigned char *token = tokenizer_decode(&t, tokens[i], &bytes);
            memcpy(decoded + at, token, bytes);
            at += bytes;
        }
        assert_int_equal(at, length);
        assert_memory_equal(decoded, text, length);
    }
    tokenizer_close(&t);
}

static void unknown_bytes_and_numbers_are_said_to_be(void **state)
{
    (void)state;
    tokenizer_t t = open_tokens(NULL, 0);
    int tokens[8];
    size_t count, length;
    assert_false(tokenizer_encode(&t, "a\001", 2, tokens, &count));
    tokenizer_decode(&t, 96, &length);
    assert_int_equal(length, 0);
    tokenizer_decode(&t, -1, &length);
    assert_int_equal(length, 0);
    assert_int_equal(tokenizer_find(&t, (const unsigned char *)"zz", 2), -1);
    tokenizer_close(&t);
}

/* Version 1 says neither its count nor its last token: they are GPT-2's. */
static void version_1_is_gpt2(void **state)
{
    (void)state;
    enum { COUNT = 50257 };
    char path[256];
    const char **texts = calloc(COUNT, sizeof *texts);
    char(*memory)[8] = calloc(COUNT, sizeof *memory);
    for (int i = 0; i < COUNT; i++) {
        snprintf(memory[i], sizeof memory[i], "%d", i);
        texts[i] = memory[i];
    }
    files_tokenizer(files_path(path, "gpt2"), 1, texts, COUNT, 0);
    tokenizer_t t;
    fault_t fault;
    size_t length;
    assert_true(tokenizer_open(&t, path, &fault));
    assert_int_equal(t.end, 50256);
    assert_memory_equal(tokenizer_decode(&t, 50000, &length), "50000", 5);
    assert_int_equal(tokenizer_find(&t, (const unsigned char *)"31415", 5), 31415);
    tokenizer_close(&t);
    files_tokenizer(path, 1, texts, COUNT - 1, 0);
    assert_false(tokenizer_open(&t, path, &fault));
    assert_non_null(strstr(fault.text, "token count is 50256, in version 1 it must be 50257"));
    free(texts);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_their_own_tokens),
        cmocka_unit_test(pairs_are_joined_by_rank),
        cmocka_unit_test(text_falls_into_pieces),
        cmocka_unit_test(encoding_decodes_to_the_text),
        cmocka_unit_test(unknown_bytes_and_numbers_are_said_to_be),
        cmocka_unit_test(version_1_is_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
