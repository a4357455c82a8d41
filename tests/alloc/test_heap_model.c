/* Random traffic through the allocator on a driver that knows what is ordered after what (model_driver.h): no two
 * live buffers overlap, no memory changes owners before its last use is over or ordered before, the budget
 * holds, requests fail only when the memory is not there; with failing driver calls nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "model_driver.h"

static ebb_t process;
static ebb_device_t *const device0 = &process.device[0];

enum { CHUNKS = 40, BUFFERS = 60, ROUNDS = 12000, EVERYBODY = MODEL_STREAMS };

typedef struct live {
    ebb_buffer_t *buffer;
    unsigned owner;
    bool used_on[MODEL_STREAMS];
} live_t;

static live_t live[BUFFERS];
static unsigned owners, refused, served;
static bool mostly_small;

static ebb_stream_t *record_of(unsigned stream)
{
    return ebb_stream_of(device0, model_stream(stream));
}

static void assert_right(void)
{
    if (model_wrong())
        fail_msg("%s", model_wrong());
    ebb_heap_check(device0);
    assert_int_equal(ebb_broken_count(), 0);
}

/* The program's own duty: what it gives `stream` next on this buffer comes after all that it did with it. */
static void order_after_uses(const live_t *l, unsigned stream)
{
    for (unsigned s = 0; s < MODEL_STREAMS; s++)
        if (s != stream && l->used_on[s])
            model_order(stream, s);
}

/* As the rooms above do before an operation. */
static bool fetch(ebb_buffer_t *b)
{
    return b->range->mapped ||
           (ebb_heap_make_room(device0, b->range->chunk_count) && !ebb_range_map(b->range));
}

/* As the rooms above do: when everything that ebb knows to touch the buffer is over, its chunks go. */
static void evict(ebb_buffer_t *b)
{
    for (unsigned i = 0; i < b->use_count; i++)
        if (b->use_count > EBB_USE_MARKS || ebb_mark_wait(b->use[i]))
            return;
    if (ebb_buffer_is_large(b) && b->range->mapped)
        ebb_range_unmap(b->range);
}

static void use(live_t *l, unsigned stream)
{
    if (!fetch(l->buffer))
        return;
    order_after_uses(l, stream);
    model_use(stream, l->buffer->address, l->buffer->bytes, l->owner);
    ebb_buffer_touch(l->buffer, ebb_mark_issue(record_of(stream)));
    l->used_on[stream] = true;
}

/* Chunks that hold something live. */
static size_t chunks_needed(void)
{
    static CUdeviceptr seen[BUFFERS * 2];
    size_t chunks = 0, count = 0;
    for (unsigned i = 0; i < BUFFERS; i++) {
        const ebb_buffer_t *b = live[i].buffer;
        if (!b)
            continue;
        if (ebb_buffer_is_large(b)) {
            chunks += b->range->mapped ? b->range->chunk_count : 0;
            continue;
        }
        CUdeviceptr at = b->address / EBB_CHUNK_BYTES, end = (b->address + b->bytes - 1) / EBB_CHUNK_BYTES;
        for (; at <= end; at++) {
            size_t k = 0;
            while (k < count && seen[k] != at)
                k++;
            if (k == count)
                seen[count++] = at;
        }
    }
    return chunks + count;
}

static size_t random_size(void)
{
    if (mostly_small && model_random(40))
        return 1 + model_random(200 << 10);
    switch (model_random(8)) {
    case 0:
        return 1 + model_random(64 << 10);
    case 1: /* the same ones again and again */
        return (size_t)4096 << model_random(8);
    case 2:
        return 1 + model_random(EBB_SMALL_BYTES);
    case 3:
    case 4:
        return EBB_CHUNK_BYTES * (1 + model_random(3));
    case 5:
        return EBB_SMALL_BYTES + 1 + model_random(20 << 20);
    default:
        return 1 + model_random(8 << 20);
    }
}

