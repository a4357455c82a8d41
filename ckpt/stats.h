/* stats.h: what happened, for people and programs: EBB_STATS=FILE, one JSON object, written when the process
 * ends. */
#ifndef EBB_STATS_H
#define EBB_STATS_H

/* Keys, bytes in chunks where not said otherwise:
 *   budget_bytes, overhead_bytes (of the context and others, taken off the budget), peak_bytes (most that
 * existed at once), live_peak_bytes (most that the program had asked for) operations, step_operations (0: no
 * step found), steps, steps_interrupted, steps_driven, fallbacks, plans bytes_out, bytes_in, evictions,
 * fetches (the last two: reactive ones), host_peak_bytes stall_ms (host time spent waiting for copies),
 * driven_stall_ms (of the program's stream, by events) replays (launches), verified, mismatches, rebuilt
 * (contents in fall-backs) of the plan made last: kept, offloaded, dropped (buffers), kept_bytes,
 * offloaded_bytes, dropped_bytes (as requested), predicted_peak_bytes, driven_peak_bytes (measured while
 * driving) Does not call the driver. */
void ebb_stats_write(void);

#endif
