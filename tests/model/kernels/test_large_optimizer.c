/* AdamW over more than 2^31 elements (TEST_LONG=1; without it the same over 2 million): all of them are gone through, and the
 * first and the last part of each array has what a launch over that part alone makes of it.
 *
 * Four arrays of 8 GiB and one of 4 are more than most machines have. So all parts of an array between the first and the last are
 * the same memory, mapped there again and again, full of zeros: of which the optimizer makes zeros, wherever it writes them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "model/kernels/kernels.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

enum { MISSING = 5 }; /* elements: the last part is not full */

/* ---- memory of which most is the same ---- */

/* The driver's functions, by way of the runtime. */
static struct vmm {
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*address_free)(CUdeviceptr, size_t);
} vmm;

static const CUmemAllocationProp of_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static int find_driver(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void *to;
    } functions[] = {{"cuMemGetAllocationGranularity", &vmm.granularity},
                     {"cuMemAddressReserve", &vmm.reserve},
                     {"cuMemCreate", &vmm.create},
                     {"cuMemMap", &vmm.map},
                     {"cuMemSetAccess", &vmm.set_access},
                     {"cuMemUnmap", &vmm.unmap},
                     {"cuMemRelease", &vmm.release},
                     {"cuMemAddressFree", &vmm.address_free}};
    OK(cudaFree(NULL)); /* makes the context */
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        enum cudaDriverEntryPointQueryResult result;
        void *function = NULL;
        OK(cudaGetDriverEntryPointByVersion(functions[i].name, &function, 13000, 0, &result));
        assert_int_equal(result, cudaDriverEntryPointSuccess);
        memcpy(functions[i].to, &function, sizeof function);
    }
    return 0;
}

/* `parts` parts of `bytes` each, one behind the other. */
typedef struct region {
    char *data;
    size_t bytes; /* of a part */
    size_t parts;
} region_t;

static region_t region_new(size_t parts, size_t bytes)
{
    const CUmemAccessDesc access = {of_device.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle first, last, between;
    CUdeviceptr base;
    OK(vmm.reserve(&base, parts * bytes, 0, 0, 0));
    OK(vmm.create(&first, bytes, &of_device, 0));
    OK(vmm.create(&last, bytes, &of_device, 0));
    OK(vmm.create(&between, bytes, &of_device, 0));
    for (size_t i = 0; i < parts; i++)
        OK(vmm.map(base + i * bytes, bytes, 0, i == 0 ? first : i + 1 == parts ? last : between, 0));
    OK(vmm.set_access(base, parts * bytes, &access, 1));
    OK(vmm.release(first)); /* the mappings keep them */
    OK(vmm.release(last));
    OK(vmm.release(between));
    OK(cudaMemset((void *)(uintptr_t)(base + bytes), 0, bytes));
    return (region_t){(char *)(uintptr_t)base, bytes, parts};
}

static void region_free(region_t *region)
{
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)region->data;
    OK(vmm.unmap(base, region->parts * region->bytes));
    OK(vmm.address_free(base, region->parts * region->bytes));
}

static char *part_of(const region_t *region, size_t part)
{
    return region->data + part * region->bytes;
}

/* ---- the sweep ---- */

enum { PARAMETER, M, V, GRADIENT, ARRAYS };

static const adamw_t settings = {.learning_rate = 0.01f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.5f,
                                 .step = 3,
                                 .stochastic = 1,
                                 .seed = 77,
                                 .offset = 0xfffffff0u};

static float drawn(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return (float)(*random >> 8) * 0x1p-24f;
}

/* count elements of each array; second moments are not negative. */
static void fill(float *const host[ARRAYS], size_t count, uint32_t random)
{
    for (size_t i = 0; i < count; i++)
        for (int a = 0; a < ARRAYS; a++)
            host[a][i] = drawn(&random) - (a == V ? 0.0f : 0.5f);
}

