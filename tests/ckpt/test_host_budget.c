/* test_host_budget.c: plans for any device and host budget, from nothing to plenty: whatever the planner hands over passes the checker,
 * and where all that is alive cannot find room on device and host together, and only there, it says so. Steps by chance; `auto` and
 * fixed strategies; with a boundary that another plan has left; with times, links and prices by chance. TEST_FROM and TEST_CASES: which
 * seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "plan_any.h"
#include "program.h"
#include "trace_streams.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

typedef struct means {
    const char *name;
    bool offload, recompute;
} means_t;
static const means_t means[] = {{"offload", true, false}, {"recompute", false, true}, {"both", true, true}};
enum { MEANS = sizeof means / sizeof means[0] };

static const char *const strategies[] = {"keep",      "offload",   "sqrt",      "selective",
                                         "recursive", "uniform:2", "revolve:2", "revolve:4"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* So that the test is known to test. */
typedef struct tally {
    unsigned plans, without_host, on_the_edge, behind, no_room, no_plan;
} tally_t;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

static ebb_plan_request_t request(const means_t *m, const char *policy)
{
    return (ebb_plan_request_t){.policy = policy,
                                .device_bytes = PLENTY,
                                .host_bytes = PLENTY,
                                .min_buffer = 1 << 20,
                                .offload = m->offload,
                                .recompute = m->recompute,
                                .hardware = {.out_bytes_per_ns = 20, .in_bytes_per_ns = 20}};
}

/* ---- steps ---- */

/* Of up to half a chunk each: the small region takes several chunks. */
static void add_small(ebb_trace_t *t)
{
    for (uint32_t i = draw(6); i > 0; i--) {
        const uint32_t born = draw(t->operation_count);
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        b->bytes = t->chunk_bytes / 2 - draw(4096);
        b->born = born;
        b->dies = born + 1 + draw(t->operation_count - born);
        b->next = EBB_NONE;
    }
}

/* One that is born in the step is in the next one what is freed in this one. */
static void add_chain(ebb_trace_t *t)
{
    const uint32_t first = t->buffer_count, n = t->operation_count, born = draw(n), dies = 1 + draw(n);
    for (uint32_t i = 0; i < 2; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        b->bytes = 2 * t->chunk_bytes;
        b->born = b->dies = b->next = EBB_NONE;
    }
    t->buffer[first].born = born;
    t->buffer[first].next = first + 1;
    t->buffer[first + 1].dies = dies;
}

static ebb_trace_t *step_of(uint32_t seed)
{
    srand(seed);
    ebb_trace_t *t = trace_by_chance(seed, 15 + seed % 30);
    if (seed % 2)
        add_small(t);
    if (seed % 4 == 3)
        add_chain(t);
    if (seed % 3 == 0)
        trace_put_on_streams(t, 2 + seed % 2);
    assert_null(ebb_trace_check(t));
    return t;
}

/* ---- what the planner has to know, from the trace alone ---- */

/* The most bytes that are alive when an operation is issued, or behind the last one, with a small region of so many. */
static uint64_t most_alive(const ebb_trace_t *t, uint64_t small_bytes)
{
    uint64_t most = 0;
    for (uint32_t p = 0; p <= t->operation_count; p++) {
        uint64_t chunks = 0;
        for (uint32_t i = 0; i < t->buffer_count; i++) {
            const ebb_trace_buffer_t *b = &t->buffer[i];
            if ((b->born == EBB_NONE || b->born <= p) && (b->dies == EBB_NONE || b->dies > p))
                chunks += plan_chunks(t, i);
        }
        most = chunks * t->chunk_bytes > most ? chunks * t->chunk_bytes : most;
    }
    return most + small_bytes;
}

/* ---- one request ---- */

static void try_plan(const ebb_trace_t *t, ebb_plan_request_t r, uint64_t alive, const char *what,
                     tally_t *tally)
{
    char why[400] = "", wrong[400] = "";
    uint64_t smallest = 0;
    r.smallest = &smallest;
    const uint64_t host = r.host_bytes + r.behind_bytes;
    const bool room = alive <= r.device_bytes || alive - r.device_bytes <= host;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, r.behind_bytes};
    if (p && !ebb_check_plan(t, p, &limits, wrong, sizeof wrong))
        fail_msg("%s, %s within %" PRIu64 " and %" PRIu64 " bytes: refused: %s", what,
                 r.policy ? r.policy : "auto", r.device_bytes, r.host_bytes, wrong);
    if (!p && (!why[0] || room == (strstr(why, "bytes are alive") != NULL)))
        fail_msg("%s, %s within %" PRIu64 " and %" PRIu64 " bytes, of %" PRIu64
                 " alive: there is no plan: %s",
                 what, r.policy ? r.policy : "auto", r.device_bytes, r.host_bytes, alive, why);
    if (!room && smallest != alive - host)
        fail_msg("%s: %" PRIu64 " bytes are told to do, %" PRIu64 " do", what, smallest, alive - host);
    tally->plans += p != NULL;
    tally->without_host += p && !r.host_bytes && p->action_count;
    tally->on_the_edge += p && alive == r.device_bytes + host && p->action_count;
    tally->behind += p && alive > r.device_bytes + r.host_bytes && p->action_count;
    tally->no_room += !room;
    tally->no_plan += room && !p;
    ebb_plan_delete(p);
}

