/* data.h: tokens in files, and which of them the training sees. Host only; needs no CUDA.
 *
 *   token      a number below the model's count of classes
 *   text       a file whose bytes are the tokens
 *   shard      a file of tokens as llm.c writes it: 256 little-endian int32, of which the first three are magic,
 *              version and token count, the others unused; then the tokens. Magic 20240520 and version 1: uint16
 *              each; 20240801 and 7: uint32 each. The file ends with the last token.
 *   dataset    one text, or any number of shards of one form; its tokens are numbered through, in the order of
 *              the files' names
 *   sequence   T+1 consecutive tokens: T inputs, and T targets that lie one further
 *   document   with --pack no: tokens up to an end token, which is its last; without one, to the end of its file. As a sequence it has
 *              as many inputs as tokens less one; what is longer than T is several sequences. One of a single token is none
 *   row        n = b*T + t, as in kernels.h
 *   held out   tokens kept from training: a dataset of their own (--eval-data), else the last 5% (rounded down) of
 *              a text, and of shards the last 5%, at most 2^20
 *
 * Which sequence comes when. Training sequence number q depends on the files, the seed, T and q alone: so a
 * step of 8 sequences sees the same tokens whether it runs as one micro-batch of 8 or as 8 of one, and q is all
 * that has to be remembered of a place in the data.
 *   Text: sequence q starts at token rng_at(key, q) mod (training tokens - T); key = rng_at(seed, RNG_BATCH).
 *   Shards: each has floor((training tokens - 1) / T) sequences that overlap in one token; an epoch is all of all
 *     shards, n in number, each once. Epoch e = floor(q / n) takes them in the order that order_of(rng_at(key,
 *     e), n) gives (order.h). What does not fill a sequence is left out, at a shard's beginning or end: its
 *     sequences start rng_at(rng_at(key, e), 2^32 + shard) mod (tokens left out + 1) tokens late, so that no token
 *     is left out of all epochs.
 *   Documents: an epoch is all of the training tokens' sequences, each once, in the order as of shards.
 *
 * Sizes are 64-bit: files may be of any length. Files are read where they are needed; at no time is one in
 * memory as a whole. Threads: a dataset that is open may be read by several at once.
 */
#ifndef EBB_MODEL_DATA_DATA_H
#define EBB_MODEL_DATA_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "model/base/fault.h"

typedef enum data_kind {
    DATA_AUTO, /* shards by their magic; text, if its beginning has no zero byte; all else is refused */
    DATA_TEXT, /* any file is a text */
    DATA_TOKENS
} data_kind_t;

typedef struct shard {
    char *path;      /* owned */
    int file;        /* owned descriptor */
    uint64_t first;  /* number of its first token */
    uint64_t count;  /* tokens */
    uint64_t spare;  /* training tokens that its sequences leave out */
    uint64_t number; /* of its first sequence in an unshuffled epoch */
    uint64_t sequences;
} shard_t;

typedef struct document {
    uint64_t start; /* its first token */
    int rows;       /* 1 .. T */
} document_t;

typedef struct dataset {
    const char *flag; /* that named it, for messages: "--data" */
    shard_t *shards;  /* owned */
    int shard_count;
    int token_bytes;       /* 1: a text */
    int vocab;             /* a token that is not below it is refused */
    uint64_t header_bytes; /* of each shard */
    uint64_t count;        /* tokens */
    uint64_t train_count;  /* the first so many are for training */
    uint64_t sequences;    /* shards and documents: in an epoch */
    int T;
    document_t *documents; /* owned [sequences]; NULL: all sequences have T rows */
    int end;               /* token */
} dataset_t;

/* Opens the files that `path` names: a file, or a pattern as the shell's (glob(3)). The dataset borrows `flag`. */
bool dataset_open(dataset_t *data, const char *flag, const char *path, data_kind_t kind, int vocab,
                  fault_t *fault);
void dataset_close(dataset_t *data);

/* Divides it into a part for training sequences of T tokens and a held-out one; `all` takes all for training.
 * False if either part is too short. */
bool dataset_split(dataset_t *data, int T, bool all, fault_t *fault);

/* Divided, its training part is one of documents from now on, each ended by the token `end`: reads all of it, and keeps 16 bytes a sequence.
 * False also if there is none. */
bool dataset_find_documents(dataset_t *data, int end, fault_t *fault);

/* Tokens first .. first+count-1, across files. */
bool dataset_read(const dataset_t *data, uint64_t first, size_t count, int *tokens, fault_t *fault);

/* The first token of training sequence q, and how many rows it has. */
uint64_t dataset_sequence_start(const dataset_t *data, uint64_t seed, uint64_t q);
int dataset_sequence_rows(const dataset_t *data, uint64_t seed, uint64_t q);

/* inputs[T] and targets[T] of the T+1 tokens from `start` on. */
bool dataset_sequence(const dataset_t *data, uint64_t start, int T, int *inputs, int *targets,
                      fault_t *fault);

/* A hash of the files' form, lengths and first 4096 bytes, not of their names, and of what documents end with: equal for data that a training
 * can be resumed with. */
bool dataset_fingerprint(const dataset_t *data, uint64_t *hash, fault_t *fault);

/* ---- held-out tokens (held_out.c) ---- */

typedef struct held_out {
    const dataset_t *data; /* borrowed */
    uint64_t first, count; /* tokens */
} held_out_t;

/* Those of `separate`, if it is not NULL, else those that dataset_split() kept back. */
held_out_t held_out_of(const dataset_t *training, const dataset_t *separate);

/* The batches, in order, predict each held-out token but the first exactly once: rows of T, as many as fit; then
 * one batch [1, rest] with what is left over, if anything. */
typedef struct held_out_batch {
    uint64_t start; /* first input token of its first row; rows follow one another */
    int B, T;
} held_out_batch_t;

uint64_t held_out_batches(const held_out_t *held_out, int B, int T);
held_out_batch_t held_out_batch(const held_out_t *held_out, uint64_t index, int B, int T);

/* inputs[B,T] and targets[B,T] of one of them. */
bool held_out_read(const held_out_t *held_out, held_out_batch_t batch, int *inputs, int *targets,
                   fault_t *fault);

#endif
