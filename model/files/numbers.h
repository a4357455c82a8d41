/* numbers.h: the fields of a checkpoint that are one number, and what it means if they differ from this training's. */
#ifndef EBB_MODEL_FILES_NUMBERS_H
#define EBB_MODEL_FILES_NUMBERS_H

#include <stdint.h>

#include "model/files/checkpoint.h"
#include "model/files/state.h"

/* What becomes of a number that differs from this training's. */
typedef enum rule { RULE_EQUAL, RULE_TELL, RULE_TAKE } rule_t;

typedef struct number {
    const char *name;
    rule_t rule;
    bool real;
    double value;    /* real */
    uint64_t count;  /* not real */
    uint64_t *taken; /* RULE_TAKE: where it goes */
} number_t;

enum { NUMBERS_MOST = 40 };

typedef struct numbers {
    number_t list[NUMBERS_MOST];
    int count;
} numbers_t;

/* All of state.bin, in its order. What is taken goes to `place`. */
numbers_t numbers_of(const checkpoint_t *checkpoint, const transformer_t *model, place_t *place);
bool numbers_put(state_file_t *state, const numbers_t *numbers, fault_t *fault);
bool numbers_get(state_file_t *state, const numbers_t *numbers, fault_t *fault);
/* One by itself that says which file it is. */
bool numbers_get_equal(state_file_t *state, const char *name, uint64_t expected, fault_t *fault);

#endif
