/* Argument blocks: packing, and the pointers found in them. */
#include "driver_test.h"

#include "alloc/device.h"
#include "hook/internal.h"

static ebb_device_t *const dev = &ebb_global.device[0];

static ebb_buffer_t *make(size_t bytes)
{
    ebb_buffer_t *b;
    ebb_lock();
    assert_int_equal(ebb_heap_alloc(dev, &(ebb_request_t){.bytes = bytes}, &b), 0);
    ebb_unlock();
    return b;
}

static ebb_operation_t scan(const void *block, size_t bytes, ebb_access_t *access)
{
    ebb_operation_t op = {0};
    const struct ebb_param one = {0, (uint32_t)bytes};
    const ebb_signature_t s = {.param_count = 1, .param_bytes = (uint32_t)bytes, .params = &one};
    ebb_lock();
    ebb_args_scan(&ebb_global, &op, &s, block, access);
    ebb_unlock();
    return op;
}

static void pointers_are_found_wherever_they_stand(void **state)
{
    (void)state;
    ebb_access_t access[8];
    ebb_buffer_t *small = make(1000), *large = make(5 << 20);
    const CUdeviceptr block[6] = {small->address,       7, large->address + 4096,
                                  small->address + 999, 0, large->address};
    ebb_operation_t op = scan(block, sizeof block, access);
    assert_int_equal(op.access_count, 4);
    assert_ptr_equal(access[0].buffer, small);
    assert_ptr_equal(access[1].buffer, large);
    assert_int_equal(access[1].offset_bytes, 4096);
    assert_int_equal(access[1].param_offset, 16);
    assert_int_equal(access[2].offset_bytes, 999);
    assert_int_equal(access[3].param_offset, 40);
}

static void pointer_past_the_end_belongs_to_its_own_buffer(void **state)
{
    (void)state;
    ebb_access_t access[4];
    ebb_buffer_t *a = make(4 << 20), *b = make(4 << 20), *s = make(EBB_ALIGN_BYTES);
    const CUdeviceptr block[3] = {a->address + a->bytes, b->address + b->bytes, s->address + s->bytes - 1};
    ebb_operation_t op = scan(block, sizeof block, access);
    assert_int_equal(op.access_count, 3);
    assert_ptr_equal(access[0].buffer, a);
    assert_ptr_equal(access[1].buffer, b);
    assert_ptr_equal(access[2].buffer, s);
}

/* The padding of a struct often holds half of an old pointer. */
static void freed_and_half_pointers_are_no_accesses(void **state)
{
    (void)state;
    ebb_access_t access[4];
    ebb_buffer_t *a = make(4 << 20), *b = make(4 << 20);
    CUdeviceptr gone = a->address;
    ebb_lock();
    ebb_heap_free(a, (ebb_mark_t){0});
    ebb_unlock();
    ebb_operation_t op = scan(&gone, sizeof gone, access);
    assert_int_equal(op.access_count, 0);
    for (uint32_t low = 0; low < 100000; low += 7) {
        CUdeviceptr half = b->address >> 32 << 32 | low;
        assert_int_equal(scan(&half, sizeof half, access).access_count, 0);
        half += (CUdeviceptr)1 << 32;
        assert_int_equal(scan(&half, sizeof half, access).access_count, 0);
    }
    int local;
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)&local;
    assert_int_equal(scan(&host, sizeof host, access).access_count, 0);
}

/* Ranges cross a multiple of 4 GiB only where there is no other way. */
static void no_range_begins_or_ends_just_above_four_gib(void **state)
{
    (void)state;
    for (int i = 0; i < 4000; i++) {
        ebb_lock();
        ebb_range_t *r = ebb_range_new(dev, 1 + (size_t)i % 40);
        ebb_unlock();
        assert_non_null(r);
        CUdeviceptr end = r->base + r->chunk_count * EBB_CHUNK_BYTES;
        assert_true((r->base & UINT32_MAX) >= EBB_LOW_WORDS && ((end - 1) & UINT32_MAX) >= EBB_LOW_WORDS);
        assert_int_equal(r->base >> 32, (end - 1) >> 32);
        ebb_lock();
        ebb_range_delete(r); /* the search goes on behind it, round and round */
        ebb_unlock();
    }
}

