/* tokenizer.h: what tokens say, as bytes, and the tokens of a prompt.
 *
 * Bytes: token i is the byte i, 256 of them.
 *
 * A tokenizer file, as llm.c writes it for GPT-2: 256 little-endian uint32: magic 20240328, version, token count,
 * and in version 2 the number of the token that ends a text (version 1 is GPT-2's: 50257 tokens, the last one
 * ends a text); then each token: one byte with its length, at least 1, and so many bytes. The file ends with the
 * last token.
 *
 * Encoding is byte-pair encoding (Sennrich, Haddow, Birch, arXiv:1508.07909) over bytes, as in GPT-2: the text
 * falls into pieces (letters, digits or other characters, each with at most one space before it; the contractions
 * 's 't 're 've 'm 'll 'd; white space); in each, the two neighbours whose joined bytes are the token with the
 * least number are joined, until none are. So a token's number must be its rank, as it is in GPT-2's vocabulary.
 * Bytes above 127 count as letters: what is exact for ASCII may be a longer encoding of the same text elsewhere.
 */
#ifndef EBB_MODEL_DATA_TOKENIZER_H
#define EBB_MODEL_DATA_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "model/base/fault.h"

#define TOKEN_MAX_BYTES 255

typedef struct tokenizer {
    int count;            /* tokens */
    int end;              /* the token that ends a text and begins the next; of bytes: the new line */
    size_t *first;        /* owns [count + 1]: where in bytes each token begins */
    unsigned char *bytes; /* owned */
    int *table;           /* owns [table_size]: the tokens by a hash of their bytes, -1: none */
    size_t table_size;    /* a power of two */
} tokenizer_t;

/* Reads a file; path NULL: bytes. */
bool tokenizer_open(tokenizer_t *tokenizer, const char *path, fault_t *fault);
void tokenizer_close(tokenizer_t *tokenizer);

/* The bytes of a token, borrowed, and how many; of a number that is no token: none. */
const unsigned char *tokenizer_decode(const tokenizer_t *tokenizer, int token, size_t *length);

/* The token with these bytes, or -1. Of several, the one with the least number. */
int tokenizer_find(const tokenizer_t *tokenizer, const unsigned char *bytes, size_t length);

/* Writes the tokens of text[length] to tokens[length], which is always enough, and their number to *count. False
 * if a byte of the text is no token. (encode.c) */
bool tokenizer_encode(const tokenizer_t *tokenizer, const char *text, size_t length, int *tokens,
                      size_t *count);

#endif
