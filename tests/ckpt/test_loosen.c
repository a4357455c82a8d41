/* test_loosen.c: what is only replayed in passing leaves its buffer's place (loosen.c): the same step, with as much resident at each
 * position, in a plan that the checker passes; places with one interval each, which the program's operations do not touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan_laid.h"
#include "program.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

typedef struct counts {
    uint32_t schedules, loosened, smaller, larger; /* of those: on fewer chunks than before, on more */
} counts_t;

/* The chunks that a plan of the schedule takes, which must be a good one; its predicted time. */
static uint32_t lay(const ebb_schedule_t *s, const ebb_model_t *m, uint64_t *ns)
{
    ebb_plan_t *plan = plan_laid(s, m);
    *ns = ebb_simulate_ns(plan, m->trace, &m->request->hardware);
    const uint32_t chunks = plan->chunk_count;
    ebb_plan_delete(plan);
    return chunks;
}

/* From place `first` on, which are the new ones. */
static void each_new_place_is_for_one_content_of_replays(const ebb_schedule_t *s, const ebb_model_t *m,
                                                         uint32_t first)
{
    const uint32_t places = m->trace->buffer_count + s->scratch_count;
    uint32_t *intervals = calloc((size_t)places + 1, sizeof *intervals),
             *uses = calloc((size_t)places + 1, sizeof *uses);
    assert_true(intervals && uses);
    for (uint32_t i = 0; i < s->interval_count; i++)
        intervals[s->interval[i].place]++;
    for (uint32_t i = 0; i < s->event_count; i++)
        for (uint32_t k = 0; k < s->event[i].redirect_count; k++) {
            const ebb_redirect_t *r = &s->redirect[s->event[i].first_redirect + k];
            assert_true(s->event[i].replay);
            assert_int_equal(ebb_place_chunks(s, m, r->place), m->buffer[r->buffer].chunks);
            uses[r->place]++;
        }
    for (uint32_t i = first; i < places; i++) {
        assert_int_equal(intervals[i], 1);
        assert_true(uses[i] >= 1);
    }
    free(intervals);
    free(uses);
}

static void loosen_one(ebb_schedule_t *s, const ebb_model_t *m, counts_t *counts)
{
    uint64_t ns_before, ns;
    uint32_t *profile = ebb_schedule_profile(s, m);
    const uint32_t before = lay(s, m, &ns_before), places = m->trace->buffer_count + s->scratch_count,
                   events = s->event_count, moved = ebb_schedule_loosen(s, m);
    assert_int_not_equal(moved, EBB_NONE);
    assert_int_equal(m->trace->buffer_count + s->scratch_count, places + moved);
    assert_int_equal(s->event_count, events);
    counts->schedules++;
    counts->loosened += moved > 0;
    if (moved) {
        uint32_t *now = ebb_schedule_profile(s, m);
        assert_memory_equal(profile, now, (events + 1) * sizeof *now);
        free(now);
        each_new_place_is_for_one_content_of_replays(s, m, places);
        const uint32_t after = lay(s, m, &ns);
        if (!m->request->offload) /* a copy may have other chunks to wait for */
            assert_int_equal(ns, ns_before);
        assert_int_equal(ebb_schedule_loosen(s, m), 0); /* nothing is left to move */
        counts->smaller += after < before;
        counts->larger += after > before;
    }
    free(profile);
}

static void loosen_all(const ebb_trace_t *t, const ebb_plan_request_t *r, counts_t *counts)
{
    char why[400];
    ebb_model_t m;
    ebb_schedule_t s = {0};
    assert_true(ebb_model_make(&m, t, r, why, sizeof why));
    enum { MOST = 60 };
    for (uint32_t chunks = 1; chunks <= MOST; chunks++) {
        const ebb_search_params_t params = {.target_chunks = chunks,
                                            .offload = r->offload,
                                            .recompute = true,
                                            .chain = chunks % 2,
                                            .most_replay_ns = UINT64_MAX};
        if (ebb_schedule_walk(&s, &m, &params))
            loosen_one(&s, &m, counts);
    }
    ebb_schedule_delete(&s);
    ebb_model_delete(&m);
}

static void what_is_replayed_in_passing_leaves_its_place(void **state)
{
    (void)state;
    const uint32_t cases = test_cases(6, 6);
    for (const trace_family_t *f = trace_families; f->name; f++) {
        counts_t counts = {0};
        for (uint32_t seed = 1; seed <= cases; seed++)
            for (int offload = 0; offload < 2; offload++) {
                const ebb_plan_request_t r = {
                    .device_bytes = PLENTY,
                    .host_bytes = PLENTY,
                    .recompute = true,
                    .offload = offload,
                    .hardware = {.out_bytes_per_ns = 4000, .in_bytes_per_ns = 4000}};
                ebb_trace_t *t = f->make(seed, f->most);
                loosen_all(t, &r, &counts);
                ebb_trace_delete(t);
            }
        print_message("%s, seeds 1 to %" PRIu32 ": of %" PRIu32 " schedules %" PRIu32
                      " have something to loosen; %" PRIu32 " take fewer chunks then, %" PRIu32 " more\n",
                      f->name, cases, counts.schedules, counts.loosened, counts.smaller, counts.larger);
        assert_true(counts.loosened > 0);
        assert_true(counts.smaller > counts.larger);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_replayed_in_passing_leaves_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
