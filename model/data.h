/* data.h: a text as tokens, and which of them a batch takes. Host only; needs no device.
 *
 *   corpus     a file's bytes, each byte one token. The last 5% (rounded down) are held out, the rest is for
 * training. sequence   T+1 consecutive tokens: T inputs, and T targets that lie one further. row        n =
 * b*T + t, as in kernels.h.
 *
 * Training sequence number q starts at a place that depends on (seed, q) alone. So a step of 8 sequences sees
 * the same text whether it runs as one micro-batch of 8 or as 8 of one.
 */
#ifndef EBB_MODEL_DATA_H
#define EBB_MODEL_DATA_H

#include <stddef.h>
#include <stdint.h>

#define BYTE_CLASSES 256 /* classes that the byte-level tokenizer uses */

typedef struct corpus {
    unsigned char *bytes; /* owned */
    size_t count;         /* all tokens */
    size_t train_count;   /* the first so many are for training, the others held out */
} corpus_t;

/* Reads a file. A file that cannot be read, or is too short for a training sequence and one held-out target,
 * ends the program through usage_error(). */
void corpus_open(corpus_t *corpus, const char *path, int T);
void corpus_close(corpus_t *corpus);

/* The first token of training sequence q: in [0, train_count - T). */
size_t corpus_sequence_start(const corpus_t *corpus, uint64_t seed, uint64_t q, int T);

/* inputs[T] and targets[T] of the sequence that starts at `start`. */
void corpus_sequence(const corpus_t *corpus, size_t start, int T, int *inputs, int *targets);

/* One batch of the held-out part. The batches, in order, predict each held-out token but the first exactly
 * once: rows of T, as many as fit; then one batch [1, rest] with what is left over, if anything. */
typedef struct held_out_batch {
    size_t start; /* first input token of its first row; rows follow one another */
    int B, T;
} held_out_batch_t;

size_t corpus_held_out_batches(const corpus_t *corpus, int B, int T);
held_out_batch_t corpus_held_out_batch(const corpus_t *corpus, size_t index, int B, int T);

/* The token_index of kernels.h on the host: the rows of a batch, sorted by class.
 * Always min(N, V) classes, so that every batch's launches look alike: classes that do not occur fill up,
 * with no rows. */
typedef struct token_index_host {
    int *token; /* [min(N, V)] distinct classes */
    int *first; /* [min(N, V) + 1] */
    int *order; /* [N] */
} token_index_host_t;

/* workspace[V] ints. All arrays belong to the caller. Returns min(N, V). */
int token_index_build(token_index_host_t index, const int *tokens, int N, int V, int *workspace);

#endif
