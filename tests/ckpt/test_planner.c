/* test_planner.c: plans for made-up steps: each must pass the checker, fit, and get no slower with more
 * memory. */
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
#include "plan_oracle.h"
#include "program.h"
#include "trace_streams.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

static const trace_shape_t plain = {
    .layers = 8, .width_chunks = 2, .weight_chunks = 3, .micro_batches = 1, .kernel_ns = 2000};

typedef struct allowed {
    bool offload, recompute;
} allowed_t;
static const allowed_t modes[] = {{true, false}, {false, true}, {true, true}};
enum { MODES = sizeof modes / sizeof modes[0] };

/* What is not copied again is left out (ebb_plan_spared). */
static bool sparing;

static ebb_plan_request_t request(uint64_t device_bytes, bool offload, bool recompute)
{
    return (ebb_plan_request_t){
        .device_bytes = device_bytes,
        .host_bytes = PLENTY,
        .min_buffer = 1 << 20,
        .offload = offload,
        .recompute = recompute,
        .hardware = {.out_bytes_per_ns = 50, .in_bytes_per_ns = 50, .clean = sparing}};
}

/* A plan that has been checked, or NULL with a reason. */
static ebb_plan_t *checked_plan(const ebb_trace_t *t, const ebb_plan_request_t *r)
{
    char why[400] = "", wrong[400] = "";
    ebb_plan_t *p = ebb_plan_make(t, r, why, sizeof why);
    if (!p) {
        assert_true(why[0]);
        return NULL;
    }
    ebb_check_limits_t limits = {r->device_bytes, r->host_bytes, 0};
    if (!ebb_check_plan(t, p, &limits, wrong, sizeof wrong))
        fail_msg("not a good plan: %s", wrong);
    assert_true(ebb_plan_sum(p, t).peak_bytes <= r->device_bytes);
    return p;
}

static uint64_t keep_peak(const ebb_trace_t *t)
{
    ebb_plan_request_t r = request(PLENTY, false, false);
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    assert_int_equal(p->action_count, 0);
    uint64_t peak = ebb_plan_sum(p, t).peak_bytes;
    ebb_plan_delete(p);
    return peak;
}

static void budgets_of_transformer_are_kept(const trace_shape_t *shape, uint64_t lowest)
{
    ebb_trace_t *t = trace_of_transformer(shape);
    assert_null(ebb_trace_check(t));
    uint64_t peak = keep_peak(t);
    for (int mode = 0; mode < MODES; mode++) {
        uint64_t before = 0;
        for (uint64_t percent = 100; percent >= lowest; percent -= 10) {
            ebb_plan_request_t r = request(peak * percent / 100, modes[mode].offload, modes[mode].recompute);
            ebb_plan_t *p = checked_plan(t, &r);
            if (!p)
                fail_msg("no plan for %" PRIu64 "%% in mode %d", percent, mode);
            assert_true(p->predicted_ns >= before);
            before = p->predicted_ns;
            ebb_plan_sum_t sum = ebb_plan_sum(p, t);
            assert_true(modes[mode].offload || !sum.bytes_out);
            assert_true(modes[mode].recompute || !sum.replays);
            ebb_plan_delete(p);
        }
    }
    ebb_trace_delete(t);
}

static void transformer_at_half_of_its_memory_gets_plans(void **state)
{
    (void)state;
    budgets_of_transformer_are_kept(&plain, 50);
}

static void stored_scores_at_half_of_its_memory_gets_plans(void **state)
{
    (void)state;
    trace_shape_t s = plain;
    s.stored_scores = true;
    budgets_of_transformer_are_kept(&s, 50);
}

static void gradient_accumulation_at_half_of_its_memory_gets_plans(void **state)
{
    (void)state;
    trace_shape_t s = plain;
    s.layers = 6;
    s.micro_batches = 2;
    budgets_of_transformer_are_kept(&s, 50);
}

