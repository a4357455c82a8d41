/* Allocation, pools, copies, memsets, pointer queries. */
#include "driver_test.h"

#include <sys/stat.h>

static void alloc_beyond_the_device_is_out_of_memory(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr p;
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(cuMemAlloc(&p, total + CHUNK), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc(&p, free_bytes + CHUNK), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, free_bytes)); /* all of it, in one piece */
    OK(cuMemFree(p));
}

static void free_bytes_follow_large_allocations_exactly(void **state)
{
    (void)state;
    size_t before, during, after;
    OK(cuMemGetInfo(&before, NULL));
    CUdeviceptr p = device_alloc(10 * CHUNK - 5);
    OK(cuMemGetInfo(&during, NULL));
    OK(cuMemFree(p));
    OK(cuMemGetInfo(&after, NULL));
    assert_int_equal(before - during, 10 * CHUNK);
    assert_int_equal(before, after);
}

/* Blocks of the file that stands for the device's memory: what the system has given for it. */
static blkcnt_t pages_of_the_device(void)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64] = "";
        struct stat file;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && !strncmp(target, "/memfd:softgpu", 14)) {
            assert_int_equal(fstat(fd, &file), 0);
            return file.st_blocks;
        }
    }
    fail_msg("the driver has no memory file");
    return 0;
}

/* Faulting pages in again costs more than any allocation: chunks are kept, never punched, however they are
 * freed. */
static void freed_chunks_keep_their_pages(void **state)
{
    (void)state;
    enum { CHUNKS = 24 };
    const CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle h;
    CUmemoryPool pool;
    CUdeviceptr p = device_alloc(CHUNKS * CHUNK);
    OK(cuMemsetD8(p, 1, CHUNKS * CHUNK));
    OK(cuCtxSynchronize());
    const blkcnt_t pages = pages_of_the_device();
    assert_true(pages >= (blkcnt_t)(CHUNKS * CHUNK / 512));
    OK(cuMemFree(p));
    assert_int_equal(pages_of_the_device(), pages);

    OK(cuMemAllocAsync(&p, CHUNKS * CHUNK, NULL));
    OK(cuMemsetD8Async(p, 2, CHUNKS * CHUNK, NULL)); /* the same chunks, or there would be more pages */
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(pages_of_the_device(), pages);

    OK(cuMemCreate(&h, CHUNKS * CHUNK, &prop, 0));
    OK(cuMemRelease(h));
    assert_int_equal(pages_of_the_device(), pages);
}

static void freeing_what_was_not_allocated_is_refused(void **state)
{
    (void)state;
    CUdeviceptr p = device_alloc(4096);
    assert_int_equal(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* Random allocations and frees on two streams against a list of what is live: no two blocks overlap, all are
 * aligned, and what was written into each is still there when it is freed. */
static void pool_random_traffic_never_overlaps(void **state)
{
    (void)state;
    enum { LIVE = 64, ROUNDS = 3000 };
    const unsigned seed = 20240917;
    print_message("seed %u\n", seed);
    srand(seed);
    struct {
        CUdeviceptr p;
        size_t bytes;
        int tag;
    } live[LIVE] = {{0, 0, 0}};
    CUstream stream[2];
    OK(cuStreamCreate(&stream[0], CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&stream[1], CU_STREAM_NON_BLOCKING));
    for (int round = 1; round <= ROUNDS; round++) {
        int i = rand() % LIVE;
        CUstream s = stream[i % 2];
        if (live[i].p) {
            int first, last;
            OK(cuMemcpyDtoHAsync(&first, live[i].p, 4, s));
            OK(cuMemcpyDtoHAsync(&last, live[i].p + live[i].bytes - 4, 4, s));
            assert_int_equal(first, live[i].tag);
            assert_int_equal(last, live[i].tag);
            OK(cuMemFreeAsync(live[i].p, s));
            live[i].p = 0;
            continue;
        }
        size_t bytes = (size_t)(rand() % 8 ? 4 + rand() % 60000 : 4 + rand() % (int)(3 * CHUNK)) & ~(size_t)3;
        OK(cuMemAllocAsync(&live[i].p, bytes, s));
        live[i].bytes = bytes;
        live[i].tag = round;
        assert_int_equal(live[i].p % 256, 0);
        for (int k = 0; k < LIVE; k++)
            if (k != i && live[k].p)
                assert_true(live[i].p + bytes <= live[k].p || live[k].p + live[k].bytes <= live[i].p);
        OK(cuMemsetD32Async(live[i].p, (unsigned)round, bytes / 4, s));
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].p)
            OK(cuMemFreeAsync(live[i].p, stream[i % 2]));
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(stream[0]));
    OK(cuStreamDestroy(stream[1]));

    CUmemoryPool pool;
    uint64_t used, reserved;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(used, 0);
    assert_int_equal(reserved, 0);
}

