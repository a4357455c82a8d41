/* Operations of every shape on buffers that have been evicted: preloaded, with a budget that holds a part of what is
 * allocated, contents compared with a model on the host after each. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

enum { BUFFER = 4 << 20, CHURN = 6, PITCH = 2048, ROWS = BUFFER / PITCH };

static CUcontext context;
static CUstream stream;
static CUdeviceptr a, b, churn[CHURN];
static unsigned char *model_a, *model_b, *seen, *host;

static int set_up(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, BUFFER));
    OK(cuMemAllocAsync(&b, BUFFER, NULL));
    for (int i = 0; i < CHURN; i++)
        OK(cuMemAlloc(&churn[i], BUFFER));
    model_a = malloc(BUFFER);
    model_b = malloc(BUFFER);
    seen = malloc(BUFFER);
    host = malloc(BUFFER);
    return model_a && model_b && seen && host ? 0 : -1;
}

/* Everything but the churned ones is on the host afterwards. */
static void evict(void)
{
    for (int i = 0; i < CHURN; i++)
        OK(cuMemsetD8(churn[i], (unsigned char)i, BUFFER));
    OK(cuCtxSynchronize());
}

static void fill(void)
{
    for (size_t i = 0; i < BUFFER; i++) {
        model_a[i] = (unsigned char)(i * 7 + i / 4093);
        model_b[i] = (unsigned char)(i * 13 + i / 1021);
        host[i] = (unsigned char)(i * 3 + 1);
    }
    OK(cuMemcpyHtoD(a, model_a, BUFFER));
    OK(cuMemcpyHtoD(b, model_b, BUFFER));
    OK(cuCtxSynchronize());
    evict();
}

static void compare_now(void)
{
    OK(cuMemcpyDtoH(seen, a, BUFFER));
    assert_memory_equal(seen, model_a, BUFFER);
    OK(cuMemcpyDtoH(seen, b, BUFFER));
    assert_memory_equal(seen, model_b, BUFFER);
}

static void compare(void)
{
    OK(cuStreamSynchronize(stream));
    evict();
    compare_now();
}

/* `width` bytes of `rows` rows from (x, y) to (x, y). */
static void copy_rows(unsigned char *to, const unsigned char *from, size_t x, size_t y, size_t width,
                      size_t rows)
{
    for (size_t i = y; i < y + rows; i++)
        memcpy(to + i * PITCH + x, from + i * PITCH + x, width);
}

static void more_is_allocated_than_the_budget_holds(void **state)
{
    (void)state;
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_true(total < (size_t)(CHURN + 2) * BUFFER + BUFFER || total == (size_t)(CHURN + 2) * BUFFER);
    assert_true(free_bytes <= total);
}

static CUDA_MEMCPY2D rectangle(CUmemorytype to, CUmemorytype from)
{
    CUDA_MEMCPY2D p = {.srcXInBytes = 100,
                       .srcY = 10,
                       .srcMemoryType = from,
                       .srcHost = host,
                       .srcDevice = a,
                       .srcPitch = PITCH,
                       .dstXInBytes = 100,
                       .dstY = 10,
                       .dstMemoryType = to,
                       .dstHost = host,
                       .dstDevice = b,
                       .dstPitch = PITCH,
                       .WidthInBytes = 1500,
                       .Height = 1500};
    return p;
}