static void recompute_at_half_of_its_memory_costs_less_than_a_forward_pass(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    uint64_t all = 0, forward = 0;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        all += t->operation[i].duration_ns;
        forward += strcmp(t->operation[i].name, "loss") ? 0 : all;
    }
    ebb_plan_request_t r = request(keep_peak(t) / 2, false, true);
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    assert_true(p->predicted_ns < all + forward);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void budget_too_small_gets_a_reason_and_a_size_that_works(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    for (int mode = 0; mode < MODES; mode++) {
        char why[400] = "";
        ebb_plan_request_t r = request(t->chunk_bytes, modes[mode].offload, modes[mode].recompute);
        assert_null(ebb_plan_make(t, &r, why, sizeof why));
        const char *at = strstr(why, "the smallest known to do is ");
        assert_non_null(at);
        r.device_bytes = strtoull(at + strlen("the smallest known to do is "), NULL, 10);
        ebb_plan_t *p = checked_plan(t, &r);
        assert_non_null(p);
        ebb_plan_delete(p);
    }
    ebb_trace_delete(t);
}

static void nothing_allowed_below_the_peak_gets_no_plan(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    uint64_t peak = keep_peak(t);
    ebb_plan_request_t r = request(peak - t->chunk_bytes, false, false);
    assert_null(checked_plan(t, &r));
    r = request(peak / 2, true, false);
    r.host_bytes = 0;
    assert_null(checked_plan(t, &r));
    ebb_trace_delete(t);
}

static void small_host_budget_is_kept(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    uint64_t peak = keep_peak(t);
    ebb_plan_request_t r = request(peak * 6 / 10, true, true);
    r.host_bytes = peak * 45 / 100; /* what is alive must find room somewhere: less can't be */
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    bool *block = calloc(p->place_count, sizeof *block);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].kind == EBB_EVICT || p->action[i].kind == EBB_FETCH)
            block[p->action[i].place] = true;
    for (uint32_t i = 0; i < p->place_count; i++)
        bytes += block[i] ? p->place[i].bytes : 0;
    assert_true(bytes <= r.host_bytes);
    free(block);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void same_request_gets_the_same_plan(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    ebb_plan_request_t r = request(keep_peak(t) / 2, true, true);
    char *text[2] = {NULL, NULL};
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        ebb_plan_t *p = checked_plan(t, &r);
        FILE *f = open_memstream(&text[i], &size[i]);
        assert_true(ebb_plan_write(p, f));
        fclose(f);
        ebb_plan_delete(p);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
    ebb_trace_delete(t);
}

