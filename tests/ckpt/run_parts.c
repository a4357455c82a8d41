/* run_parts.c: ebb_run_open for tests that link some of ckpt/run: the parts of the files that are there. */
#include <stdlib.h>

#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

#define EBB_RUN_PART(part) extern const size_t ebb_part_##part __attribute__((weak));
EBB_RUN_PARTS(EBB_RUN_PART)
EBB_RUN_SHARED_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART

#define EBB_RUN_PART(part)                                                                                   \
    if (&ebb_part_##part)                                                                                    \
        run->part = calloc(1, ebb_part_##part);

bool ebb_run_open_device(ebb_device_t *dev)
{
    struct ebb_run *run = dev->run = calloc(1, sizeof *run);
    EBB_RUN_PARTS(EBB_RUN_PART)
    return true;
}

bool ebb_run_open(ebb_t *ebb)
{
    struct ebb_run_shared *run = ebb->run_shared = calloc(1, sizeof *run);
    EBB_RUN_SHARED_PARTS(EBB_RUN_PART)
    return ebb_run_open_device(ebb_no_device(ebb));
}
