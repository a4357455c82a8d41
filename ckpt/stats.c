#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ebb_alloc.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "runner.h"

void ebb_stats_write(void)
{
    ebb_usage_t u = ebb_usage();
    ebb_traffic_t t = ebb_traffic();
    ebb_steps_t s = ebb_steps();
    if (t.evictions)
        ebb_log(EBB_INFO,
                "peak %zu of %zu MiB; %" PRIu64 " buffers evicted (%" PRIu64 " MiB), %" PRIu64
                " fetched; waited %" PRIu64 " ms",
                u.peak_bytes >> 20, u.budget_bytes >> 20, t.evictions, t.bytes_out >> 20, t.fetches,
                t.stall_ns / 1000000);
    if (!*ebb_options.stats)
        return;
    FILE *f = fopen(ebb_options.stats, "w");
    if (!f) {
        ebb_log(EBB_WARN, "EBB_STATS=%s: %s", ebb_options.stats, strerror(errno));
        return;
    }
    fprintf(f,
            "{\"budget_bytes\": %zu, \"peak_bytes\": %zu, \"live_peak_bytes\": %zu, \"bytes_out\": %" PRIu64
            ", \"bytes_in\": %" PRIu64 ", \"evictions\": %" PRIu64 ", \"fetches\": %" PRIu64
            ", \"stall_ms\": %.3f, \"host_peak_bytes\": %zu, \"operations\": %" PRIu64
            ", \"step_operations\": %zu"
            ", \"steps\": %" PRIu64 ", \"steps_interrupted\": %" PRIu64 "}\n",
            u.budget_bytes, u.peak_bytes, u.live_peak_bytes, t.bytes_out, t.bytes_in, t.evictions, t.fetches,
            (double)t.stall_ns * 1e-6, t.host_peak_bytes, s.operations, s.period, s.completed, s.interrupted);
    fclose(f);
}