static void allocate(live_t *l, bool faults)
{
    unsigned stream = model_random(4) ? model_random(MODEL_STREAMS) : EVERYBODY;
    ebb_request_t q = {.bytes = random_size(), .stream = stream == EVERYBODY ? NULL : record_of(stream)};
    ebb_status_t status = ebb_heap_alloc(device0, &q, &l->buffer);
    if (status) {
        l->buffer = NULL;
        refused++;
        size_t chunks = (q.bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
        if (!faults) {
            assert_int_equal(status, CUDA_ERROR_OUT_OF_MEMORY);
            /* A small one may lie across the border of two. */
            assert_true(chunks_needed() + chunks + (q.bytes <= EBB_SMALL_BYTES) > CHUNKS);
        }
        return;
    }
    served++;
    const ebb_buffer_t *b = l->buffer;
    assert_int_equal(b->address % EBB_ALIGN_BYTES, 0);
    assert_int_equal(b->bytes, q.bytes);
    for (unsigned i = 0; i < BUFFERS; i++) {
        const ebb_buffer_t *o = live[i].buffer;
        assert_true(!o || o == b || o->address + o->bytes <= b->address ||
                    b->address + b->bytes <= o->address);
    }
    assert_ptr_equal(ebb_buffer_at(&process, b->address), b);
    assert_ptr_equal(ebb_buffer_at(&process, b->address + b->bytes - 1), b);
    l->owner = ++owners;
    memset(l->used_on, 0, sizeof l->used_on);
    if (stream == EVERYBODY)
        return;
    l->used_on[stream] = true; /* what another stream does with it must come after the allocation */
    if (model_random(4))
        use(l, stream);
    else if (model_random(2))
        evict(l->buffer);
}

static void release(live_t *l)
{
    if (!model_random(60)) {
        model_synchronise();
        ebb_heap_free(l->buffer, (ebb_mark_t){0});
    } else {
        unsigned stream = model_random(MODEL_STREAMS);
        order_after_uses(l, stream);
        ebb_heap_free(l->buffer, ebb_mark_issue(record_of(stream)));
    }
    l->buffer = NULL;
}

/* As a plan does: chunks from the pool under ranges of its own, used by any stream at once. */
static void take_chunks(unsigned stream)
{
    ebb_chunk_t chunk[3];
    ebb_range_t *r = ebb_range_new(device0, 3);
    unsigned owner = ++owners;
    if (ebb_chunks_take(device0, 3, chunk) == 0) {
        if (ebb_range_map_on(r, chunk) == 0) {
            model_use(stream, r->base, 3 * EBB_CHUNK_BYTES, owner);
            model_synchronise();
            ebb_range_unmap_from(r);
        }
        ebb_chunks_give(device0, 3, chunk);
    }
    ebb_range_delete(r);
}

static void give_everything_back(void)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        if (live[i].buffer)
            release(&live[i]);
    ebb_heap_reclaim(device0, SIZE_MAX, true);
    assert_right();
    assert_int_equal(model_mappings(), 0);
    ebb_chunks_release(device0);
    assert_int_equal(model_chunks(), 0);
    assert_int_equal(ebb_usage(device0).live_bytes, 0);
}

static void traffic(unsigned rounds, bool faults)
{
    unsigned steps = 6;
    for (unsigned round = 0; round < rounds; round++) {
        live_t *l = &live[model_random(BUFFERS)];
        if (!(round % 1024)) {
            mostly_small = model_random(2);
            steps = 1 + model_random(3) * model_random(4); /* the host ahead of the device, more or less */
        }
        if (!l->buffer)
            allocate(l, faults);
        else if (model_random(2))
            use(l, model_random(MODEL_STREAMS));
        else if (!model_random(8))
            evict(l->buffer);
        else
            release(l);
        model_advance(steps);
        if (!model_random(300))
            ebb_heap_reclaim(device0, model_random(2) ? SIZE_MAX : model_random(CHUNKS), model_random(2));
        if (!model_random(200))
            take_chunks(model_random(MODEL_STREAMS));
        if (!model_random(500))
            ebb_chunks_release(device0);
        assert_true(model_chunks() <= CHUNKS);
        assert_int_equal(model_chunks() * EBB_CHUNK_BYTES, ebb_usage(device0).created_bytes);
        if (!model_random(16))
            assert_right();
    }
}

