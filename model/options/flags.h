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

/* Which command knows a flag. */
typedef enum flag_use {
    OF_TRAINING,
    OF_PRESET, /* of a training; --model sets it too */
    OF_BOTH,
    OF_GENERATE
} flag_use_t;

typedef struct flag {
    const char *group, *name;
    flag_type_t type;
    size_t field;
    const char *initial; /* default, as text; NULL: none */
    double least, most;  /* of numbers */
    const char *unit;    /* what the value is, for --help; of a choice: the words, separated by '|' */
    const char *help;
    flag_use_t use;
} flag_t;

extern const flag_t flag_table[]; /* [flag_count], a group's flags together; a command has a name once */
extern const size_t flag_count;

bool flag_is_of(const flag_t *flag, command_t command);

/* NULL: the command has none of that name. */
const flag_t *flag_find(command_t command, const char *name);

/* The place of `word` among `words`, separated by '|', or -1. */
int flag_choice(const char *words, const char *word);

#endif
