/* Two devices, one state each: which one a call is about, what is counted where, marks that cross. The layer is linked
 * in; under it is the software driver with SOFTGPU_DEVICES=2. */
#include "driver_test.h"

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/run.h"
#include "hook/hook.h"

static CUcontext context[2];
static CUstream stream[2];

static ebb_usage_t usage_of(unsigned device)
{
    ebb_device_t *dev = ebb_enter_device((CUdevice)device);
    assert_non_null(dev);
    ebb_usage_t u = ebb_usage(dev);
    ebb_heap_check(dev);
    ebb_unlock();
    assert_int_equal(ebb_broken_count(), 0);
    return u;
}

static ebb_device_t *device_of(unsigned device)
{
    ebb_device_t *dev = ebb_enter_device((CUdevice)device);
    assert_non_null(dev);
    ebb_unlock();
    return dev;
}

static void assert_current(CUcontext expected)
{
    CUcontext current;
    OK(ebb_driver.cuCtxGetCurrent(&current));
    assert_ptr_equal(current, expected);
}

static void calls_find_the_device_that_they_are_about(void **state)
{
    (void)state;
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAlloc(&p, 3 << 20));
    OK(cuCtxSetCurrent(context[0]));
    ebb_device_t *dev[] = {device_of(0), device_of(1)};
    assert_int_equal(dev[0]->device, 0);
    assert_int_equal(dev[1]->device, 1);
    assert_ptr_equal(ebb_arena_device(&ebb_global, p), dev[1]);
    assert_null(ebb_arena_device(&ebb_global, 1));
    assert_ptr_equal(ebb_enter(), dev[0]);
    assert_ptr_equal(ebb_current_device, dev[0]);
    ebb_unlock();
    assert_ptr_equal(ebb_enter_at(p), dev[1]);
    assert_ptr_equal(ebb_current_device, dev[1]);
    assert_current(context[1]);
    ebb_unlock();
    assert_current(context[0]);
    ebb_stream_t *there = ebb_enter_stream(stream[1]);
    assert_non_null(there);
    assert_ptr_equal(ebb_stream_device(there), dev[1]);
    assert_current(context[1]);
    assert_true(ebb_lock_go_to(dev[0])); /* there and back in one call */
    assert_current(context[0]);
    ebb_unlock();
    assert_current(context[0]);
    ebb_stream_t *mine = ebb_enter_stream(NULL);
    assert_non_null(mine);
    assert_ptr_equal(ebb_stream_device(mine), dev[0]);
    assert_ptr_equal(ebb_stream_of(dev[0], stream[1]), there);
    assert_ptr_equal(ebb_stream_of(dev[0], stream[1]), ebb_stream_of(dev[0], stream[1]));
    assert_ptr_equal(ebb_stream_of(dev[0], NULL), mine);
    ebb_unlock();
    assert_ptr_equal(ebb_enter_context(context[1]), dev[1]);
    assert_ptr_not_equal(ebb_stream_of(dev[1], NULL), mine); /* each context has a default stream */
    ebb_unlock();
    OK(cuMemFree(p));
}

static void visits_are_nested_and_come_back(void **state)
{
    (void)state;
    ebb_visit_t first, second;
    ebb_device_t *here = ebb_enter_device(0), *there = ebb_device_of(&ebb_global, 1);
    assert_non_null(here);
    assert_int_equal(ebb_device_visit(there, &first), 0);
    assert_current(context[1]);
    assert_int_equal(ebb_device_visit(here, &second), 0);
    assert_current(context[0]);
    ebb_device_return(second);
    assert_ptr_equal(ebb_current_device, there);
    assert_current(context[1]);
    ebb_device_return(first);
    assert_ptr_equal(ebb_current_device, here);
    ebb_unlock();
    assert_current(context[0]);
}

