/* flags.h: the table of the command line, and what is asked of it. Internal to options.c, flags.c and help.c. */
#ifndef EBB_MODEL_FLAGS_H
#define EBB_MODEL_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/options/options.h"

typedef enum flag_type {
    FLAG_COUNT,
    FLAG_REAL,
    FLAG_SEED,
    FLAG_TEXT,
    FLAG_OPTIONAL,
    FLAG_CHOICE,
    FLAG_SWITCH
} flag_type_t;

typedef struct flag {
    const char *group, *name;
    flag_type_t type;
    size_t field;
    const char *initial; /* default, as text; NULL: none */
    double least, most;  /* of numbers */
    const char *unit;    /* what the value is, for --help; of a choice: the words, separated by '|' */
    const char *help;
    bool from_preset; /* --model sets it too */
} flag_t;

extern const flag_t flag_table[]; /* [flag_count], a group's flags together */
extern const size_t flag_count;

/* NULL: there is none of that name. */
const flag_t *flag_find(const char *name);

/* The place of `word` among `words`, separated by '|', or -1. */
int flag_choice(const char *words, const char *word);

#endif
