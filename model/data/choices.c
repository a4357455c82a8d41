#include "model/data/choices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         20240522
#define HEADER_INTS   256
#define START         65535
#define EXAMPLES_MOST 65536 /* their numbers are uint16 */

/* An example's fixed words. */
enum { WORD_START, WORD_BYTES, WORD_NUMBER, WORD_RIGHT, WORD_COMPLETIONS, WORD_CONTEXT, WORD_TOKENS };

static bool refuse(fault_t *fault, const char *path, int example, const char *field, uint64_t value,
                   const char *rule)
{
    if (example < 0)
        return fault_set(fault, "--choices %s: %s is %llu, %s", path, field, (unsigned long long)value, rule);
    return fault_set(fault, "--choices %s: example %d: %s is %llu, %s", path, example, field,
                     (unsigned long long)value, rule);
}

static bool check_tokens(const uint16_t *tokens, size_t count, int vocab, const char *path, int number,
                         fault_t *fault)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= vocab)
            return refuse(fault, path, number, "a token", tokens[i], "the model has fewer classes (--vocab)");
    return true;
}

/* An example of `count` words by its own account, which lie in the file. */
static bool check_lists(const uint16_t *words, size_t count, int vocab, const char *path, int number,
                        fault_t *fault)
{
    size_t at = WORD_CONTEXT;
    for (int list = 0; list <= words[WORD_COMPLETIONS]; list++) {
        const char *field = list == 0 ? "context length" : "a completion's length";
        if (at >= count)
            return refuse(fault, path, number, "bytes", 2 * count, "too few for its completions");
        size_t length = words[at++];
        if (length == 0 || length > count - at)
            return refuse(fault, path, number, field, length, "the example has no room for it, or it is 0");
        if (!check_tokens(words + at, length, vocab, path, number, fault))
            return false;
        at += length;
    }
    if (at != count)
        return refuse(fault, path, number, "bytes", 2 * count, "more than its completions need");
    return true;
}

static bool check_example(const uint16_t *words, size_t left, int vocab, const char *path, int number,
                          fault_t *fault)
{
    if (left < WORD_TOKENS)
        return refuse(fault, path, number, "what is left of the file", 2 * left, "too few bytes for it");
    if (words[WORD_START] != START)
        return refuse(fault, path, number, "start", words[WORD_START], "it must be 65535");
    size_t bytes = words[WORD_BYTES];
    if (bytes % 2 != 0 || bytes / 2 < WORD_TOKENS || bytes / 2 > left)
        return refuse(fault, path, number, "bytes", bytes, "which do not fit into the file");
    if (words[WORD_NUMBER] != number)
        return refuse(fault, path, number, "number", words[WORD_NUMBER], "not its place in the file");
    if (words[WORD_COMPLETIONS] < 2 || words[WORD_COMPLETIONS] > CHOICES_MOST)
        return refuse(fault, path, number, "completion count", words[WORD_COMPLETIONS],
                      "it must be between 2 and 64");
    if (words[WORD_RIGHT] >= words[WORD_COMPLETIONS])
        return refuse(fault, path, number, "label", words[WORD_RIGHT],
                      "it must be below the completion count");
    return check_lists(words, bytes / 2, vocab, path, number, fault);
}

static bool read_header(choices_t *choices, uint32_t *longest, const char *path, FILE *file, fault_t *fault)
{
    uint32_t header[HEADER_INTS];
    size_t got = fread(header, 1, sizeof header, file);
    if (got != sizeof header)
        return refuse(fault, path, -1, "the header's length", got, "it must be 1024 bytes");
    if (header[0] != MAGIC)
        return refuse(fault, path, -1, "magic", header[0], "of such questions it is 20240522");
    if (header[1] != 1)
        return refuse(fault, path, -1, "version", header[1], "it must be 1");
    if (header[2] == 0 || header[2] > EXAMPLES_MOST)
        return refuse(fault, path, -1, "example count", header[2], "it must be between 1 and 65536");
    choices->count = (int)header[2];
    *longest = header[3];
    return true;
}

/* What follows the header, as whole words. */
static bool read_words(choices_t *choices, size_t *count, const char *path, FILE *file, fault_t *fault)
{
    off_t end = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    if (end < 0)
        return fault_set(fault, "--choices %s: %s", path, strerror(errno));
    uint64_t bytes = (uint64_t)end - HEADER_INTS * sizeof(uint32_t);
    if (bytes % 2 != 0 || bytes > EXAMPLES_MOST * (uint64_t)START)
        return refuse(fault, path, -1, "the examples' length", bytes, "which no number of examples has");
    *count = (size_t)bytes / 2;
    fseeko(file, HEADER_INTS * (off_t)sizeof(uint32_t), SEEK_SET);
    choices->words = malloc((size_t)bytes + 1);
    choices->first = calloc((size_t)choices->count + 1, sizeof *choices->first);
    if (choices->words == NULL || choices->first == NULL)
        return fault_set(fault, "--choices %s: no memory for its %llu bytes", path,
                         (unsigned long long)bytes);
    if (fread(choices->words, 2, *count, file) != *count)
        return fault_set(fault, "--choices %s: cannot be read to its end", path);
    return true;
}

static bool read_file(choices_t *choices, const char *path, int vocab, FILE *file, fault_t *fault)
{
    uint32_t longest;
    size_t count, most = 0;
    if (!read_header(choices, &longest, path, file, fault) || !read_words(choices, &count, path, file, fault))
        return false;
    for (int i = 0; i < choices->count; i++) {
        const uint16_t *words = choices->words + choices->first[i];
        if (!check_example(words, count - choices->first[i], vocab, path, i, fault))
            return false;
        choices->first[i + 1] = choices->first[i] + words[WORD_BYTES] / 2;
        most = most > words[WORD_BYTES] ? most : words[WORD_BYTES];
    }
    if (choices->first[choices->count] != count)
        return refuse(fault, path, -1, "example count", (uint64_t)choices->count,
                      "but more follows the last one");
    if (longest != most)
        return refuse(fault, path, -1, "longest example", longest, "not the bytes of the longest one");
    return true;
}

bool choices_open(choices_t *choices, const char *path, int vocab, fault_t *fault)
{
    *choices = (choices_t){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fault_set(fault, "--choices %s: %s", path, strerror(errno));
    bool good = read_file(choices, path, vocab, file, fault);
    fclose(file);
    if (!good)
        choices_close(choices);
    return good;
}

void choices_close(choices_t *choices)
{
    free(choices->words);
    free(choices->first);
    *choices = (choices_t){0};
}

example_t choices_example(const choices_t *choices, int number)
{
    const uint16_t *words = choices->words + choices->first[number];
    example_t example = {.right = words[WORD_RIGHT],
                         .completions = words[WORD_COMPLETIONS],
                         .context_length = words[WORD_CONTEXT],
                         .context = words + WORD_TOKENS};
    const uint16_t *at = example.context + example.context_length;
    for (int i = 0; i < example.completions; i++) {
        example.lengths[i] = *at++;
        example.tokens[i] = at;
        at += example.lengths[i];
    }
    return example;
}
