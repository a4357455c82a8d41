/* help.h: the table of flags for people. */
#ifndef EBB_MODEL_HELP_H
#define EBB_MODEL_HELP_H

/* --help: on stdout. */
void help_print(void);

#endif