/* Before any walk: the same request gets a plan otherwise. */
static void request_that_is_given_up_gets_no_plan(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    ebb_plan_request_t r = request(keep_peak(t) / 2, true, true);
    char why[400] = "";
    atomic_bool given_up = true;
    assert_true(ebb_plan_floor(t, &r) > 0);
    r.given_up = &given_up;
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_string_equal(why, "it is not wanted any more");
    assert_int_equal(ebb_plan_floor(t, &r), 0);
    given_up = false;
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void steps_by_chance_get_good_plans(void **state)
{
    (void)state;
    uint32_t plans = 0, spared = 0;
    char what[400];
    const unsigned cases = test_cases(120, 120);
    for (uint32_t seed = 1; seed <= cases; seed++) {
        ebb_trace_t *t = trace_by_chance(seed, 20 + seed % 60);
        assert_null(ebb_trace_check(t));
        sparing = seed % 2;
        t->hardware.clean = sparing;
        uint64_t peak = keep_peak(t);
        for (int mode = 0; mode < MODES; mode++) {
            uint64_t before = 0;
            for (uint64_t percent = 90; percent >= 50; percent -= 20) {
                print_message("seed %" PRIu32 " mode %d at %" PRIu64 "%%\r", seed, mode, percent);
                ebb_plan_request_t r =
                    request(peak * percent / 100, modes[mode].offload, modes[mode].recompute);
                ebb_plan_t *p = checked_plan(t, &r);
                if (!p)
                    continue;
                assert_true(p->predicted_ns >= before);
                before = p->predicted_ns;
                plans++;
                spared += ebb_plan_sum(p, t).spared_bytes > 0;
                if (sparing && !oracle_executes(t, p, seed, 2, what, sizeof what))
                    fail_msg("%s", what);
                ebb_plan_delete(p);
            }
        }
        ebb_trace_delete(t);
    }
    sparing = false;
    print_message("%" PRIu32 " plans, %" PRIu32 " that spare copies\n", plans, spared);
    assert_true(spared > cases / 20);
    assert_true(3 * plans > 5 * cases);
}

/* The orders of a plan, and how many of them it could do without. */
static void count_orders(const ebb_trace_t *t, ebb_plan_t *p, uint32_t *orders, uint32_t *spare)
{
    const ebb_check_limits_t limits = {PLENTY, PLENTY, 0};
    char why[400];
    for (uint32_t i = 0; i < p->action_count; i++) {
        ebb_action_t *a = &p->action[i];
        const uint32_t after = a->after;
        if (a->kind != EBB_ORDER)
            continue;
        a->after = 0;
        ++*orders;
        *spare += ebb_check_plan(t, p, &limits, why, sizeof why);
        a->after = after;
    }
}

/* Checked, and executed. */
static uint32_t plan_on_streams(const ebb_trace_t *t, uint64_t bytes, bool offload, bool recompute,
                                uint32_t *orders, uint32_t *spare)
{
    char what[200] = "";
    const ebb_plan_request_t r = request(bytes, offload, recompute);
    ebb_plan_t *p = checked_plan(t, &r);
    for (unsigned run = 1; p && run <= 5; run++)
        if (!oracle_run(t, p, run, what, sizeof what))
            fail_msg("%s", what);
    if (p)
        count_orders(t, p, orders, spare);
    ebb_plan_delete(p);
    return p != NULL;
}

/* Steps on several streams; `residents`: some of their operations are resident, and some steps on one stream. */
static void plan_steps_on_streams(bool residents)
{
    const unsigned cases = test_cases(40, 40);
    uint32_t plans = 0, orders = 0, spare = 0;
    for (uint32_t seed = 1; seed <= cases; seed++) {
        srand(seed);
        ebb_trace_t *t = trace_by_chance(seed, 20 + seed % 40);
        if (!residents || seed % 4)
            trace_put_on_streams(t, 2 + seed % 3);
        if (residents)
            trace_draw_residents(t, 3 + seed % 7);
        assert_null(ebb_trace_check(t));
        ebb_plan_request_t r = request(PLENTY, false, false);
        ebb_plan_t *keep = checked_plan(t, &r);
        assert_non_null(keep);
        const uint64_t peak = ebb_plan_sum(keep, t).peak_bytes;
        ebb_plan_delete(keep);
        for (int mode = 0; mode < MODES; mode++)
            for (uint64_t percent = 100; percent >= 50; percent -= 25) {
                print_message("seed %" PRIu32 " mode %d at %" PRIu64 "%%\r", seed, mode, percent);
                plans += plan_on_streams(t, peak * percent / 100, modes[mode].offload, modes[mode].recompute,
                                         &orders, &spare);
            }
        t->sync_count = 0; /* ordered by what a trace does not show, as waits of the host */
        for (uint64_t percent = 90; percent >= 50; percent -= 10) {
            r = request(peak * percent / 100, true, true);
            ebb_plan_delete(checked_plan(t, &r));
        }
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " plans, %" PRIu32 " orders, %" PRIu32 " of them to spare\n", plans, orders,
                  spare);
    /* Which of them find a plan depends on prices, too: the walk is a heuristic. */
    assert_true(10 * plans >= 39 * cases && orders > cases && spare <= orders / 3);
}

static void steps_by_chance_on_several_streams_get_good_plans(void **state)
{
    (void)state;
    plan_steps_on_streams(false);
}

/* Nothing changes hands beside a resident kernel: the checker sees to that. */
static void steps_with_resident_kernels_get_good_plans(void **state)
{
    (void)state;
    plan_steps_on_streams(true);
}

static void add_operation(ebb_trace_t *t, uint32_t stream, uint32_t buffer, ebb_mode_t mode)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(t);
    o->stream = stream;
    o->duration_ns = 1000000;
    o->communicates = stream;
    *ebb_trace_add_access(t) = (ebb_trace_access_t){.buffer = buffer, .mode = mode};
}