static void pool_block_freed_on_a_busy_stream_is_not_given_to_another(void **state)
{
    (void)state;
    CUstream busy, other;
    CUdeviceptr flag = device_alloc(4), p, q, r;
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&p, CHUNK, busy));
    launch_slow_store(busy, flag, 1, 50000000);
    OK(cuMemFreeAsync(p, busy));
    OK(cuMemAllocAsync(&q, CHUNK, other)); /* p may still be in use */
    assert_int_not_equal(p, q);
    OK(cuMemAllocAsync(&r, CHUNK, busy)); /* in order behind the free */
    assert_int_equal(p, r);
    OK(cuMemFreeAsync(q, other));
    OK(cuMemFreeAsync(r, busy));
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(busy));
    OK(cuStreamDestroy(other));
    OK(cuMemFree(flag));
}

static void pool_release_threshold_decides_what_a_synchronisation_gives_back(void **state)
{
    (void)state;
    CUmemoryPool pool;
    CUdeviceptr p;
    uint64_t threshold = UINT64_MAX, reserved, high;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemAllocAsync(&p, 5 * CHUNK, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_true(reserved >= 5 * CHUNK);
    threshold = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
    assert_int_equal(reserved, 0);
    assert_true(high >= 5 * CHUNK);
}

static void copies_of_every_direction_move_the_bytes(void **state)
{
    (void)state;
    enum { N = 3000017 };
    unsigned char *source = malloc(N), *back = malloc(N), *pinned;
    CUdeviceptr a = device_alloc(N), b = device_alloc(N), mapped;
    OK(cuMemAllocHost((void **)&pinned, N));
    for (size_t i = 0; i < N; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 24);
    OK(cuMemcpyHtoD(a, source, N));
    OK(cuMemcpyDtoD(b, a, N));
    OK(cuMemcpyDtoH(back, b, N));
    assert_memory_equal(source, back, N);
    memset(back, 0, N);
    OK(cuMemcpyDtoHAsync(pinned, b, N, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_memory_equal(source, pinned, N);
    OK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    OK(cuMemsetD8(a, 0, N));
    OK(cuMemcpyAsync(a, mapped, N, NULL));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, a, N));
    assert_memory_equal(source, back, N);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    free(source);
    free(back);
}

static void copy_from_pageable_memory_may_be_overwritten_at_once(void **state)
{
    (void)state;
    const size_t sizes[] = {4, 65536, 65540, 1 << 20};
    CUdeviceptr flag = device_alloc(4), p = device_alloc(1 << 20);
    char *host = malloc(1 << 20);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        launch_slow_store(NULL, flag, 0, 5000000); /* the copy has to wait its turn */
        memset(host, 7, sizes[k]);
        OK(cuMemcpyHtoDAsync(p, host, sizes[k], NULL));
        memset(host, 9, sizes[k]);
        OK(cuMemcpyDtoH(host, p, sizes[k]));
        assert_int_equal(host[0], 7);
        assert_int_equal(host[sizes[k] - 1], 7);
    }
    free(host);
    OK(cuMemFree(p));
    OK(cuMemFree(flag));
}

