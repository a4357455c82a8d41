/* What the layer knows beside its own allocations: foreign ranges, tensor maps, pinned and mentioned buffers. */
#include "driver_test.h"

#include <pthread.h>
#include <time.h>

#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"
#include "run_stand_in.h"

static ebb_device_t *const dev = &ebb_global.device[0];

static ebb_buffer_t *make(size_t bytes)
{
    ebb_buffer_t *b;
    ebb_lock();
    assert_int_equal(ebb_heap_alloc(dev, &(ebb_request_t){.bytes = bytes}, &b), 0);
    ebb_unlock();
    return b;
}

static void release_buffer(ebb_buffer_t *b)
{
    ebb_lock();
    ebb_heap_free(b, (ebb_mark_t){0});
    ebb_unlock();
}

static uint64_t seed;

static unsigned random_below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

/* Against an array with an owner for every unit of a small address space. */
static void foreign_ranges_match_a_naive_model(void **state)
{
    (void)state;
    enum { UNITS = 400, ROUNDS = 20000 };
    static int model[UNITS]; /* 0, or 1 + where its range begins */
    static const char owners[4];
    const char *text = getenv("TEST_SEED");
    seed = text ? strtoull(text, NULL, 10) : 42;
    printf("TEST_SEED=%llu\n", (unsigned long long)seed);
    ebb_lock();
    for (int round = 0; round < ROUNDS; round++) {
        unsigned first = random_below(UNITS), length = 1 + random_below(12);
        if (random_below(3)) {
            bool room = first + length <= UNITS;
            for (unsigned i = first; room && i < first + length; i++)
                room = !model[i];
            if (room) {
                assert_true(ebb_foreign_add(dev, &(ebb_foreign_t){.base = 1000 + first,
                                                                  .bytes = length,
                                                                  .kind = EBB_FOREIGN_HOST,
                                                                  .owner = &owners[length % 4]}));
                for (unsigned i = first; i < first + length; i++)
                    model[i] = 1 + (int)first;
            }
        } else if (random_below(50)) {
            bool begins = model[first] == 1 + (int)first;
            assert_int_equal(ebb_foreign_remove(&ebb_global, 1000 + first), begins);
            for (unsigned i = first; begins && i < UNITS && model[i] == 1 + (int)first; i++)
                model[i] = 0;
        } else {
            const void *owner = &owners[length % 4];
            for (unsigned i = 0; i < UNITS; i++) {
                const ebb_foreign_t *f = ebb_foreign_at(&ebb_global, 1000 + i);
                if (f && f->owner == owner)
                    model[i] = 0;
            }
            ebb_foreign_forget(&ebb_global, owner);
        }
        unsigned asked = random_below(UNITS);
        const ebb_foreign_t *f = ebb_foreign_at(&ebb_global, 1000 + asked);
        assert_int_equal(f ? f->base - 1000 + 1 : 0, model[asked]);
    }
    for (unsigned i = 0; i < 4; i++)
        ebb_foreign_forget(&ebb_global, &owners[i]);
    ebb_unlock();
}

static void foreign_memory_takes_chunks_off_the_pool(void **state)
{
    (void)state;
    ebb_lock();
    size_t limit = ebb_chunks_limit(dev);
    assert_true(ebb_foreign_count(dev, 1));
    assert_true(ebb_foreign_count(dev, EBB_CHUNK_BYTES - 1));
    assert_int_equal(ebb_chunks_limit(dev), limit - 1); /* whole chunks of the sum */
    assert_true(ebb_foreign_count(dev, 1));
    assert_int_equal(ebb_chunks_limit(dev), limit - 2);
    assert_false(ebb_foreign_count(dev, limit * EBB_CHUNK_BYTES));
    assert_int_equal(ebb_chunks_limit(dev), limit - 2);
    ebb_foreign_uncount(dev, EBB_CHUNK_BYTES + 1);
    assert_int_equal(ebb_foreign_counted(dev), 0);
    assert_int_equal(ebb_chunks_limit(dev), limit);
    ebb_unlock();
}

