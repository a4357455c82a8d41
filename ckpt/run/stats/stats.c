#include "ckpt/run/residence/residence.h"
#include "ckpt/run/stats/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/run.h"
#include "ckpt/run/stats/live.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

static void add_variants(const ebb_steps_t *steps, ebb_statistics_t *out)
{
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        const ebb_step_variant_t *k = &steps->variant[i];
        out->step_variants += k->serial != 0;
        out->step_extras += k->extras;
        out->step_missing += k->missing;
    }
}

static uint64_t obscure_launches(ebb_t *ebb)
{
    uint64_t sum = 0;
    for (const ebb_obscure_t *o = ebb_obscure_kernels(ebb); o; o = o->next)
        sum += o->launches;
    return sum;
}

/* What was followed, learned and planned of one device. */
static void add_device(ebb_device_t *dev, ebb_statistics_t *out)
{
    const ebb_steps_t s = ebb_steps(dev);
    const ebb_drive_counts_t d = ebb_drive_counts(dev);
    const ebb_recipe_counts_t r = ebb_recipe_counts(dev);
    add_variants(&s, out);
    if (s.found_after && (!out->step_found_after || s.found_after < out->step_found_after))
        out->step_found_after = s.found_after;
    out->operations += s.operations;
    out->steps_interrupted += s.interrupted;
    out->unplanned += d.unplanned;
    out->replans += s.replans;
    out->plans += s.plans;
    out->driven_stall_ns += d.stall_ns;
    out->replays += d.replays;
    out->verified += r.verified;
    out->mismatches += r.mismatches;
    out->rebuilt += r.rebuilt;
    out->kept += s.plan.kept_buffers;
    out->offloaded += s.plan.offloaded_buffers;
    out->dropped += s.plan.dropped_buffers;
    out->kept_bytes += s.plan.kept_bytes;
    out->offloaded_bytes += s.plan.offloaded_bytes;
    out->dropped_bytes += s.plan.dropped_bytes;
    out->step_streams += s.streams.count;
    out->step_streams_recurring += s.streams.recurring;
    out->ahead += ebb_traffic(dev).ahead;
    out->reactive_drops += r.dropped;
    out->reactive_replays += r.replays;
    out->driven_ns += d.ns;
    out->driven_timed += d.timed;
    out->changes += d.changes;
    out->stale_words += ebb_stale_count(dev);
    out->spared_bytes += d.spared_bytes;
}

void ebb_statistics_gather(ebb_t *ebb, ebb_statistics_t *out, ebb_device_list_t *devices)
{
    ebb_devices_gather(ebb, devices);
    const ebb_device_statistics_t u = ebb_devices_sum(devices);
    const ebb_traffic_t t = ebb_traffic(&ebb->device[0]); /* only for what is the process's */
    *out = (ebb_statistics_t){
#define X(key) .key = u.key,
        EBB_SUMMED_STATISTICS(X)
#undef X
            .host_peak_bytes = t.host_peak_bytes,
        .host_budget_bytes = t.host_budget_bytes,
        .pageable_bytes = t.pageable_bytes,
        .pageable_peak_bytes = t.pageable_peak_bytes,
        .disk_bytes = t.disk_bytes,
        .disk_peak_bytes = t.disk_peak_bytes,
        .disk_reserved_bytes = t.disk_reserved_bytes,
        .disk_written_bytes = t.disk_written_bytes,
        .disk_read_bytes = t.disk_read_bytes,
        .obscure = obscure_launches(ebb),
    };
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].run)
            add_device(&ebb->device[i], out);
}

/* ---- the line at the end ---- */

