/* mismatch.c: see replay.h. */
#include "ckpt/run/replay/replay.h"

#include <string.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/drive/drive.h"

void ebb_content_lost(ebb_t *ebb, uint32_t buffer, const char *why)
{
    ebb_log(EBB_WARN, "the content of buffer %u of the step is lost: %s", buffer, why);
    ebb_fail_program(ebb);
}

void ebb_mismatch(ebb_t *ebb, ebb_trace_t *trace, uint32_t operation, uint32_t buffer, bool has_copy)
{
    ebb_trace_operation_t *o = &trace->operation[operation];
    o->proofs = 0;
    o->verdict = EBB_DIFFERS;
    ebb_drive_refute(ebb);
    ebb_log(EBB_WARN,
            "buffer %u, recomputed by %s (operation %u), has other bits: it is not recomputed any more",
            buffer, o->name, operation);
    if (has_copy)
        return;
    if (!strcmp(ebb_options.on_mismatch, "warn"))
        ebb_log(EBB_WARN, "going on with other bits (EBB_ON_MISMATCH=warn)");
    else
        ebb_content_lost(ebb, buffer, "it was recomputed with other bits, and no copy was left");
}
