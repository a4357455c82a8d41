/* plan_scenes.c: see plan_scenes.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_scenes.h"
#include "trace_streams.h"

enum { CHUNK = SCENE_CHUNK, NEVER = SCENE_NEVER };

/* ---- building ---- */

static void add_buffer(scene_t *s, uint64_t bytes, int born, int dies)
{
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(s->trace);
    assert_non_null(b);
    b->bytes = bytes;
    b->born = (uint32_t)born;
    b->dies = (uint32_t)dies;
}

/* An operation by a text of accesses: "r0 w1 u2" reads buffer 0, replaces 1, updates 2. */
static void add_operation(scene_t *s, const char *text)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(s->trace);
    assert_non_null(o);
    o->proofs = 3;
    for (; *text; text += text[2] ? 3 : 2) {
        ebb_trace_access_t *a = ebb_trace_add_access(s->trace);
        assert_non_null(a);
        a->buffer = (uint32_t)(text[1] - '0');
        a->mode = text[0] == 'r' ? EBB_READS : text[0] == 'w' ? EBB_REPLACES : EBB_UPDATES;
    }
}

static scene_t begin(void)
{
    return (scene_t){.trace = ebb_trace_new(CHUNK), .limits = {100 * CHUNK, 100 * CHUNK}};
}

/* The plan, once the trace is complete. */
static void begin_plan(scene_t *s, uint32_t chunks, uint64_t small_bytes)
{
    assert_null(ebb_trace_check(s->trace));
    s->plan = ebb_plan_new(s->trace);
    assert_non_null(s->plan);
    s->plan->chunk_count = chunks;
    s->plan->small_bytes = small_bytes;
}

void scene_put(scene_t *s, uint32_t place, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(ebb_plan_add_chunk(s->plan, &s->plan->place[place], first + i));
}

static uint32_t add_scratch(scene_t *s, uint64_t bytes, uint32_t chunk)
{
    ebb_place_t *p = ebb_plan_add_place(s->plan);
    assert_non_null(p);
    p->bytes = bytes;
    assert_true(ebb_plan_add_chunk(s->plan, p, chunk));
    return s->plan->place_count - 1;
}

void scene_add_copy(scene_t *s, ebb_action_kind_t kind, uint32_t point, uint32_t place, int join, int wait)
{
    ebb_action_t *a = ebb_plan_add_action(s->plan, kind, point);
    assert_non_null(a);
    a->place = place;
    a->join = (uint32_t)join;
    if (wait != NEVER)
        assert_true(ebb_plan_add_wait(s->plan, a, (uint32_t)wait));
}

ebb_action_t *scene_add_replay(scene_t *s, uint32_t point, uint32_t operation)
{
    ebb_action_t *a = ebb_plan_add_action(s->plan, EBB_REPLAY, point);
    assert_non_null(a);
    a->operation = operation;
    return a;
}

void scene_remove_action(scene_t *s, uint32_t index)
{
    ebb_plan_t *p = s->plan;
    p->action_count--;
    memmove(p->action + index, p->action + index + 1, (p->action_count - index) * sizeof *p->action);
    for (uint32_t i = 0; i < p->wait_count; i++)
        if (p->wait[i] > index)
            p->wait[i]--;
}

void scene_swap_actions(scene_t *s, uint32_t a, uint32_t b)
{
    ebb_action_t keep = s->plan->action[a];
    s->plan->action[a] = s->plan->action[b];
    s->plan->action[b] = keep;
}

/* ---- scenes ---- */

/* Everything is kept: 0 outlives the step, 1 lives in it; small 2 and 3 follow each other at one offset, 4
 * outlives. */
scene_t scene_keep(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, 2 * CHUNK - 5, 0, 3);
    add_buffer(&s, 1000, 0, 2);
    add_buffer(&s, 600, 2, 3);
    add_buffer(&s, 8, NEVER, NEVER);
    add_operation(&s, "r0 r4 w1 w2");
    add_operation(&s, "r1 r2 u4");
    add_operation(&s, "r1 w3 u0");
    begin_plan(&s, 3, CHUNK);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 2);
    s.plan->place[2].small_offset = s.plan->place[3].small_offset = 512;
    return s;
}

