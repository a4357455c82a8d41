#include "model/data/tokenizer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { KIND_SPACE, KIND_LETTER, KIND_DIGIT, KIND_OTHER } kind_t;

/* Of ASCII as GPT-2 divides it; what is not ASCII counts as a letter. */
static kind_t kind_of(unsigned char c)
{
    if (c == ' ' || (c >= '\t' && c <= '\r'))
        return KIND_SPACE;
    if (c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return KIND_LETTER;
    return c >= '0' && c <= '9' ? KIND_DIGIT : KIND_OTHER;
}

static size_t run_of(const unsigned char *text, size_t length, kind_t kind)
{
    size_t n = 0;
    while (n < length && kind_of(text[n]) == kind)
        n++;
    return n;
}

static size_t contraction(const unsigned char *text, size_t length)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (n <= length && memcmp(text, endings[i], n) == 0)
            return n;
    }
    return 0;
}

/* Length of the first piece of a text that is not empty. */
static size_t piece_of(const unsigned char *text, size_t length)
{
    size_t n = contraction(text, length);
    if (n > 0)
        return n;
    size_t space = text[0] == ' ' && length > 1 && kind_of(text[1]) != KIND_SPACE;
    kind_t kind = kind_of(text[space]);
    if (kind != KIND_SPACE)
        return space + run_of(text + space, length - space, kind);
    n = run_of(text, length, KIND_SPACE); /* its last one belongs to what follows, if anything */
    return n < length && n > 1 ? n - 1 : n;
}

/* The place k of tokens[count] whose joining with k + 1 gives the least token, or -1. */
static long best_pair(const tokenizer_t *tokenizer, const int *tokens, size_t count, int *joined)
{
    long best = -1;
    *joined = INT_MAX;
    for (size_t k = 0; k + 1 < count; k++) {
        unsigned char both[2 * TOKEN_MAX_BYTES];
        size_t left, right;
        const unsigned char *bytes = tokenizer_decode(tokenizer, tokens[k], &left);
        memcpy(both, bytes, left);
        bytes = tokenizer_decode(tokenizer, tokens[k + 1], &right);
        memcpy(both + left, bytes, right);
        int token = tokenizer_find(tokenizer, both, left + right);
        if (token >= 0 && token < *joined) {
            *joined = token;
            best = (long)k;
        }
    }
    return best;
}

static bool encode_piece(const tokenizer_t *tokenizer, const unsigned char *piece, size_t length, int *tokens,
                         size_t *count)
{
    for (size_t i = 0; i < length; i++) {
        tokens[i] = tokenizer_find(tokenizer, piece + i, 1);
        if (tokens[i] < 0)
            return false;
    }
    int joined;
    for (long k; (k = best_pair(tokenizer, tokens, length, &joined)) >= 0; length--) {
        tokens[k] = joined;
        memmove(tokens + k + 1, tokens + k + 2, (length - (size_t)k - 2) * sizeof *tokens);
    }
    *count = length;
    return true;
}

bool tokenizer_encode(const tokenizer_t *tokenizer, const char *text, size_t length, int *tokens,
                      size_t *count)
{
    const unsigned char *at = (const unsigned char *)text;
    *count = 0;
    while (length > 0) {
        size_t n = piece_of(at, length), written;
        if (!encode_piece(tokenizer, at, n, tokens + *count, &written))
            return false;
        *count += written;
        at += n;
        length -= n;
    }
    return true;
}
