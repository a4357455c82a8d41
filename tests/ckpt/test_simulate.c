/* test_simulate.c: steps whose times are known by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "ckpt/plan/plan.h"
#include "trace_streams.h"

enum { OP_NS = 1000, COPY_NS = 513 }; /* a copy takes a nanosecond more than its bytes */
#define BUFFER (UINT64_C(4) << 20)
static const ebb_hardware_t fast = {.out_bytes_per_ns = 8192, .in_bytes_per_ns = 8192};

/* Three operations; the first and the last use buffer 0, which outlives the step, the one between buffer 1, born for it. */
static ebb_trace_t *three_operations(void)
{
    static const uint32_t used[] = {0, 1, 0};
    ebb_trace_t *t = ebb_trace_new(2 << 20);
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    *b = (ebb_trace_buffer_t){.bytes = BUFFER, .born = EBB_NONE, .dies = EBB_NONE};
    b = ebb_trace_add_buffer(t);
    *b = (ebb_trace_buffer_t){.bytes = BUFFER, .born = 1, .dies = 2, .next = EBB_NONE};
    for (int i = 0; i < 3; i++) {
        ebb_trace_add_operation(t)->duration_ns = OP_NS;
        *ebb_trace_add_access(t) =
            (ebb_trace_access_t){.buffer = used[i], .mode = used[i] ? EBB_REPLACES : EBB_UPDATES};
    }
    assert_null(ebb_trace_check(t));
    return t;
}

/* Buffer 0 is out while buffer 1 is used, on the same chunks or on others. */
static ebb_plan_t *out_and_back(const ebb_trace_t *t, bool shared)
{
    ebb_plan_t *p = ebb_plan_new(t);
    p->chunk_count = shared ? 2 : 4;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(ebb_plan_add_chunk(p, &p->place[i / 2], shared ? i % 2 : i));
    ebb_action_t *a = ebb_plan_add_action(p, EBB_EVICT, 1);
    a->place = 0;
    a->join = shared ? 1 : EBB_NONE;
    a = ebb_plan_add_action(p, EBB_FETCH, 2);
    a->place = 0;
    a->join = 2;
    assert_true(ebb_plan_add_wait(p, a, 0));
    return p;
}

static bool is(double x, double expected)
{
    return x > expected - 1e-6 && x < expected + 1e-6;
}

static uint64_t level_at(const ebb_simulation_t *s, double ns)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->level_count && s->level[i].ns <= ns; i++)
        bytes = s->level[i].bytes;
    return bytes;
}

static void copies_on_chunks_of_their_own_expose_the_way_back(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = out_and_back(t, false);
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 3 * OP_NS + COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_OPERATION], 3 * OP_NS));
    assert_true(is(s.track_ns[EBB_TRACK_OUT], COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_IN], COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_IN], COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_OUT], 0));
    assert_true(is(s.hidden_ns, COPY_NS));
    assert_int_equal(s.peak_bytes, 2 * BUFFER);
    assert_int_equal(s.span_count, 6);
    assert_int_equal(s.span[1].track, EBB_TRACK_OUT);
    assert_true(is(s.span[1].begin_ns, OP_NS) && is(s.span[1].end_ns, OP_NS + COPY_NS));
    assert_int_equal(s.span[4].track, EBB_TRACK_WAIT_IN);
    assert_int_equal(s.span[4].index, 1);
    assert_int_equal(level_at(&s, 0), BUFFER);
    assert_int_equal(level_at(&s, OP_NS), 2 * BUFFER);
    assert_int_equal(level_at(&s, OP_NS + COPY_NS), BUFFER);
    assert_int_equal(level_at(&s, 2 * OP_NS), BUFFER);
    assert_int_equal(level_at(&s, 3 * OP_NS), BUFFER);
    assert_int_equal(level_at(&s, 4 * OP_NS), 0);
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void copies_on_shared_chunks_expose_both_ways(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = out_and_back(t, true);
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 3 * OP_NS + 2 * COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_OUT], COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_IN], COPY_NS));
    assert_true(is(s.hidden_ns, 0));
    for (uint32_t i = 0; i < s.level_count; i++)
        assert_true(s.level[i].bytes <= s.peak_bytes);
    assert_int_equal(s.peak_bytes, BUFFER);
    ebb_simulation_delete(&s);
    assert_int_equal(ebb_simulate_ns(p, t, &fast), 3 * OP_NS + 2 * COPY_NS + 1);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void copies_slow_operations_down_while_they_run(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = out_and_back(t, false);
    ebb_hardware_t slow = fast;
    slow.out_slowdown = 0.5;
    slow.in_slowdown = 9;
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &slow, false));
    const double lost =
        COPY_NS - COPY_NS / 1.5; /* the copy out lies beside the second operation, the copy in beside none */
    assert_true(is(s.slowed_ns, lost));
    assert_true(is(s.step_ns, 3 * OP_NS + lost + COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_OPERATION], 3 * OP_NS));
    assert_int_equal(s.span_count, 0);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void replays_take_their_time(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = ebb_plan_new(t);
    ebb_plan_add_action(p, EBB_REPLAY, 2)->operation = 1;
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 4 * OP_NS));
    assert_true(is(s.track_ns[EBB_TRACK_REPLAY], OP_NS));
    assert_int_equal(s.span[2].track, EBB_TRACK_REPLAY);
    assert_int_equal(s.span[2].index, 0);
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Buffer 1 is another one in each step, as undefined before its first operation as any allocation; if it persists, a replay finds
 * zeros there, as its proof did. */