/* Random allocations on both devices and frees from either: what is live is counted where it was allocated. */
static void random_traffic_is_counted_on_its_device(void **state)
{
    (void)state;
    enum { LIVE = 60, ROUNDS = 3000 };
    struct {
        CUdeviceptr p;
        size_t bytes;
        unsigned device;
    } live[LIVE] = {{0, 0, 0}};
    size_t sum[2] = {0, 0}, most[2] = {usage_of(0).budget_bytes, usage_of(1).budget_bytes};
    const char *given = getenv("TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : 77;
    print_message("TEST_SEED=%u\n", seed);
    srand(seed);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned i = (unsigned)rand() % LIVE, device = (unsigned)rand() % 2, other = (unsigned)rand() % 2;
        OK(cuCtxSetCurrent(context[other]));
        if (live[i].p) {
            OK(rand() % 2 ? cuMemFree(live[i].p) : cuMemFreeAsync(live[i].p, stream[other]));
            sum[live[i].device] -= live[i].bytes;
            live[i].p = 0;
        }
        size_t bytes = rand() % 3 ? 1 + (size_t)rand() % 300000 : 1 + (size_t)rand() % (5 << 20);
        /* By the current context, or by the stream whatever is current. */
        bool by_stream = rand() % 2;
        if (!by_stream)
            OK(cuCtxSetCurrent(context[device]));
        CUresult result =
            by_stream ? cuMemAllocAsync(&live[i].p, bytes, stream[device]) : cuMemAlloc(&live[i].p, bytes);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            live[i].p = 0;
            assert_true(sum[device] + bytes > most[device] / 2);
            continue;
        }
        OK(result);
        live[i].bytes = bytes;
        live[i].device = device;
        sum[device] += bytes;
        assert_ptr_equal(ebb_arena_device(&ebb_global, live[i].p), device_of(device));
        for (unsigned d = 0; d < 2 && round % 16 == 0; d++) {
            ebb_usage_t u = usage_of(d);
            assert_int_equal(u.live_bytes, sum[d]);
            assert_true(u.created_bytes <= u.budget_bytes);
        }
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i].p)
            OK(cuMemFree(live[i].p));
    assert_int_equal(usage_of(0).live_bytes, 0);
    assert_int_equal(usage_of(1).live_bytes, 0);
    OK(cuCtxSetCurrent(context[0]));
}

/* One device's memory is full; the other's has nothing to do with that. */
static void a_full_device_leaves_the_other_alone(void **state)
{
    (void)state;
    CUdeviceptr all, other, none;
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemAlloc(&all, usage_of(0).budget_bytes));
    assert_int_equal(cuMemAlloc(&none, 3 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, EBB_CHUNK_BYTES); /* never nothing */
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, usage_of(1).budget_bytes);
    OK(cuMemAlloc(&other, usage_of(1).budget_bytes));
    OK(cuMemFree(other));
    OK(cuMemFree(all)); /* the other device's context is current */
    OK(cuCtxSetCurrent(context[0]));
}

/* A use on the other device's stream keeps the memory from being used again until it is over. */
static void a_mark_of_another_devices_stream_is_waited_for(void **state)
{
    (void)state;
    CUdeviceptr src, dst;
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemAlloc(&dst, 3 << 20));
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAlloc(&src, 3 << 20));
    OK(cuMemsetD32(src, 41, 3 << 18));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemcpyPeerAsync(dst, context[0], src, context[1], 3 << 20, stream[0]));
    ebb_device_t *dev = ebb_enter_at(src);
    assert_non_null(dev);
    ebb_buffer_t *b = ebb_buffer_at(dev->ebb, src);
    assert_int_equal(b->pinned, 0);
    assert_int_equal(b->held, 0);
    assert_true(b->peer_used);
    bool found = false;
    for (unsigned i = 0; i < b->use_count; i++)
        found |= b->use[i].stream == ebb_stream_of(dev, stream[0]);
    assert_true(found);
    assert_int_equal(ebb_buffer_join(ebb_stream_of(dev, stream[1]), b), 0);
    assert_int_equal(ebb_buffer_wait(b), 0);
    for (unsigned i = 0; i < b->use_count; i++)
        assert_true(ebb_mark_reached(b->use[i]));
    ebb_unlock();
    assert_int_equal(read_int(dst), 41);
    OK(cuMemFree(src));
    OK(cuMemFree(dst));
}

