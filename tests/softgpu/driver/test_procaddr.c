/* Look-ups by name, version and flags; functions that are not provided. */
#include "driver_test.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>

static void *look_up(const char *name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    void *p = (void *)1;
    CUresult result = cuGetProcAddress(name, &p, version, flags, status);
    assert_true((result == CUDA_SUCCESS) == (p != NULL));
    return p;
}

static void version_chooses_the_form_of_a_function(void **state)
{
    (void)state;
    CUdriverProcAddressQueryResult status;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    assert_ptr_equal(look_up("cuMemAlloc", 13000, 0, &status), dlsym(libcuda, "cuMemAlloc_v2"));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_ptr_equal(look_up("cuGetProcAddress", 11030, 0, &status), dlsym(libcuda, "cuGetProcAddress"));
    assert_ptr_equal(look_up("cuGetProcAddress", 13000, 0, &status), dlsym(libcuda, "cuGetProcAddress_v2"));
    assert_ptr_equal(look_up("cuGraphInstantiate", 11040, 0, &status),
                     dlsym(libcuda, "cuGraphInstantiateWithFlags"));
    assert_ptr_equal(look_up("cuGraphInstantiate", 11030, 0, &status),
                     dlsym(libcuda, "cuGraphInstantiate_v2"));
    assert_null(look_up("cuMemAllocAsync", 11010, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_null(look_up("cuMemAllocEverything", 13000, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_non_null(look_up("cuInit", 13000, 0, NULL)); /* status is optional */
    dlclose(libcuda);
}

static void flag_chooses_the_per_thread_default_stream(void **state)
{
    (void)state;
    const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    assert_ptr_equal(look_up("cuLaunchKernel", 13000, flag, NULL), dlsym(libcuda, "cuLaunchKernel_ptsz"));
    assert_ptr_equal(look_up("cuMemcpyHtoD", 13000, flag, NULL), dlsym(libcuda, "cuMemcpyHtoD_v2_ptds"));
    assert_ptr_equal(look_up("cuLaunchKernel", 13000, 0, NULL), dlsym(libcuda, "cuLaunchKernel"));
    assert_ptr_equal(look_up("cuMemAlloc", 13000, flag, NULL), dlsym(libcuda, "cuMemAlloc_v2"));
    dlclose(libcuda);
}

/* The variant with the per-thread default stream must not wait for the legacy stream's neighbours in a way
 * that shows: its default stream is the calling thread's. */
static void ptsz_variant_uses_the_threads_own_stream(void **state)
{
    (void)state;
    PFN_cuStreamGetId_v12000 get_id = (PFN_cuStreamGetId_v12000)look_up(
        "cuStreamGetId", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL);
    unsigned long long own, via, legacy;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    OK(get_id(NULL, &via));
    OK(cuStreamGetId(NULL, &legacy));
    assert_int_equal(own, via);
    assert_int_not_equal(own, legacy);
}

static void every_name_of_the_real_driver_is_exported(void **state)
{
    (void)state;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    FILE *names = fopen(DRIVER_NAMES, "r");
    char name[256];
    int count = 0;
    assert_non_null(names);
    while (fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = 0;
        if (!dlsym(libcuda, name))
            fail_msg("%s is missing", name);
        count++;
    }
    fclose(names);
    dlclose(libcuda);
    assert_true(count > 600);
}

static void function_that_is_not_provided_says_so(void **state)
{
    (void)state;
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;
    assert_int_equal(cuArrayCreate(&array, &desc), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(look_up("cuArrayCreate", 13000, 0, NULL));
    assert_non_null(look_up("cuGraphInstantiateWithFlags", 13000, 0, NULL));
}

static void errors_have_names_and_texts(void **state)
{
    (void)state;
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_chooses_the_form_of_a_function),
        cmocka_unit_test(flag_chooses_the_per_thread_default_stream),
        cmocka_unit_test(ptsz_variant_uses_the_threads_own_stream),
        cmocka_unit_test(every_name_of_the_real_driver_is_exported),
        cmocka_unit_test(function_that_is_not_provided_says_so),
        cmocka_unit_test(errors_have_names_and_texts),
    };
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}
