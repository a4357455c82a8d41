/* fault.h: why a file is refused: one line that names the file and the field in it.
 *
 * Whoever reads a file returns false and leaves the line here. The program then ends through usage_error();
 * tests look at the line. Needs no CUDA.
 */
#ifndef EBB_MODEL_FAULT_H
#define EBB_MODEL_FAULT_H

#include <stdbool.h>

typedef struct fault {
    char text[768];
} fault_t;

void fault_write(fault_t *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, behind what is there already. */
void fault_append(fault_t *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the line and is false, so that a reader can return it. A macro, so that the compiler sees that. */
#define fault_set(fault, ...) (fault_write((fault), __VA_ARGS__), false)

#endif