static void append(char *line, size_t room, const char *format, uint64_t a, double b)
{
    const size_t at = strlen(line);
    snprintf(line + at, room - at, format, a, b);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static bool has_moved(const ebb_statistics_t *s)
{
    return s->evictions || s->fetches || s->dropped || s->bytes_out || s->bytes_in || s->steps_driven;
}

/* `floor`: the smallest budget that would do, where that is more than this one; 0: it is not. */
static void say(const ebb_statistics_t *s, const ebb_device_list_t *devices, bool fitted, size_t floor)
{
    char line[1024];
    snprintf(line, sizeof line, "%s", fitted ? "everything fitted: peak" : "peak");
    for (uint32_t i = 0; i < devices->count; i++) {
        const ebb_device_statistics_t *d = &devices->device[i];
        const size_t at = strlen(line);
        snprintf(line + at, sizeof line - at, "%s %.1f of %.1f MiB", i ? "," : "", mib(d->peak_bytes),
                 mib(d->budget_bytes));
        if (devices->count > 1)
            append(line, sizeof line, " on device %" PRIu64, d->device, 0);
    }
    if (s->evictions + s->fetches) {
        append(line, sizeof line, "; evicted %" PRIu64 " buffers", s->evictions, 0);
        if (s->clean_evictions)
            append(line, sizeof line, " (%" PRIu64 " clean)", s->clean_evictions, 0);
        append(line, sizeof line, ", fetched %" PRIu64, s->fetches, 0);
    }
    if (s->dropped)
        append(line, sizeof line, ", dropped %" PRIu64 " a step (%.1f MiB)", s->dropped,
               mib(s->dropped_bytes));
    if (s->bytes_out + s->bytes_in) {
        append(line, sizeof line, "; copied %" PRIu64 " MiB out", s->bytes_out >> 20, 0);
        append(line, sizeof line, " and %" PRIu64 " back", s->bytes_in >> 20, 0);
        append(line, sizeof line, ", waited %" PRIu64 " ms", (s->stall_ns + s->driven_stall_ns) / 1000000, 0);
    }
    if (s->pageable_peak_bytes)
        append(line, sizeof line, ", up to %" PRIu64 " MiB in pageable memory", s->pageable_peak_bytes >> 20,
               0);
    if (s->disk_written_bytes)
        append(line, sizeof line, ", wrote %" PRIu64 " MiB to EBB_DISK", s->disk_written_bytes >> 20, 0);
    if (s->steps && !fitted) {
        append(line, sizeof line, "; drove %" PRIu64, s->steps_driven, 0);
        append(line, sizeof line, " of %" PRIu64 " steps", s->steps + s->steps_interrupted, 0);
    }
    if (floor)
        append(line, sizeof line, "; the smallest budget with a plan is %" PRIu64 " MiB", floor >> 20, 0);
    if (s->mismatches)
        append(line, sizeof line, "; %" PRIu64 " contents were recomputed with other bits", s->mismatches, 0);
    ebb_log(EBB_WARN, "%s", line);
}

/* What driven steps have taken on the device, beside what their operations take. */
static void say_cost(ebb_device_t *dev)
{
    const ebb_drive_counts_t d = ebb_drive_counts(dev);
    char where[32] = "";
    if (!d.timed || d.alone_ns <= 0)
        return;
    if (dev->ebb->device_count > 1)
        snprintf(where, sizeof where, " on device %d", dev->device);
    const double ms = (double)d.ns / (double)d.timed * 1e-6, alone_ms = d.alone_ns / (double)d.timed * 1e-6;
    ebb_log(EBB_INFO,
            "measured%s: a step that followed the plan lasted %.3f ms, %.3f %s than its operations (%.1f%%)",
            where, ms, fabs(ms - alone_ms), ms < alone_ms ? "less" : "more", 100 * fabs(ms / alone_ms - 1));
}

/* ---- EBB_STATS ---- */

static void write_variants_of(ebb_device_t *dev, FILE *f, const char **between)
{
    const ebb_steps_t s = ebb_steps(dev);
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        const ebb_step_variant_t *k = &s.variant[i];
        if (!k->serial)
            continue;
        const ebb_drive_counts_t d = ebb_drive_counts_as(dev, i);
        const ebb_variant_statistics_t v = {
            .variant = ebb_variant_through(dev, i),
            .period = k->operations,
            .count = k->count,
            .extras = k->extras,
            .missing = k->missing,
            .interruptions = k->interruptions,
            .driven = d.steps,
            .driven_ns = d.ns,
            .driven_timed = d.timed,
            .driven_stall_ns = d.stall_ns,
            .predicted_peak_bytes = s.variant_peak_bytes[i],
            .driven_peak_bytes = d.peak_bytes,
            .replays = d.replays,
            .fallbacks = d.fallbacks,
            .device = (uint64_t)dev->device,
            .any_size = k->any_size,
            .floor_bytes = s.variant_ahead_bytes[i][0],
            .double_floor_bytes = s.variant_ahead_bytes[i][1],
            .size_plans = s.variant_size_plans[i],
        };
        fputs(*between, f);
        *between = "{";
#define X(key, meaning)                                                                                      \
    fprintf(f, "%s\"" #key "\": %" PRIu64, *between, v.key);                                                 \
    *between = ", ";
        EBB_VARIANT_STATISTICS(X)
#undef X
        fputc('}', f);
    }
}

/* One object for each step variant that is known; behind all keys, some of which it has as well. */
static void write_variants(ebb_t *ebb, FILE *f)
{
    const char *between = "";
    fputs(", \"variants\": [", f);
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].run)
            write_variants_of(&ebb->device[i], f, &between);
    fputc(']', f);
}

