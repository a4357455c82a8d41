/* plan_show.h: `ebb plan` and `ebb check`: making and proving plans without a device. */
#ifndef EBB_PLAN_SHOW_H
#define EBB_PLAN_SHOW_H

/* The words after the command. Exit codes: 0 a good plan, 1 none, 2 the command line or a file is wrong. */
int ebb_plan_command(int argc, char **argv);
int ebb_check_command(int argc, char **argv);

#endif
