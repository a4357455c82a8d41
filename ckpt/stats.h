/* stats.h: what happened, for people and programs: EBB_STATS=FILE, one JSON object, written when the process
 * ends. */
#ifndef EBB_STATS_H
#define EBB_STATS_H

/* Keys: budget_bytes, peak_bytes (chunks), live_peak_bytes, bytes_out, bytes_in, evictions, fetches,
 * stall_ms, host_peak_bytes, operations, step_operations (0: no step found), steps, steps_interrupted. Does
 * not call the driver. */
void ebb_stats_write(void);

#endif
