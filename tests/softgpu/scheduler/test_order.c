/* What a seed decides, and what it does not. */
#include "scheduler_test.h"

enum { STREAMS = 4, OPS = 200, SEEDS = 8 };

typedef struct trace {
    int log[1 + OPS];
    int64_t times[OPS];
} trace_t;

/* Appends from several streams, some of them joined by events, all of them timed. */
static void mixed_work(void *out)
{
    trace_t *t = out;
    CUfunction append = kernel("append");
    CUdeviceptr log = device_alloc(sizeof t->log);
    CUstream s[STREAMS];
    CUevent begin = new_event(), done[OPS];
    for (int i = 0; i < STREAMS; i++)
        s[i] = new_stream(-i);
    OK(cuEventRecord(begin, s[0]));
    srand(12);
    for (int i = 0; i < OPS; i++) {
        int on = rand() % STREAMS;
        if (i && rand() % 4 == 0)
            OK(cuStreamWaitEvent(s[on], done[rand() % i], 0));
        LAUNCH(s[on], append, &log, &i);
        done[i] = new_event();
        OK(cuEventRecord(done[i], s[on]));
        if (rand() % 16 == 0)
            OK(cuStreamSynchronize(s[rand() % STREAMS]));
    }
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(t->log, log, sizeof t->log));
    for (int i = 0; i < OPS; i++)
        t->times[i] = elapsed_ns(begin, done[i]);
}

static trace_t traces[SEEDS][2];

static void run_all(void)
{
    static bool done;
    if (done)
        return;
    for (unsigned seed = 0; seed < SEEDS; seed++)
        for (int again = 0; again < 2; again++)
            run_seeded(seed, mixed_work, &traces[seed][again], sizeof(trace_t));
    done = true;
}

static void same_seed_gives_the_same_order(void **state)
{
    (void)state;
    run_all();
    for (int seed = 0; seed < SEEDS; seed++)
        assert_memory_equal(traces[seed][0].log, traces[seed][1].log, sizeof traces[0][0].log);
}

static void other_seeds_give_other_orders(void **state)
{
    (void)state;
    run_all();
    int different = 0;
    for (int a = 0; a < SEEDS; a++)
        for (int b = 0; b < a; b++)
            different += memcmp(traces[a][0].log, traces[b][0].log, sizeof traces[0][0].log) != 0;
    assert_int_equal(different, SEEDS * (SEEDS - 1) / 2); /* 200 ops: no two orders are alike */
}

static void every_op_runs_once_and_streams_and_events_keep_their_order(void **state)
{
    (void)state;
    run_all();
    for (int seed = 0; seed < SEEDS; seed++) {
        const int *log = traces[seed][0].log;
        int place[OPS], last[STREAMS];
        memset(place, -1, sizeof place);
        memset(last, -1, sizeof last);
        assert_int_equal(log[0], OPS);
        for (int i = 0; i < OPS; i++) {
            assert_in_range(log[1 + i], 0, OPS - 1);
            assert_int_equal(place[log[1 + i]], -1);
            place[log[1 + i]] = i;
        }
        srand(12); /* the same choices as in mixed_work */
        for (int i = 0; i < OPS; i++) {
            int on = rand() % STREAMS;
            if (i && rand() % 4 == 0)
                assert_true(place[rand() % i] < place[i]);
            assert_true(last[on] < 0 || place[last[on]] < place[i]);
            last[on] = i;
            if (rand() % 16 == 0)
                rand();
        }
    }
}

static void times_are_the_same_under_every_seed(void **state)
{
    (void)state;
    run_all();
    for (int seed = 0; seed < SEEDS; seed++)
        for (int i = 0; i < OPS; i++)
            assert_int_equal(traces[seed][0].times[i], traces[0][0].times[i]);
    assert_true(traces[0][0].times[OPS - 1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_gives_the_same_order),
        cmocka_unit_test(other_seeds_give_other_orders),
        cmocka_unit_test(every_op_runs_once_and_streams_and_events_keep_their_order),
        cmocka_unit_test(times_are_the_same_under_every_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
