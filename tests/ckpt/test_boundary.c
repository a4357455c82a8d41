/* test_boundary.c: plans of two kinds of step that agree about what is between steps: the second is made for the first one's
 * boundary, passes the checker, and a plan that has something elsewhere is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

static ebb_trace_t *step_of(uint32_t width)
{
    return trace_of_transformer(&(trace_shape_t){
        .layers = 6, .width_chunks = width, .weight_chunks = 3, .micro_batches = 1, .kernel_ns = 20000});
}

static ebb_plan_request_t request_of(const char *policy, uint64_t bytes)
{
    return (ebb_plan_request_t){.policy = policy,
                                .device_bytes = bytes,
                                .host_bytes = PLENTY,
                                .offload = true,
                                .recompute = true,
                                .hardware = {.out_bytes_per_ns = 25, .in_bytes_per_ns = 25}};
}

/* What the plan has between steps, for a trace whose first buffers outlive the step and are the same ones. */
static ebb_boundary_t *boundary_of(const ebb_plan_t *p, const ebb_trace_t *of, const ebb_trace_t *t)
{
    ebb_boundary_t *b = ebb_boundary_new(t->buffer_count, p->chunk_index_count);
    assert_non_null(b);
    b->chunk_count = p->chunk_count;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        b->first[i + 1] = b->first[i];
        if (t->buffer[i].born != EBB_NONE)
            continue;
        assert_true(of->buffer[i].born == EBB_NONE && of->buffer[i].bytes == t->buffer[i].bytes);
        b->start[i] = p->place[i].at_start;
        for (uint32_t k = 0; k < p->place[i].chunk_count; k++)
            b->chunk[b->first[i + 1]++] = p->chunk[p->place[i].first_chunk + k];
    }
    return b;
}

static uint32_t on_host(const ebb_plan_t *p)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->place_count; i++)
        count += p->place[i].at_start == EBB_ON_HOST;
    return count;
}

static void spoil_one(ebb_plan_t *p, const ebb_boundary_t *b)
{
    char why[160] = "";
    for (uint32_t i = 0; i < b->buffer_count; i++) {
        if (b->start[i] == EBB_NOT_THERE)
            continue;
        const ebb_start_t was = p->place[i].at_start;
        p->place[i].at_start = was == EBB_ON_HOST ? EBB_ON_DEVICE : EBB_ON_HOST;
        assert_false(ebb_boundary_agrees(b, p, why, sizeof why));
        assert_true(*why);
        p->place[i].at_start = was;
        if (!ebb_boundary_chunks(b, i) || !p->place[i].chunk_count || p->chunk_count < 2)
            continue;
        /* On a chunk that is another buffer's there. */
        for (uint32_t j = 0; j < b->buffer_count; j++)
            if (j != i && ebb_boundary_chunks(b, j) && p->place[j].chunk_count &&
                b->chunk[b->first[i]] != b->chunk[b->first[j]]) {
                uint32_t *chunk = &p->chunk[p->place[i].first_chunk];
                const uint32_t at = *chunk;
                *chunk = p->chunk[p->place[j].first_chunk];
                assert_false(ebb_boundary_agrees(b, p, why, sizeof why));
                *chunk = at;
                return;
            }
    }
}

/* How many of the second kind's plans were found, of the budgets tried. */
static uint32_t agree(const char *policy, uint32_t first_width, uint32_t second_width, uint32_t *away)
{
    char why[300];
    uint32_t found = 0;
    ebb_trace_t *first = step_of(first_width), *second = step_of(second_width);
    const ebb_plan_request_t least = request_of("auto", 0);
    const uint64_t floor = ebb_plan_floor(first, &least);
    for (uint32_t i = 0; i < 6; i++) {
        ebb_plan_request_t q = request_of("auto", floor + floor * i / 2);
        ebb_plan_t *leading = ebb_plan_make(first, &q, why, sizeof why);
        assert_non_null(leading);
        ebb_boundary_t *b = boundary_of(leading, first, second);
        q.policy = policy;
        q.boundary = b;
        ebb_plan_t *plan = ebb_plan_make(second, &q, why, sizeof why);
        if (plan) {
            const ebb_check_limits_t limits = {q.device_bytes, q.host_bytes, 0};
            if (!ebb_check_plan(second, plan, &limits, why, sizeof why) ||
                !ebb_boundary_agrees(b, plan, why, sizeof why))
                fail_msg("%s, widths %u and %u: %s", policy, first_width, second_width, why);
            *away += on_host(plan);
            spoil_one(plan, b);
            found++;
        }
        ebb_plan_delete(plan);
        ebb_plan_delete(leading);
        ebb_boundary_delete(b);
    }
    ebb_trace_delete(first);
    ebb_trace_delete(second);
    return found;
}

static void second_plan_agrees_with_the_first(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        uint32_t first, second, least;
    } cases[] = {{"auto", 8, 4, 6}, {"auto", 8, 7, 6},    {"auto", 8, 6, 6},
                 {"auto", 8, 1, 6}, {"offload", 8, 2, 6}, {"sqrt", 8, 2, 5}};
    uint32_t away = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t found = agree(cases[i].policy, cases[i].first, cases[i].second, &away);
        print_message("%s, widths %u and %u: %u of 6 budgets\n", cases[i].policy, cases[i].first,
                      cases[i].second, found);
        assert_true(found >= cases[i].least);
    }
    print_message("%u buffers on the host between steps\n", away);
    assert_true(away > 0);
}

/* What the boundary says is on the host must find room there, though the device had room for all of it. */
static void host_budget_below_the_boundary_gets_no_plan(void **state)
{
    (void)state;
    char why[300];
    ebb_trace_t *first = step_of(8), *second = step_of(1);
    ebb_plan_request_t q = request_of("auto", 0);
    q.device_bytes = ebb_plan_floor(first, &q) * 3 / 2;
    ebb_plan_t *leading = ebb_plan_make(first, &q, why, sizeof why);
    assert_non_null(leading);
    ebb_boundary_t *b = boundary_of(leading, first, second);
    uint64_t needed = 0;
    for (uint32_t i = 0; i < b->buffer_count; i++)
        needed += b->start[i] == EBB_ON_HOST ? second->buffer[i].bytes : 0;
    assert_true(needed > second->chunk_bytes);
    q.boundary = b;
    const uint64_t chunk = second->chunk_bytes,
                   hosts[] = {0, chunk, needed - chunk, needed - 1, needed, PLENTY};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        *why = 0;
        q.host_bytes = hosts[i];
        ebb_plan_t *p = ebb_plan_make(second, &q, why, sizeof why);
        const ebb_check_limits_t limits = {q.device_bytes, q.host_bytes, 0};
        if (p && !ebb_check_plan(second, p, &limits, why, sizeof why))
            fail_msg("%" PRIu64 " bytes on the host: %s", q.host_bytes, why);
        assert_true(p ? hosts[i] >= needed : hosts[i] < needed && *why);
        ebb_plan_delete(p);
    }
    ebb_plan_delete(leading);
    ebb_boundary_delete(b);
    ebb_trace_delete(first);
    ebb_trace_delete(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(second_plan_agrees_with_the_first),
                                       cmocka_unit_test(host_budget_below_the_boundary_gets_no_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
