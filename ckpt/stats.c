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
    ebb_drive_counts_t d = ebb_drive_counts();
    const struct {
        const char *key;
        uint64_t value;
    } whole[] = {
        {"budget_bytes", u.budget_bytes},
        {"overhead_bytes", u.overhead_bytes},
        {"peak_bytes", u.peak_bytes},
        {"live_bytes", u.live_bytes},
        {"live_peak_bytes", u.live_peak_bytes},
        {"operations", s.operations},
        {"step_operations", s.period},
        {"steps", s.completed},
        {"steps_interrupted", s.interrupted},
        {"steps_driven", d.steps},
        {"fallbacks", d.fallbacks},
        {"plans", s.plans},
        {"bytes_out", t.bytes_out},
        {"bytes_in", t.bytes_in},
        {"evictions", t.evictions},
        {"fetches", t.fetches},
        {"host_bytes", t.host_bytes},
        {"host_peak_bytes", t.host_peak_bytes},
        {"replays", d.replays},
        {"verified", d.verified},
        {"mismatches", d.mismatches},
        {"rebuilt", d.rebuilt},
        {"kept", s.plan.kept_buffers},
        {"offloaded", s.plan.offloaded_buffers},
        {"dropped", s.plan.dropped_buffers},
        {"kept_bytes", s.plan.kept_bytes},
        {"offloaded_bytes", s.plan.offloaded_bytes},
        {"dropped_bytes", s.plan.dropped_bytes},
        {"predicted_peak_bytes", s.plans ? s.plan.peak_bytes + s.reserved_bytes : 0},
        {"driven_peak_bytes", d.peak_bytes},
    };
    fputc('{', f);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        fprintf(f, "\"%s\": %" PRIu64 ", ", whole[i].key, whole[i].value);
    fprintf(f, "\"stall_ms\": %.3f, \"driven_stall_ms\": %.3f}\n", (double)t.stall_ns * 1e-6,
            (double)d.stall_ns * 1e-6);
    fclose(f);
}
