/* Plans as data: what is written is read again, what is damaged is refused or still a plan, and the sums are
 * right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/plan/plan.h"

enum { CHUNK = 2 << 20 };

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

static ebb_trace_t *make_trace(uint32_t operations, uint32_t buffers)
{
    ebb_trace_t *t = ebb_trace_new(CHUNK);
    assert_non_null(t);
    for (uint32_t i = 0; i < buffers; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        assert_non_null(b);
        b->bytes = 1 + draw(8 * CHUNK);
        if (draw(2)) {
            b->born = draw(operations);
            b->dies = operations;
        }
    }
    for (uint32_t i = 0; i < operations; i++) {
        ebb_trace_operation_t *o = ebb_trace_add_operation(t);
        assert_non_null(o);
        o->duration_ns = 1 + draw(1000);
    }
    return t;
}

static void add_random_action(ebb_plan_t *p, uint32_t point, uint32_t actions)
{
    ebb_action_t *a = ebb_plan_add_action(p, (ebb_action_kind_t)draw(EBB_ACTION_KINDS), point);
    assert_non_null(a);
    a->stream = draw(3) ? 0 : draw(EBB_PLAN_STREAMS);
    a->after = draw(3) ? a->after : (uint32_t)rand() ^ (uint32_t)rand() << 16;
    a->joiners = draw(3) ? a->joiners : draw(8);
    if (a->kind == EBB_ORDER)
        return;
    if (a->kind == EBB_REPLAY) {
        a->operation = draw(p->operation_count);
        for (uint32_t k = draw(3); k > 0; k--)
            assert_true(ebb_plan_add_redirect(p, a, draw(p->buffer_count), draw(p->place_count)));
        return;
    }
    a->place = draw(p->place_count);
    if (a->kind == EBB_DISCARD)
        return;
    a->join = draw(4) ? draw(p->operation_count) : EBB_NONE;
    for (uint32_t k = draw(4); k > 0; k--)
        assert_true(ebb_plan_add_wait(p, a, draw(actions)));
}

/* Indices in range; nothing about it need be wise. */
static ebb_plan_t *make_plan(const ebb_trace_t *t, uint32_t scratch, uint32_t actions)
{
    ebb_plan_t *p = ebb_plan_new(t);
    assert_non_null(p);
    p->chunk_count = 1 + draw(50);
    p->small_bytes = draw(4) * p->chunk_bytes;
    p->predicted_ns = (uint64_t)rand() << 20;
    p->anew = draw(2);
    for (uint32_t i = 0; i < scratch; i++) {
        ebb_place_t *place = ebb_plan_add_place(p);
        assert_non_null(place);
        place->bytes = 1 + draw(1 << 24);
    }
    for (uint32_t i = 0; i < p->place_count; i++) {
        p->place[i].at_start = (ebb_start_t)draw(3);
        p->place[i].small_offset = draw(3) ? EBB_NONE : 512 * draw(100);
        p->place[i].until = draw(3) ? EBB_NONE : draw(p->operation_count + 1);
        for (uint32_t k = draw(6); k > 0; k--)
            assert_true(ebb_plan_add_chunk(p, &p->place[i], draw(p->chunk_count)));
    }
    for (uint32_t i = 0; i < actions; i++)
        add_random_action(p, i * (p->operation_count + 1) / actions, actions);
    return p;
}

static char *to_text(const ebb_plan_t *p, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    assert_true(ebb_plan_write(p, f));
    fclose(f);
    return text;
}

static ebb_plan_t *from_text(const char *text, size_t size, char error[256])
{
    FILE *f = size ? fmemopen((void *)(uintptr_t)text, size, "r") : fopen("/dev/null", "r");
    ebb_plan_t *p = ebb_plan_read(f, error, 256);
    fclose(f);
    return p;
}

