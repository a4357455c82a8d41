/* runner.h: the listener that makes the library out of its rooms; see runner.c. */
#ifndef EBB_RUNNER_H
#define EBB_RUNNER_H

#include <stddef.h>
#include <stdint.h>

typedef struct ebb_steps {
    uint64_t operations;  /* of the program, so far */
    uint64_t completed;   /* steps that went as known */
    uint64_t interrupted; /* that did not */
    size_t period;        /* operations of the known step; 0: none */
} ebb_steps_t;
ebb_steps_t ebb_steps(void);

#endif
