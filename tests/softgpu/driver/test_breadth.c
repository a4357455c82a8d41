/* What this device answers where the documentation leaves it a choice, and what needs two devices. */
#include "driver_test.h"

#include <sys/mman.h>

/* ---- tensor maps ---- */

static CUresult encode(CUtensorMap *map, CUdeviceptr at, cuuint64_t stride, cuuint32_t box)
{
    cuuint64_t dims[2] = {256, 64}, strides[1] = {stride};
    cuuint32_t boxes[2] = {box, 16}, steps[2] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)at, dims,
                                  strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* As on hardware: the first word is the address, and nothing else depends on it. Bytes of another make are none. */
static void only_the_first_word_of_a_tensor_map_is_its_address(void **state)
{
    (void)state;
    CUtensorMap map, other;
    CUdeviceptr p = device_alloc(1 << 20), q = device_alloc(1 << 20);
    OK(encode(&map, p, 1024, 64));
    assert_int_equal(map.opaque[0], p);
    OK(encode(&other, q, 1024, 64));
    assert_memory_equal(&map.opaque[1], &other.opaque[1], sizeof map - sizeof map.opaque[0]);
    OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)q));
    assert_memory_equal(&map, &other, sizeof map);
    map.opaque[7] ^= 1;
    assert_int_equal(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

static void tensor_map_of_wrong_arguments_is_refused(void **state)
{
    (void)state;
    CUtensorMap map;
    CUdeviceptr p = 1 << 21;
    assert_int_equal(encode(&map, p + 8, 1024, 64), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&map, p, 1032, 64), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&map, p, 1024, 257), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&map, p, 1024, 3), CUDA_ERROR_INVALID_VALUE); /* 12 bytes */
    assert_int_equal(encode(&map, p, (cuuint64_t)1 << 40, 64), CUDA_ERROR_INVALID_VALUE);
    OK(encode(&map, p, 1024, 256));
    cuuint64_t dims[3] = {64, 32, 8}, strides[2] = {256, 8192};
    cuuint32_t steps[3] = {1, 1, 1};
    int lower[1] = {0}, upper[1] = {0}, beyond[1] = {-32};
    for (int wrong = 0; wrong < 2; wrong++)
        assert_int_equal(
            cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, (void *)(uintptr_t)p, dims,
                                    strides, lower, wrong ? beyond : upper, 64, 16, steps,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

/* ---- launches ---- */

static CUresult launch_with(CUlaunchAttribute attribute)
{
    static CUdeviceptr p;
    if (!p)
        p = device_alloc(4096);
    float value = 1;
    int n = 16;
    void *args[] = {&p, &value, &n};
    CUlaunchConfig config = {.gridDimX = 2,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &attribute,
                             .numAttrs = 1};
    return cuLaunchKernelEx(&config, kernel("_Z4fillPffi"), args, NULL);
}

static void launch_attributes_are_checked(void **state)
{
    (void)state;
    CUlaunchAttribute a;
    memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim.x = a.value.clusterDim.y = a.value.clusterDim.z = 1;
    OK(launch_with(a));
    a.value.clusterDim.x = 2;
    assert_int_equal(launch_with(a), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a.value.programmaticStreamSerializationAllowed = 1;
    OK(launch_with(a));
    memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    assert_int_equal(launch_with(a), CUDA_ERROR_INVALID_HANDLE);
    a.id = (CUlaunchAttributeID)200;
    assert_int_equal(launch_with(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
}

/* ---- questions ---- */

static void every_device_attribute_has_an_answer(void **state)
{
    (void)state;
    int value;
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
        OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)a, 0));
    assert_int_equal(cuDeviceGetAttribute(&value, (CUdevice_attribute)CU_DEVICE_ATTRIBUTE_MAX, 0),
                     CUDA_ERROR_INVALID_VALUE);
    CUdevice found;
    char bus[32];
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 1));
    OK(cuDeviceGetByPCIBusId(&found, bus));
    assert_int_equal(found, 1);
    assert_int_equal(cuDeviceGetByPCIBusId(&found, "0000:7f:00.0"), CUDA_ERROR_INVALID_DEVICE);
}

/* ---- two devices ---- */

static void kernel_reaches_a_peer_only_with_access(void **state)
{
    (void)state;
    int key = pkey_alloc(0, 0);
    if (key < 0)
        skip(); /* nothing can tell the devices' kernels apart */
    pkey_free(key);
    CUcontext there, here;
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    CUdeviceptr p = device_alloc(4096);
    OK(cuCtxPopCurrent(NULL));

    for (int allowed = 1; allowed >= 0; allowed--) {
        OK(cuCtxCreate(&here, NULL, 0, 0));
        CUmodule m;
        CUfunction f;
        OK(cuModuleLoad(&m, KERNELS));
        OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
        if (allowed)
            OK(cuCtxEnablePeerAccess(there, 0));
        float value = 1;
        int n = 16;
        void *args[] = {&p, &value, &n};
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
        assert_int_equal(cuCtxSynchronize(), allowed ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
        OK(cuCtxDestroy(here));
    }
    OK(cuCtxSetCurrent(test_context));
    OK(cuDevicePrimaryCtxRelease(1));
}

static void access_is_kept_for_each_device(void **state)
{
    (void)state;
    CUmemAllocationProp props = device_memory();
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    OK(cuMemCreate(&h, CHUNK, &props, 0));
    OK(cuMemAddressReserve(&p, CHUNK, 0, 0, 0));
    OK(cuMemMap(p, CHUNK, 0, h, 0));
    CUmemAccessDesc both[2];
    memset(both, 0, sizeof both);
    both[0].location.type = both[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    both[1].location.id = 1;
    both[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    both[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    OK(cuMemSetAccess(p, CHUNK, both, 2));
    unsigned long long flags;
    OK(cuMemGetAccess(&flags, &both[1].location, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    both[1].location.id = 2;
    assert_int_equal(cuMemSetAccess(p, CHUNK, both, 2), CUDA_ERROR_INVALID_DEVICE);
    both[1].location.id = 0;
    both[1].location.type = CU_MEM_LOCATION_TYPE_HOST;
    assert_int_equal(cuMemSetAccess(p, CHUNK, both, 2), CUDA_ERROR_INVALID_VALUE); /* device memory */
    OK(cuMemUnmap(p, CHUNK));
    OK(cuMemAddressFree(p, CHUNK));
    OK(cuMemRelease(h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_word_of_a_tensor_map_is_its_address),
        cmocka_unit_test(tensor_map_of_wrong_arguments_is_refused),
        cmocka_unit_test(launch_attributes_are_checked),
        cmocka_unit_test(every_device_attribute_has_an_answer),
        cmocka_unit_test(kernel_reaches_a_peer_only_with_access),
        cmocka_unit_test(access_is_kept_for_each_device),
    };
    setenv("SOFTGPU_MEMORY", "256MiB", 0);
    setenv("SOFTGPU_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
