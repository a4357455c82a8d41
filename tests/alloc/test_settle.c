/* Programs that do the same in every step stop mapping memory: random ones, whose sizes come and go. */
#include "driver_test.h"

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "hook/hook.h"

static ebb_device_t *const dev = &ebb_global.device[0];

enum { SEEDS = 300, BUFFERS = 40, STEPS = 60, CALM = 10, LARGEST = 48 };

static size_t maps;
static PFN_cuMemMap_v10020 real_map;

static CUresult counted_map(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags)
{
    maps++;
    return real_map(p, bytes, offset, handle, flags);
}

/* A step: in this order, buffer i is allocated where events[k] is i, and freed where it is there the second time. */
typedef struct step {
    size_t bytes[BUFFERS];
    unsigned events[2 * BUFFERS];
} step_t;

static step_t random_step(unsigned seed)
{
    step_t s;
    srandom(seed);
    for (unsigned i = 0; i < BUFFERS; i++) {
        s.bytes[i] = (size_t)(1 + random() % (random() % 4 ? 6 : LARGEST)) * EBB_CHUNK_BYTES;
        s.events[2 * i] = s.events[2 * i + 1] = i;
    }
    for (unsigned i = 2 * BUFFERS; i-- > 1;) {
        const unsigned k = (unsigned)random() % (i + 1), event = s.events[i];
        s.events[i] = s.events[k];
        s.events[k] = event;
    }
    return s;
}

static void run_step(const step_t *s, CUstream stream)
{
    CUdeviceptr p[BUFFERS] = {0};
    for (unsigned k = 0; k < 2 * BUFFERS; k++) {
        const unsigned i = s->events[k];
        if (p[i])
            OK(cuMemFreeAsync(p[i], stream));
        else
            OK(cuMemAllocAsync(&p[i], s->bytes[i], stream));
    }
}

/* Which leaves nothing behind, whatever is done for programs that do not settle. */
static void ask_for_too_much(CUstream stream)
{
    CUdeviceptr p;
    const size_t bytes = ebb_usage(dev).budget_bytes + EBB_CHUNK_BYTES;
    for (int i = 0; i < 4; i++)
        assert_int_equal(cuMemAllocAsync(&p, bytes, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

static void steps_that_repeat_stop_mapping(void **state)
{
    (void)state;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    real_map = ebb_driver.cuMemMap;
    ebb_driver.cuMemMap = counted_map;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        const step_t s = random_step(seed);
        for (unsigned step = 0; step < STEPS; step++) {
            if (step == STEPS - CALM)
                maps = 0;
            run_step(&s, stream);
        }
        if (maps)
            print_message("seed %u: %zu chunks are mapped in %d steps\n", seed, maps, CALM);
        assert_int_equal(maps, 0);
        ask_for_too_much(stream);
        OK(cuCtxSynchronize());
        ebb_lock();
        ebb_heap_reclaim(dev, SIZE_MAX, true);
        ebb_heap_check(dev);
        assert_int_equal(ebb_usage(dev).mapped_bytes, 0);
        ebb_unlock();
    }
    OK(cuStreamDestroy_v2(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_that_repeat_stop_mapping)};
    setenv("SOFTGPU_MEMORY", "8GiB", 1);
    return cmocka_run_group_tests_name("settle", tests, driver_setup, NULL);
}
