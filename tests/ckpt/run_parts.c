/* run_parts.c: ebb_run_open for tests that link some of ckpt/run: the parts of the files that are there. */
#include <stdlib.h>

#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

#define EBB_RUN_PART(part, count) extern const size_t ebb_part_##part __attribute__((weak));
EBB_RUN_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART

bool ebb_run_open(ebb_t *ebb)
{
    ebb->run = calloc(1, sizeof *ebb->run);
#define EBB_RUN_PART(part, count)                                                                            \
    if (&ebb_part_##part)                                                                                    \
        ebb->run->part = calloc(count, ebb_part_##part);
    EBB_RUN_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART
    return true;
}