static void copy_beyond_the_allocation_is_refused(void **state)
{
    (void)state;
    char host[64] = {0};
    CUdeviceptr p = device_alloc(48), q = device_alloc(48);
    assert_int_equal(cuMemcpyHtoD(p, host, 49), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH(host, p + 40, 9), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8(p, 0, 49), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, host + 32, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoD(0, host, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8(p, 0, SIZE_MAX), CUDA_ERROR_INVALID_VALUE); /* wraps round */
    assert_int_equal(cuMemcpyDtoH(host, p, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32(p, 0, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyHtoD(p, host, 48));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

static void memset_writes_elements_of_each_width(void **state)
{
    (void)state;
    uint32_t host[8];
    CUdeviceptr p = device_alloc(sizeof host);
    OK(cuMemsetD32(p, 0x01020304, 8));
    OK(cuMemsetD16(p + 4, 0xabcd, 2));
    OK(cuMemsetD8(p + 8, 0x7f, 3));
    OK(cuMemcpyDtoH(host, p, sizeof host));
    assert_int_equal(host[0], 0x01020304);
    assert_int_equal(host[1], 0xabcdabcd);
    assert_int_equal(host[2], 0x017f7f7f);
    assert_int_equal(host[7], 0x01020304);
    OK(cuMemFree(p));
}

static void pointer_queries_tell_the_allocation(void **state)
{
    (void)state;
    CUdeviceptr p = device_alloc(1000), base;
    size_t bytes;
    unsigned type;
    char host[16];
    OK(cuMemGetAddressRange(&base, &bytes, p + 999));
    assert_int_equal(base, p);
    assert_int_equal(bytes, 1000);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, p + 1000), CUDA_ERROR_NOT_FOUND);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host),
        CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostRegister(host, sizeof host, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    assert_int_equal(cuMemHostRegister(host + 4, 4, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(host));
    assert_int_equal(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFree(p));
}

static void memory_freed_in_stream_order_is_free_after_synchronisation(void **state)
{
    (void)state;
    size_t before, after;
    OK(cuMemGetInfo(&before, NULL));
    CUdeviceptr p = device_alloc(8 * CHUNK), flag = device_alloc(4);
    launch_slow_store(NULL, flag, 1, 1000000); /* so that the free has to wait */
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemFreeAsync(flag, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemGetInfo(&after, NULL));
    assert_int_equal(before, after);
}

static void reset_gives_all_memory_back(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr p, small[10];
    for (int i = 0; i < 10; i++)
        small[i] = device_alloc(1000);
    p = device_alloc(3 * CHUNK);
    OK(cuMemAllocAsync(&p, 4 * CHUNK, NULL));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, total);
    assert_int_equal(cuMemFree(small[3]), CUDA_ERROR_INVALID_VALUE);
    p = device_alloc(CHUNK);
    OK(cuMemFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_beyond_the_device_is_out_of_memory),
        cmocka_unit_test(free_bytes_follow_large_allocations_exactly),
        cmocka_unit_test(freed_chunks_keep_their_pages),
        cmocka_unit_test(freeing_what_was_not_allocated_is_refused),
        cmocka_unit_test(pool_random_traffic_never_overlaps),
        cmocka_unit_test(pool_block_freed_on_a_busy_stream_is_not_given_to_another),
        cmocka_unit_test(pool_release_threshold_decides_what_a_synchronisation_gives_back),
        cmocka_unit_test(copies_of_every_direction_move_the_bytes),
        cmocka_unit_test(copy_from_pageable_memory_may_be_overwritten_at_once),
        cmocka_unit_test(copy_beyond_the_allocation_is_refused),
        cmocka_unit_test(memset_writes_elements_of_each_width),
        cmocka_unit_test(pointer_queries_tell_the_allocation),
        cmocka_unit_test(memory_freed_in_stream_order_is_free_after_synchronisation),
        cmocka_unit_test(reset_gives_all_memory_back),
    };
    setenv("SOFTGPU_MEMORY", "512MiB", 0);
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
