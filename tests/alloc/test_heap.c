/* The allocator against a naive model, and the promises it makes about memory. */
#include "driver_test.h"

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "hook/hook.h"

static ebb_device_t *const dev = &ebb_global.device[0];

enum { BUDGET_MIB = 96 };

static ebb_usage_t usage(void)
{
    ebb_lock();
    ebb_usage_t u = ebb_usage(dev);
    ebb_heap_check(dev);
    ebb_unlock();
    assert_int_equal(ebb_broken_count(), 0);
    return u;
}

/* What the device itself says, past ebb. */
static size_t device_used(void)
{
    size_t free_bytes, total;
    OK(ebb_driver.cuMemGetInfo_v2(&free_bytes, &total));
    return total - free_bytes;
}

static void give_everything_back(void)
{
    OK(cuCtxSynchronize());
    ebb_lock();
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    ebb_unlock();
}

static void random_traffic_matches_the_model(void **state)
{
    (void)state;
    enum { LIVE = 80, ROUNDS = 4000 };
    const unsigned seed = 1789;
    print_message("seed %u\n", seed);
    srand(seed);
    struct {
        CUdeviceptr p;
        size_t bytes;
        unsigned tag;
    } live[LIVE] = {{0, 0, 0}};
    CUstream stream[2];
    OK(cuStreamCreate(&stream[0], CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&stream[1], CU_STREAM_NON_BLOCKING));
    size_t live_bytes = 0;
    unsigned refused = 0;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned i = (unsigned)rand() % LIVE;
        CUstream s = stream[i % 2];
        if (live[i].p) {
            unsigned ends[2];
            OK(cuMemcpyDtoHAsync_v2(&ends[0], live[i].p, 4, s));
            OK(cuMemcpyDtoHAsync_v2(&ends[1], live[i].p + live[i].bytes - 4, 4, s));
            assert_int_equal(ends[0], live[i].tag);
            assert_int_equal(ends[1], live[i].tag);
            OK(rand() % 8 ? cuMemFreeAsync(live[i].p, s) : cuMemFree_v2(live[i].p));
            live_bytes -= live[i].bytes;
            live[i].p = 0;
        } else {
            size_t bytes = (size_t)(rand() % 4 ? 4 + rand() % 50000 : 4 + rand() % (8 << 20)) & ~(size_t)3;
            CUresult result =
                rand() % 8 ? cuMemAllocAsync(&live[i].p, bytes, s) : cuMemAlloc_v2(&live[i].p, bytes);
            if (result == CUDA_ERROR_OUT_OF_MEMORY) {
                live[i].p = 0;
                refused++;
                continue;
            }
            OK(result);
            live[i].bytes = bytes;
            live[i].tag = round;
            live_bytes += bytes;
            assert_int_equal(live[i].p % EBB_ALIGN_BYTES, 0);
            for (int k = 0; k < LIVE; k++)
                if (k != (int)i && live[k].p)
                    assert_true(live[i].p + bytes <= live[k].p || live[k].p + live[k].bytes <= live[i].p);
            OK(cuMemsetD32Async(live[i].p, round, bytes / 4, s));
        }
        assert_int_equal(usage().live_bytes, live_bytes);
        assert_true(device_used() <= (size_t)BUDGET_MIB << 20);
    }
    print_message("%u requests refused\n", refused);
    assert_true(refused > 0 && refused < ROUNDS / 4); /* the budget was felt */
    for (int i = 0; i < LIVE; i++)
        if (live[i].p)
            OK(cuMemFreeAsync(live[i].p, stream[i % 2]));
    give_everything_back();
    assert_int_equal(usage().mapped_bytes, 0);
    OK(cuStreamDestroy_v2(stream[0]));
    OK(cuStreamDestroy_v2(stream[1]));
}