static void assert_same(const ebb_plan_t *p, const ebb_plan_t *q)
{
    assert_int_equal(p->chunk_bytes, q->chunk_bytes);
    assert_int_equal(p->chunk_count, q->chunk_count);
    assert_int_equal(p->small_bytes, q->small_bytes);
    assert_int_equal(p->predicted_ns, q->predicted_ns);
    assert_int_equal(p->anew, q->anew);
    assert_int_equal(p->operation_count, q->operation_count);
    assert_int_equal(p->buffer_count, q->buffer_count);
    assert_int_equal(p->place_count, q->place_count);
    assert_int_equal(p->action_count, q->action_count);
    assert_int_equal(p->chunk_index_count, q->chunk_index_count);
    assert_int_equal(p->wait_count, q->wait_count);
    assert_int_equal(p->redirect_count, q->redirect_count);
    for (uint32_t i = 0; i < p->place_count; i++) {
        const ebb_place_t *a = &p->place[i], *b = &q->place[i];
        assert_true(a->bytes == b->bytes && a->chunk_count == b->chunk_count && a->at_start == b->at_start &&
                    a->small_offset == b->small_offset && a->until == b->until);
        for (uint32_t k = 0; k < a->chunk_count; k++)
            assert_int_equal(p->chunk[a->first_chunk + k], q->chunk[b->first_chunk + k]);
    }
    for (uint32_t i = 0; i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i], *b = &q->action[i];
        assert_true(a->kind == b->kind && a->point == b->point && a->place == b->place &&
                    a->join == b->join && a->operation == b->operation && a->wait_count == b->wait_count &&
                    a->redirect_count == b->redirect_count && a->stream == b->stream &&
                    a->after == b->after && a->joiners == b->joiners);
        for (uint32_t k = 0; k < a->wait_count; k++)
            assert_int_equal(p->wait[a->first_wait + k], q->wait[b->first_wait + k]);
        for (uint32_t k = 0; k < a->redirect_count; k++)
            assert_true(p->redirect[a->first_redirect + k].buffer ==
                            q->redirect[b->first_redirect + k].buffer &&
                        p->redirect[a->first_redirect + k].place == q->redirect[b->first_redirect + k].place);
    }
}

static void written_plan_is_read_again_unchanged(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        char error[256] = "";
        size_t size, again_size;
        srand(seed);
        ebb_trace_t *t = make_trace(1 + draw(40), 1 + draw(20));
        ebb_plan_t *p = make_plan(t, draw(5), 1 + draw(60));
        char *text = to_text(p, &size);
        ebb_plan_t *q = from_text(text, size, error);
        if (!q)
            fail_msg("seed %u: %s", seed, error);
        assert_same(p, q);
        char *again = to_text(q, &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(text, again, size);
        free(text);
        free(again);
        ebb_plan_delete(p);
        ebb_plan_delete(q);
        ebb_trace_delete(t);
    }
}

static void assert_indices_good(const ebb_plan_t *p)
{
    assert_true(p->place_count >= p->buffer_count);
    for (uint32_t i = 0; i < p->chunk_index_count; i++)
        assert_true(p->chunk[i] < p->chunk_count);
    for (uint32_t i = 0; i < p->wait_count; i++)
        assert_true(p->wait[i] < p->action_count);
    for (uint32_t i = 0; i < p->redirect_count; i++)
        assert_true(p->redirect[i].buffer < p->buffer_count && p->redirect[i].place < p->place_count);
    for (uint32_t i = 0; i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        assert_true(a->point <= p->operation_count && (!i || a->point >= p->action[i - 1].point));
        assert_true(a->kind == EBB_ORDER    ? a->place == EBB_NONE
                    : a->kind == EBB_REPLAY ? a->operation < p->operation_count
                                            : a->place < p->place_count);
    }
}

