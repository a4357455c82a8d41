/* An operation that is kept and issued again: what the driver gets, with a driver that only notes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"

enum { PARAMS = 512 };

ebb_driver_t ebb_driver;
static ebb_t process;
static ebb_device_t *const dev = &process.device[0];

static struct {
    unsigned char params[PARAMS];
    size_t bytes;
    unsigned attributes, grid;
    CUlaunchAttribute attribute[4];
    CUdeviceptr dst, src;
    unsigned launches, maps;
} seen;

ebb_status_t ebb_fail(ebb_status_t code, const char *operation, size_t bytes)
{
    (void)operation;
    (void)bytes;
    return code;
}

CUstream ebb_stream_handle(const ebb_stream_t *stream)
{
    (void)stream;
    return NULL;
}

ebb_mark_t ebb_mark_issue(ebb_stream_t *stream)
{
    (void)stream;
    return (ebb_mark_t){0};
}

/* The kernels here have as many bytes of arguments as blocks. */
CUresult ebb_launch_block(ebb_t *ebb, const CUlaunchConfig *config, CUfunction f, const unsigned char *params)
{
    (void)ebb;
    (void)f;
    seen.bytes = seen.grid = config->gridDimX;
    memcpy(seen.params, params, seen.bytes);
    seen.attributes = config->numAttrs;
    if (config->numAttrs)
        memcpy(seen.attribute, config->attrs, config->numAttrs * sizeof seen.attribute[0]);
    seen.launches++;
    return CUDA_SUCCESS;
}

/* As a driver might: in no word of the map does the address stand as it is. */
static CUresult CUDAAPI replace(CUtensorMap *map, void *address)
{
    assert_int_equal((uintptr_t)map % 64, 0);
    map->opaque[3] = (uint64_t)(uintptr_t)address << 7 | 5;
    seen.maps++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)stream;
    seen.dst = dst;
    seen.src = src;
    seen.bytes = bytes;
    return CUDA_SUCCESS;
}

static int set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    ebb_driver.cuTensorMapReplaceAddress = replace;
    ebb_driver.cuMemcpyDtoDAsync_v2 = copy;
    return 0;
}

static ebb_operation_t kernel(unsigned char *params, size_t bytes, CUlaunchAttribute *attribute,
                              unsigned attributes)
{
    for (size_t i = 0; i < bytes; i++)
        params[i] = (unsigned char)(i * 7 + bytes);
    for (unsigned i = 0; i < attributes; i++)
        attribute[i] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                           .value.priority = (int)(10 * attributes + i)};
    return (ebb_operation_t){.kind = EBB_KERNEL,
                             .grid = {(unsigned)bytes, 1, 1},
                             .block = {32, 1, 1},
                             .params = params,
                             .param_bytes = bytes,
                             .attribute = attribute,
                             .attribute_count = attributes};
}

static uint64_t word_at(const unsigned char *block, size_t at)
{
    uint64_t word;
    memcpy(&word, block + at, sizeof word);
    return word;
}

/* One place keeps one launch after another, each of another size: what is issued again is the last, whatever has become of its own memory. */
static void what_is_kept_is_the_last_one_whatever_was_there(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        unsigned attributes;
    } all[] = {{16, 1}, {16, 3}, {64, 2}, {8, 0}, {64, 3}, {0, 1}, {128, 4}, {0, 0}, {24, 2}};
    ebb_issued_t issued = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char params[PARAMS], expected[PARAMS];
        CUlaunchAttribute attribute[4];
        ebb_operation_t op = kernel(params, all[i].bytes, attribute, all[i].attributes);
        assert_true(ebb_issued_keep(&issued, &op));
        memcpy(expected, params, sizeof expected);
        memset(params, 0xee, sizeof params);
        memset(attribute, 0xee, sizeof attribute);
        assert_int_equal(ebb_relaunch(dev, &issued, NULL, NULL, 0), 0);
        assert_int_equal(seen.grid, all[i].bytes);
        assert_memory_equal(seen.params, expected, all[i].bytes);
        assert_int_equal(seen.attributes, all[i].attributes);
        for (unsigned k = 0; k < all[i].attributes; k++)
            assert_int_equal(seen.attribute[k].value.priority, 10 * all[i].attributes + k);
    }
    ebb_issued_forget(&issued);
    assert_null(issued.op.params);
}

