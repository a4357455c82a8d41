/* Memory: allocation, pools, copies of every kind, sets, what pointers are, device properties. */
#include "runtime_test.h"

enum { BYTES = 100000 };
static unsigned char from[BYTES], to[BYTES];

static void fill_pattern(unsigned char *p, unsigned seed)
{
    for (int i = 0; i < BYTES; i++)
        p[i] = (unsigned char)((unsigned)i * 31u + seed);
}

static void zero_bytes_are_null_and_no_error(void **state)
{
    (void)state;
    void *p = &p, *h = &h;
    OK(cudaMalloc(&p, 0));
    assert_null(p);
    OK(cudaMallocHost(&h, 0));
    assert_null(h);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    OK(cudaMemset(NULL, 0, 0));
}

static void copies_go_every_way(void **state)
{
    (void)state;
    const struct {
        enum cudaMemcpyKind in, across, out;
    } kinds[] = {{cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost},
                 {cudaMemcpyDefault, cudaMemcpyDefault, cudaMemcpyDefault}};
    void *a = device_alloc(BYTES), *b = device_alloc(BYTES);
    for (unsigned i = 0; i < 2; i++) {
        for (int async = 0; async < 2; async++) {
            fill_pattern(from, 2 * i + (unsigned)async);
            memset(to, 0, BYTES);
            if (async) {
                OK(cudaMemcpyAsync(a, from, BYTES, kinds[i].in, NULL));
                OK(cudaMemcpyAsync(b, a, BYTES, kinds[i].across, NULL));
                OK(cudaMemcpyAsync(to, b, BYTES, kinds[i].out, NULL));
                OK(cudaStreamSynchronize(NULL));
            } else {
                OK(cudaMemcpy(a, from, BYTES, kinds[i].in));
                OK(cudaMemcpy(b, a, BYTES, kinds[i].across));
                OK(cudaMemcpy(to, b, BYTES, kinds[i].out));
            }
            assert_memory_equal(from, to, BYTES);
        }
    }
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void host_to_host_copies_too(void **state)
{
    (void)state;
    fill_pattern(from, 7);
    memset(to, 0, BYTES);
    OK(cudaMemcpy(to, from, BYTES, cudaMemcpyHostToHost));
    assert_memory_equal(from, to, BYTES);
}

static void direction_must_be_one_of_five(void **state)
{
    (void)state;
    void *p = device_alloc(64);
    assert_int_equal(cudaMemcpy(p, from, 64, (enum cudaMemcpyKind)17), cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpyAsync(p, from, 64, (enum cudaMemcpyKind)17, NULL),
                     cudaErrorInvalidMemcpyDirection);
    OK(cudaFree(p));
    cudaGetLastError();
}

static void sets_fill_bytes(void **state)
{
    (void)state;
    unsigned char *p = device_alloc(BYTES);
    OK(cudaMemset(p, 0xab, BYTES));
    OK(cudaMemsetAsync(p + 10, 0x11, 20, NULL));
    OK(cudaMemcpy(to, p, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++)
        if (to[i] != (i >= 10 && i < 30 ? 0x11 : 0xab))
            fail_msg("byte %d is %#x", i, (unsigned)to[i]);
    OK(cudaFree(p));
}

/* Where the driver has no rectangles yet, that is the answer; where it has, they must be right. */
static void rectangles_are_copied_or_not_supported(void **state)
{
    (void)state;
    enum { WIDTH = 50, PITCH = 128, ROWS = 9 };
    unsigned char *p = device_alloc(PITCH * ROWS);
    fill_pattern(from, 3);
    memset(to, 0, BYTES);
    cudaError_t error = cudaMemcpy2D(p, PITCH, from, WIDTH, WIDTH, ROWS, cudaMemcpyHostToDevice);
    if (error == cudaSuccess) {
        OK(cudaMemcpy2D(to, WIDTH, p, PITCH, WIDTH, ROWS, cudaMemcpyDeviceToHost));
        assert_memory_equal(from, to, WIDTH * ROWS);
    } else {
        assert_int_equal(error, cudaErrorNotSupported);
    }
    assert_int_equal(cudaMemcpy2D(p, 10, from, WIDTH, WIDTH, ROWS, cudaMemcpyHostToDevice),
                     cudaErrorInvalidPitchValue);
    OK(cudaMemcpy2D(p, PITCH, from, WIDTH, WIDTH, 0, cudaMemcpyHostToDevice));
    OK(cudaFree(p));
    cudaGetLastError();
}

static void host_memory_is_pinned_and_known(void **state)
{
    (void)state;
    void *h, *d;
    unsigned flags;
    struct cudaPointerAttributes a;
    OK(cudaHostAlloc(&h, BYTES, cudaHostAllocMapped));
    memset(h, 5, BYTES);
    OK(cudaHostGetDevicePointer(&d, h, 0));
    OK(cudaHostGetFlags(&flags, h));
    assert_true(flags & cudaHostAllocMapped);
    OK(cudaPointerGetAttributes(&a, h));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ptr_equal(a.hostPointer, h);
    OK(cudaFreeHost(h));
    OK(cudaHostRegister(from, BYTES, cudaHostRegisterDefault));
    OK(cudaPointerGetAttributes(&a, from));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_int_equal(cudaHostRegister(from, BYTES, cudaHostRegisterDefault),
                     cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaHostUnregister(from));
    assert_int_equal(cudaHostUnregister(from), cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
}

static void pointers_tell_what_they_are(void **state)
{
    (void)state;
    struct cudaPointerAttributes a;
    char *d = device_alloc(1000);
    OK(cudaPointerGetAttributes(&a, d + 10));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_int_equal(a.device, 0);
    assert_ptr_equal(a.devicePointer, d + 10);
    OK(cudaPointerGetAttributes(&a, to));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_null(a.devicePointer);
    OK(cudaFree(d));
}

static void pool_serves_and_counts(void **state)
{
    (void)state;
    cudaMemPool_t pool, current;
    cudaStream_t stream;
    void *a, *b;
    uint64_t used = 0, threshold = UINT64_MAX;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaDeviceGetMemPool(&current, 0));
    assert_ptr_equal(pool, current);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&a, 1 << 20, stream));
    OK(cudaMallocFromPoolAsync(&b, 1 << 20, pool, stream));
    OK(cudaMemsetAsync(a, 1, 1 << 20, stream));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    assert_true(used >= 2 << 20);
    OK(cudaFreeAsync(a, stream));
    OK(cudaFreeAsync(b, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    assert_int_equal(used, 0);
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaStreamDestroy(stream));
}

static void own_pool_is_created_and_destroyed(void **state)
{
    (void)state;
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    cudaMemPool_t pool;
    void *p;
    OK(cudaMemPoolCreate(&pool, &properties));
    OK(cudaMallocFromPoolAsync(&p, 4096, pool, NULL));
    OK(cudaFreeAsync(p, NULL));
    OK(cudaStreamSynchronize(NULL));
    OK(cudaMemPoolDestroy(pool));
}

static void memory_info_adds_up(void **state)
{
    (void)state;
    size_t free_before, free_during, total;
    OK(cudaMemGetInfo(&free_before, &total));
    void *p = device_alloc((size_t)32 << 20);
    OK(cudaMemGetInfo(&free_during, &total));
    assert_true(free_before <= total);
    assert_true(free_before - free_during >= (size_t)32 << 20);
    OK(cudaFree(p));
}

static void properties_are_the_attributes(void **state)
{
    (void)state;
    struct cudaDeviceProp p;
    int count = 0, value;
    size_t free_bytes, total;
    OK(cudaGetDeviceCount(&count));
    assert_true(count >= 1);
    memset(&p, 0x55, sizeof p);
    OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaMemGetInfo(&free_bytes, &total));
    assert_true(p.name[0] && strlen(p.name) < sizeof p.name);
    assert_true(p.totalGlobalMem >= total);
    assert_int_equal(p.warpSize, 32);
    assert_true(p.multiProcessorCount >= 1 && p.maxThreadsPerBlock >= 512 && p.major >= 5);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxGridDimX, 0));
    assert_int_equal(p.maxGridSize[0], value);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
    assert_int_equal(p.sharedMemPerBlock, value);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0));
    assert_int_equal(p.minor, value);
    assert_int_equal(cudaGetDeviceProperties(&p, count), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetDeviceProperties(&p, -1), cudaErrorInvalidDevice);
    cudaGetLastError();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_bytes_are_null_and_no_error),
        cmocka_unit_test(copies_go_every_way),
        cmocka_unit_test(host_to_host_copies_too),
        cmocka_unit_test(direction_must_be_one_of_five),
        cmocka_unit_test(sets_fill_bytes),
        cmocka_unit_test(rectangles_are_copied_or_not_supported),
        cmocka_unit_test(host_memory_is_pinned_and_known),
        cmocka_unit_test(pointers_tell_what_they_are),
        cmocka_unit_test(pool_serves_and_counts),
        cmocka_unit_test(own_pool_is_created_and_destroyed),
        cmocka_unit_test(memory_info_adds_up),
        cmocka_unit_test(properties_are_the_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