/* Half of a step's time is of what communicates, all of it in the second half and beside the rest. A buffer that is used first and
 * last goes out for another one in the first half; there is time enough to have it back. */
static void copies_are_back_in_time_where_streams_overlap(void **state)
{
    (void)state;
    enum { STATE, ACTIVATION, COUNTER, EACH = 10 };
    const uint64_t bytes = UINT64_C(125) * (2 << 20); /* 5.2 ms */
    ebb_trace_t *t = ebb_trace_new(2 << 20);
    *ebb_trace_add_buffer(t) =
        (ebb_trace_buffer_t){.bytes = bytes, .born = EBB_NONE, .dies = EBB_NONE, .next = EBB_NONE};
    *ebb_trace_add_buffer(t) = (ebb_trace_buffer_t){.bytes = bytes, .born = 8, .dies = 10, .next = EBB_NONE};
    *ebb_trace_add_buffer(t) =
        (ebb_trace_buffer_t){.bytes = 100, .born = EBB_NONE, .dies = EBB_NONE, .next = EBB_NONE};
    add_operation(t, 0, STATE, EBB_READS);
    for (int i = 1; i < 8; i++)
        add_operation(t, 0, COUNTER, EBB_READS);
    add_operation(t, 0, ACTIVATION, EBB_REPLACES);
    add_operation(t, 0, ACTIVATION, EBB_READS);
    for (int i = 0; i < EACH; i++) {
        add_operation(t, 0, COUNTER, EBB_READS);
        add_operation(t, 1, COUNTER, EBB_READS);
    }
    add_operation(t, 0, STATE, EBB_READS);
    assert_null(ebb_trace_check(t));
    const ebb_plan_request_t r = request(bytes + (8 << 20), true, false);
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &r.hardware, false));
    assert_true(s.track_ns[EBB_TRACK_IN] > 5e6);
    assert_true(s.track_ns[EBB_TRACK_WAIT_IN] + s.track_ns[EBB_TRACK_WAIT_OUT] < 1e3);
    assert_true(s.step_ns < 21.01e6);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Weights that were gathered, small beside activations, are held (plan.h: until), and activations made again from them: over a slow link in
 * a fraction of what copying takes. Without that buffer's being freed there is nothing to hold; with all the memory, no need. */
