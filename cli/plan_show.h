/* plan_show.h: for what GPU a recorded step is planned; for the commands that plan one. */
#ifndef EBB_CLI_PLAN_SHOW_H
#define EBB_CLI_PLAN_SHOW_H

#include "cli/command.h"
#include "cli/gpus.h"

/* The GPU that a flag names; refused if it is none. */
const ebb_gpu_t *ebb_plan_gpu(const ebb_command_t *command, const char *flag, const char *name);

/* The hardware that a trace is planned for, and its times rescaled to it. `gpu`: NULL: what the trace was recorded on; `from`: whose its times
 * are: where they are to be rescaled and that is NULL, the command is refused. link 0: the GPU's, the trace's, or 25 GB/s. */
ebb_hardware_t ebb_plan_hardware(const ebb_command_t *command, ebb_trace_t *trace, const ebb_gpu_t *gpu,
                                 const ebb_gpu_t *from, ebb_link_rates_t link);

#endif