/* Activation 1 goes out while 2 uses its chunk, and comes back. */
scene_t scene_offload(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, CHUNK - 1000, 0, 4);
    add_buffer(&s, CHUNK - 900, 1, 3);
    add_operation(&s, "r0 w1");
    add_operation(&s, "r0 w2");
    add_operation(&s, "r2");
    add_operation(&s, "r1 u0");
    begin_plan(&s, 2, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 1);
    scene_put(&s, 2, 1, 1);
    scene_add_copy(&s, EBB_EVICT, 1, 1, 1, NEVER);
    scene_add_copy(&s, EBB_FETCH, 3, 1, 3, 0);
    return s;
}

/* The same without any sharing, and without the compute stream ever waiting for the evict: the fetch does. */
scene_t scene_offload_apart(void)
{
    scene_t s = scene_offload();
    s.plan->chunk[2] = 2;
    s.plan->chunk_count = 3;
    s.plan->action[0].join = EBB_NONE;
    return s;
}

/* Buffer 0 outlives the step and is on the host at its beginning: its gap goes round the end of the step, and
 * the activation 1 uses its chunk there. */
scene_t scene_wrap(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, CHUNK, 0, 2);
    add_operation(&s, "w1");
    add_operation(&s, "r1");
    add_operation(&s, "u0");
    begin_plan(&s, 1, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 0, 1);
    s.plan->place[0].at_start = EBB_ON_HOST;
    scene_add_copy(&s, EBB_FETCH, 2, 0, 2, 1);
    scene_add_copy(&s, EBB_EVICT, 3, 0, 0, NEVER);
    return s;
}

scene_t scene_wrap_apart(void)
{
    scene_t s = scene_wrap();
    s.plan->chunk[1] = 1;
    s.plan->chunk_count = 2;
    s.plan->action[1].join = EBB_NONE;
    return s;
}

/* Buffer 1, made by operation 0 and updated in place by 1, is dropped while 2 uses its chunk; the replay of 0
 * would write small 3, too: that goes to scratch. */
scene_t scene_drop(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, CHUNK, 0, 6);
    add_buffer(&s, CHUNK, 2, 4);
    add_buffer(&s, 100, 0, 6);
    add_operation(&s, "r0 w1 w3");
    add_operation(&s, "u1 r0");
    add_operation(&s, "w2 r0");
    add_operation(&s, "r2");
    add_operation(&s, "r1 r3");
    add_operation(&s, "u0");
    begin_plan(&s, 3, CHUNK);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 1);
    scene_put(&s, 2, 1, 1);
    s.plan->place[3].small_offset = 0;
    uint32_t scratch = add_scratch(&s, 100, 2);
    scene_add_copy(&s, EBB_DISCARD, 2, 1, NEVER, NEVER);
    assert_true(ebb_plan_add_redirect(s.plan, scene_add_replay(&s, 4, 0), 3, scratch));
    scene_add_replay(&s, 4, 1);
    return s;
}

/* Buffer 1 is made from small 0, which is still there when it is replayed. */
scene_t scene_drop_small_input(void)
{
    scene_t s = begin();
    add_buffer(&s, 100, 0, 5);
    add_buffer(&s, CHUNK, 1, 5);
    add_buffer(&s, CHUNK, 2, 4);
    add_operation(&s, "w0");
    add_operation(&s, "r0 w1");
    add_operation(&s, "w2");
    add_operation(&s, "r2");
    add_operation(&s, "r1");
    begin_plan(&s, 1, CHUNK);
    s.plan->place[0].small_offset = 0;
    scene_put(&s, 1, 0, 1);
    scene_put(&s, 2, 0, 1);
    scene_add_copy(&s, EBB_DISCARD, 2, 1, NEVER, NEVER);
    scene_add_replay(&s, 4, 1);
    return s;
}