/* From nothing over a few chunks to plenty, and where it is just enough. */
static void try_hosts(const ebb_trace_t *t, ebb_plan_request_t *r, uint64_t alive, const char *what,
                      tally_t *tally)
{
    const uint64_t chunk = t->chunk_bytes, beyond = alive > r->device_bytes ? alive - r->device_bytes : 0;
    const uint64_t hosts[] = {0,
                              chunk,
                              chunk * (2 + draw(6)),
                              beyond > chunk ? beyond - chunk : 0,
                              beyond ? beyond - 1 : 0,
                              beyond,
                              beyond + chunk,
                              beyond + chunk * draw(8),
                              PLENTY};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        r->host_bytes = hosts[i];
        r->behind_bytes = 0;
        try_plan(t, *r, alive, what, tally);
        if (hosts[i] >= beyond)
            continue;
        r->behind_bytes = beyond - hosts[i] - draw(2);
        try_plan(t, *r, alive, what, tally);
    }
    r->behind_bytes = 0;
}

static void try_step(uint32_t seed, tally_t *tally)
{
    char what[80], why[400];
    ebb_trace_t *t = step_of(seed);
    const ebb_plan_request_t all = request(&means[2], "keep");
    ebb_plan_t *keep = ebb_plan_make(t, &all, why, sizeof why);
    assert_non_null(keep);
    const uint64_t alive = most_alive(t, keep->small_bytes), peak = ebb_plan_sum(keep, t).peak_bytes,
                   low = plan_widest(t) + keep->small_bytes;
    ebb_plan_delete(keep);
    for (uint32_t i = 0; i < MEANS; i++)
        for (uint32_t share = 0; share <= 4; share++) {
            const bool searches = (seed + i + share) % 5 == 0;
            ebb_plan_request_t r = request(&means[i], searches ? NULL : strategies[draw(STRATEGIES)]);
            snprintf(what, sizeof what, "seed %" PRIu32 ", %s", seed, means[i].name);
            r.device_bytes = low + (peak - low) * share / 4;
            try_hosts(t, &r, alive, what, tally);
        }
    ebb_trace_delete(t);
}

static void every_plan_for_a_small_host_budget_passes_the_checker(void **state)
{
    (void)state;
    const unsigned from = getenv("TEST_FROM") ? (unsigned)atoi(getenv("TEST_FROM")) : 1,
                   cases = test_cases(60, 60);
    tally_t n = {0};
    print_message("seeds %u to %u\n", from, from + cases - 1);
    for (uint32_t seed = from; seed < from + cases; seed++)
        try_step(seed, &n);
    print_message("%u plans, %u with a means but no host, %u with just enough, %u with room behind; %u times "
                  "no room, %u times no plan\n",
                  n.plans, n.without_host, n.on_the_edge, n.behind, n.no_room, n.no_plan);
    assert_true(n.plans > 20 * cases && n.no_room > 10 * cases && n.on_the_edge > cases &&
                n.behind > cases);
}

static void plans_for_any_times_and_links_pass_the_checker(void **state)
{
    (void)state;
    const unsigned from = getenv("TEST_FROM") ? (unsigned)atoi(getenv("TEST_FROM")) : 1,
                   cases = test_cases(30, 300);
    unsigned plans = 0;
    for (uint32_t seed = from; seed < from + cases; seed++) {
        srand(seed);
        ebb_trace_t *t = seed % 3 == 0
                             ? step_of(seed)
                             : trace_of_transformer(&(trace_shape_t){.layers = 2 + draw(5),
                                                                     .width_chunks = 1 + draw(3),
                                                                     .weight_chunks = 1 + draw(4),
                                                                     .micro_batches = 1 + draw(2),
                                                                     .stored_scores = draw(2),
                                                                     .kernel_ns = 1000 * (1 + draw(200))});
        print_message("seed %" PRIu32 "\n", seed);
        plans += plan_any(t, 8);
        ebb_trace_delete(t);
    }
    print_message("%u plans\n", plans);
    assert_true(plans > 2 * cases);
}

/* Seeds that have found something: where a later copy out and back was taken back, a fetch was not waited for by all streams. */
static void plans_once_refused_pass_the_checker(void **state)
{
    (void)state;
    static const uint32_t seeds[] = {435, 1152};
    tally_t n = {0};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        try_step(seeds[i], &n);
    assert_true(n.plans > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_for_a_small_host_budget_passes_the_checker),
        cmocka_unit_test(plans_for_any_times_and_links_pass_the_checker),
        cmocka_unit_test(plans_once_refused_pass_the_checker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