/* With mappings, free chunks anywhere serve any request. */
static void large_request_succeeds_whenever_enough_chunks_are_free(void **state)
{
    (void)state;
    size_t chunks = usage().budget_bytes / EBB_CHUNK_BYTES;
    CUdeviceptr *p = calloc(chunks, sizeof *p), whole;
    for (size_t i = 0; i < chunks; i++)
        OK(cuMemAlloc_v2(&p[i], EBB_CHUNK_BYTES));
    assert_int_equal(cuMemAlloc_v2(&whole, EBB_CHUNK_BYTES), CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < chunks; i += 2)
        OK(cuMemFree_v2(p[i]));
    OK(cuMemAlloc_v2(&whole, chunks / 2 * EBB_CHUNK_BYTES)); /* out of every other hole */
    assert_int_equal(cuMemFree_v2(whole + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(whole));
    assert_int_equal(cuMemFree_v2(whole), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 1; i < chunks; i += 2)
        OK(cuMemFree_v2(p[i]));
    free(p);
    give_everything_back();
    assert_int_equal(usage().mapped_bytes, 0);
}

static void block_freed_on_a_busy_stream_is_not_given_to_another(void **state)
{
    (void)state;
    const size_t sizes[] = {4096, EBB_CHUNK_BYTES};
    CUstream busy, other;
    CUdeviceptr flag, p, q, r;
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&flag, 4));
    for (int i = 0; i < 2; i++) {
        OK(cuMemAllocAsync(&p, sizes[i], busy));
        launch_slow_store(busy, flag, 1, 50000000);
        OK(cuMemFreeAsync(p, busy));
        OK(cuMemAllocAsync(&q, sizes[i], other));
        assert_int_not_equal(p, q);
        OK(cuMemAllocAsync(&r, sizes[i], busy));
        assert_int_equal(p, r);
        OK(cuMemFreeAsync(q, other));
        OK(cuMemFreeAsync(r, busy));
        OK(cuCtxSynchronize());
    }
    OK(cuMemFree_v2(flag));
    OK(cuStreamDestroy_v2(busy));
    OK(cuStreamDestroy_v2(other));
}

/* cuMemFree waits for the device when cuMemAlloc gave the memory, and does not when cuMemAllocAsync did. */
static void synchronous_free_waits_as_the_drivers_does(void **state)
{
    (void)state;
    CUstream busy, other;
    CUdeviceptr flag, p, q;
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&flag, 4));
    for (int large = 0; large < 2; large++) {
        OK(cuMemAllocAsync(&p, large ? 3 << 20 : 3 << 10, other));
        OK(cuMemsetD32Async(p, 7, 100, other));
        OK(cuStreamSynchronize(other));
        launch_slow_store(busy, flag, 1, 400000000);
        OK(cuMemFree_v2(p));
        assert_int_equal(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
        OK(cuMemAlloc_v2(&q, large ? 3 << 20 : 3 << 10));
        assert_int_equal(q, p); /* it was idle, so everybody may have it */
        OK(cuMemFree_v2(q));
        OK(cuStreamQuery(busy));
    }
    OK(cuMemFree_v2(flag));
    OK(cuStreamDestroy_v2(busy));
    OK(cuStreamDestroy_v2(other));
}

/* ... also while the stream that it was allocated on has not come to the allocation yet. */
static void synchronous_free_of_unused_memory_keeps_the_order(void **state)
{
    (void)state;
    CUstream busy, other;
    CUdeviceptr p, q, r;
    unsigned value = 0;
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&p, 3 << 20, busy));
    launch_slow_store(busy, p, 1, 100000000); /* writes at its end */
    OK(cuMemFreeAsync(p, busy));
    OK(cuMemAllocAsync(&q, 3 << 20, busy)); /* the same memory, after that */
    assert_int_equal(p, q);
    OK(cuMemFree_v2(q));
    OK(cuMemAllocAsync(&r, 3 << 20, other));
    OK(cuMemsetD32Async(r, 2, 1, other));
    OK(cuStreamSynchronize(busy));
    OK(cuMemcpyDtoHAsync_v2(&value, r, 4, other));
    OK(cuStreamSynchronize(other));
    assert_int_equal(value, 2);
    OK(cuMemFreeAsync(r, other));
    OK(cuStreamDestroy_v2(busy));
    OK(cuStreamDestroy_v2(other));
}

