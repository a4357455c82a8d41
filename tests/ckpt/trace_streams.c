/* trace_streams.c: see trace_streams.h. */
#include "trace_streams.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

void trace_set_streams(ebb_trace_t *t, const char *streams)
{
    for (uint32_t i = 0; streams[i]; i++)
        t->operation[i].stream = (uint32_t)(streams[i] - '0');
}

void trace_add_moment(ebb_trace_t *t, ebb_sync_kind_t what, uint32_t before, uint32_t stream, uint32_t id)
{
    ebb_trace_sync_t *m = ebb_trace_add_sync(t);
    assert_non_null(m);
    *m = (ebb_trace_sync_t){.what = what, .before = before, .stream = stream, .id = id};
}

void trace_add_edge(ebb_trace_t *t, uint32_t from, uint32_t recorded, uint32_t to, uint32_t waited)
{
    const uint32_t id = t->sync_count / 2;
    trace_add_moment(t, EBB_SYNC_RECORD, recorded, from, id);
    trace_add_moment(t, EBB_SYNC_WAIT, waited, to, id);
}

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

/* One must come after the other. */
static bool conflict(const ebb_trace_t *t, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < t->operation[a].access_count; i++) {
        const uint32_t buffer = t->access[t->operation[a].first_access + i].buffer;
        const ebb_mode_t x = ebb_trace_mode(t, a, buffer), y = ebb_trace_mode(t, b, buffer);
        if (y && (x != EBB_READS || y != EBB_READS))
            return true;
    }
    return false;
}

/* An event on `from`, recorded and waited for at these points. */
typedef struct edge {
    uint32_t from, recorded, to, waited;
} edge_t;

static uint32_t draw_edges(const ebb_trace_t *t, edge_t *edge, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        for (uint32_t k = 0; k < i && count < most; k++) {
            const uint32_t from = t->operation[k].stream, to = t->operation[i].stream;
            bool there = from == to || (!conflict(t, k, i) && draw(40));
            for (uint32_t e = 0; e < count; e++)
                there |=
                    edge[e].from == from && edge[e].to == to && edge[e].recorded > k && edge[e].waited <= i;
            if (!there)
                edge[count++] = (edge_t){from, k + 1 + draw(i - k), to, i};
        }
    return count;
}

void trace_put_on_streams(ebb_trace_t *t, uint32_t streams)
{
    enum { MOST_EDGES = 4000 };
    static edge_t edge[MOST_EDGES];
    for (uint32_t i = 0; i < t->operation_count; i++)
        t->operation[i].stream = draw(streams);
    const uint32_t count = draw_edges(t, edge, MOST_EDGES);
    assert_true(count < MOST_EDGES);
    for (uint32_t p = 0; p <= t->operation_count; p++)
        for (int waits = 0; waits < 2; waits++)
            for (uint32_t e = 0; e < count; e++)
                if ((waits ? edge[e].waited : edge[e].recorded) == p)
                    trace_add_moment(t, waits ? EBB_SYNC_WAIT : EBB_SYNC_RECORD, p,
                                     waits ? edge[e].to : edge[e].from, e);
}

void trace_draw_residents(ebb_trace_t *t, uint32_t one_of)
{
    for (uint32_t i = 0; i < t->operation_count; i++) {
        t->operation[i].resident = !draw(one_of);
        if (t->operation[i].resident)
            t->operation[i].proofs = 0;
    }
}
