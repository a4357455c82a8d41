#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "rng.h"

static unsigned char *read_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        usage_error("--data %s: %s", path, strerror(errno));
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode))
        usage_error("--data %s: not a regular file", path);
    *count = (size_t)status.st_size;
    unsigned char *bytes = malloc(*count + 1);
    if (bytes == NULL)
        fatal("--data %s: no memory for its %zu bytes", path, *count);
    if (fread(bytes, 1, *count, file) != *count)
        usage_error("--data %s: cannot be read to its end", path);
    fclose(file);
    return bytes;
}

/* A training sequence and one held-out target with the token before it. */
static bool long_enough(size_t count, int T)
{
    return count / 20 >= 2 && count - count / 20 >= (size_t)T + 1;
}

void corpus_open(corpus_t *corpus, const char *path, int T)
{
    corpus->bytes = read_file(path, &corpus->count);
    corpus->train_count = corpus->count - corpus->count / 20;
    if (long_enough(corpus->count, T))
        return;
    size_t least = (size_t)T + 1;
    while (!long_enough(least, T))
        least++;
    usage_error("--data %s: a text of %zu bytes is too short for a context of %d tokens, which needs %zu: "
                "use a longer "
                "text or a smaller --context",
                path, corpus->count, T, least);
}

void corpus_close(corpus_t *corpus)
{
    free(corpus->bytes);
    *corpus = (corpus_t){0};
}

size_t corpus_sequence_start(const corpus_t *corpus, uint64_t seed, uint64_t q, int T)
{
    uint64_t key = rng_at(seed, RNG_BATCH);
    return (size_t)(rng_at(key, q) % (corpus->train_count - (size_t)T));
}

void corpus_sequence(const corpus_t *corpus, size_t start, int T, int *inputs, int *targets)
{
    const unsigned char *bytes = corpus->bytes + start;
    for (int t = 0; t < T; t++) {
        inputs[t] = bytes[t];
        targets[t] = bytes[t + 1];
    }
}

size_t corpus_held_out_batches(const corpus_t *corpus, int B, int T)
{
    size_t targets = corpus->count - corpus->train_count - 1;
    size_t rows = targets / (size_t)T;
    return (rows + (size_t)B - 1) / (size_t)B + (targets % (size_t)T != 0);
}

held_out_batch_t corpus_held_out_batch(const corpus_t *corpus, size_t index, int B, int T)
{
    size_t targets = corpus->count - corpus->train_count - 1;
    size_t rows = targets / (size_t)T;
    size_t row = index * (size_t)B;
    if (row >= rows)
        return (held_out_batch_t){corpus->train_count + rows * (size_t)T, 1, (int)(targets % (size_t)T)};
    size_t left = rows - row;
    return (held_out_batch_t){corpus->train_count + row * (size_t)T, left < (size_t)B ? (int)left : B, T};
}

int token_index_build(token_index_host_t index, const int *tokens, int N, int V, int *workspace)
{
    int *rows = workspace; /* of each class: how many, later where the next one goes */
    memset(rows, 0, (size_t)V * sizeof *rows);
    int occurring = 0;
    for (int n = 0; n < N; n++)
        occurring += rows[tokens[n]]++ == 0;

    int count = N < V ? N : V;
    int fill = count - occurring; /* classes without rows still to be listed */
    int k = 0, first = 0;
    for (int v = 0; v < V && k < count; v++) {
        if (rows[v] == 0 && fill-- <= 0)
            continue;
        index.token[k] = v;
        index.first[k++] = first;
        int next = first + rows[v];
        rows[v] = first;
        first = next;
    }
    index.first[count] = N;
    for (int n = 0; n < N; n++)
        index.order[rows[tokens[n]]++] = n;
    return count;
}
