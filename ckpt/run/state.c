
#include <stdlib.h>

#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

#define EBB_RUN_PART(part, count) extern const size_t ebb_part_##part;
EBB_RUN_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART

bool ebb_run_open(ebb_t *ebb)
{
    struct ebb_run *run = calloc(1, sizeof *run);
    bool good = run != NULL;
#define EBB_RUN_PART(part, count) good = good && (run->part = calloc(count, ebb_part_##part));
    EBB_RUN_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART
    ebb->run = run;
    return good;
}