static void rectangles_find_evicted_buffers(void **state)
{
    (void)state;
    fill();
    CUDA_MEMCPY2D p = rectangle(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
    OK(cuMemcpy2D(&p));
    copy_rows(model_b, model_a, 100, 10, 1500, 1500);
    compare();
    p = rectangle(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
    OK(cuMemcpy2DAsync(&p, stream));
    copy_rows(model_b, host, 100, 10, 1500, 1500);
    compare();
    p = rectangle(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_UNIFIED);
    OK(cuMemcpy2DUnaligned(&p));
    copy_rows(host, model_a, 100, 10, 1500, 1500);
    for (size_t i = 10; i < 1510; i++)
        assert_memory_equal(host + i * PITCH + 100, model_a + i * PITCH + 100, 1500);
    compare();
}

static void boxes_find_evicted_buffers(void **state)
{
    (void)state;
    fill();
    CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = a,
                       .srcPitch = PITCH,
                       .srcHeight = 64,
                       .srcZ = 3,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = b,
                       .dstPitch = PITCH,
                       .dstHeight = 64,
                       .dstZ = 3,
                       .WidthInBytes = 1000,
                       .Height = 20,
                       .Depth = 5};
    OK(cuMemcpy3D(&p));
    for (size_t z = 3; z < 8; z++)
        copy_rows(model_b, model_a, 0, z * 64, 1000, 20);
    compare();
    p.dstZ = p.srcZ = 0;
    OK(cuMemcpy3DAsync(&p, stream));
    for (size_t z = 0; z < 5; z++)
        copy_rows(model_b, model_a, 0, z * 64, 1000, 20);
    compare();
    CUDA_MEMCPY3D_PEER q = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = b,
                            .srcContext = context,
                            .srcPitch = PITCH,
                            .srcHeight = ROWS,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = a,
                            .dstContext = context,
                            .dstPitch = PITCH,
                            .dstHeight = ROWS,
                            .WidthInBytes = PITCH,
                            .Height = 7,
                            .Depth = 1};
    OK(cuMemcpy3DPeer(&q));
    copy_rows(model_a, model_b, 0, 0, PITCH, 7);
    compare();
}

static void peer_copies_within_a_context_find_evicted_buffers(void **state)
{
    (void)state;
    fill();
    OK(cuMemcpyPeer(b + 4096, context, a, context, 100000));
    memcpy(model_b + 4096, model_a, 100000);
    compare();
    OK(cuMemcpyPeerAsync(a, context, b + 4096, context, 2000000, stream));
    memcpy(model_a, model_b + 4096, 2000000);
    compare();
}

static void batches_find_evicted_buffers(void **state)
{
    (void)state;
    fill();
    CUdeviceptr dsts[] = {b, b + 1000, a + 2000}, srcs[] = {a, a + 5000, (CUdeviceptr)(uintptr_t)host};
    size_t sizes[] = {1000, 3000, 64}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attributes, &index, 1, stream));
    memcpy(model_b, model_a, 1000);
    memcpy(model_b + 1000, model_a + 5000, 3000);
    memcpy(model_a + 2000, host, 64);
    compare();
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY; /* before the stream gets there */
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, stream));
    memcpy(model_b, model_a, 1000);
    memcpy(model_b + 1000, model_a + 5000, 3000);
    compare();
}

static void rows_are_set_in_evicted_buffers(void **state)
{
    (void)state;
    fill();
    OK(cuMemsetD2D8(a, PITCH, 5, 300, 40));
    OK(cuMemsetD2D16Async(b, PITCH, 0x0102, 100, 30, stream));
    OK(cuMemsetD2D32(a + (CUdeviceptr)1000 * PITCH, PITCH, 0x01020304, 50, 20));
    for (size_t i = 0; i < 40; i++)
        memset(model_a + i * PITCH, 5, 300);
    for (size_t i = 0; i < 30; i++)
        for (size_t k = 0; k < 100; k++)
            memcpy(model_b + i * PITCH + 2 * k, &(uint16_t){0x0102}, 2);
    for (size_t i = 1000; i < 1020; i++)
        for (size_t k = 0; k < 50; k++)
            memcpy(model_a + i * PITCH + 4 * k, &(uint32_t){0x01020304}, 4);
    OK(cuCtxSynchronize());
    compare();
}