static void pools_belong_to_their_device(void **state)
{
    (void)state;
    CUmemoryPool usual[2], made;
    CUdeviceptr p;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemPoolCreate(&made, &props));
    for (int i = 0; i < 2; i++)
        OK(cuDeviceGetDefaultMemPool(&usual[i], i));
    ebb_device_t *dev[2] = {device_of(0), device_of(1)};
    assert_ptr_equal(ebb_enter(), dev[0]);
    assert_ptr_equal(ebb_pool_device(dev[0], made), dev[1]);
    assert_ptr_equal(ebb_pool_device(dev[0], usual[0]), dev[0]);
    assert_ptr_equal(ebb_pool_device(dev[0], usual[1]), dev[1]);
    ebb_unlock();
    /* On a stream of the first device, of the second's memory. */
    OK(cuMemAllocFromPoolAsync(&p, 3 << 20, made, stream[0]));
    assert_ptr_equal(ebb_arena_device(&ebb_global, p), dev[1]);
    cuuint64_t used;
    OK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 3 << 20);
    for (int i = 0; i < 2; i++) {
        OK(cuMemPoolGetAttribute(usual[i], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        assert_int_equal(used, 0);
    }
    OK(cuMemFreeAsync(p, stream[0]));
    OK(cuDeviceSetMemPool(1, made));
    OK(cuMemAllocAsync(&p, 3 << 20, stream[1]));
    CUmemoryPool whose;
    OK(cuPointerGetAttribute(&whose, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    assert_ptr_equal(whose, made);
    OK(cuMemFreeAsync(p, stream[1]));
    OK(cuDeviceSetMemPool(1, usual[1]));
    OK(cuMemPoolDestroy(made));
}

/* The last test: the device's next context gets a state of its own, and all of the memory. */
static void a_device_ends_with_its_context(void **state)
{
    (void)state;
    CUdeviceptr p, small, kept;
    OK(cuCtxSetCurrent(context[0]));
    OK(cuMemAlloc(&kept, 3 << 20));
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAlloc(&p, 20 << 20));
    OK(cuMemAlloc(&small, 100));
    OK(cuMemsetD8(p, 1, 20 << 20));
    OK(cuCtxSynchronize()); /* a stream that does not block knows nothing of it */
    const ebb_device_t *before = device_of(1);
    OK(cuMemcpyPeerAsync(kept, context[0], p, context[1], 3 << 20, stream[1]));
    OK(cuDevicePrimaryCtxReset(1));
    OK(cuCtxSetCurrent(context[0]));
    assert_non_null(ebb_enter_any());
    assert_null(ebb_device_of(&ebb_global, 1));
    ebb_unlock();
    assert_int_not_equal(cuMemFree(p), CUDA_SUCCESS);
    OK(cuCtxSetCurrent(context[0]));
    assert_int_equal(read_int(kept), 0x01010101);
    OK(cuMemFree(kept)); /* its last use was on a stream that is gone */
    OK(cuDevicePrimaryCtxRetain(&context[1], 1));
    OK(cuCtxSetCurrent(context[1]));
    OK(cuMemAlloc(&p, 20 << 20));
    assert_ptr_not_equal(device_of(1), before);
    assert_int_equal(usage_of(1).live_bytes, 20 << 20);
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, usage_of(1).budget_bytes));
    OK(cuMemFree(p));
}

static int setup(void **state)
{
    int failed = driver_setup(state);
    context[0] = test_context;
    OK(cuDevicePrimaryCtxRetain(&context[1], 1));
    for (int i = 0; i < 2; i++) {
        CUdeviceptr p;
        OK(cuCtxSetCurrent(context[i]));
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&p, 16));
        OK(cuMemFree(p));
    }
    OK(cuCtxSetCurrent(context[0]));
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_find_the_device_that_they_are_about),
        cmocka_unit_test(visits_are_nested_and_come_back),
        cmocka_unit_test(random_traffic_is_counted_on_its_device),
        cmocka_unit_test(a_full_device_leaves_the_other_alone),
        cmocka_unit_test(a_mark_of_another_devices_stream_is_waited_for),
        cmocka_unit_test(pools_belong_to_their_device),
        cmocka_unit_test(a_device_ends_with_its_context),
    };
    setenv("SOFTGPU_DEVICES", "2", 1);
    setenv("SOFTGPU_MEMORY", "67108864", 1);
    return cmocka_run_group_tests(tests, setup, NULL);
}