static void random_traffic_is_ordered_and_fits(void **state)
{
    (void)state;
    traffic(ROUNDS, false);
    print_message("%u served, %u refused\n", served, refused);
    assert_true(refused > served / 200 && refused < served);
    give_everything_back();
}

/* A stream that gets another one's memory waits for it on the device. Until that wait is over the memory is in use,
 * though the stream itself has been given nothing to do. */
static void memory_from_a_busy_stream_counts_as_in_use(void **state)
{
    (void)state;
    live_t a = {.owner = ++owners}, b = {.owner = ++owners};
    ebb_request_t q = {.bytes = (CHUNKS - 4) * EBB_CHUNK_BYTES, .stream = record_of(0)};
    assert_int_equal(ebb_mark_wait(ebb_mark_here(record_of(1))), 0);
    assert_int_equal(ebb_heap_alloc(device0, &q, &a.buffer), 0);
    use(&a, 0);
    ebb_heap_free(a.buffer, ebb_mark_issue(record_of(0)));
    q.stream = record_of(1);
    q.bytes -= EBB_CHUNK_BYTES; /* another size: not the same range */
    assert_int_equal(ebb_heap_alloc(device0, &q, &b.buffer), 0);
    evict(b.buffer);
    take_chunks(2);
    assert_right();
    ebb_heap_free(b.buffer, ebb_mark_issue(record_of(1)));
    give_everything_back();
}

/* Also if nothing is issued behind it: what takes memory away asks the mark alone. */
static void what_a_stream_waits_for_is_before_its_mark(void **state)
{
    (void)state;
    model_synchronise();
    assert_int_equal(ebb_mark_wait(ebb_mark_here(record_of(1))), 0);
    model_use(0, 0, 0, 1);
    const ebb_mark_t other = ebb_mark_issue(record_of(0));
    assert_int_equal(ebb_mark_join(record_of(1), other), 0);
    const ebb_mark_t behind = ebb_mark_here(record_of(1));
    assert_false(ebb_mark_reached(behind));
    model_synchronise();
    assert_true(ebb_mark_reached(behind));
    assert_true(ebb_mark_reached(other));
}

static void random_traffic_survives_failing_driver_calls(void **state)
{
    (void)state;
    static const model_fault_t kinds[] = {CREATE, MAP, ACCESS, UNMAP, RECORD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        unsigned before = model_faults();
        model_fail(kinds[i], 5);
        traffic(ROUNDS / 4, true);
        model_fail(kinds[i], 0);
        print_message("fault %u: %u times\n", kinds[i], model_faults() - before);
        assert_true(model_faults() > before);
        give_everything_back();
    }
    traffic(ROUNDS / 4, false); /* and it is as good as new */
    give_everything_back();
}

/* What else the process holds grows: ebb's memory gets smaller as soon as it is asked for more; and back. */
static void growing_overhead_is_made_room_for(void **state)
{
    (void)state;
    model_others(2);
    ebb_chunks_follow(device0, 0, false);
    live_t a[4];
    ebb_request_t q = {.bytes = 10 * EBB_CHUNK_BYTES, .stream = record_of(0)};
    ebb_buffer_t *none;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ebb_heap_alloc(device0, &q, &a[i].buffer), 0);
    assert_int_equal(model_chunks(), CHUNKS);
    ebb_heap_free(a[3].buffer, ebb_mark_issue(record_of(0)));
    model_others(2 + 7); /* 10 chunks are spare now, and 7 too many */
    ebb_chunks_measure(device0);
    q.bytes = 4 * EBB_CHUNK_BYTES;
    assert_int_equal(ebb_heap_alloc(device0, &q, &none), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(model_chunks() <= CHUNKS - 7);
    q.bytes = 3 * EBB_CHUNK_BYTES;
    assert_int_equal(ebb_heap_alloc(device0, &q, &a[3].buffer), 0);
    assert_int_equal(model_chunks(), CHUNKS - 7);
    assert_int_equal(ebb_usage(device0).overhead_bytes, 9 * EBB_CHUNK_BYTES);
    model_others(2);
    ebb_chunks_measure(device0);
    q.bytes = 7 * EBB_CHUNK_BYTES;
    assert_int_equal(ebb_heap_alloc(device0, &q, &none), 0);
    ebb_heap_free(none, ebb_mark_issue(record_of(0)));
    for (int i = 0; i < 4; i++)
        ebb_heap_free(a[i].buffer, ebb_mark_issue(record_of(0)));
    give_everything_back();
}

