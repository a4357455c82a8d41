/* help.h: the table of flags for people. */
#ifndef EBB_MODEL_HELP_H
#define EBB_MODEL_HELP_H

#include "model/options/options.h"

/* A command's --help: on stdout. */
void help_print(command_t command);

#endif