static void tensor_maps_point_to_what_they_were_encoded_for(void **state)
{
    (void)state;
    /* As on sm_90: a pointer, a map, a structure with one 64 bytes into it. */
    const struct ebb_param param[] = {{0, 8}, {112, 128}, {240, 192}};
    const ebb_signature_t signature = {.param_count = 3, .param_bytes = 432, .params = param};
    unsigned char block[432] = {0}, map[EBB_TENSOR_MAP_BYTES], other[EBB_TENSOR_MAP_BYTES];
    ebb_access_t access[EBB_ARGS_ROOM(432)];
    ebb_buffer_t *a = make(3 << 20), *b = make(3 << 20);
    for (size_t i = 0; i < sizeof map; i++)
        map[i] = (unsigned char)(i + 1), other[i] = (unsigned char)(i + 7);
    /* The first word is the address (H200, driver 580.159.04): one access, not two. Of the other map no word is. */
    const CUdeviceptr first = a->address + 64;
    memcpy(map, &first, sizeof first);
    ebb_lock();
    ebb_tensor_map_note(&ebb_global, map, a->address + 64);
    ebb_tensor_map_note(&ebb_global, other, b->address + 128);
    memcpy(block, &b->address, sizeof b->address);
    memcpy(block + 112, map, sizeof map);
    memcpy(block + 240 + 64, other, sizeof other);
    ebb_operation_t op = {.plain = true};
    ebb_args_scan(&ebb_global, &op, &signature, block, access);
    assert_int_equal(op.access_count, 3);
    assert_ptr_equal(access[0].buffer, b);
    assert_ptr_equal(access[1].buffer, a);
    assert_int_equal(access[1].offset_bytes, 64);
    assert_ptr_equal(access[2].buffer, b);
    assert_int_equal(access[2].offset_bytes, 128);
    assert_true(op.plain);
    assert_int_equal(op.map_count, 2);
    assert_int_equal(op.map_at[0], 112);
    assert_int_equal(op.map_at[1], 304);
    /* Its bytes changed, it is none that is known, and its first word is a pointer like any other. */
    block[112 + 100] ^= 1;
    op = (ebb_operation_t){.plain = true};
    ebb_args_scan(&ebb_global, &op, &signature, block, access);
    assert_int_equal(op.access_count, 3);
    assert_int_equal(op.map_count, 1);
    assert_true(op.plain);
    /* Encoded again with the same bytes, the last one counts. */
    ebb_tensor_map_note(&ebb_global, map, b->address);
    assert_int_equal(ebb_tensor_map_address(&ebb_global, map), b->address);
    ebb_unlock();
    release_buffer(a);
    release_buffer(b);
}

static void many_tensor_maps_are_kept_while_their_buffers_live(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    unsigned char map[EBB_TENSOR_MAP_BYTES] = {0};
    ebb_buffer_t *keeps = make(1000), *goes = make(1000);
    CUdeviceptr kept = keeps->address, gone = goes->address;
    ebb_lock();
    for (uint32_t i = 0; i < COUNT; i++) {
        memcpy(map, &i, sizeof i);
        ebb_tensor_map_note(&ebb_global, map, i % 2 ? kept : gone);
        if (i == COUNT / 2)
            ebb_heap_free(goes, (ebb_mark_t){0});
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        memcpy(map, &i, sizeof i);
        if (i % 2)
            assert_int_equal(ebb_tensor_map_address(&ebb_global, map), kept);
    }
    assert_true(ebb_global.tensor_maps.count < COUNT); /* those of the freed one did not pile up */
    ebb_unlock();
    release_buffer(keeps);
}

static unsigned interruptions;

static void interrupted(const char *why)
{
    assert_non_null(why);
    interruptions++;
}

static void pinned_buffers_are_held_until_released_as_often(void **state)
{
    (void)state;
    ebb_buffer_t *b = make(3 << 20);
    run_stand_in.interrupted = interrupted;
    interruptions = 0;
    ebb_lock();
    assert_int_equal(ebb_buffer_pin(b), 0);
    ebb_buffer_hold(b);
    assert_int_equal(b->held, 1);
    assert_int_equal(interruptions, 1); /* a plan ends with the first of them */
    ebb_buffer_release(b);
    assert_int_equal(b->held, 1);
    ebb_buffer_release(b);
    assert_int_equal(b->held, 0);
    ebb_buffer_release(b); /* one too many does no harm */
    assert_int_equal(b->held, 0);
    ebb_pinned_ref_t ref = ebb_pinned_ref(b);
    assert_ptr_equal(ebb_pinned_get(&ebb_global, ref), b);
    ebb_heap_free(b, (ebb_mark_t){0});
    assert_null(ebb_pinned_get(&ebb_global, ref));
    ebb_unlock();
    ebb_buffer_t *again = make(3 << 20); /* at the same address: another one */
    assert_null(ebb_pinned_get(&ebb_global, ref));
    assert_int_equal(again->pinned, 0);
    release_buffer(again);
    run_stand_in.interrupted = NULL;
}

