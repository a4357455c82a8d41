/* test_exchange.c: windows of a schedule that replay anew what an exact search says (exchange.c), beside the best that is possible
 * (plan_exact.h), where a window is the whole step; and schedules with copies and shorter windows, whose plans must pass the checker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>

#include "plan_exact.h"
#include "plan_laid.h"
#include "program.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)
enum { STATES = 1 << 20 };

typedef struct counts {
    uint32_t schedules, changed, possible, best, taken_back;
} counts_t;

static uint32_t cases(void)
{
    return test_cases(4, 4);
}

static uint64_t replay_ns(const ebb_schedule_t *s, const ebb_trace_t *t)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < s->event_count; i++)
        ns += s->event[i].replay ? t->operation[s->event[i].operation].duration_ns : 0;
    return ns;
}

static bool walk(ebb_schedule_t *s, const ebb_model_t *m, uint32_t chunks)
{
    const ebb_search_params_t params = {.target_chunks = chunks,
                                        .offload = m->request->offload,
                                        .recompute = true,
                                        .most_replay_ns = UINT64_MAX};
    return ebb_schedule_walk(s, m, &params) && (!m->request->offload || ebb_schedule_keep(s, m, chunks));
}

/* What is left is what is possible at best, but where a replay makes something beside: the exact search takes no memory for what is there
 * already. */
static void beside_the_best(ebb_schedule_t *s, const ebb_model_t *m, uint32_t chunks, counts_t *counts)
{
    const ebb_trace_t *t = m->trace;
    const uint64_t best = plan_exact_ns(t, chunks), alone = m->begin_ns[t->operation_count];
    const uint32_t peak = ebb_schedule_peak(s, m);
    const uint64_t before = replay_ns(s, t);
    const uint32_t changed = ebb_schedule_exchange(s, m, chunks, STATES);
    assert_int_not_equal(changed, EBB_NONE);
    ebb_plan_delete(plan_laid(s, m));
    counts->schedules++;
    counts->changed += changed > 0;
    const bool fits = ebb_schedule_peak(s, m) <= chunks;
    assert_true(fits || (!changed && peak > chunks));
    assert_true(!changed || peak > chunks || replay_ns(s, t) < before);
    if (fits && (best == UINT64_MAX || alone + replay_ns(s, t) < best))
        fail_msg("%" PRIu32 " chunks: replays take %" PRIu64 ", at best %" PRIu64 " is possible", chunks,
                 replay_ns(s, t), best - alone);
    counts->possible += best != UINT64_MAX;
    counts->best += fits && alone + replay_ns(s, t) == best;
}

static void a_window_that_is_the_step_is_as_fast_as_possible(void **state)
{
    (void)state;
    for (const trace_family_t *f = trace_families; f->name; f++) {
        counts_t counts = {0};
        for (uint32_t seed = 1; seed <= cases(); seed++) {
            char why[400];
            const ebb_plan_request_t r = {.device_bytes = PLENTY, .host_bytes = PLENTY, .recompute = true};
            ebb_trace_t *t = f->make(seed, f->least + seed % (f->most - f->least + 1));
            ebb_model_t m;
            ebb_schedule_t s = {0};
            assert_true(ebb_model_make(&m, t, &r, why, sizeof why));
            for (uint32_t chunks = m.widest_chunks; walk(&s, &m, chunks) && replay_ns(&s, t); chunks++)
                beside_the_best(&s, &m, chunks, &counts);
            ebb_schedule_delete(&s);
            ebb_model_delete(&m);
            ebb_trace_delete(t);
        }
        print_message("%s, seeds 1 to %" PRIu32 ": %" PRIu32 " schedules, %" PRIu32 " changed; %" PRIu32
                      " budgets are possible, %" PRIu32 " as fast as possible\n",
                      f->name, cases(), counts.schedules, counts.changed, counts.possible, counts.best);
        assert_true(counts.changed > 0);
        assert_true(counts.best >= 0.95 * counts.possible);
    }
}

/* Nothing is left there of what was there before: it has been given up, or the event replaces it. */
static bool begins_anew(const ebb_schedule_t *s, const ebb_model_t *m, const ebb_interval_t *v)
{
    const uint32_t operation = s->event[v->first].operation;
    for (uint32_t i = 0; i < s->move_count; i++)
        if (s->move[i].kind == EBB_DISCARD && s->move[i].place == v->place && s->move[i].position == v->first)
            return true;
    return v->place < m->trace->buffer_count && ebb_trace_mode(m->trace, operation, v->place) == EBB_REPLACES;
}

/* What stays, because its copies have been taken back, has one interval: a window that ended between two would drop what later replays read. */
static void what_stays_has_one_interval(const ebb_schedule_t *s, const ebb_model_t *m, counts_t *counts)
{
    for (uint32_t i = 0; i < s->move_count; i++)
        counts->taken_back += s->move[i].kind == EBB_FETCH && s->move[i].position == EBB_NONE;
    for (uint32_t i = 0; i < s->interval_count; i++)
        for (uint32_t k = 0; k < s->interval_count; k++)
            if (s->interval[k].place == s->interval[i].place &&
                s->interval[k].first == s->interval[i].last + 1 && s->interval[i].evict == EBB_NONE &&
                s->interval[k].fetch == EBB_NONE)
                assert_true(begins_anew(s, m, &s->interval[k]));
}

static void among_copies_plans_stay_good(void **state)
{
    (void)state;
    counts_t counts = {0};
    for (uint32_t seed = 1; seed <= 10 * cases(); seed++) {
        char why[400];
        const ebb_plan_request_t r = {.device_bytes = PLENTY,
                                      .host_bytes = PLENTY,
                                      .offload = seed % 4 > 0,
                                      .recompute = true,
                                      .hardware = {.out_bytes_per_ns = 4000, .in_bytes_per_ns = 4000}};
        ebb_trace_t *t = seed % 2 ? trace_by_chance(seed, 20 + seed % 60) : trace_of_skips(seed, 24);
        ebb_model_t m;
        ebb_schedule_t s = {0};
        print_message("seed %" PRIu32 "\n", seed);
        if (ebb_model_make(&m, t, &r, why, sizeof why)) {
            for (uint32_t chunks = m.widest_chunks; chunks < m.widest_chunks + 40; chunks += 1 + seed % 3) {
                if (!walk(&s, &m, chunks))
                    continue;
                what_stays_has_one_interval(&s, &m, &counts);
                const uint64_t before = replay_ns(&s, t);
                const uint32_t peak = ebb_schedule_peak(&s, &m),
                               changed = ebb_schedule_exchange(&s, &m, chunks, 20000);
                assert_int_not_equal(changed, EBB_NONE);
                assert_true(peak > chunks || replay_ns(&s, t) <= before);
                ebb_plan_delete(plan_laid(&s, &m));
                counts.schedules++;
                counts.changed += changed > 0;
            }
            ebb_model_delete(&m);
        }
        ebb_schedule_delete(&s);
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " schedules, %" PRIu32 " changed, %" PRIu32 " copies taken back\n",
                  counts.schedules, counts.changed, counts.taken_back);
    assert_true(counts.changed >= counts.schedules / 50 && counts.taken_back > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_that_is_the_step_is_as_fast_as_possible),
        cmocka_unit_test(among_copies_plans_stay_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
