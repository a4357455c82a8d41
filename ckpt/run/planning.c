/* planning.c: the request that options and measurements make, and how it is answered. */
#include "ckpt/run/internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/planner/planner.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/stats/stats.h"
#include "offload/ebb_offload.h"

static ebb_rates_t known_rates(ebb_device_t *dev, const ebb_rates_t *measured)
{
    const ebb_link_t link = ebb_link(dev);
    return (ebb_rates_t){measured->out > 0 ? measured->out : link.out,
                         measured->in > 0 ? measured->in : link.in};
}

static int multiprocessors(const ebb_device_t *dev)
{
    int count = 0;
    return ebb_driver.cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev->device)
               ? 0
               : count;
}

/* What a step's work takes here. The rates are those of each way alone, or what late copies have shown. */
static ebb_hardware_t hardware(ebb_device_t *dev, const ebb_rates_t *rates)
{
    const ebb_link_t link = ebb_link(dev);
    ebb_hardware_t h = ebb_prices(dev);
    const double out_both = link.out_both / link.out, in_both = link.in_both / link.in;
    h.out_bytes_per_ns = rates->out;
    h.in_bytes_per_ns = rates->in;
    h.out_ns = link.out_ns;
    h.in_ns = link.in_ns;
    h.out_both = out_both < 1 ? out_both : 1;
    h.in_both = in_both < 1 ? in_both : 1;
    h.checked = ebb_options.verify ? 1.0 / (double)ebb_options.verify : 0;
    h.clean = ebb_options.clean && ebb_hash_may_copy(dev);
    h.multiprocessors = multiprocessors(dev);
    return h;
}

void ebb_planning_describe(ebb_device_t *dev, ebb_trace_t *trace)
{
    CUdevice device;
    const ebb_rates_t none = {0, 0}, rates = known_rates(dev, &none);
    if (ebb_driver.cuCtxGetDevice(&device) ||
        ebb_driver.cuDeviceGetName(trace->device, (int)sizeof trace->device, device))
        trace->device[0] = 0;
    trace->hardware = hardware(dev, &rates);
}

ebb_plan_request_t ebb_planning_request(ebb_device_t *dev, const ebb_check_limits_t *limits,
                                        const ebb_rates_t *measured)
{
    const ebb_rates_t rates = known_rates(dev, measured);
    return (ebb_plan_request_t){.policy = ebb_options.policy.text,
                                .device_bytes = limits->device_bytes,
                                .host_bytes = limits->host_bytes,
                                .behind_bytes = limits->behind_bytes,
                                .min_buffer = (uint64_t)ebb_options.min_buffer,
                                .offload = ebb_options.offload,
                                .recompute = ebb_options.recompute,
                                .hardware = hardware(dev, &rates),
                                .max_cost = (double)ebb_options.recompute_max_cost / 100,
                                .min_gap_ns = (uint64_t)ebb_options.offload_min_gap * 1000};
}

/* EBB_PLAN's, if it is good for this step; else NULL, logged. */
static ebb_plan_t *given_plan(const ebb_trace_t *trace, const ebb_plan_request_t *q)
{
    char why[256] = "", path[EBB_FILE_NAME_ROOM];
    const ebb_check_limits_t limits = {q->device_bytes, q->host_bytes, q->behind_bytes};
    ebb_plan_t *plan = ebb_file_name(ebb_options.plan, getpid(), path)
                           ? ebb_plan_given(path, trace, &q->hardware, why, sizeof why)
                           : NULL;
    if (plan && ebb_check_plan(trace, plan, &limits, why, sizeof why)) {
        ebb_log(EBB_INFO, "the plan in %s is good for this step", path);
        return plan;
    }
    ebb_log(EBB_WARN, "the plan in %s is not driven, ebb makes its own: %s", path, why);
    ebb_plan_delete(plan);
    return NULL;
}

ebb_plan_t *ebb_planning_check(const ebb_trace_t *trace, const ebb_plan_request_t *q, ebb_plan_t *plan,
                               char *why, size_t why_bytes)
{
    char refusal[200] = "";
    const ebb_check_limits_t limits = {q->device_bytes, q->host_bytes, q->behind_bytes};
    const bool sound = ebb_check_plan(trace, plan, &limits, refusal, sizeof refusal);
    if (sound && (!q->boundary || ebb_boundary_agrees(q->boundary, plan, why, why_bytes)))
        return plan;
    if (!sound) {
        const char *word = ebb_fault_word[EBB_FAULT_MEMORY];
        snprintf(why, why_bytes, "a plan of ebb's own did not pass its check: %s", refusal);
        if (strncmp(refusal, word, strlen(word)) != 0) /* else the host had no memory to check with */
            ebb_log(EBB_WARN, "%s; please report this", why);
    }
    ebb_plan_delete(plan);
    return NULL;
}

ebb_plan_t *ebb_planning(const ebb_trace_t *trace, const ebb_plan_request_t *q, char *why, size_t why_bytes)
{
    ebb_plan_t *plan = *ebb_options.plan ? given_plan(trace, q) : NULL;
    if (!plan)
        plan = ebb_plan_make(trace, q, why, why_bytes);
    return plan ? ebb_planning_check(trace, q, plan, why, why_bytes) : NULL;
}

/* In whole chunks, small buffers that no plan arranges. */
static uint64_t small_state(const ebb_trace_t *t)
{
    enum { ALIGN = 512 };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (ebb_trace_is_unplaced(t, i))
            bytes += (t->buffer[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    return (bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES * EBB_CHUNK_BYTES;
}

uint64_t ebb_planning_peak(ebb_device_t *dev, const ebb_trace_t *trace, char *why, size_t why_bytes)
{
    const ebb_check_limits_t none = {0};
    const ebb_rates_t known = {0, 0};
    const ebb_plan_request_t q = ebb_planning_request(dev, &none, &known);
    const uint64_t bytes = ebb_keep_bytes(trace, &q, why, why_bytes);
    return bytes ? bytes + small_state(trace) : 0;
}

/* ---- afterwards ---- */

/* What a step under the plan waits for copies by the simulator. */
static double foreseen_ns(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_plan_t *plan,
                          const ebb_rates_t *rates)
{
    const ebb_hardware_t h = hardware(dev, rates);
    ebb_simulation_t s;
    if (!ebb_simulate(&s, plan, trace, &h, false))
        return 0;
    return s.track_ns[EBB_TRACK_WAIT_OUT] + s.track_ns[EBB_TRACK_WAIT_IN];
}

bool ebb_planning_is_late(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_plan_t *plan,
                          const ebb_drive_pace_t *pace, ebb_rates_t *rates)
{
    enum { LEAST_STEPS = 4 };
    if (pace->steps < LEAST_STEPS)
        return false;
    const double waited_ns = (double)pace->stall_ns / (double)pace->steps,
                 more_ns = 0.03 * (double)plan->predicted_ns;
    const ebb_rates_t known = known_rates(dev, rates);
    if (waited_ns < more_ns || waited_ns < foreseen_ns(dev, trace, plan, &known) + more_ns)
        return false;
    const double out = pace->copied_ns[0] > 0 ? pace->copied_bytes[0] / pace->copied_ns[0] : known.out;
    const double in = pace->copied_ns[1] > 0 ? pace->copied_bytes[1] / pace->copied_ns[1] : known.in;
    if (out > 0.9 * known.out && in > 0.9 * known.in)
        return false;
    *rates = (ebb_rates_t){out < known.out ? out : known.out, in < known.in ? in : known.in};
    return true;
}