static void mentions_hold_each_buffer_once_per_graph(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    ebb_buffer_t *b[COUNT];
    ebb_mentions_t one = {0}, two = {0};
    for (int i = 0; i < COUNT; i++)
        b[i] = make(2000);
    ebb_lock();
    for (int i = 0; i < 3 * COUNT; i++)
        ebb_mentions_add(&one, b[i % COUNT], false);
    assert_int_equal(one.addresses.count, COUNT);
    ebb_mentions_add_all(&ebb_global, &two, &one);
    ebb_mentions_add_all(&ebb_global, &two, &two);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(b[i]->pinned, 2);
        assert_int_equal(b[i]->held, 1);
    }
    ebb_mentions_clear(&ebb_global, &one);
    assert_int_equal(b[7]->pinned, 1);
    ebb_heap_free(b[7], (ebb_mark_t){0}); /* by the program, while a graph mentions it */
    ebb_access_t access[COUNT];
    ebb_operation_t op = {.access = access};
    ebb_mentions_list(&ebb_global, &two, &op);
    assert_int_equal(op.access_count, COUNT - 1);
    assert_false(op.opaque);
    ebb_mentions_clear(&ebb_global, &two);
    for (int i = 0; i < COUNT; i++)
        if (i != 7) {
            assert_int_equal(b[i]->held, 0);
            ebb_heap_free(b[i], (ebb_mark_t){0});
        }
    ebb_unlock();
}

static int enter(void **state)
{
    if (driver_setup(state) || !ebb_enter())
        return -1;
    ebb_unlock();
    return 0;
}

/* ---- mappings that a library makes on a thread of its own, as NCCL does ---- */

typedef struct own_mapping {
    CUcontext context;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    bool keeps;
    CUresult result;
} own_mapping_t;

static CUresult map_memory(own_mapping_t *m, size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuMemAddressReserve(&m->at, bytes, 0, 0, 0);
    result = result ? result : cuMemCreate(&m->handle, bytes, &prop, 0);
    result = result ? result : cuMemMap(m->at, bytes, 0, m->handle, 0);
    return result ? result : cuMemSetAccess(m->at, bytes, &access, 1);
}

static CUresult unmap_memory(const own_mapping_t *m, size_t bytes)
{
    CUresult result = cuMemUnmap(m->at, bytes);
    result = result ? result : cuMemRelease(m->handle);
    return result ? result : cuMemAddressFree(m->at, bytes);
}

static void *map_on_a_thread(void *argument)
{
    own_mapping_t *m = argument;
    m->result = cuCtxSetCurrent(m->context);
    for (int i = 0; i < 3 && !m->result; i++) {
        m->result = map_memory(m, 4 * CHUNK);
        if (!m->result && (i < 2 || !m->keeps))
            m->result = unmap_memory(m, 4 * CHUNK);
    }
    return NULL;
}

/* While another thread is inside a call of ebb's, for as long as it likes. */
static void map_beside_the_lock(own_mapping_t *m)
{
    pthread_t thread;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    OK(cuCtxGetCurrent(&m->context));
    ebb_lock();
    assert_int_equal(pthread_create(&thread, NULL, map_on_a_thread, m), 0);
    const int late = pthread_timedjoin_np(thread, NULL, &end);
    ebb_unlock();
    if (late)
        pthread_join(thread, NULL);
    assert_int_equal(late, 0);
    OK(m->result);
}

static size_t counted_bytes(void)
{
    assert_true(ebb_enter()); /* what has been done meanwhile is known from here on */
    const size_t bytes = ebb_foreign_counted(dev);
    ebb_unlock();
    return bytes;
}

static void a_librarys_own_mappings_wait_for_no_call_of_ebbs(void **state)
{
    (void)state;
    own_mapping_t gone = {0}, stays = {.keeps = true};
    const size_t before = counted_bytes();
    map_beside_the_lock(&gone);
    assert_int_equal(counted_bytes(), before);
    map_beside_the_lock(&stays);
    assert_int_equal(counted_bytes(), before + 4 * CHUNK);
    ebb_lock();
    const ebb_foreign_t *f = ebb_foreign_at(&ebb_global, stays.at + CHUNK);
    assert_true(f && f->base == stays.at && f->bytes == 4 * CHUNK && f->kind == EBB_FOREIGN_MAPPING);
    ebb_unlock();
    OK(unmap_memory(&stays, 4 * CHUNK));
    assert_int_equal(counted_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_ranges_match_a_naive_model),
        cmocka_unit_test(foreign_memory_takes_chunks_off_the_pool),
        cmocka_unit_test(tensor_maps_point_to_what_they_were_encoded_for),
        cmocka_unit_test(many_tensor_maps_are_kept_while_their_buffers_live),
        cmocka_unit_test(pinned_buffers_are_held_until_released_as_often),
        cmocka_unit_test(mentions_hold_each_buffer_once_per_graph),
        cmocka_unit_test(a_librarys_own_mappings_wait_for_no_call_of_ebbs),
    };
    setenv("EBB_BUDGET", "64MiB", 1);
    return cmocka_run_group_tests(tests, enter, NULL);
}
