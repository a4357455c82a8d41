/* traces.c FOLDER: the traces that the transcripts show: `h100.trace`, of a device that is known, and `unknown.trace`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces.h"

static void write(const ebb_trace_t *t, const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f || !ebb_trace_write(t, f) || fclose(f)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    /* one as compilers write it, and one that is cut off where a trace's names end */
    static const char *const names[] = {
        "_ZN4gemm6kernelIfLi128EEEvPKT_PS1_i", "_ZN12_GLOBAL__N_17softmaxEPfi",
        "_ZN7cutlass6KernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS_"
        "10epilogue10collectiveEvvvvvvvvvvvvvvvvvvvv"};
    const trace_shape_t shape = {.layers = 4,
                                 .width_chunks = 2,
                                 .weight_chunks = 3,
                                 .micro_batches = 1,
                                 .stored_scores = true,
                                 .kernel_ns = 40000};
    ebb_trace_t *t = argc == 2 ? trace_of_transformer(&shape) : NULL;
    if (!t)
        return 1;
    for (uint32_t i = 0; i < t->operation_count; i++)
        if (t->operation[i].kind == EBB_TRACE_KERNEL && i % 4 < 3)
            snprintf(t->operation[i].name, sizeof t->operation[i].name, "%s", names[i % 4]);
    write(t, argv[1], "unknown.trace");
    snprintf(t->device, sizeof t->device, "NVIDIA H100 80GB HBM3");
    t->hardware.out_bytes_per_ns = t->hardware.in_bytes_per_ns = 50;
    write(t, argv[1], "h100.trace");
    ebb_trace_delete(t);
    return 0;
}