static void both_forms_of_arguments_pack_to_the_same_block(void **state)
{
    (void)state;
    CUfunction f = kernel("_Z14take_argumentsPdc5mixedsf");
    ebb_lock();
    const ebb_signature_t *s = ebb_signature_of(&ebb_global, f);
    ebb_unlock();
    assert_non_null(s);
    assert_int_equal(s->param_count, 5);
    assert_int_equal(s->param_bytes, 64);
    struct {
        char tag;
        double x;
        int y[5];
    } m = {1, 2.5, {3, 4, 5, 6, 7}};
    CUdeviceptr out = 0x1234567890;
    char c = 'c';
    short n = -7;
    float x = 0.5f;
    void *params[] = {&out, &c, &m, &n, &x};
    unsigned char one[64], two[64] = {0};
    memset(one, 0xa5, sizeof one);
    assert_true(ebb_args_pack(s, one, params, NULL));
    for (uint32_t at = s->params[1].offset_bytes + 1; at < s->params[2].offset_bytes; at++)
        assert_int_equal(one[at], 0); /* between arguments */
    size_t bytes = sizeof one;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, one, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    assert_true(ebb_args_pack(s, two, NULL, extra));
    assert_memory_equal(one, two, sizeof one);
    assert_memory_equal(one + s->params[3].offset_bytes, &n, sizeof n);
    bytes = sizeof one + 1; /* the driver refuses it */
    assert_false(ebb_args_pack(s, two, NULL, extra));
    for (bytes = 0; bytes < sizeof one; bytes++) { /* it may end anywhere */
        memset(two, 0xa5, sizeof two);
        assert_true(ebb_args_pack(s, two, NULL, extra));
        assert_memory_equal(one, two, bytes);
        for (size_t at = bytes; at < sizeof two; at++)
            assert_int_equal(two[at], 0);
    }
}

/* A buffer has a map at the offset that the driver reports, whatever lies between parameters. */
static void buffers_are_read_as_the_driver_lays_them_out(void **state)
{
    (void)state;
    unsigned char buffer[1024], block[1024], expected[1024] = {0};
    ebb_lock();
    const ebb_signature_t *s = ebb_signature_of(&ebb_global, kernel("take_maps"));
    ebb_unlock();
    assert_non_null(s);
    size_t bytes = s->param_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    assert_true(s->has_gaps && bytes <= sizeof buffer);
    memset(buffer, 0xa5, sizeof buffer);
    for (uint32_t i = 0; i < s->param_count; i++)
        memset(expected + s->params[i].offset_bytes, 0xa5, s->params[i].size_bytes);
    assert_true(ebb_args_pack(s, block, NULL, extra));
    assert_memory_equal(block, expected, bytes);
    const ebb_signature_t none = {0};
    assert_false(ebb_args_pack(&none, block, NULL, extra));
    bytes = 0;
    assert_true(ebb_args_pack(&none, block, NULL, extra));
    assert_true(ebb_args_pack(&none, block, NULL, NULL));
}

static CUtensorMap map_of(CUdeviceptr p)
{
    CUtensorMap map;
    const cuuint64_t size[] = {64, 16}, stride[] = {64 * sizeof(float)};
    const cuuint32_t box[] = {64, 1}, step[] = {1, 1};
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)p, size, stride,
                              box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

/* The first parameter is at 112 on sm_90, for the bank begins at 0x210: no multiple of 64. The second map is within a structure. */
static void maps_are_found_where_the_architecture_has_them(void **state)
{
    (void)state;
    CUdeviceptr p[3];
    for (int i = 0; i < 3; i++)
        OK(cuMemAlloc(&p[i], 4096));
    struct {
        int n;
        CUtensorMap map;
    } second = {.n = 1, .map = map_of(p[1])};
    CUtensorMap first = map_of(p[0]);
    void *params[] = {&first, &p[2], &second};
    unsigned char block[1024];
    ebb_access_t access[EBB_ARGS_ROOM(sizeof block)];
    ebb_operation_t op = {0};
    ebb_lock();
    const ebb_signature_t *s = ebb_signature_of(&ebb_global, kernel("take_maps"));
    ebb_unlock();
    assert_true(s && s->param_count == 3 && s->param_bytes <= sizeof block);
    assert_int_not_equal(s->params[0].offset_bytes % 64, 0);
    assert_true(ebb_args_pack(s, block, params, NULL));
    ebb_lock();
    ebb_args_scan(&ebb_global, &op, s, block, access);
    ebb_unlock();
    assert_int_equal(op.access_count, 3);
    const uint32_t in_structure = (uint32_t)((char *)&second.map - (char *)&second);
    const uint32_t at[] = {s->params[0].offset_bytes, s->params[2].offset_bytes + in_structure,
                           s->params[1].offset_bytes};
    for (int i = 0; i < 3; i++) {
        bool found = false;
        for (uint32_t k = 0; k < op.access_count; k++)
            found |= access[k].buffer->address == p[i] && access[k].param_offset == at[i];
        assert_true(found);
        OK(cuMemFree(p[i]));
    }
}

static int setup(void **state)
{
    CUdeviceptr p;
    int failed = driver_setup(state);
    OK(cuMemAlloc_v2(&p, 16)); /* the first call sets ebb up */
    assert_true(ebb_arena_contains(&ebb_global, p));
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_found_wherever_they_stand),
        cmocka_unit_test(pointer_past_the_end_belongs_to_its_own_buffer),
        cmocka_unit_test(freed_and_half_pointers_are_no_accesses),
        cmocka_unit_test(no_range_begins_or_ends_just_above_four_gib),
        cmocka_unit_test(both_forms_of_arguments_pack_to_the_same_block),
        cmocka_unit_test(buffers_are_read_as_the_driver_lays_them_out),
        cmocka_unit_test(maps_are_found_where_the_architecture_has_them),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
