/* match_model.h: the naive model of the tracker (ckpt/run/tracker/match.c): where the program is in its step, by comparing the whole of
 * both. Buffers have names here, so that it is known which one a word leads to; the tracker has to find that out. */
#ifndef MATCH_MODEL_H
#define MATCH_MODEL_H

#include "ckpt/run/tracker/tracker.h"

enum { MODEL_WORDS = 3, MODEL_STREAMS = 3 };

typedef struct model_operation {
    unsigned stream, function, grid, count;
    struct {
        unsigned buffer;
        size_t bytes;
    } word[MODEL_WORDS];
} model_operation_t;

typedef struct model_match {
    uint32_t at; /* EBB_NONE: none */
    ebb_match_t match;
} model_match_t;

typedef struct model_sequence {
    const model_operation_t *operation;
    unsigned count;
} model_sequence_t;

/* out[program.count]: the best alignment of the program with the recording, stream by stream, in hindsight: with as many exact ones as
 * can be (two partial ones count for one), of such the one that matches operations earliest. O(recorded x program) steps and bytes. */
void model_align(model_sequence_t recorded, model_sequence_t program, model_match_t *out);

/* out[program.count], aligned before: what may be known when each operation comes (tracker.h): behind some that were left out nothing
 * counts but two exact ones in a row, no further on than the tracker looks, of which the first is taken for an extra; a partial one
 * counts in its place only; and after too many extra ones in a row nothing does. */
void model_follow(model_sequence_t recorded, model_sequence_t program, model_match_t *out);

#endif