static void replay_zeroes_what_it_replaces_unless_it_was_just_born(void **state)
{
    (void)state;
    ebb_hardware_t hardware = fast;
    hardware.zero_bytes_per_ns = (double)BUFFER / 100;
    for (int persists = 0; persists < 2; persists++) {
        ebb_trace_t *t = three_operations();
        if (persists)
            t->buffer[1].born = t->buffer[1].dies = EBB_NONE;
        ebb_plan_t *p = out_and_back(t, false);
        p->action_count = 0;
        ebb_plan_add_action(p, EBB_REPLAY, 2)->operation = 1;
        ebb_simulation_t s;
        assert_true(ebb_simulate(&s, p, t, &hardware, false));
        assert_true(is(s.step_ns, 4 * OP_NS + (persists ? 100 : 0)));
        ebb_plan_delete(p);
        ebb_trace_delete(t);
    }
}

/* An evict at the step's end goes on in the next step, whose first operation waits for it. */
static void copy_over_the_end_of_the_step_is_waited_for_in_the_next(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = ebb_plan_new(t);
    ebb_action_t *a = ebb_plan_add_action(p, EBB_EVICT, 3);
    a->place = 0;
    a->join = 0;
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, &fast, false));
    assert_true(is(s.step_ns, 3 * OP_NS + COPY_NS));
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_OUT], COPY_NS));
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* ---- several streams ---- */

/* A copy from the host to the device: it is the link that it takes. */
static void make_upload(ebb_trace_t *t, uint32_t operation)
{
    t->operation[operation].kind = EBB_TRACE_COPY;
    t->operation[operation].verdict = EBB_HOST;
    t->access[t->operation[operation].first_access].mode = EBB_REPLACES;
}

static void operations_of_all_streams_take_turns_on_the_device(void **state)
{
    (void)state;
    ebb_simulation_t s;
    ebb_trace_t *t = three_operations();
    trace_set_streams(t, "010");
    ebb_plan_t *p = ebb_plan_new(t);
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 3 * OP_NS) && is(s.alone_ns, 3 * OP_NS));
    for (uint32_t i = 0; i < 3; i++)
        assert_true(s.span[i].index == i && is(s.span[i].begin_ns, i * OP_NS));
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* The second stream's is there first, and is not interrupted by what was issued before it and comes later. */
static void operation_that_may_begin_goes_before_one_that_waits(void **state)
{
    (void)state;
    ebb_simulation_t s;
    ebb_trace_t *t = three_operations();
    trace_set_streams(t, "001");
    make_upload(t, 0);
    t->operation[2].duration_ns = OP_NS + OP_NS / 2;
    ebb_plan_t *p = ebb_plan_new(t);
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.span[1].begin_ns, OP_NS + OP_NS / 2.0) && is(s.span[2].begin_ns, 0));
    assert_true(is(s.step_ns, 2 * OP_NS + OP_NS / 2.0) && is(s.alone_ns, s.step_ns));
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void events_and_waits_of_the_host_order_streams(void **state)
{
    (void)state;
    for (int order = 0; order < 3; order++) {
        ebb_simulation_t s;
        ebb_trace_t *t = three_operations();
        trace_set_streams(t, "010");
        make_upload(t, 0);
        if (order == 1)
            trace_add_edge(t, 0, 1, 1, 1);
        else if (order == 2)
            trace_add_moment(t, EBB_SYNC_SYNC_STREAM, 1, 0, 0);
        ebb_plan_t *p = ebb_plan_new(t);
        assert_true(ebb_simulate(&s, p, t, &fast, true));
        assert_true(is(s.step_ns, (order ? 3 : 2) * OP_NS) && is(s.alone_ns, s.step_ns));
        assert_true(is(s.span[1].begin_ns, order ? OP_NS : 0)); /* the second stream's */
        ebb_simulation_delete(&s);
        ebb_plan_delete(p);
        ebb_trace_delete(t);
    }
}

