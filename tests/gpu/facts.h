/* facts.h: what the questions of facts.c share. */
#ifndef FACTS_H
#define FACTS_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* Opens the device and loads facts_kernels.fatbin, whose kernels are not loaded by that. */
CUmodule facts_open_module(void);
const char *facts_module_path(void);
double facts_wall_us(void);
/* `part(context)` in a child, which answers by itself; one that cannot is answered for: "fact NAME signal 11". */
void facts_ask_in_child(const char *name, void (*part)(const void *context), const void *context);

/* facts_waits.c */
void facts_ask_waits(void);

#endif