/* Buffer 1 is made from 0, which the program has freed by then; its place still holds it. */
scene_t scene_drop_freed_input(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 2);
    add_buffer(&s, CHUNK, 1, 5);
    add_buffer(&s, CHUNK, 2, 4);
    add_operation(&s, "w0");
    add_operation(&s, "r0 w1");
    add_operation(&s, "w2");
    add_operation(&s, "r2");
    add_operation(&s, "r1");
    begin_plan(&s, 2, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 1);
    scene_put(&s, 2, 1, 1);
    scene_add_copy(&s, EBB_DISCARD, 2, 1, NEVER, NEVER);
    scene_add_replay(&s, 4, 1);
    return s;
}

/* The freed input's place is used by 2 as well, and it is rebuilt there first. */
scene_t scene_drop_rebuilt_input(void)
{
    scene_t s = scene_drop_freed_input();
    scene_remove_action(&s, 1);
    s.plan->chunk[2] = 0;
    scene_add_replay(&s, 4, 0);
    scene_add_replay(&s, 4, 1);
    return s;
}

/* Buffer 1 is made from 0, which nothing can make again: its free is put off, and it is on the host while 2 uses the chunks of both. */
scene_t scene_drop_late_input(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 2);
    add_buffer(&s, CHUNK, 1, 6);
    add_buffer(&s, 2 * CHUNK, 2, 4);
    add_operation(&s, "w0");
    add_operation(&s, "r0 w1");
    add_operation(&s, "w2");
    add_operation(&s, "r2");
    add_operation(&s, "");
    add_operation(&s, "r1");
    s.trace->operation[0].proofs = 0;
    begin_plan(&s, 2, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 1);
    scene_put(&s, 2, 0, 2);
    s.plan->place[0].until = 6;
    scene_add_copy(&s, EBB_EVICT, 2, 0, 2, NEVER);
    scene_add_copy(&s, EBB_DISCARD, 2, 1, NEVER, NEVER);
    scene_add_copy(&s, EBB_FETCH, 4, 0, 4, 0);
    scene_add_replay(&s, 5, 1);
    return s;
}

/* A buffer that no operation touches stays on the host, without chunks. */
scene_t scene_untouched(void)
{
    scene_t s = begin();
    add_buffer(&s, 3 * CHUNK, NEVER, NEVER);
    add_buffer(&s, CHUNK, 0, 1);
    add_operation(&s, "w1");
    begin_plan(&s, 1, 0);
    scene_put(&s, 1, 0, 1);
    s.plan->place[0].at_start = EBB_ON_HOST;
    return s;
}

/* Written in two parts, the first of which finds nothing. */
scene_t scene_in_parts(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 3);
    add_operation(&s, "u0");
    add_operation(&s, "u0");
    add_operation(&s, "r0");
    begin_plan(&s, 1, 0);
    scene_put(&s, 0, 0, 1);
    return s;
}

void scene_end(scene_t *s)
{
    ebb_trace_delete(s->trace);
    ebb_plan_delete(s->plan);
}

/* Large buffer 0 is made before 1, which it was in the step before, is freed; so are small 3 and 4. Activation 2 lives when only
 * one of them does, and has a chunk of its own nevertheless: in the next step it is the other one. */
scene_t scene_rotate(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, NEVER);
    add_buffer(&s, CHUNK, NEVER, 2);
    add_buffer(&s, CHUNK, 2, 3);
    add_buffer(&s, 8, 0, NEVER);
    add_buffer(&s, 8, NEVER, 2);
    s.trace->buffer[0].next = 1;
    s.trace->buffer[3].next = 4;
    add_operation(&s, "w0 w3");
    add_operation(&s, "r0 r1 r3 r4");
    add_operation(&s, "r0 w2");
    begin_plan(&s, 3, 0);
    for (uint32_t i = 0; i < 3; i++)
        scene_put(&s, i, i, 1);
    return s;
}