static void weights_that_are_gone_are_held_for_recipes(void **state)
{
    (void)state;
    char why[300] = "";
    ebb_trace_t *t = trace_of_gathered(12, 1, 6, false), *reused = trace_of_gathered(12, 1, 6, true);
    const uint64_t peak = keep_peak(t);
    ebb_plan_request_t r = request(peak / 2, true, false);
    r.hardware.out_bytes_per_ns = r.hardware.in_bytes_per_ns = 5;
    ebb_plan_t *copied = checked_plan(t, &r);
    r.recompute = true;
    ebb_plan_t *held = checked_plan(t, &r);
    const uint64_t alone = t->operation_count ? ebb_simulate_ns(held, t, &r.hardware) : 0;
    assert_true(copied && held && alone == held->predicted_ns);
    print_message("copied %" PRIu64 " ns, held %" PRIu64 "\n", copied->predicted_ns, held->predicted_ns);
    assert_true(3 * held->predicted_ns < 2 * copied->predicted_ns);
    const ebb_plan_sum_t sum = ebb_plan_sum(held, t);
    assert_true(sum.late_buffers && sum.replays && sum.late_bytes == sum.late_buffers * (2 << 20));
    for (uint32_t i = 0; i < t->buffer_count; i++)
        assert_true(held->place[i].until == EBB_NONE || held->place[i].until > t->buffer[i].dies);
    if (!oracle_executes(t, held, 1, 8, why, sizeof why))
        fail_msg("%s", why);
    assert_true(ebb_plan_gap(held, t, &r) >= 0);
    r.device_bytes = peak;
    ebb_plan_t *kept = checked_plan(t, &r);
    assert_true(kept && !kept->action_count && !ebb_plan_sum(kept, t).late_buffers);
    r.device_bytes = peak / 2;
    ebb_plan_t *others = checked_plan(reused, &r);
    assert_true(others && !ebb_plan_sum(others, reused).late_buffers);
    ebb_plan_delete(copied);
    ebb_plan_delete(held);
    ebb_plan_delete(kept);
    ebb_plan_delete(others);
    ebb_trace_delete(t);
    ebb_trace_delete(reused);
}

/* Each strategy that recomputes does so, too, and the smallest budget with a plan is smaller. */
static void strategies_hold_what_they_need(void **state)
{
    (void)state;
    static const char *const policies[] = {"sqrt", "uniform:2", "recursive", "revolve:4"};
    ebb_trace_t *t = trace_of_gathered(12, 1, 6, false);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        ebb_plan_request_t r = request(keep_peak(t) * 7 / 10, false, true);
        r.policy = policies[i];
        ebb_plan_t *p = checked_plan(t, &r);
        print_message("%s: %s\n", policies[i], p ? "a plan" : "none");
        assert_true(p && ebb_plan_sum(p, t).late_buffers && ebb_plan_sum(p, t).replays);
        ebb_plan_delete(p);
    }
    ebb_plan_request_t r = request(0, false, true);
    assert_true(ebb_plan_floor(t, &r) < keep_peak(t) * 7 / 10);
    ebb_trace_delete(t);
}

static ebb_trace_t *one_operation(void)
{
    ebb_trace_t *t = ebb_trace_new(2 << 20);
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    b->bytes = 4 << 20;
    ebb_trace_operation_t *o = ebb_trace_add_operation(t);
    o->duration_ns = 1000;
    *ebb_trace_add_access(t) = (ebb_trace_access_t){.buffer = 0, .mode = EBB_UPDATES};
    return t;
}

static void what_no_periodic_plan_can_serve_is_refused(void **state)
{
    (void)state;
    char why[200] = "";
    ebb_plan_request_t r = request(PLENTY, true, true);
    ebb_trace_t *t = one_operation();
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    assert_non_null(p);
    ebb_plan_delete(p);
    t->buffer[0].born = 0;
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_non_null(strstr(why, "outlives"));
    t->buffer[0].born = EBB_NONE;
    t->buffer[0].dies = 1;
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_non_null(strstr(why, "freed in it"));
    t->buffer[0].dies = EBB_NONE;
    t->buffer[0].pinned = true;
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_non_null(strstr(why, "must stay where it is"));
    t->buffer[0].pinned = false;
    ebb_trace_add_buffer(t)->bytes = t->buffer[0].bytes / 2;
    t->buffer[0].next = 1;
    t->buffer[1].next = 0; /* they change places in every step */
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_non_null(strstr(why, "another size"));
    t->buffer[0].next = 0;
    t->buffer[1].next = 1;
    ebb_trace_add_operation(t)->stream = EBB_PLAN_STREAMS;
    assert_null(ebb_plan_make(t, &r, why, sizeof why));
    assert_non_null(strstr(why, "33 streams"));
    ebb_trace_delete(t);
}

