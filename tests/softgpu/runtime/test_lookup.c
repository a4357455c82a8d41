/* How the runtime reaches the driver: one dlsym of cuGetProcAddress_v2, everything else through that. This
 * program has its own dlsym, as a preloaded layer would. */
#define _GNU_SOURCE
#include "runtime_test.h"

#include "../watch.h"

static struct {
    char name[64];
} asked[16]; /* symbols that the runtime asked dlsym for */
static int asked_count, lookups, stream_lookups, versions_wrong;
static lookup_fn real_lookup;
static __typeof__(cuMemAlloc_v2) *real_alloc;
static size_t allocated_bytes;

/* Stands between the runtime and the driver for one function. */
static CUresult watched_alloc(CUdeviceptr *out, size_t bytes)
{
    allocated_bytes += bytes;
    return real_alloc(out, bytes);
}

static CUresult watched_lookup(const char *name, void **out, int version, cuuint64_t flags,
                               CUdriverProcAddressQueryResult *status)
{
    CUresult result = real_lookup(name, out, version, flags, status);
    lookups++;
    stream_lookups += flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    versions_wrong += version != 13000;
    if (!strcmp(name, "cuMemAlloc")) {
        memcpy(&real_alloc, out, sizeof real_alloc);
        *out = (void *)(uintptr_t)watched_alloc;
    }
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    void *symbol = libc_dlsym(handle, name);
    if (!address_is_in(__builtin_return_address(0), "libcudart"))
        return symbol;
    if (asked_count < 16)
        snprintf(asked[asked_count].name, sizeof asked[0].name, "%s", name);
    asked_count++;
    if (!strcmp(name, "cuGetProcAddress_v2")) {
        memcpy(&real_lookup, &symbol, sizeof real_lookup);
        return (void *)(uintptr_t)watched_lookup;
    }
    return symbol;
}

static void nothing_is_looked_up_before_the_first_call(void **state)
{
    (void)state;
    assert_int_equal(asked_count, 0);
    OK(cudaPeekAtLastError());
    assert_int_equal(asked_count, 0);
}

static void one_symbol_is_asked_of_dlsym(void **state)
{
    (void)state;
    OK(cudaFree(NULL));
    OK(cudaFree(device_alloc(100)));
    assert_int_equal(asked_count, 1);
    assert_string_equal(asked[0].name, "cuGetProcAddress_v2");
}

static void all_functions_come_from_the_lookup_in_both_forms(void **state)
{
    (void)state;
    assert_true(lookups > 300);
    assert_true(stream_lookups > 30);
    assert_int_equal(versions_wrong, 0);
}

static void calls_go_through_what_the_lookup_returned(void **state)
{
    (void)state;
    allocated_bytes = 0;
    OK(cudaFree(device_alloc(12345)));
    assert_int_equal(allocated_bytes, 12345);
}

/* The program may ask for itself. */
static void entry_points_are_found_by_name_and_version(void **state)
{
    (void)state;
    void *plain = NULL, *per_thread = NULL, *none = &plain;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuStreamQuery", &plain, 13000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    OK(cudaGetDriverEntryPointByVersion("cuStreamQuery", &per_thread, 13000, cudaEnablePerThreadDefaultStream,
                                        &status));
    assert_non_null(plain);
    assert_non_null(per_thread);
    assert_ptr_not_equal(plain, per_thread);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &none, 13000, cudaEnableDefault, &status));
    assert_null(none);
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    OK(cudaGetDriverEntryPointByVersion("cuLibraryLoadData", &none, 11000, cudaEnableDefault, &status));
    assert_null(none);
    assert_int_equal(status, cudaDriverEntryPointVersionNotSufficent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_looked_up_before_the_first_call),
        cmocka_unit_test(one_symbol_is_asked_of_dlsym),
        cmocka_unit_test(all_functions_come_from_the_lookup_in_both_forms),
        cmocka_unit_test(calls_go_through_what_the_lookup_returned),
        cmocka_unit_test(entry_points_are_found_by_name_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