static void program_is_told_one_story_about_memory(void **state)
{
    (void)state;
    size_t free_bytes, total, device_total, bytes;
    CUdeviceptr p, base;
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    OK(cuDeviceTotalMem_v2(&device_total, 0));
    assert_int_equal(total, (size_t)BUDGET_MIB << 20);
    assert_int_equal(total, device_total);
    OK(cuMemAlloc_v2(&p, 3 * EBB_CHUNK_BYTES));
    size_t now_free;
    OK(cuMemGetInfo_v2(&now_free, &total));
    assert_true(now_free + 3 * EBB_CHUNK_BYTES <= total);
    OK(cuMemGetAddressRange_v2(&base, &bytes, p + 5));
    assert_int_equal(base, p);
    assert_int_equal(bytes, 3 * EBB_CHUNK_BYTES);
    assert_int_equal(cuMemGetAddressRange_v2(&base, &bytes, p + bytes), CUDA_ERROR_NOT_FOUND);
    unsigned type;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 1));
    assert_int_equal(bytes, 3 * EBB_CHUNK_BYTES);
    OK(cuMemFree_v2(p));
    assert_int_equal(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
}

/* Several ranges on one chunk: what is written through one is read through the other, once that is complete. */
static void ranges_on_one_chunk_show_the_same_bytes(void **state)
{
    (void)state;
    ebb_chunk_t chunk[3];
    unsigned value = 0;
    ebb_lock();
    size_t before = ebb_usage(dev).mapped_bytes;
    assert_int_equal(ebb_chunks_take(dev, 3, chunk), 0);
    ebb_range_t *a = ebb_range_new(dev, 2), *b = ebb_range_new(dev, 2);
    assert_int_equal(ebb_range_map_on(a, chunk), 0);
    assert_int_equal(ebb_range_map_on(b, chunk + 1), 0); /* b's first is a's second */
    assert_int_equal(ebb_usage(dev).mapped_bytes - before, 3 * EBB_CHUNK_BYTES);
    OK(ebb_driver.cuMemsetD32Async(a->base + EBB_CHUNK_BYTES, 1234, 4, NULL));
    OK(ebb_driver.cuCtxSynchronize());
    OK(ebb_driver.cuMemcpyDtoHAsync_v2(&value, b->base, 4, NULL));
    OK(ebb_driver.cuCtxSynchronize());
    assert_int_equal(value, 1234);
    ebb_buffer_t *p = ebb_buffer_place(a, &(ebb_request_t){.bytes = 3 << 20});
    assert_ptr_equal(ebb_buffer_at(&ebb_global, a->base + 100), p);
    ebb_buffer_displace(p);
    assert_null(ebb_buffer_at(&ebb_global, a->base + 100));
    ebb_range_unmap_from(a);
    ebb_range_unmap_from(b);
    ebb_range_delete(a);
    ebb_range_delete(b);
    ebb_chunks_give(dev, 3, chunk);
    assert_int_equal(ebb_usage(dev).mapped_bytes, before);
    ebb_unlock();
}

