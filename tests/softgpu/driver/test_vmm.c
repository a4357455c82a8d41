/* The virtual memory management family, with the hardware's rules, beside what tests/conformance has of it. */
#include "driver_test.h"

static CUmemGenericAllocationHandle create(size_t chunks)
{
    CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, chunks * CHUNK, &prop, 0));
    return h;
}

static CUresult set_access(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = flags};
    return cuMemSetAccess(p, bytes, &desc, 1);
}

static CUdeviceptr reserve(size_t chunks)
{
    CUdeviceptr p;
    OK(cuMemAddressReserve(&p, chunks * CHUNK, 0, 0, 0));
    return p;
}

static void create_takes_whole_chunks_and_counts_them(void **state)
{
    (void)state;
    CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle h;
    size_t granularity, before, during, after;
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, CHUNK);
    assert_int_equal(cuMemCreate(&h, CHUNK / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetInfo(&before, NULL));
    assert_int_equal(cuMemCreate(&h, before + CHUNK, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemCreate(&h, 3 * CHUNK, &prop, 0));
    OK(cuMemGetInfo(&during, NULL));
    OK(cuMemRelease(h));
    OK(cuMemGetInfo(&after, NULL));
    assert_int_equal(before - during, 3 * CHUNK);
    assert_int_equal(before, after);
    assert_int_equal(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
}

static void map_takes_only_a_whole_handle_at_offset_zero(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle h = create(2);
    CUdeviceptr p = reserve(4);
    assert_int_equal(cuMemMap(p, CHUNK, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemMap(p, CHUNK, CHUNK, h, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemMap(p + CHUNK / 2, 2 * CHUNK, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemMap(p + 3 * CHUNK, 2 * CHUNK, 0, h, 0),
                     CUDA_ERROR_INVALID_VALUE); /* beyond the range */
    OK(cuMemMap(p, 2 * CHUNK, 0, h, 0));
    assert_int_equal(cuMemMap(p + CHUNK, 2 * CHUNK, 0, h, 0), CUDA_ERROR_INVALID_VALUE); /* occupied */
    assert_int_equal(cuMemUnmap(p, CHUNK), CUDA_ERROR_INVALID_VALUE);           /* a part of a mapping */
    assert_int_equal(cuMemAddressFree(p, 4 * CHUNK), CUDA_ERROR_INVALID_VALUE); /* still mapped */
    assert_int_equal(cuMemUnmap(p, 3 * CHUNK), CUDA_ERROR_INVALID_VALUE);       /* its end is not mapped */
    OK(cuMemUnmap(p, 2 * CHUNK));
    OK(cuMemUnmap(p, 2 * CHUNK)); /* nothing is mapped */
    assert_int_equal(cuMemAddressFree(p, 3 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(p, 4 * CHUNK));
    OK(cuMemRelease(h));
}

static void access_needs_a_range_mapped_throughout(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle a = create(1), b = create(1);
    CUdeviceptr p = reserve(3);
    unsigned long long flags;
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    OK(cuMemMap(p, CHUNK, 0, a, 0));
    OK(cuMemMap(p + 2 * CHUNK, CHUNK, 0, b, 0));
    assert_int_equal(set_access(p, 3 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetAccess(&flags, &device, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(set_access(p, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    OK(cuMemGetAccess(&flags, &device, p + 5));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cuMemUnmap(p, CHUNK));
    OK(cuMemUnmap(p + 2 * CHUNK, CHUNK));
    OK(cuMemAddressFree(p, 3 * CHUNK));
    OK(cuMemRelease(a));
    OK(cuMemRelease(b));
}

static void released_handle_lives_while_it_is_mapped_and_keeps_its_bytes_when_moved(void **state)
{
    (void)state;
    size_t before, mapped, after;
    OK(cuMemGetInfo(&before, NULL));
    CUmemGenericAllocationHandle h = create(1), again;
    CUdeviceptr p = reserve(1), q = reserve(1);
    OK(cuMemMap(p, CHUNK, 0, h, 0));
    OK(set_access(p, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemRelease(h));
    OK(cuMemGetInfo(&mapped, NULL));
    assert_int_equal(before - mapped, CHUNK);
    OK(cuMemsetD32(p, 1234, 4));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(p, CHUNK));
    OK(cuMemMap(q, CHUNK, 0, again, 0));
    OK(set_access(q, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    assert_int_equal(read_int(q), 1234);
    OK(cuMemRelease(again));
    OK(cuMemUnmap(q, CHUNK));
    OK(cuMemGetInfo(&after, NULL));
    assert_int_equal(before, after);
    OK(cuMemAddressFree(p, CHUNK));
    OK(cuMemAddressFree(q, CHUNK));
}

static void copy_runs_across_mappings_that_touch_but_not_into_a_hole(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle a = create(1), b = create(1);
    CUdeviceptr p = reserve(3);
    char *host = calloc(3, CHUNK);
    OK(cuMemMap(p, CHUNK, 0, a, 0));
    OK(cuMemMap(p + CHUNK, CHUNK, 0, b, 0));
    OK(set_access(p, 2 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemcpyHtoD(p, host, 2 * CHUNK));
    assert_int_equal(cuMemcpyHtoD(p, host, 2 * CHUNK + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p, 2 * CHUNK));
    OK(cuMemAddressFree(p, 3 * CHUNK));
    OK(cuMemRelease(a));
    OK(cuMemRelease(b));
    free(host);
}

static void reservations_honour_alignment_and_a_free_wish(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    OK(cuMemAddressReserve(&p, 4 * CHUNK, 64 * CHUNK, 0, 0));
    assert_int_equal(p % (64 * CHUNK), 0);
    OK(cuMemAddressFree(p, 4 * CHUNK));
    OK(cuMemAddressReserve(&q, CHUNK, 0, p, 0));
    assert_int_equal(q, p);
    OK(cuMemAddressFree(q, CHUNK));
    assert_int_equal(cuMemAddressReserve(&p, CHUNK + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressReserve(&p, CHUNK, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

/* Overlays use many small mappings; when the system has no more, it is an error like any other lack of
 * memory. */
static void running_out_of_mappings_is_out_of_memory(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime does not survive the lack of mappings */
#endif
    enum { WANT = 70000 };
    CUmemGenericAllocationHandle h = create(1);
    CUdeviceptr p = reserve(2 * WANT);
    CUresult result = CUDA_SUCCESS;
    int n = 0;
    /* One chunk, over and over, with holes between: no two mappings can merge. */
    while (n < WANT && !result) {
        result = cuMemMap(p + 2 * (size_t)n * CHUNK, CHUNK, 0, h, 0);
        n += !result;
    }
    assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < n; i++)
        OK(cuMemUnmap(p + 2 * (size_t)i * CHUNK, CHUNK));
    OK(cuMemMap(p, CHUNK, 0, h, 0)); /* and it passes */
    OK(cuMemUnmap(p, CHUNK));
    OK(cuMemAddressFree(p, 2 * WANT * CHUNK));
    OK(cuMemRelease(h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_takes_whole_chunks_and_counts_them),
        cmocka_unit_test(map_takes_only_a_whole_handle_at_offset_zero),
        cmocka_unit_test(access_needs_a_range_mapped_throughout),
        cmocka_unit_test(released_handle_lives_while_it_is_mapped_and_keeps_its_bytes_when_moved),
        cmocka_unit_test(copy_runs_across_mappings_that_touch_but_not_into_a_hole),
        cmocka_unit_test(reservations_honour_alignment_and_a_free_wish),
        cmocka_unit_test(running_out_of_mappings_is_out_of_memory),
    };
    setenv("SOFTGPU_MEMORY", "256MiB", 0);
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