/* What a launch over `count` elements alone makes of host: the arrays there, rounded values in *rounded. */
static void expect(float *const host[ARRAYS], uint16_t *rounded, size_t count, size_t decayed,
                   uint64_t offset, const float *scale)
{
    float *alone[ARRAYS];
    uint16_t *copy;
    adamw_t options = settings;
    options.offset = offset;
    OK(cudaMalloc((void **)&copy, count * sizeof *copy));
    for (int a = 0; a < ARRAYS; a++) {
        OK(cudaMalloc((void **)&alone[a], count * sizeof(float)));
        OK(cudaMemcpy(alone[a], host[a], count * sizeof(float), cudaMemcpyHostToDevice));
    }
    OK(adamw(alone[PARAMETER], alone[M], alone[V], copy, alone[GRADIENT], count, decayed, scale, options,
             NULL));
    OK(cudaMemcpy(rounded, copy, count * sizeof *copy, cudaMemcpyDeviceToHost));
    for (int a = 0; a < ARRAYS; a++) {
        OK(cudaMemcpy(host[a], alone[a], count * sizeof(float), cudaMemcpyDeviceToHost));
        OK(cudaFree(alone[a]));
    }
    OK(cudaFree(copy));
}

static void assert_part(const void *device, const void *expected, size_t bytes, void *buffer,
                        const char *what)
{
    OK(cudaMemcpy(buffer, device, bytes, cudaMemcpyDeviceToHost));
    if (memcmp(buffer, expected, bytes) != 0)
        fail_msg("%s is not what a launch over that part alone makes", what);
}

static void optimizer_goes_through_every_element(void **state)
{
    (void)state;
    const int all = getenv("TEST_LONG") != NULL;
    size_t least = 0;
    OK(vmm.granularity(&least, &of_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    const size_t bytes = all ? (size_t)32 << 20 : least, parts = all ? 258 : 4, each = bytes / sizeof(float),
                 n = parts * each - MISSING, last = each - MISSING, base = n - last;
    const size_t decayed = base + 1000, counts[2] = {each, last}, decays[2] = {each, 1000};
    assert_true(!all || base > (size_t)1 << 31);
    region_t arrays[ARRAYS], copy = region_new(parts / 2, bytes); /* its parts have twice as many elements */
    float one = 1, *scale, *host[2][ARRAYS];
    uint16_t *rounded[2];
    void *buffer = malloc(bytes);
    assert_non_null(buffer);
    OK(cudaMalloc((void **)&scale, sizeof *scale));
    OK(cudaMemcpy(scale, &one, sizeof one, cudaMemcpyHostToDevice));
    for (int a = 0; a < ARRAYS; a++)
        arrays[a] = region_new(parts, bytes);
    for (int end = 0; end < 2; end++) {
        rounded[end] = malloc(each * sizeof *rounded[end]);
        assert_non_null(rounded[end]);
        for (int a = 0; a < ARRAYS; a++) {
            host[end][a] = malloc(bytes);
            assert_non_null(host[end][a]);
        }
        fill(host[end], counts[end], 1 + (uint32_t)end);
        for (int a = 0; a < ARRAYS; a++)
            OK(cudaMemcpy(part_of(&arrays[a], end ? parts - 1 : 0), host[end][a], counts[end] * sizeof(float),
                          cudaMemcpyHostToDevice));
        expect(host[end], rounded[end], counts[end], decays[end], settings.offset + (end ? base / 8 : 0),
               scale);
    }

    OK(adamw((float *)arrays[PARAMETER].data, (float *)arrays[M].data, (float *)arrays[V].data, copy.data,
             (float *)arrays[GRADIENT].data, n, decayed, scale, settings, NULL));
    OK(cudaDeviceSynchronize());
    static const char *const names[ARRAYS] = {"parameter", "m", "v", "gradient"};
    for (int end = 0; end < 2; end++) {
        for (int a = 0; a < ARRAYS; a++)
            assert_part(part_of(&arrays[a], end ? parts - 1 : 0), host[end][a], counts[end] * sizeof(float),
                        buffer, names[a]);
        assert_part(copy.data + (end ? base : 0) * sizeof(uint16_t), rounded[end],
                    counts[end] * sizeof(uint16_t), buffer, "the rounded copy");
    }
    memset(host[0][0], 0, bytes);
    for (int a = 0; a < ARRAYS; a++)
        assert_part(part_of(&arrays[a], 1), host[0][0], bytes, buffer, "what was zero");
    print_message("%zu elements gone through\n", n);

    for (int end = 0; end < 2; end++) {
        for (int a = 0; a < ARRAYS; a++)
            free(host[end][a]);
        free(rounded[end]);
    }
    free(buffer);
    for (int a = 0; a < ARRAYS; a++)
        region_free(&arrays[a]);
    region_free(&copy);
    OK(cudaFree(scale));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizer_goes_through_every_element),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
