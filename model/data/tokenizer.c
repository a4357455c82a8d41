#include "model/data/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         20240328
#define HEADER_INTS   256
#define GPT2_COUNT    50257
#define BYTE_COUNT    256
#define LARGEST_COUNT (1 << 24)

static bool refuse(fault_t *fault, const char *path, const char *field, uint64_t value, const char *rule)
{
    return fault_set(fault, "--tokenizer %s: %s is %llu, %s", path, field, (unsigned long long)value, rule);
}

static size_t hash_of(const unsigned char *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 32);
}

const unsigned char *tokenizer_decode(const tokenizer_t *tokenizer, int token, size_t *length)
{
    if (token < 0 || token >= tokenizer->count) {
        *length = 0;
        return (const unsigned char *)"";
    }
    *length = tokenizer->first[token + 1] - tokenizer->first[token];
    return tokenizer->bytes + tokenizer->first[token];
}

/* Where a token with these bytes is in the table, or would go. */
static size_t place_of(const tokenizer_t *tokenizer, const unsigned char *bytes, size_t length)
{
    size_t place = hash_of(bytes, length) & (tokenizer->table_size - 1);
    while (tokenizer->table[place] >= 0) {
        size_t other_length;
        const unsigned char *other = tokenizer_decode(tokenizer, tokenizer->table[place], &other_length);
        if (other_length == length && memcmp(other, bytes, length) == 0)
            break;
        place = (place + 1) & (tokenizer->table_size - 1);
    }
    return place;
}

int tokenizer_find(const tokenizer_t *tokenizer, const unsigned char *bytes, size_t length)
{
    return tokenizer->table[place_of(tokenizer, bytes, length)];
}

/* The first of equal tokens stays. */
static void fill_table(tokenizer_t *tokenizer)
{
    for (size_t i = 0; i < tokenizer->table_size; i++)
        tokenizer->table[i] = -1;
    for (int token = 0; token < tokenizer->count; token++) {
        size_t length;
        const unsigned char *bytes = tokenizer_decode(tokenizer, token, &length);
        size_t place = place_of(tokenizer, bytes, length);
        if (tokenizer->table[place] < 0)
            tokenizer->table[place] = token;
    }
}

static bool allocate(tokenizer_t *tokenizer, size_t bytes, fault_t *fault)
{
    size_t count = (size_t)tokenizer->count;
    tokenizer->table_size = 2;
    while (tokenizer->table_size < 2 * count)
        tokenizer->table_size *= 2;
    tokenizer->first = calloc(count + 1, sizeof *tokenizer->first);
    tokenizer->bytes = malloc(bytes);
    tokenizer->table = calloc(tokenizer->table_size, sizeof *tokenizer->table);
    if (tokenizer->first == NULL || tokenizer->bytes == NULL || tokenizer->table == NULL)
        return fault_set(fault, "no memory for a tokenizer of %d tokens", tokenizer->count);
    return true;
}

static bool read_header(tokenizer_t *tokenizer, const char *path, FILE *file, fault_t *fault)
{
    uint32_t header[HEADER_INTS];
    size_t got = fread(header, 1, sizeof header, file);
    if (got != sizeof header)
        return refuse(fault, path, "the header's length", got, "it must be 1024 bytes");
    if (header[0] != MAGIC)
        return refuse(fault, path, "magic", header[0], "of a tokenizer it is 20240328");
    if (header[1] != 1 && header[1] != 2)
        return refuse(fault, path, "version", header[1], "it must be 1 or 2");
    if (header[2] == 0 || header[2] > LARGEST_COUNT)
        return refuse(fault, path, "token count", header[2], "it must be between 1 and 16777216");
    if (header[1] == 1 && header[2] != GPT2_COUNT)
        return refuse(fault, path, "token count", header[2], "in version 1 it must be 50257");
    tokenizer->count = (int)header[2];
    uint32_t end = header[1] == 1 ? GPT2_COUNT - 1 : header[3];
    if (end >= header[2])
        return refuse(fault, path, "end-of-text token", end, "it must be below the token count");
    tokenizer->end = (int)end;
    return true;
}

static bool read_tokens(tokenizer_t *tokenizer, const char *path, FILE *file, fault_t *fault)
{
    size_t at = 0;
    for (int token = 0; token < tokenizer->count; token++) {
        int length = getc(file);
        if (length == EOF)
            return refuse(fault, path, "token count", (uint64_t)tokenizer->count,
                          "but the file ends before so many tokens");
        if (length == 0)
            return refuse(fault, path, "a token's length", 0, "each has at least one byte");
        if (fread(tokenizer->bytes + at, 1, (size_t)length, file) != (size_t)length)
            return refuse(fault, path, "the last token's length", (uint64_t)length,
                          "but the file ends before");
        at += (size_t)length;
        tokenizer->first[token + 1] = at;
    }
    if (getc(file) != EOF)
        return refuse(fault, path, "token count", (uint64_t)tokenizer->count,
                      "but more follows the last token");
    return true;
}

static bool read_file(tokenizer_t *tokenizer, const char *path, FILE *file, fault_t *fault)
{
    if (!read_header(tokenizer, path, file, fault) || fseeko(file, 0, SEEK_END) != 0)
        return fault->text[0] != '\0' ? false : fault_set(fault, "--tokenizer %s: %s", path, strerror(errno));
    off_t bytes = ftello(file);
    if (bytes / 2 < tokenizer->count + HEADER_INTS * 2) /* before memory is asked for */
        return refuse(fault, path, "token count", (uint64_t)tokenizer->count,
                      "but the file is too short for so many tokens");
    fseeko(file, HEADER_INTS * (off_t)sizeof(uint32_t), SEEK_SET);
    if (!allocate(tokenizer, (size_t)bytes, fault) || !read_tokens(tokenizer, path, file, fault))
        return false;
    fill_table(tokenizer);
    return true;
}

static bool open_bytes(tokenizer_t *tokenizer, fault_t *fault)
{
    tokenizer->count = BYTE_COUNT;
    tokenizer->end = '\n';
    if (!allocate(tokenizer, BYTE_COUNT, fault))
        return false;
    for (int i = 0; i < BYTE_COUNT; i++) {
        tokenizer->bytes[i] = (unsigned char)i;
        tokenizer->first[i + 1] = (size_t)i + 1;
    }
    fill_table(tokenizer);
    return true;
}

bool tokenizer_open(tokenizer_t *tokenizer, const char *path, fault_t *fault)
{
    *tokenizer = (tokenizer_t){0};
    fault->text[0] = '\0';
    bool good;
    if (path == NULL) {
        good = open_bytes(tokenizer, fault);
    } else {
        FILE *file = fopen(path, "rb");
        if (file == NULL)
            return fault_set(fault, "--tokenizer %s: %s", path, strerror(errno));
        good = read_file(tokenizer, path, file, fault);
        fclose(file);
    }
    if (!good)
        tokenizer_close(tokenizer);
    return good;
}

void tokenizer_close(tokenizer_t *tokenizer)
{
    free(tokenizer->first);
    free(tokenizer->bytes);
    free(tokenizer->table);
    *tokenizer = (tokenizer_t){0};
}