/* A chain of two and what changes places, among activations that do not all fit. */
static void buffers_that_are_others_in_the_next_step_are_planned(void **state)
{
    (void)state;
    char why[200];
    ebb_trace_t *t = trace_of_chain(12, 2);
    const uint32_t n = t->operation_count, first = t->buffer_count;
    for (uint32_t i = 0; i < 6; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        b->bytes = i < 4 ? 2 << 20 : 40;
        b->born = b->dies = b->next = EBB_NONE;
    }
    for (uint32_t i = 0; i < 6; i += 4) {
        t->buffer[first + i].born = n;
        t->buffer[first + i].next = first + i + 1;
        t->buffer[first + i + 1].dies = n + 1;
    }
    t->buffer[first + 2].next = first + 3;
    t->buffer[first + 3].next = first + 2;
    ebb_trace_add_operation(t)->duration_ns = 1000;
    for (uint32_t i = 0; i < 6; i++)
        *ebb_trace_add_access(t) =
            (ebb_trace_access_t){.buffer = first + i, .mode = i % 2 ? EBB_READS : EBB_REPLACES};
    ebb_plan_request_t r = request(PLENTY, true, true);
    for (r.device_bytes = 48 << 20; r.device_bytes >= 28 << 20; r.device_bytes -= 4 << 20) {
        ebb_plan_t *p = checked_plan(t, &r);
        assert_non_null(p);
        for (unsigned seed = 1; seed < 4; seed++)
            if (!oracle_run(t, p, seed, why, sizeof why))
                fail_msg("seed %u: %s", seed, why);
        assert_int_equal(p->place[first].at_start, EBB_NOT_THERE);
        assert_int_equal(p->place[first + 1].at_start, EBB_ON_DEVICE);
        ebb_plan_delete(p);
    }
    ebb_trace_delete(t);
}

/* Weights, gradients and the optimizer's state have the longest gaps. */
static void budget_below_what_outlives_the_step_gets_a_plan_that_moves_it(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_of_transformer(&plain);
    uint64_t outlives = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        outlives += t->buffer[i].born == EBB_NONE ? t->buffer[i].bytes : 0;
    for (int spares = 0; spares < 2; spares++) {
        char why[400];
        sparing = spares > 0;
        t->hardware.clean = spares;
        ebb_plan_request_t r = request(outlives * 7 / 10, true, true);
        ebb_plan_t *p = checked_plan(t, &r);
        assert_non_null(p);
        uint32_t on_host = 0, moved = 0;
        for (uint32_t i = 0; i < t->buffer_count; i++)
            on_host += p->place[i].at_start == EBB_ON_HOST;
        for (uint32_t i = 0; i < p->action_count; i++)
            moved += p->action[i].kind == EBB_EVICT && t->buffer[p->action[i].place].born == EBB_NONE;
        assert_true(on_host > 0 && moved >= on_host);
        if (!oracle_executes(t, p, 1, 2, why, sizeof why))
            fail_msg("%s", why);
        assert_true(!sparing || ebb_plan_sum(p, t).spared_bytes > 0);
        ebb_plan_delete(p);
    }
    sparing = false;
    ebb_trace_delete(t);
}

/* What a copy's check costs may be more than the copy. One of the strategies, or the levels, may still be better luck without. */
static void plan_that_may_spare_is_not_slower_than_one_that_may_not(void **state)
{
    (void)state;
    uint32_t plans = 0, slower = 0;
    const unsigned cases = test_cases(60, 60);
    for (uint32_t seed = 1; seed <= cases; seed++) {
        ebb_trace_t *t = trace_by_chance(seed, 20 + seed % 60);
        const uint64_t peak = keep_peak(t);
        for (uint64_t percent = 80; percent >= 50; percent -= 30) {
            print_message("seed %" PRIu32 " at %" PRIu64 "%%\r", seed, percent);
            ebb_plan_request_t r = request(peak * percent / 100, true, true);
            ebb_plan_t *each = checked_plan(t, &r);
            if (!each)
                continue;
            t->hardware.clean = r.hardware.clean = 1;
            t->hardware.hash_bytes_per_ns = r.hardware.hash_bytes_per_ns = 20;
            ebb_plan_t *p = checked_plan(t, &r);
            t->hardware.clean = 0;
            assert_non_null(p);
            plans++;
            slower += p->predicted_ns > each->predicted_ns;
            ebb_plan_delete(each);
            ebb_plan_delete(p);
        }
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " plans, %" PRIu32 " of them slower than without\n", plans, slower);
    assert_true(3 * plans > cases && slower * 25 <= plans);
}