static void pitched_memory_is_served(void **state)
{
    (void)state;
    CUdeviceptr p, base;
    size_t pitch, bytes;
    OK(cuMemAllocPitch(&p, &pitch, 1000, 3000, 4));
    assert_true(pitch >= 1000 && pitch % 512 == 0);
    OK(cuMemGetAddressRange(&base, &bytes, p + 5));
    assert_int_equal(base, p);
    assert_int_equal(bytes, pitch * 3000);
    OK(cuMemsetD2D8(p, pitch, 9, 1000, 3000));
    evict();
    OK(cuMemcpyDtoH(seen, p, pitch * 3000));
    for (size_t i = 0; i < 3000; i++)
        for (size_t k = 0; k < 1000; k++)
            if (seen[i * pitch + k] != 9)
                fail_msg("row %zu, byte %zu", i, k);
    OK(cuMemFree(p));
}

/* What lies behind a buffer is another one's, and what was freed is nobody's: the driver refuses both. */
static void what_is_not_the_buffers_is_refused(void **state)
{
    (void)state;
    CUdeviceptr small, next;
    OK(cuMemAlloc(&small, 1000));
    OK(cuMemAlloc(&next, 1000));
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = 256,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = small,
                                .dstPitch = 256,
                                .WidthInBytes = 256,
                                .Height = 4};
    OK(cuMemsetD8(next, 5, 1000));
    assert_int_equal(cuMemsetD8(small, 1, 1001), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32Async(small + 4, 1, 250, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoD(small, host, 4096), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoD(small + 999, next, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD2D8(small, 256, 1, 233, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD2D8(small, 256, 1, 232, 4));
    OK(cuStreamSynchronize(NULL)); /* which the other stream does not wait for */
    OK(cuMemsetD32Async(small, 1, 250, stream));
    OK(cuMemcpyDtoH(seen, next, 1000));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(seen[i], 5);
    OK(cuMemFree(small));
    OK(cuMemFree(next));
    assert_int_equal(cuMemsetD2D8(small, 256, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
}

typedef CUresult (*copy_with_t)(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                CUmemcpyAttributes *attributes, CUstream stream);

/* By each way to find one. */
static copy_with_t newer_copy(bool by_symbol)
{
    CUdriverProcAddressQueryResult found;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *copy = NULL;
    assert_non_null(driver);
    if (by_symbol)
        copy = dlsym(driver, "cuMemcpyWithAttributesAsync");
    else
        OK(cuGetProcAddress("cuMemcpyWithAttributesAsync", &copy, 13020, 0, &found));
    assert_non_null(copy);
    return (copy_with_t)copy;
}

/* CUDA 13.2's, which no table of ebb's has. The last test: from then on nothing is evicted. */
static void what_is_unknown_finds_everything_or_is_refused(void **state)
{
    (void)state;
    CUmemcpyAttributes plain = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    fill();
    for (int by_symbol = 0; by_symbol <= 1; by_symbol++)
        assert_int_equal(newer_copy(by_symbol)(b, a, BUFFER, &plain, stream), CUDA_ERROR_OUT_OF_MEMORY);
    compare();
    evict();
    for (int i = 0; i < CHURN; i++)
        OK(cuMemFree(churn[i]));
    for (int by_symbol = 0; by_symbol <= 1; by_symbol++)
        OK(newer_copy(by_symbol)(b, a, BUFFER / 2, &plain, stream));
    OK(cuStreamSynchronize(stream));
    memcpy(model_b, model_a, BUFFER / 2);
    assert_int_equal(newer_copy(true)(b, a, 0, &plain, stream), CUDA_ERROR_INVALID_VALUE);
    compare_now();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_is_allocated_than_the_budget_holds),
        cmocka_unit_test(rectangles_find_evicted_buffers),
        cmocka_unit_test(boxes_find_evicted_buffers),
        cmocka_unit_test(peer_copies_within_a_context_find_evicted_buffers),
        cmocka_unit_test(batches_find_evicted_buffers),
        cmocka_unit_test(rows_are_set_in_evicted_buffers),
        cmocka_unit_test(pitched_memory_is_served),
        cmocka_unit_test(what_is_not_the_buffers_is_refused),
        cmocka_unit_test(what_is_unknown_finds_everything_or_is_refused),
    };
    setenv("EBB_BUDGET", "20MiB", 1);
    setenv("SOFTGPU_MEMORY", "1GiB", 1);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