/* Of ever other numbers of them, none included; what was recorded counts for an operand that was none this time. */
static void operands_are_where_they_were_in_the_last_launch(void **state)
{
    (void)state;
    enum { MOST = 5 };
    ebb_buffer_t buffer = {.bytes = 4096};
    ebb_access_t access[MOST];
    ebb_issued_t issued = {0};
    for (uint32_t round = 0; round < 40; round++) {
        const uint32_t count = round * 7 % (MOST + 1);
        for (uint32_t k = 0; k < count; k++)
            access[k] =
                (ebb_access_t){.buffer = &buffer, .param_offset = 8 * k, .offset_bytes = 100 * round + k};
        const ebb_operation_t op = {.kind = round % 2 ? EBB_KERNEL : EBB_COPY,
                                    .access = count ? access : NULL,
                                    .access_count = count};
        assert_true(ebb_issued_keep(&issued, &op));
        memset(access, 0xff, sizeof access);
        for (uint32_t k = 0; k < MOST; k++) {
            const ebb_trace_access_t recorded = {.param_offset = 8 * k, .offset_bytes = 77};
            assert_int_equal(ebb_issued_offset(&issued, &recorded), k < count ? 100 * round + k : 77);
        }
    }
    ebb_issued_forget(&issued);
}

static void words_are_exchanged_and_maps_by_the_driver(void **state)
{
    (void)state;
    unsigned char params[320];
    ebb_operation_t op = kernel(params, sizeof params, NULL, 0);
    op.map_count = 1;
    op.map_at[0] = 64;
    ebb_issued_t issued = {0};
    assert_true(ebb_issued_keep(&issued, &op));
    assert_true(ebb_issued_has_map(&issued, 64));
    assert_false(ebb_issued_has_map(&issued, 8));
    const ebb_pointer_t pointer[] = {{8, 0x1000}, {64, 0x2000}, {200, 0x3000}};
    assert_int_equal(ebb_relaunch(dev, &issued, NULL, pointer, 3), 0);
    assert_int_equal(seen.maps, 1);
    for (size_t at = 0; at < sizeof params; at += 8)
        assert_int_equal(word_at(seen.params, at), at == 8            ? 0x1000
                                                   : at == 64 + 3 * 8 ? (uint64_t)0x2000 << 7 | 5
                                                   : at == 200        ? 0x3000
                                                                      : word_at(params, at));
    assert_memory_equal(issued.op.params, params, sizeof params); /* the next time it is the same again */
    ebb_issued_forget(&issued);
}

static void more_arguments_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    static unsigned char params[EBB_RELAUNCH_PARAM_BYTES + 8];
    ebb_operation_t op = kernel(params, sizeof params, NULL, 0);
    const ebb_issued_t issued = ebb_issued_view(&op);
    assert_int_equal(ebb_relaunch(dev, &issued, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(seen.launches, 0);
}

static void copies_go_elsewhere_on_either_side(void **state)
{
    (void)state;
    const ebb_operation_t op = {.kind = EBB_COPY, .dst = 0x100, .src = 0x200, .bytes = 64};
    const ebb_issued_t issued = ebb_issued_view(&op);
    const ebb_pointer_t pointer[] = {{1, 0x5000}, {0, 0x6000}};
    assert_int_equal(ebb_relaunch(dev, &issued, NULL, pointer, 1), 0);
    assert_true(seen.dst == 0x100 && seen.src == 0x5000 && seen.bytes == 64);
    assert_int_equal(ebb_relaunch(dev, &issued, NULL, pointer, 2), 0);
    assert_true(seen.dst == 0x6000 && seen.src == 0x5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_kept_is_the_last_one_whatever_was_there, set_up),
        cmocka_unit_test(operands_are_where_they_were_in_the_last_launch),
        cmocka_unit_test_setup(words_are_exchanged_and_maps_by_the_driver, set_up),
        cmocka_unit_test_setup(more_arguments_than_there_is_room_for_are_refused, set_up),
        cmocka_unit_test_setup(copies_go_elsewhere_on_either_side, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