/* All places of a ring on one chunk: what outlives the step does so on the host. */
scene_t scene_rotate_on_host(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, NEVER);
    add_buffer(&s, CHUNK, NEVER, 2);
    s.trace->buffer[0].next = 1;
    add_operation(&s, "w0");
    add_operation(&s, "r1");
    begin_plan(&s, 1, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 0, 1);
    s.plan->place[1].at_start = EBB_ON_HOST;
    scene_add_copy(&s, EBB_EVICT, 1, 0, NEVER, NEVER);
    scene_add_copy(&s, EBB_FETCH, 1, 1, 1, 0);
    return s;
}

/* 0 and 1 are each other in the next step, 2, 3 and 4 go round: six steps until all is as it was. */
scene_t scene_change_places(void)
{
    scene_t s = begin();
    for (uint32_t i = 0; i < 5; i++)
        add_buffer(&s, CHUNK, NEVER, NEVER);
    for (uint32_t i = 0; i < 5; i++)
        s.trace->buffer[i].next = i < 2 ? 1 - i : 2 + (i - 1) % 3;
    add_operation(&s, "w0 r1");
    add_operation(&s, "r2 u3 w4");
    begin_plan(&s, 5, 0);
    for (uint32_t i = 0; i < 5; i++)
        scene_put(&s, i, i, 1);
    return s;
}

/* ---- several streams ---- */

static void add_order(scene_t *s, uint32_t point, uint32_t stream, uint32_t after)
{
    ebb_action_t *a = ebb_plan_add_action(s->plan, EBB_ORDER, point);
    assert_non_null(a);
    a->stream = stream;
    a->after = after;
}

static void set_streams(scene_t *s, uint32_t action, uint32_t after, uint32_t joiners)
{
    s->plan->action[action].after = after;
    s->plan->action[action].joiners = joiners;
}

/* Activation 1 of the first stream goes out while 2, of the second one, uses its chunk, and comes back. */
scene_t scene_streams_offload(void)
{
    scene_t s = scene_offload();
    trace_set_streams(s.trace, "0110");
    trace_add_edge(s.trace, 1, 3, 0, 3);
    set_streams(&s, 0, 1 << 0, 1 << 1);
    set_streams(&s, 1, 1 << 1, 1 << 0);
    return s;
}

/* The second stream takes the chunk of what the first one has done with; the third has nothing to do with either. Small 3 and 4
 * follow each other on one stream, 5 is another one's. */
scene_t scene_streams_share(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 2);
    add_buffer(&s, CHUNK, 2, 4);
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, 100, 0, 1);
    add_buffer(&s, 100, 1, 2);
    add_buffer(&s, 100, 2, 4);
    add_operation(&s, "w0 w3");
    add_operation(&s, "r0 w4");
    add_operation(&s, "w1 w5");
    add_operation(&s, "r1 r5");
    add_operation(&s, "u2");
    trace_set_streams(s.trace, "00112");
    begin_plan(&s, 2, CHUNK);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 0, 1);
    scene_put(&s, 2, 1, 1);
    s.plan->place[3].small_offset = s.plan->place[4].small_offset = 0;
    s.plan->place[5].small_offset = 512;
    add_order(&s, 2, 1, 1 << 0);
    return s;
}

/* Two streams each write a half of buffer 0, in no order, on the chunk of 1, and a third one reads it; then it is out, and back
 * for all three. */
scene_t scene_streams_halves(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 1, 7);
    add_buffer(&s, CHUNK, 0, 1);
    add_operation(&s, "w1");
    add_operation(&s, "u0");
    add_operation(&s, "u0");
    add_operation(&s, "r0");
    add_operation(&s, "r0");
    add_operation(&s, "u0");
    add_operation(&s, "u0");
    trace_set_streams(s.trace, "2012012");
    trace_add_edge(s.trace, 0, 3, 2, 3);
    trace_add_edge(s.trace, 1, 3, 2, 3);
    begin_plan(&s, 1, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 0, 1);
    for (uint32_t stream = 0; stream < 2; stream++)
        add_order(&s, 1 + stream, stream, 1 << 2);
    scene_add_copy(&s, EBB_EVICT, 4, 0, NEVER, NEVER);
    scene_add_copy(&s, EBB_FETCH, 4, 0, 4, 2);
    set_streams(&s, 2, 1 << 2, 0);
    set_streams(&s, 3, 1 << 2, 1 << 0 | 1 << 1 | 1 << 2);
    return s;
}