/* The same while nothing is asked for: what can be evicted goes. */
static ebb_buffer_t *sacrifice;

static bool evict_sacrifice(ebb_device_t *dev, size_t chunks)
{
    (void)dev;
    if (!chunks || !sacrifice || !sacrifice->range->mapped)
        return false;
    evict(sacrifice);
    return true;
}

static void growth_that_is_measured_evicts(void **state)
{
    (void)state;
    ebb_request_t q = {.bytes = CHUNKS / 2 * EBB_CHUNK_BYTES, .stream = record_of(0)};
    ebb_buffer_t *stays;
    ebb_heap_make_room_by(&process, evict_sacrifice);
    ebb_chunks_follow(device0, 0, false);
    assert_int_equal(ebb_heap_alloc(device0, &q, &sacrifice), 0);
    assert_int_equal(ebb_heap_alloc(device0, &q, &stays), 0);
    assert_int_equal(model_chunks(), CHUNKS);
    model_others(2);
    assert_true(ebb_heap_measure(device0));
    model_others(5);
    assert_false(ebb_heap_measure(device0));
    ebb_heap_shrink(device0);
    assert_false(sacrifice->range->mapped);
    assert_true(stays->range->mapped);
    assert_true(model_chunks() <= CHUNKS - 3);
    model_others(2);
    assert_true(ebb_heap_measure(device0));
    ebb_heap_free(sacrifice, ebb_mark_issue(record_of(0)));
    ebb_heap_free(stays, ebb_mark_issue(record_of(0)));
    sacrifice = NULL;
    ebb_heap_make_room_by(&process, NULL);
    give_everything_back();
}

static int setup(void **state)
{
    (void)state;
    const char *given = getenv("TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : 4711;
    print_message("seed %u (TEST_SEED)\n", seed);
    ebb_options.log_level = EBB_QUIET;
    model_begin(CHUNKS, seed);
    ebb_chunks_init(device0, (CHUNKS + 2) * EBB_CHUNK_BYTES, 2 * EBB_CHUNK_BYTES);
    /* Less than twice the device is too little; what there is beyond that is taken, by halves of what is wanted. */
    model_address_space(((size_t)2 << 30) - 1);
    assert_int_equal(ebb_arena_reserve(&process, (size_t)1 << 30), CUDA_ERROR_OUT_OF_MEMORY);
    model_address_space((size_t)20 << 30);
    assert_int_equal(ebb_arena_reserve(&process, (size_t)1 << 30), 0);
    assert_int_equal(process.arena.slots, ((size_t)16 << 30) / EBB_CHUNK_BYTES);
    return 0;
}

int main(void)
{
    ebb_open(&process);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traffic_is_ordered_and_fits),
        cmocka_unit_test(memory_from_a_busy_stream_counts_as_in_use),
        cmocka_unit_test(what_a_stream_waits_for_is_before_its_mark),
        cmocka_unit_test(random_traffic_survives_failing_driver_calls),
        cmocka_unit_test(growing_overhead_is_made_room_for),
        cmocka_unit_test(growth_that_is_measured_evicts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