/* As an evaluation does: nothing is ever copied out. */
static void step_that_only_reads_gets_a_plan_that_only_fetches(void **state)
{
    (void)state;
    ebb_trace_t *t = ebb_trace_new(2 << 20);
    for (uint32_t i = 0; i < 12; i++) {
        *ebb_trace_add_buffer(t) =
            (ebb_trace_buffer_t){.bytes = 8 << 20, .born = EBB_NONE, .dies = EBB_NONE, .next = i};
        ebb_trace_add_operation(t)->duration_ns = 5000000;
        *ebb_trace_add_access(t) = (ebb_trace_access_t){.buffer = i, .mode = EBB_READS};
    }
    sparing = true;
    t->hardware.clean = 1;
    ebb_plan_request_t r = request(48 << 20, true, true);
    ebb_plan_t *p = checked_plan(t, &r);
    sparing = false;
    assert_non_null(p);
    assert_int_equal(ebb_plan_sum(p, t).bytes_out, 0);
    assert_true(ebb_plan_sum(p, t).bytes_in >= 48 << 20);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void untouched_memory_goes_to_the_host_for_nothing(void **state)
{
    (void)state;
    ebb_trace_t *t = one_operation();
    ebb_trace_add_buffer(t)->bytes = 64 << 20;
    ebb_plan_request_t r = request(8 << 20, true, false);
    ebb_plan_t *p = checked_plan(t, &r);
    assert_non_null(p);
    assert_int_equal(p->action_count, 0);
    assert_int_equal(p->place[1].at_start, EBB_ON_HOST);
    assert_int_equal(p->place[1].chunk_count, 0);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_at_half_of_its_memory_gets_plans),
        cmocka_unit_test(stored_scores_at_half_of_its_memory_gets_plans),
        cmocka_unit_test(gradient_accumulation_at_half_of_its_memory_gets_plans),
        cmocka_unit_test(recompute_at_half_of_its_memory_costs_less_than_a_forward_pass),
        cmocka_unit_test(budget_too_small_gets_a_reason_and_a_size_that_works),
        cmocka_unit_test(nothing_allowed_below_the_peak_gets_no_plan),
        cmocka_unit_test(small_host_budget_is_kept),
        cmocka_unit_test(same_request_gets_the_same_plan),
        cmocka_unit_test(request_that_is_given_up_gets_no_plan),
        cmocka_unit_test(steps_by_chance_get_good_plans),
        cmocka_unit_test(copies_are_back_in_time_where_streams_overlap),
        cmocka_unit_test(steps_by_chance_on_several_streams_get_good_plans),
        cmocka_unit_test(steps_with_resident_kernels_get_good_plans),
        cmocka_unit_test(weights_that_are_gone_are_held_for_recipes),
        cmocka_unit_test(strategies_hold_what_they_need),
        cmocka_unit_test(what_no_periodic_plan_can_serve_is_refused),
        cmocka_unit_test(buffers_that_are_others_in_the_next_step_are_planned),
        cmocka_unit_test(budget_below_what_outlives_the_step_gets_a_plan_that_moves_it),
        cmocka_unit_test(plan_that_may_spare_is_not_slower_than_one_that_may_not),
        cmocka_unit_test(step_that_only_reads_gets_a_plan_that_only_fetches),
        cmocka_unit_test(untouched_memory_goes_to_the_host_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