/* Places in a slab may overlap, buffers may not; closed, it is a slab like others. */
static void placed_small_buffers_live_on_when_their_slab_is_closed(void **state)
{
    (void)state;
    CUdeviceptr others[64];
    ebb_lock();
    ebb_range_t *r = ebb_range_new(dev, 2);
    assert_int_equal(ebb_range_map(r), 0);
    ebb_slab_t *slab = ebb_slab_open(r);
    ebb_buffer_t *a = ebb_buffer_place_small(slab, 1024, &(ebb_request_t){.bytes = 2000});
    assert_int_equal(a->address, r->base + 1024);
    ebb_buffer_displace(a);
    ebb_buffer_t *b =
        ebb_buffer_place_small(slab, 512, &(ebb_request_t){.bytes = 700000}); /* over a's place */
    assert_ptr_equal(ebb_buffer_at(&ebb_global, r->base + 1030), b);
    static const struct {
        size_t at, bytes;
        bool room;
    } places[] = {{0, 512, true},       {0, 513, false},      {1024, 512, false},
                  {700416, 512, false}, {700928, 2000, true}, {2 * EBB_CHUNK_BYTES - 512, 513, false}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        ebb_buffer_t *in =
            ebb_buffer_place_small(slab, places[i].at, &(ebb_request_t){.bytes = places[i].bytes});
        assert_int_equal(in != NULL, places[i].room);
        if (in)
            ebb_buffer_displace(in);
    }
    ebb_slab_close(slab);
    CUdeviceptr kept = b->address;
    ebb_heap_check(dev);
    assert_int_equal(ebb_broken_count(), 0);
    CUdeviceptr begin = r->base, end = begin + 2 * EBB_CHUNK_BYTES;
    ebb_unlock();
    int inside = 0;
    for (int i = 0; i < 64; i++) { /* what is left of it is used before memory is added */
        OK(cuMemAlloc_v2(&others[i], 100000));
        assert_true(others[i] + 100000 <= kept || kept + 700000 <= others[i]);
        inside += others[i] >= begin && others[i] < end;
    }
    assert_int_equal(inside, (2 * EBB_CHUNK_BYTES - 512 - 700416) / 100352);
    for (int i = 0; i < 64; i++)
        OK(cuMemFree_v2(others[i]));
    OK(cuMemFree_v2(kept));
    give_everything_back();
    assert_int_equal(usage().mapped_bytes, 0);
}

/* Also where it ends with its slab, behind which nothing is. */
static void end_of_a_buffer_leads_to_it_or_to_the_next(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    const size_t bytes = EBB_CHUNK_BYTES / 2;
    CUdeviceptr p[COUNT];
    unsigned last = 0;
    int count = 0;
    while (count < COUNT && !cuMemAlloc_v2(&p[count], bytes))
        count++;
    print_message("%d buffers\n", count);
    ebb_lock();
    for (int i = 0; i < count; i++) {
        const ebb_buffer_t *b = ebb_buffer_at(dev->ebb, p[i] + bytes);
        assert_true(b && (b->address == p[i] || b->address == p[i] + bytes));
        last += !ebb_arena_range(dev->ebb, p[i] + bytes);
    }
    ebb_unlock();
    assert_true(last);
    for (int i = 0; i < count; i++)
        OK(cuMemFree_v2(p[i]));
    give_everything_back();
}

static void sizes_near_the_largest_are_out_of_memory(void **state)
{
    (void)state;
    static const size_t less[] = {0, 1, 511, EBB_CHUNK_BYTES - 2, EBB_CHUNK_BYTES - 1, EBB_CHUNK_BYTES};
    CUdeviceptr p;
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        assert_int_equal(cuMemAlloc_v2(&p, SIZE_MAX - less[i]), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(cuMemAllocAsync(&p, SIZE_MAX - less[i], NULL), CUDA_ERROR_OUT_OF_MEMORY);
    }
}

static int setup(void **state)
{
    CUdeviceptr p;
    int failed = driver_setup(state);
    OK(cuMemAlloc_v2(&p, 16));
    OK(cuMemFree_v2(p));
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traffic_matches_the_model),
        cmocka_unit_test(large_request_succeeds_whenever_enough_chunks_are_free),
        cmocka_unit_test(block_freed_on_a_busy_stream_is_not_given_to_another),
        cmocka_unit_test(synchronous_free_waits_as_the_drivers_does),
        cmocka_unit_test(synchronous_free_of_unused_memory_keeps_the_order),
        cmocka_unit_test(program_is_told_one_story_about_memory),
        cmocka_unit_test(ranges_on_one_chunk_show_the_same_bytes),
        cmocka_unit_test(placed_small_buffers_live_on_when_their_slab_is_closed),
        cmocka_unit_test(end_of_a_buffer_leads_to_it_or_to_the_next),
        cmocka_unit_test(sizes_near_the_largest_are_out_of_memory),
    };
    setenv("EBB_BUDGET", "96MiB", 1);
    setenv("EBB_LOG", "quiet", 1);
    return cmocka_run_group_tests(tests, setup, NULL);
}
