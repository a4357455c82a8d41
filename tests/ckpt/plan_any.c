#include "plan_any.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"

#define PLENTY (UINT64_C(1) << 50)

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

uint64_t plan_chunks(const ebb_trace_t *t, uint32_t buffer)
{
    const uint64_t bytes = t->buffer[buffer].bytes;
    return bytes > t->chunk_bytes / 2 ? (bytes + t->chunk_bytes - 1) / t->chunk_bytes : 0;
}

uint64_t plan_widest(const ebb_trace_t *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        uint64_t chunks = 0;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            chunks += ebb_trace_is_first(t, i, k) ? plan_chunks(t, t->access[k].buffer) : 0;
        most = chunks > most ? chunks : most;
    }
    return most * t->chunk_bytes;
}

/* Some operations take far longer than the rest. */
static void draw_times(ebb_trace_t *t, const uint64_t *usual_ns)
{
    const uint32_t spread = draw(3);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        uint64_t ns = usual_ns[i];
        for (uint32_t k = 0; k < spread; k++)
            ns = ns * (3 + draw(20)) / 10;
        t->operation[i].duration_ns = spread && !draw(30) ? 20 * ns : ns;
    }
}

static ebb_plan_request_t draw_request(const ebb_trace_t *t, uint64_t low, uint64_t high)
{
    static const char *const policies[] = {"offload",   "sqrt",      "recursive",
                                           "selective", "revolve:2", "uniform:2"};
    const double rate = (1 + draw(100)) / 5.0;
    const uint32_t means = 1 + draw(3);
    return (ebb_plan_request_t){.behind_bytes = draw(2) ? 0 : t->chunk_bytes * draw(64),
                                .policy = draw(2) ? policies[draw(sizeof policies / sizeof *policies)] : NULL,
                                .device_bytes = low + (high - low) * draw(100) / 100,
                                .host_bytes = draw(5) ? PLENTY : t->chunk_bytes * draw(64),
                                .min_buffer = t->chunk_bytes / 2,
                                .offload = means & 1,
                                .recompute = means & 2,
                                .hardware = {.out_bytes_per_ns = rate,
                                             .in_bytes_per_ns = rate * (3 + draw(10)) / 10,
                                             .zero_ns = draw(2) * draw(20000),
                                             .hash_ns = draw(2) * draw(20000),
                                             .clean = draw(3) > 0},
                                .max_cost = draw(3) ? 0 : (1 + draw(30)) / 10.0,
                                .min_gap_ns = draw(4) ? 0 : draw(1000000)};
}

unsigned plan_any(ebb_trace_t *t, unsigned requests)
{
    char why[400];
    const ebb_plan_request_t all = {.device_bytes = PLENTY, .host_bytes = PLENTY};
    const uint64_t keep = ebb_keep_bytes(t, &all, why, sizeof why), widest = plan_widest(t);
    uint64_t *usual_ns = malloc(t->operation_count * sizeof *usual_ns);
    unsigned plans = 0;
    assert_true(keep >= widest && usual_ns);
    for (uint32_t i = 0; i < t->operation_count; i++)
        usual_ns[i] = t->operation[i].duration_ns;
    for (unsigned i = 0; i < requests; i++) {
        draw_times(t, usual_ns);
        const ebb_plan_request_t r = draw_request(t, widest, keep);
        const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, r.behind_bytes};
        ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
        if (p && !ebb_check_plan(t, p, &limits, why, sizeof why))
            fail_msg("request %u, %s, %" PRIu64 " bytes: refused: %s", i, r.policy ? r.policy : "auto",
                     r.device_bytes, why);
        plans += p != NULL;
        ebb_plan_delete(p);
    }
    free(usual_ns);
    return plans;
}
