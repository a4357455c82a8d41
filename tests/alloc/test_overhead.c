/* What the process holds beside ebb's memory, by what NVML says of it (nvml_stand_in.c), and what is made of it where NVML's word cannot
 * be true: all that is not free counts. */
#include "driver_test.h"

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "hook/hook.h"

static ebb_device_t *const dev = &ebb_global.device[0];

#define MIB ((size_t)1 << 20)

static size_t held; /* by the device's only process: this one */

static void nvml_shows(const char *processes)
{
    setenv("NVML_SHOWS", processes, 1);
}

static int setup(void **state)
{
    CUdeviceptr p;
    size_t free_bytes, total;
    nvml_shows("self:8388608");
    if (driver_setup(state)) /* with which ebb is there */
        return -1;
    OK(ebb_driver.cuMemAlloc_v2(&p, 128 * MIB));
    OK(ebb_driver.cuMemGetInfo_v2(&free_bytes, &total));
    held = total - free_bytes;
    return 0;
}

static void assert_all(size_t chunk_bytes)
{
    const ebb_overhead_t o = ebb_overhead(&ebb_global, 0, chunk_bytes);
    assert_true(o.of_all);
    assert_int_equal(o.bytes, held > chunk_bytes ? held - chunk_bytes : 0);
}

static void nvml_is_taken_at_its_word_where_it_can_be_true(void **state)
{
    (void)state;
    nvml_shows("1:5000000,self:104857600,2:?");
    const ebb_overhead_t alone = ebb_overhead(&ebb_global, 0, 0),
                         beside = ebb_overhead(&ebb_global, 0, 60 * MIB),
                         nothing = ebb_overhead(&ebb_global, 0, 100 * MIB);
    assert_false(alone.of_all || beside.of_all || nothing.of_all);
    assert_int_equal(alone.bytes, 100 * MIB);
    assert_int_equal(beside.bytes, 40 * MIB);
    assert_int_equal(nothing.bytes, 0);
}

/* Each device has an answer of its own. */
static void nvml_is_asked_for_the_device(void **state)
{
    char bus[32], name[48];
    (void)state;
    nvml_shows("self:104857600");
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 1));
    snprintf(name, sizeof name, "NVML_SHOWS_%s", bus);
    setenv(name, "self:20971520", 1);
    assert_int_equal(ebb_overhead(&ebb_global, 0, 0).bytes, 100 * MIB);
    assert_int_equal(ebb_overhead(&ebb_global, 1, 0).bytes, 20 * MIB);
    assert_int_equal(ebb_overhead(&ebb_global, 0, 0).bytes, 100 * MIB);
}

/* nvidia-smi in a container: the process has no bytes, or is another. */
static void a_process_that_holds_less_than_ebb_has_created_is_not_known(void **state)
{
    static const char *const shown[] = {"self:0", "self:31457280", "self:?", "4194304:104857600", ""};
    (void)state;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        nvml_shows(shown[i]);
        assert_all(32 * MIB);
    }
    nvml_shows("self:0");
    assert_all(0); /* a context is never nothing */
}

/* What is the driver's to serve is taken off the budget before the driver makes it: NVML need not have seen it. */
static void what_is_ceded_may_not_be_there_yet(void **state)
{
    CUdeviceptr p;
    char shown[64];
    (void)state;
    OK(cuMemAlloc(&p, 4 * MIB));
    OK(cuMemsetD8(p, 1, 4 * MIB));
    ebb_lock();
    assert_int_equal(dev->number, 0);
    const size_t created = ebb_chunks_usage(dev).created_bytes, count = 32 * MIB / EBB_CHUNK_BYTES;
    assert_true(ebb_chunks_lend(dev, count));
    snprintf(shown, sizeof shown, "self:%zu", created + 8 * MIB);
    nvml_shows(shown);
    ebb_chunks_measure(dev);
    const size_t not_yet = ebb_chunks_usage(dev).overhead_bytes;
    snprintf(shown, sizeof shown, "self:%zu", created + 8 * MIB + 32 * MIB);
    nvml_shows(shown);
    ebb_chunks_measure(dev);
    const size_t there = ebb_chunks_usage(dev).overhead_bytes;
    ebb_chunks_regain(dev, count);
    ebb_unlock();
    assert_int_equal(not_yet, there);
    assert_true(there < held); /* and it is known */
}

static void nvml_shows_beside_chunks(size_t bytes)
{
    char shown[64];
    snprintf(shown, sizeof shown, "self:%zu", ebb_chunks_usage(dev).created_bytes + bytes);
    nvml_shows(shown);
    ebb_chunks_measure(dev);
}

/* The driver's tables for pinned memory, code that is loaded late: NVML shows them when the budget is exceeded already, if nothing was kept free. */
static void what_grows_by_itself_is_within_the_budget(void **state)
{
    (void)state;
    ebb_lock();
    const size_t budget = dev->chunks.total_bytes, start = 100 * MIB;
    assert_true(budget >= 1024 * MIB);
    nvml_shows_beside_chunks(start);
    const size_t limit = ebb_chunks_limit(dev);
    assert_true(limit * EBB_CHUNK_BYTES + start + 4 * MIB <= budget);
    nvml_shows_beside_chunks(start + 2 * MIB);
    assert_int_equal(ebb_chunks_limit(dev), limit); /* nothing has to leave for it */
    for (size_t more = 2 * MIB; more <= 128 * MIB; more += 2 * MIB) {
        assert_true(ebb_chunks_limit(dev) * EBB_CHUNK_BYTES + start + more <=
                    budget); /* before it is measured */
        nvml_shows_beside_chunks(start + more);
    }
    assert_true(ebb_chunks_limit(dev) < limit);
    nvml_shows_beside_chunks(start);
    assert_int_equal(ebb_chunks_limit(dev), limit);
    ebb_unlock();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvml_is_taken_at_its_word_where_it_can_be_true),
        cmocka_unit_test(nvml_is_asked_for_the_device),
        cmocka_unit_test(a_process_that_holds_less_than_ebb_has_created_is_not_known),
        cmocka_unit_test(what_is_ceded_may_not_be_there_yet),
        cmocka_unit_test(what_grows_by_itself_is_within_the_budget),
    };
    return cmocka_run_group_tests_name("overhead", tests, setup, NULL);
}
