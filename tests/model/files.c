#define _GNU_SOURCE
#include "files.h"

#include <ftw.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/rng.h"
#include "model/files/state.h"

static char folder[64];

const char *files_path(char path[256], const char *name)
{
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/ebb-files-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

void files_clean(void)
{
    if (folder[0] != '\0')
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}

int files_teardown(void **state)
{
    (void)state;
    files_clean();
    return 0;
}

void files_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

unsigned char *files_read(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

uint32_t files_draw(uint64_t seed, uint64_t n, uint32_t bound)
{
    return (uint32_t)(rng_at(seed, n) % bound);
}

static FILE *begin(const char *path, uint32_t magic, uint32_t version, uint32_t count, uint32_t fourth)
{
    uint32_t header[256] = {magic, version, count, fourth};
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, sizeof header, 1, file), 1);
    return file;
}

void files_shard(const char *path, const uint32_t *tokens, size_t count, int token_bytes)
{
    FILE *file =
        begin(path, token_bytes == 2 ? 20240520 : 20240801, token_bytes == 2 ? 1 : 7, (uint32_t)count, 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fwrite(&tokens[i], (size_t)token_bytes, 1, file), 1); /* little-endian */
    assert_int_equal(fclose(file), 0);
}

void files_tokenizer(const char *path, uint32_t version, const char *const *texts, uint32_t count,
                     uint32_t end)
{
    FILE *file = begin(path, 20240328, version, count, version == 2 ? end : 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(fputc((int)strlen(texts[i]), file) != EOF);
        assert_true(fputs(texts[i], file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
}

void files_story(char data[256], char tokenizer[256])
{
    enum { TOKENS = 4000 };
    static const char *const texts[] = {"<end>", " once", " upon", " a", " time", "o",
                                        "n",     "c",     "e",     " ",  "on",    "once"};
    static uint32_t tokens[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = 1 + i % 4;
    files_shard(files_path(data, "story.bin"), tokens, TOKENS, 2);
    files_tokenizer(files_path(tokenizer, "tokens.bin"), 2, texts, 12, 0);
}

typedef struct words {
    uint16_t words[4096];
    size_t count;
} words_t;

static void put(words_t *w, uint32_t word)
{
    assert_true(w->count < sizeof w->words / sizeof *w->words);
    w->words[w->count++] = (uint16_t)word;
}

/* A length and so many tokens. */
static void put_list(words_t *w, uint64_t seed, uint32_t vocab)
{
    uint32_t length = 1 + files_draw(seed, 0, 20);
    put(w, length);
    for (uint32_t i = 0; i < length; i++)
        put(w, files_draw(seed, 1 + i, vocab));
}

void files_choices(const char *path, uint64_t seed, int count, int vocab)
{
    FILE *file = begin(path, 20240522, 1, (uint32_t)count, 0);
    uint32_t longest = 0;
    for (int i = 0; i < count; i++) {
        words_t w = {.count = 0};
        uint64_t key = rng_at(seed, (uint64_t)i);
        uint32_t completions = 2 + files_draw(key, 0, 3);
        put(&w, 65535);
        put(&w, 0);
        put(&w, (uint32_t)i);
        put(&w, files_draw(key, 1, completions));
        put(&w, completions);
        for (uint32_t list = 0; list <= completions; list++)
            put_list(&w, rng_at(key, 2 + list), (uint32_t)vocab);
        w.words[1] = (uint16_t)(2 * w.count);
        longest = longest > w.words[1] ? longest : w.words[1];
        assert_int_equal(fwrite(w.words, 2, w.count, file), w.count);
    }
    assert_int_equal(fseek(file, 12, SEEK_SET), 0);
    assert_int_equal(fwrite(&longest, 4, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

void files_state(const char *path)
{
    state_file_t state;
    fault_t fault;
    static const uint64_t counts[] = {10, 20, 30};
    float floats[FILES_STATE_FLOATS];
    for (int i = 0; i < FILES_STATE_FLOATS; i++)
        floats[i] = (float)i;
    assert_true(
        state_create(&state, path, &fault) && state_put_count(&state, "step", 100, &fault) &&
        state_put_real(&state, "lr", 0.5, &fault) && state_put_counts(&state, "tensors", counts, 3, &fault) &&
        state_put_floats(&state, "m.0", floats, FILES_STATE_FLOATS, &fault) && state_finish(&state, &fault));
}

void files_safetensors(const char *path)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[5,4],\"data_"
        "offsets\":[0,80]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[80,86]},\"none\":{\"dtype\":\"F16\","
        "\"shape\":[0,7],"
        "\"data_offsets\":[86,86]},\"one\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[86,88]}}";
    unsigned char bytes[8 + sizeof header - 1 + 88] = {0};
    uint64_t length = sizeof header - 1;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (uint32_t i = 0; i < 88; i++)
        bytes[8 + length + i] = (unsigned char)i;
    files_write(path, bytes, sizeof bytes);
}