/* 1, made by operation 1 on the first stream from 0, is dropped while 2 has its chunk on the second one, and made again there at a point. */
static void plan_streams_drop(scene_t *s, uint32_t point, uint32_t after)
{
    begin_plan(s, 2, 0);
    scene_put(s, 0, 0, 1);
    scene_put(s, 1, 1, 1);
    scene_put(s, 2, 1, 1);
    scene_add_copy(s, EBB_DISCARD, 2, 1, NEVER, NEVER);
    add_order(s, 2, 1, 1 << 0);
    ebb_action_t *replay = scene_add_replay(s, point, 1);
    replay->stream = 1;
    replay->after = after;
    add_order(s, point, 0, 1 << 1);
}

scene_t scene_streams_drop(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 5);
    add_buffer(&s, CHUNK, 1, 5);
    add_buffer(&s, CHUNK, 2, 4);
    add_operation(&s, "w0");
    add_operation(&s, "r0 w1");
    add_operation(&s, "w2");
    add_operation(&s, "r2");
    add_operation(&s, "r1 u0");
    trace_set_streams(s.trace, "00110");
    plan_streams_drop(&s, 4, 1 << 0);
    return s;
}

/* The same, where the launch that makes 1 reads small 3, and so does one of a third stream: each may count in it, and leave it as it was. */
scene_t scene_streams_counter(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 6);
    add_buffer(&s, CHUNK, 1, 6);
    add_buffer(&s, CHUNK, 2, 4);
    add_buffer(&s, 8, NEVER, NEVER);
    add_operation(&s, "w0");
    add_operation(&s, "r0 r3 w1");
    add_operation(&s, "w2");
    add_operation(&s, "r2");
    add_operation(&s, "r3");
    add_operation(&s, "r1 u0");
    trace_set_streams(s.trace, "001120");
    plan_streams_drop(&s, 5, 1 << 0 | 1 << 2);
    return s;
}

/* ---- resident operations ---- */

/* As scene_offload, but for a resident operation, which the fetch is issued and over before. */
scene_t scene_resident(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_buffer(&s, CHUNK, 0, 5);
    add_buffer(&s, CHUNK, 1, 3);
    add_operation(&s, "r0 w1");
    add_operation(&s, "r0 w2");
    add_operation(&s, "r2");
    add_operation(&s, "r0");
    add_operation(&s, "r1 u0");
    s.trace->operation[3].resident = true;
    begin_plan(&s, 2, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 1, 1);
    scene_put(&s, 2, 1, 1);
    scene_add_copy(&s, EBB_EVICT, 1, 1, 1, NEVER);
    scene_add_copy(&s, EBB_FETCH, 3, 1, 3, 0);
    return s;
}

/* A resident operation on the third stream, which touches nothing that changes hands: behind the first stream's, which takes a chunk
 * from 1, and before the second one's, which takes it back. */
scene_t scene_streams_resident(void)
{
    scene_t s = begin();
    add_buffer(&s, CHUNK, 0, 3);
    add_buffer(&s, CHUNK, 3, 5);
    add_buffer(&s, CHUNK, NEVER, NEVER);
    add_operation(&s, "w0");
    add_operation(&s, "u2");
    add_operation(&s, "r0");
    add_operation(&s, "w1");
    add_operation(&s, "r1");
    s.trace->operation[1].resident = true;
    trace_set_streams(s.trace, "02011");
    begin_plan(&s, 2, 0);
    scene_put(&s, 0, 0, 1);
    scene_put(&s, 1, 0, 1);
    scene_put(&s, 2, 1, 1);
    add_order(&s, 1, 2, 1 << 0);
    add_order(&s, 3, 1, 1 << 0 | 1 << 2);
    return s;
}