/* It takes one of four multiprocessors while it runs, with a plan and without. */
static void what_communicates_runs_beside_operations(void **state)
{
    (void)state;
    ebb_simulation_t s;
    ebb_hardware_t hardware = fast;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = ebb_plan_new(t);
    trace_set_streams(t, "010");
    t->operation[1].communicates = true;
    t->operation[1].grid[0] = t->operation[1].grid[1] = t->operation[1].grid[2] = 1;
    assert_true(ebb_simulate(&s, p, t, &hardware, false));
    assert_true(is(s.step_ns, 2 * OP_NS) && is(s.alone_ns, 2 * OP_NS) && is(s.slowed_ns, 0));
    hardware.multiprocessors = t->hardware.multiprocessors = 4;
    assert_true(ebb_simulate(&s, p, t, &hardware, false));
    assert_true(is(s.step_ns, 2.25 * OP_NS) && is(s.alone_ns, s.step_ns) && is(s.slowed_ns, 0));
    t->operation[1].grid[0] = 1000;
    assert_true(ebb_simulate(&s, p, t, &hardware, false));
    assert_true(is(s.step_ns, 2.75 * OP_NS));
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Operation 0 makes buffer 1, which is given up and made again for operation 3; operation 1 goes on meanwhile on another stream: on another
 * buffer, on one that has the same memory, on the same. */
static void hashes_wait_for_streams_that_use_the_place(void **state)
{
    (void)state;
    enum { OTHER, SHARED, SAME, CASES };
    ebb_hardware_t hardware = fast;
    hardware.checked = 1;
    hardware.hash_ns = 100;
    hardware.hash_bytes_per_ns = 1e12;
    for (int on = OTHER; on < CASES; on++) {
        const uint32_t used[] = {1, on == SAME, 0, 1};
        ebb_simulation_t s;
        ebb_trace_t *t = ebb_trace_new(2 << 20);
        *ebb_trace_add_buffer(t) = (ebb_trace_buffer_t){.bytes = BUFFER, .born = EBB_NONE, .dies = EBB_NONE};
        *ebb_trace_add_buffer(t) =
            (ebb_trace_buffer_t){.bytes = BUFFER, .born = 0, .dies = 4, .next = EBB_NONE};
        for (int i = 0; i < 4; i++) {
            ebb_trace_operation_t *o = ebb_trace_add_operation(t);
            o->duration_ns = i == 1 ? 5 * OP_NS : OP_NS;
            o->communicates = i == 1;
            *ebb_trace_add_access(t) =
                (ebb_trace_access_t){.buffer = used[i], .mode = i ? EBB_READS : EBB_REPLACES};
        }
        trace_set_streams(t, "0100");
        ebb_plan_t *p = ebb_plan_new(t);
        p->chunk_count = on == SHARED ? 2 : 4;
        for (uint32_t i = 0; i < 4; i++)
            assert_true(ebb_plan_add_chunk(p, &p->place[i / 2], on == SHARED ? i % 2 : i));
        ebb_plan_add_action(p, EBB_DISCARD, 2)->place = 1;
        ebb_plan_add_action(p, EBB_REPLAY, 3)->operation = 0;
        assert_true(ebb_simulate(&s, p, t, &hardware, false));
        /* Of the same, all but the first one stands behind that operation. */
        assert_int_equal((int)s.step_ns, on == SAME ? 8 * OP_NS + 200 : 5 * OP_NS);
        ebb_plan_delete(p);
        ebb_trace_delete(t);
    }
}

static void host_that_comes_late_is_waited_for(void **state)
{
    (void)state;
    ebb_hardware_t hardware = fast;
    hardware.call_ns = 10 * OP_NS;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = ebb_plan_new(t);
    ebb_simulation_t s;
    trace_set_streams(t, "010");
    assert_true(ebb_simulate(&s, p, t, &hardware, false));
    /* behind the clock: all others wait for the first stream (of the program's the second, out and in), three operations, the
     * meeting, the clock */
    assert_true(is(s.step_ns, (2 * 3 + 3 + 2 + 1) * hardware.call_ns));
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Out behind the first stream, which the second one waits for; back behind the second one. */
static void copies_between_two_streams_wait_for_those_that_they_name(void **state)
{
    (void)state;
    ebb_simulation_t s;
    ebb_trace_t *t = three_operations();
    trace_set_streams(t, "010");
    ebb_plan_t *p = out_and_back(t, true);
    p->action[0].joiners = 1 << 1;
    p->action[1].after = 1 << 1;
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 3 * OP_NS + 2 * COPY_NS) && is(s.alone_ns, 3 * OP_NS));
    assert_true(
        is(s.track_ns[EBB_TRACK_WAIT_OUT], OP_NS + COPY_NS)); /* the second stream had nothing to do before */
    assert_true(is(s.track_ns[EBB_TRACK_WAIT_IN], OP_NS + 2 * COPY_NS));
    ebb_simulation_delete(&s);

    p->action[1].after = 1 << 0; /* both ways at once, were they allowed to */
    p->action[1].wait_count = 0;
    assert_true(ebb_simulate(&s, p, t, &fast, true));
    assert_true(is(s.step_ns, 3 * OP_NS + COPY_NS));
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void orders_and_replays_wait_for_the_streams_that_they_name(void **state)
{
    (void)state;
    enum { SHORT_NS = 200 };
    for (int replays = 0; replays < 2; replays++) {
        ebb_simulation_t s;
        ebb_trace_t *t = three_operations();
        trace_set_streams(t, "012");
        make_upload(t, 1);
        t->operation[0].duration_ns = SHORT_NS;
        ebb_plan_t *p = ebb_plan_new(t);
        ebb_action_t *a = ebb_plan_add_action(p, replays ? EBB_REPLAY : EBB_ORDER, 2);
        a->operation = replays ? 1 : EBB_NONE;
        a->stream = 2;
        a->after = 1 << 1;
        assert_true(ebb_simulate(&s, p, t, &fast, true));
        assert_true(is(s.step_ns, (replays ? 3 : 2) * OP_NS) && is(s.alone_ns, SHORT_NS + OP_NS));
        assert_true(is(s.track_ns[EBB_TRACK_REPLAY], replays * OP_NS));
        ebb_simulation_delete(&s);
        ebb_plan_delete(p);
        ebb_trace_delete(t);
    }
}

/* Beside times of hours what is left of a copy is lost by rounding: it ends all the same. */
static void copies_end_in_steps_of_hours(void **state)
{
    (void)state;
    ebb_trace_t *t = three_operations();
    ebb_plan_t *p = out_and_back(t, false);
    ebb_action_t *a = ebb_plan_add_action(p, EBB_EVICT, 2);
    a->place = 0;
    for (int i = 0; i < 100; i++) {
        ebb_hardware_t odd = fast;
        odd.out_bytes_per_ns /= 1 + 0.013 * i;
        odd.out_both = 0.85;
        odd.in_both = 0.4;
        odd.out_slowdown = 0.3;
        odd.in_slowdown = 0.6;
        for (uint32_t k = 0; k < t->operation_count; k++)
            t->operation[k].duration_ns = UINT64_C(4000000000000) + (uint64_t)i;
        assert_true(ebb_simulate_ns(p, t, &odd) >= 3 * UINT64_C(4000000000000));
    }
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Behind the first one, whichever stream that is on. */
static void copies_slow_the_operations_of_all_streams_down(void **state)
{
    (void)state;
    ebb_simulation_t s;
    ebb_trace_t *t = three_operations();
    trace_set_streams(t, "011");
    ebb_plan_t *p = out_and_back(t, false);
    p->action_count = 1;
    ebb_hardware_t slow = fast;
    slow.out_slowdown = 1;
    assert_true(ebb_simulate(&s, p, t, &slow, true));
    assert_true(is(s.slowed_ns, COPY_NS / 2.0)); /* half the work is done while the copy runs */
    assert_true(is(s.track_ns[EBB_TRACK_OPERATION], 3 * OP_NS));
    assert_true(is(s.step_ns, 3 * OP_NS + COPY_NS / 2.0));
    ebb_simulation_delete(&s);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_on_chunks_of_their_own_expose_the_way_back),
        cmocka_unit_test(copies_on_shared_chunks_expose_both_ways),
        cmocka_unit_test(copies_slow_operations_down_while_they_run),
        cmocka_unit_test(replays_take_their_time),
        cmocka_unit_test(replay_zeroes_what_it_replaces_unless_it_was_just_born),
        cmocka_unit_test(copy_over_the_end_of_the_step_is_waited_for_in_the_next),
        cmocka_unit_test(operations_of_all_streams_take_turns_on_the_device),
        cmocka_unit_test(operation_that_may_begin_goes_before_one_that_waits),
        cmocka_unit_test(events_and_waits_of_the_host_order_streams),
        cmocka_unit_test(what_communicates_runs_beside_operations),
        cmocka_unit_test(hashes_wait_for_streams_that_use_the_place),
        cmocka_unit_test(host_that_comes_late_is_waited_for),
        cmocka_unit_test(copies_between_two_streams_wait_for_those_that_they_name),
        cmocka_unit_test(orders_and_replays_wait_for_the_streams_that_they_name),
        cmocka_unit_test(copies_slow_the_operations_of_all_streams_down),
        cmocka_unit_test(copies_end_in_steps_of_hours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