/* What is not a character of JSON as it is becomes a question mark. */
static void write_obscure(ebb_t *ebb, FILE *f)
{
    const char *between = "";
    fputs(", \"obscure_kernels\": [", f);
    for (const ebb_obscure_t *o = ebb_obscure_kernels(ebb); o; o = o->next) {
        fprintf(f, "%s{\"name\": \"", between);
        for (const char *c = o->name; *c; c++)
            fputc(*c < 0x20 || *c == '"' || *c == '\\' ? '?' : *c, f);
        fprintf(f, "\", \"launches\": %" PRIu64 ", \"why\": \"%s\"}", o->launches, o->why);
        between = ", ";
    }
    fputc(']', f);
}

void ebb_statistics_write(ebb_t *ebb, FILE *f)
{
    const char *between = "{";
    ebb_statistics_t s;
    ebb_device_list_t devices;
    ebb_statistics_gather(ebb, &s, &devices);
#define X(key, meaning)                                                                                      \
    fprintf(f, "%s\"" #key "\": %" PRIu64, between, s.key);                                                  \
    between = ", ";
    EBB_STATISTICS(X)
#undef X
    ebb_devices_print(&devices, f);
    write_variants(ebb, f);
    write_obscure(ebb, f);
    ebb_planned_print(ebb, f);
    fputs("}\n", f);
}

static void write_file(ebb_t *ebb)
{
    char path[EBB_FILE_NAME_ROOM];
    FILE *f = ebb_file_name(ebb_options.stats, getpid(), path) ? fopen(path, "we") : NULL;
    if (!f) {
        ebb_log(EBB_WARN, "EBB_STATS=%s: %s", ebb_options.stats, strerror(errno));
        return;
    }
    ebb_statistics_write(ebb, f);
    if (fclose(f))
        ebb_log(EBB_WARN, "EBB_STATS=%s: %s", ebb_options.stats, strerror(errno));
}

void ebb_stats_finish(ebb_t *ebb)
{
    ebb_statistics_t s;
    ebb_device_list_t devices;
    ebb_statistics_gather(ebb, &s, &devices);
    bool fitted = !has_moved(&s);
    size_t floor = 0;
    for (unsigned i = 0; i < ebb->device_count; i++) {
        ebb_device_t *dev = &ebb->device[i];
        if (!dev->run)
            continue;
        const bool short_of = ebb_shortage_was(dev);
        say_cost(dev);
        fitted &= !short_of;
        if (!floor && (short_of || (has_moved(&s) && !ebb_drive_counts(dev).steps)))
            floor = ebb_run_wanted_budget(dev, 1);
    }
    if (s.peak_bytes)
        say(&s, &devices, fitted, floor);
    if (*ebb_options.stats)
        write_file(ebb);
    ebb_live_end(ebb);
}