/* Cut anywhere, or with any byte changed: an error with its line, or another plan with indices in range. */
static void damaged_file_is_refused_or_still_a_plan(void **state)
{
    (void)state;
    const unsigned seed = 11;
    print_message("seed %u\n", seed);
    srand(seed);
    size_t size;
    ebb_trace_t *t = make_trace(12, 6);
    ebb_plan_t *p = make_plan(t, 2, 12);
    char *text = to_text(p, &size);
    unsigned refused = 0;
    for (size_t cut = 0; cut + 1 < size; cut += 5) {
        char error[256] = "";
        assert_null(from_text(text, cut, error));
        assert_int_equal(strncmp(error, "line ", 5), 0);
    }
    for (unsigned i = 0; i < 3000; i++) {
        char error[256] = "";
        size_t at = draw((uint32_t)size);
        char old = text[at];
        text[at] = (char)(32 + draw(95));
        ebb_plan_t *q = from_text(text, size, error);
        if (q)
            assert_indices_good(q);
        else
            assert_int_equal(strncmp(error, "line ", 5), 0);
        refused += !q;
        ebb_plan_delete(q);
        text[at] = old;
    }
    print_message("%u of 3000 changes refused\n", refused);
    assert_true(refused > 1000);
    free(text);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void file_that_is_no_plan_is_refused_with_reason(void **state)
{
    (void)state;
    const char *head =
        "{\"ebb_plan\": 1, \"chunk_bytes\": 4096, \"chunks\": 2, \"small_bytes\": 0, \"operations\": 3, "
        "\"buffers\": 1, \"places\": 1, \"actions\": 1, \"predicted_ns\": 5, \"later\": true}\n"
        "{\"place\": 0, \"bytes\": 5000, \"chunks\": [0,1], \"start\": \"host\", \"small_offset\": null}\n";
    const struct {
        const char *action, *error;
    } list[] = {
        {"{\"action\": 0, \"kind\": \"fetch\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": 1, "
         "\"waits\": [0], "
         "\"redirect\": [], \"note\": 1}",
         NULL},
        {"{\"action\": 1, \"kind\": \"fetch\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": 1, "
         "\"waits\": [], "
         "\"redirect\": []}",
         "out of order"},
        {"{\"action\": 0, \"kind\": \"keep\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": 1, "
         "\"waits\": [], "
         "\"redirect\": []}",
         "kind"},
        {"{\"action\": 0, \"kind\": \"fetch\", \"point\": 4, \"place\": 0, \"operation\": null, \"join\": 1, "
         "\"waits\": [], "
         "\"redirect\": []}",
         "point"},
        {"{\"action\": 0, \"kind\": \"fetch\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": 3, "
         "\"waits\": [], "
         "\"redirect\": []}",
         "join"},
        {"{\"action\": 0, \"kind\": \"fetch\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": 1, "
         "\"waits\": [1], "
         "\"redirect\": []}",
         "wait"},
        {"{\"action\": 0, \"kind\": \"discard\", \"point\": 1, \"place\": 0, \"operation\": null, \"join\": "
         "1, \"waits\": [], "
         "\"redirect\": []}",
         "do not go with"},
        {"{\"action\": 0, \"kind\": \"replay\", \"point\": 1, \"place\": null, \"operation\": 0, \"join\": "
         "null, \"waits\": [], "
         "\"redirect\": [[0,1]]}",
         "redirection"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char text[1000], error[256] = "";
        snprintf(text, sizeof text, "%s%s\n", head, list[i].action);
        ebb_plan_t *p = from_text(text, strlen(text), error);
        if (list[i].error)
            assert_true(!p && strstr(error, "line 3: ") && strstr(error, list[i].error));
        else
            assert_non_null(p);
        ebb_plan_delete(p);
    }
    char error[256] = "";
    assert_null(from_text("{\"ebb_plan\": 9}\n", 16, error));
    assert_non_null(strstr(error, "version 9"));
    assert_null(from_text("{\"ebb_trace\": 2}\n", 17, error));
    assert_non_null(strstr(error, "not a plan"));
}

static void lists_grow_only_at_their_owner_who_is_last(void **state)
{
    (void)state;
    srand(1);
    ebb_trace_t *t = make_trace(3, 2);
    ebb_plan_t *p = ebb_plan_new(t);
    assert_true(ebb_plan_add_chunk(p, &p->place[0], 0));
    assert_true(ebb_plan_add_chunk(p, &p->place[1], 1));
    assert_false(ebb_plan_add_chunk(p, &p->place[0], 2));
    assert_true(ebb_plan_add_chunk(p, &p->place[1], 2));
    assert_int_equal(p->place[0].chunk_count, 1);
    assert_int_equal(p->place[1].chunk_count, 2);
    assert_int_equal(p->place[1].first_chunk, 1);
    assert_non_null(ebb_plan_add_action(p, EBB_EVICT, 0));
    assert_non_null(ebb_plan_add_action(p, EBB_FETCH, 1));
    assert_true(ebb_plan_add_wait(p, &p->action[1], 0));
    assert_true(ebb_plan_add_wait(p, &p->action[0], 1)); /* had none yet */
    assert_false(ebb_plan_add_wait(p, &p->action[1], 1));
    assert_int_equal(p->wait_count, 2);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* Operation 0 makes buffers 1 and 2, operation 1 makes 5. */
static ebb_trace_t *trace_to_sum_up(void)
{
    ebb_trace_t *t = ebb_trace_new(CHUNK);
    const uint64_t bytes[] = {CHUNK, 2 * CHUNK, 3 * CHUNK, 4 * CHUNK, CHUNK / 2, 5 * CHUNK};
    const uint32_t made[3][2] = {{1, 2}, {5}};
    for (int i = 0; i < 6; i++)
        ebb_trace_add_buffer(t)->bytes = bytes[i];
    for (uint32_t i = 0; i < 3; i++) {
        ebb_trace_add_operation(t)->duration_ns = 100 + i;
        for (int k = 0; k < 2 && made[i][k]; k++)
            *ebb_trace_add_access(t) = (ebb_trace_access_t){.buffer = made[i][k], .mode = EBB_REPLACES};
    }
    return t;
}

/* What is given up and not made again is no recomputing: 5 is kept for as long as it is needed. */
static void sum_counts_each_large_buffer_by_its_fates(void **state)
{
    (void)state;
    ebb_trace_t *t = trace_to_sum_up();
    ebb_plan_t *p = ebb_plan_new(t);
    p->chunk_count = 7;
    p->small_bytes = CHUNK;
    ebb_plan_add_action(p, EBB_EVICT, 0)->place = 1;
    ebb_plan_add_action(p, EBB_FETCH, 1)->place = 1;
    ebb_plan_add_action(p, EBB_DISCARD, 1)->place = 1;
    ebb_plan_add_action(p, EBB_DISCARD, 1)->place = 2;
    ebb_plan_add_action(p, EBB_REPLAY, 2)->operation = 1;
    ebb_plan_add_action(p, EBB_REPLAY, 2)->operation = 0;
    ebb_plan_add_action(p, EBB_DISCARD, 2)->place = 5;
    p->place[3].at_start = EBB_ON_HOST;
    ebb_plan_sum_t sum = ebb_plan_sum(p, t);
    assert_int_equal(sum.kept_buffers, 2);
    assert_int_equal(sum.kept_bytes, 6 * CHUNK);
    assert_int_equal(sum.offloaded_buffers, 2);
    assert_int_equal(sum.offloaded_bytes, 6 * CHUNK);
    assert_int_equal(sum.dropped_buffers, 2);
    assert_int_equal(sum.dropped_bytes, 5 * CHUNK);
    assert_int_equal(sum.bytes_out, 2 * CHUNK);
    assert_int_equal(sum.bytes_in, 2 * CHUNK);
    assert_int_equal(sum.replays, 2);
    assert_int_equal(sum.replay_ns, 201);
    assert_int_equal(sum.peak_bytes, 8 * CHUNK);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void touch(ebb_trace_t *t, uint32_t buffer, ebb_mode_t mode)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(t);
    ebb_trace_access_t *a = ebb_trace_add_access(t);
    assert_true(o && a);
    o->proofs = 3;
    a->buffer = buffer;
    a->mode = mode;
}

static void act(ebb_plan_t *p, ebb_action_kind_t kind, uint32_t point, uint32_t place)
{
    ebb_action_t *a = ebb_plan_add_action(p, kind, point);
    assert_non_null(a);
    if (kind == EBB_REPLAY)
        a->operation = place;
    else
        a->place = place;
}

/* Of weights that are only read, of weights that are updated, and of an activation, each read twice. */
static void copies_are_spared_of_what_the_host_has(void **state)
{
    (void)state;
    enum { ONLY_READ, UPDATED, ACTIVATION, MADE_AGAIN, BUFFERS };
    ebb_trace_t *t = make_trace(0, 0);
    for (int i = 0; i < BUFFERS; i++)
        *ebb_trace_add_buffer(t) = (ebb_trace_buffer_t){.bytes = 4 * CHUNK,
                                                        .born = i < ACTIVATION ? EBB_NONE : 0,
                                                        .dies = i < ACTIVATION ? EBB_NONE : 12,
                                                        .next = (uint32_t)i};
    t->buffer[ACTIVATION].next = t->buffer[MADE_AGAIN].next = EBB_NONE;
    touch(t, ACTIVATION, EBB_REPLACES); /* 0 */
    touch(t, MADE_AGAIN, EBB_REPLACES);
    for (int i = 0; i < 2; i++) { /* 2 .. 9 */
        for (uint32_t b = 0; b < BUFFERS; b++)
            touch(t, b, EBB_READS);
    }
    touch(t, UPDATED, EBB_UPDATES); /* 10 */
    touch(t, ONLY_READ, EBB_READS);
    ebb_plan_t *p = ebb_plan_new(t);
    static const struct {
        ebb_action_kind_t kind;
        uint32_t point, place;
        bool spared;
    } plan[] = {{EBB_FETCH, 2, ONLY_READ, false},  {EBB_EVICT, 3, ONLY_READ, true},
                {EBB_FETCH, 3, UPDATED, false},    {EBB_EVICT, 4, UPDATED, true},
                {EBB_EVICT, 5, ACTIVATION, false}, {EBB_EVICT, 6, MADE_AGAIN, false},
                {EBB_FETCH, 6, ONLY_READ, false},  {EBB_FETCH, 7, UPDATED, false},
                {EBB_FETCH, 8, ACTIVATION, false}, {EBB_FETCH, 9, MADE_AGAIN, false},
                {EBB_EVICT, 9, ACTIVATION, true},  {EBB_DISCARD, 10, MADE_AGAIN, false},
                {EBB_REPLAY, 11, 1, false},        {EBB_EVICT, 11, UPDATED, false},
                {EBB_EVICT, 12, ONLY_READ, true},  {EBB_EVICT, 12, MADE_AGAIN, false}};
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++)
        act(p, plan[i].kind, plan[i].point, plan[i].place);
    bool *spared = ebb_plan_spared(p, t);
    assert_non_null(spared);
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++)
        if (spared[i] != plan[i].spared)
            fail_msg("action %zu is %sspared", i, spared[i] ? "" : "not ");
    free(spared);
    const uint64_t all = ebb_plan_sum(p, t).bytes_out;
    t->hardware.clean = 1;
    assert_int_equal(ebb_plan_sum(p, t).bytes_out, all - 4 * 4 * CHUNK);
    assert_int_equal(ebb_plan_sum(p, t).spared_bytes, 4 * 4 * CHUNK);
    p->anew = true;
    assert_int_equal(ebb_plan_sum(p, t).spared_bytes, 0);
    p->anew = false;
    t->buffer[ONLY_READ].changes = true;
    assert_int_equal(ebb_plan_sum(p, t).spared_bytes, 2 * 4 * CHUNK);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* A discard is completed by the first replay, in the buffer's own place, of what last wrote it: not by a copy elsewhere, nor by the
 * replay of the launch that wrote it before, nor behind a launch that makes it anew. */
static void content_is_complete_when_its_last_writer_is_replayed(void **state)
{
    (void)state;
    enum { MADE, UPDATED, ANEW, BUFFERS };
    ebb_trace_t *t = make_trace(0, 0);
    for (int i = 0; i < BUFFERS; i++)
        *ebb_trace_add_buffer(t) =
            (ebb_trace_buffer_t){.bytes = 4 * CHUNK, .born = 0, .dies = 12, .next = EBB_NONE};
    touch(t, MADE, EBB_REPLACES);    /* 0 */
    touch(t, UPDATED, EBB_REPLACES); /* 1 */
    touch(t, UPDATED, EBB_UPDATES);  /* 2 */
    touch(t, ANEW, EBB_REPLACES);    /* 3 */
    for (uint32_t b = 0; b < BUFFERS; b++)
        touch(t, b, EBB_READS);   /* 4 .. 6 */
    touch(t, ANEW, EBB_REPLACES); /* 7 */
    for (uint32_t b = 0; b < BUFFERS; b++)
        touch(t, b, EBB_READS); /* 8 .. 10 */
    touch(t, MADE, EBB_READS);  /* 11 */
    ebb_plan_t *p = ebb_plan_new(t);
    ebb_place_t *scratch = ebb_plan_add_place(p);
    assert_non_null(scratch);
    scratch->bytes = 4 * CHUNK;
    static const struct {
        ebb_action_kind_t kind;
        uint32_t point, what /* place, or operation that is replayed */, completed_by;
        bool elsewhere;
    } plan[] = {
        {EBB_DISCARD, 4, MADE, 4, false},        /* 0 */
        {EBB_DISCARD, 4, UPDATED, 5, false},     /* 1 */
        {EBB_DISCARD, 4, ANEW, EBB_NONE, false}, /* 2: 7 makes it anew */
        {EBB_REPLAY, 4, 0, EBB_NONE, true},      /* 3 */
        {EBB_REPLAY, 4, 0, EBB_NONE, false},     /* 4 */
        {EBB_REPLAY, 5, 2, EBB_NONE, false},     /* 5 */
        {EBB_DISCARD, 6, UPDATED, 9, false},     /* 6 */
        {EBB_REPLAY, 8, 3, EBB_NONE, false},     /* 7: not what is in it since 7 */
        {EBB_REPLAY, 8, 1, EBB_NONE, false},     /* 8 */
        {EBB_REPLAY, 9, 2, EBB_NONE, false},     /* 9 */
        {EBB_REPLAY, 9, 2, EBB_NONE, false},     /* 10: again */
        {EBB_DISCARD, 12, MADE, EBB_NONE, false},
    };
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
        act(p, plan[i].kind, plan[i].point, plan[i].what);
        if (plan[i].elsewhere)
            assert_true(ebb_plan_add_redirect(p, &p->action[i], MADE, BUFFERS));
    }
    uint32_t *completion = ebb_plan_completions(p, t);
    assert_non_null(completion);
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++)
        if (completion[i] != plan[i].completed_by)
            fail_msg("action %zu is completed by %u, not by %u", i, completion[i], plan[i].completed_by);
    free(completion);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_complete_when_its_last_writer_is_replayed),
        cmocka_unit_test(copies_are_spared_of_what_the_host_has),
        cmocka_unit_test(written_plan_is_read_again_unchanged),
        cmocka_unit_test(damaged_file_is_refused_or_still_a_plan),
        cmocka_unit_test(file_that_is_no_plan_is_refused_with_reason),
        cmocka_unit_test(lists_grow_only_at_their_owner_who_is_last),
        cmocka_unit_test(sum_counts_each_large_buffer_by_its_fates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
