/* Mistakes that hardware punishes rarely: under some of a few seeds each must show, and the correct program under none. */
#include "scheduler_test.h"

enum { SEEDS = 24, BYTES = 4 << 20 };

typedef struct outcome {
    bool correct; /* which form of the program: set before it runs */
    int wrong;
} outcome_t;

/* In how many of the seeds the result is wrong. */
static int wrong_seeds(void (*body)(void *), bool correct)
{
    int wrong = 0;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        outcome_t o = {.correct = correct};
        run_seeded(seed, body, &o, sizeof o);
        wrong += o.wrong != 0;
    }
    return wrong;
}

static void check_both_forms(void (*body)(void *))
{
    int wrong = wrong_seeds(body, false);
    print_message("wrong under %d of %d seeds\n", wrong, SEEDS);
    assert_true(wrong > 0);
    assert_int_equal(wrong_seeds(body, true), 0);
}

/* One stream stores, another copies what is stored. */
static void store_and_copy(void *out)
{
    outcome_t *o = out;
    CUdeviceptr p = device_alloc(8);
    CUstream a = new_stream(0), b = new_stream(0);
    CUevent stored = new_event();
    int value = 7, seen = 0;
    LAUNCH(a, kernel("store"), &p, &value);
    OK(cuEventRecord(stored, a));
    if (o->correct)
        OK(cuStreamWaitEvent(b, stored, 0));
    OK(cuMemcpyDtoDAsync(p + 4, p, 4, b));
    OK(cuStreamSynchronize(b));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&seen, p + 4, 4));
    o->wrong = seen != 7;
}

static void missing_event_wait_shows(void **state)
{
    (void)state;
    check_both_forms(store_and_copy);
}

/* The second stream overwrites what the first is still to read. */
static void copy_and_overwrite(void *out)
{
    outcome_t *o = out;
    CUdeviceptr p = device_alloc(8);
    CUstream a = new_stream(0), b = new_stream(0);
    CUevent copied = new_event();
    int value = 7, seen = 1;
    OK(cuMemcpyDtoDAsync(p + 4, p, 4, a));
    OK(cuEventRecord(copied, a));
    if (o->correct)
        OK(cuStreamWaitEvent(b, copied, 0));
    LAUNCH(b, kernel("store"), &p, &value);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&seen, p + 4, 4));
    o->wrong = seen != 0;
}

static void early_overwrite_shows(void **state)
{
    (void)state;
    check_both_forms(copy_and_overwrite);
}

/* Host memory is written again while a copy from it is under way. */
static void reuse_of_a_pinned_source(void *out)
{
    outcome_t *o = out;
    CUdeviceptr p = device_alloc(4);
    CUstream s = new_stream(0);
    int *source = pinned_alloc(4), seen = 0;
    source[0] = 7;
    OK(cuMemcpyHtoDAsync(p, source, 4, s));
    if (o->correct)
        OK(cuStreamSynchronize(s));
    source[0] = 8;
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(&seen, p, 4));
    o->wrong = seen != 7;
}

static void early_reuse_of_a_pinned_buffer_shows(void **state)
{
    (void)state;
    check_both_forms(reuse_of_a_pinned_source);
}

/* The host reads before the copy to it has been waited for. */
static void read_of_a_pinned_destination(void *out)
{
    outcome_t *o = out;
    CUdeviceptr p = device_alloc(4);
    CUstream s = new_stream(0);
    CUevent done = new_event();
    int *destination = pinned_alloc(4), value = 7;
    LAUNCH(s, kernel("store"), &p, &value);
    OK(cuMemcpyDtoHAsync(destination, p, 4, s));
    OK(cuEventRecord(done, s));
    if (o->correct)
        OK(cuEventSynchronize(done));
    o->wrong = *(volatile int *)destination != 7;
    OK(cuCtxSynchronize());
}

static void early_read_of_a_pinned_buffer_shows(void **state)
{
    (void)state;
    check_both_forms(read_of_a_pinned_destination);
}

/* A copy of which one half is there and the other is not. `wrong` only for that. */
static void look_into_a_copy(void *out)
{
    outcome_t *o = out;
    CUdeviceptr p = device_alloc(BYTES), q = device_alloc(BYTES), ends = device_alloc(8);
    CUstream a = new_stream(0), b = new_stream(0);
    CUevent copied = new_event();
    int n = BYTES / 4, seen[2];
    OK(cuMemsetD32(p, 7, BYTES / 4));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoDAsync(q, p, BYTES, a));
    OK(cuEventRecord(copied, a));
    if (o->correct)
        OK(cuStreamWaitEvent(b, copied, 0));
    LAUNCH(b, kernel("ends"), &ends, &q, &n);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(seen, ends, sizeof seen));
    o->wrong = o->correct ? seen[0] != 7 || seen[1] != 7 : seen[0] != seen[1];
}

static void half_done_copy_shows(void **state)
{
    (void)state;
    check_both_forms(look_into_a_copy);
}

/* Memory is unmapped while work on it is queued: the context dies, unless the program waits first. */
static void unmap_under_work(void *out)
{
    outcome_t *o = out;
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    CUfunction store = kernel("store");
    CUstream s = new_stream(0);
    size_t bytes = 2 << 20;
    int value = 1;
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    OK(cuMemMap(p, bytes, 0, handle, 0));
    OK(cuMemSetAccess(p, bytes, &access, 1));
    LAUNCH(s, store, &p, &value);
    if (o->correct)
        OK(cuStreamSynchronize(s));
    OK(cuMemUnmap(p, bytes));
    o->wrong = cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void early_unmap_shows(void **state)
{
    (void)state;
    setenv("SOFTGPU_LOG", "0", 1); /* it would name the address under every seed */
    check_both_forms(unmap_under_work);
    unsetenv("SOFTGPU_LOG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_event_wait_shows),
        cmocka_unit_test(early_overwrite_shows),
        cmocka_unit_test(early_reuse_of_a_pinned_buffer_shows),
        cmocka_unit_test(early_read_of_a_pinned_buffer_shows),
        cmocka_unit_test(half_done_copy_shows),
        cmocka_unit_test(early_unmap_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
