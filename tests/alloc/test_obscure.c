/* Which launches count as touching everything although their arguments could be read (alloc/kernel/kernel.h), and which handles launches name
 * (alloc/kernel/kernel.h). */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "driver_test.h"
#include "hook/hook.h"
#include "run_stand_in.h"

static unsigned seen; /* launches */
static bool opaque;   /* the last one */

static ebb_status_t before(ebb_operation_t *op)
{
    seen++;
    opaque = op->opaque;
    return 0;
}

/* A function that has never been launched. */
static CUfunction fresh(void)
{
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
    return f;
}

static bool is_obscure(CUfunction f, CUdeviceptr to)
{
    float value = 1;
    int n = 0;
    const unsigned before_it = seen;
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&to, &value, &n}, NULL));
    assert_int_equal(seen, before_it + 1);
    return opaque;
}

static uint64_t tallied(const char *name)
{
    const ebb_obscure_t *o;
    ebb_lock();
    for (o = ebb_obscure_kernels(&ebb_global); o && strcmp(o->name, name); o = o->next)
        ;
    ebb_unlock();
    return o ? o->launches : 0;
}

static void what_is_no_number_may_be_an_address(void **state)
{
    (void)state;
    const CUdeviceptr p = device_alloc(CHUNK);
    const uint64_t so_far = tallied("_Z4fillPffi");
    assert_true(is_obscure(fresh(), p ^ 0x5bd1e995c2b2ae35));
    assert_true(is_obscure(fresh(), (CUdeviceptr)1 << 32));
    assert_true(is_obscure(fresh(), -((CUdeviceptr)1 << 31) - 1));
    assert_int_equal(tallied("_Z4fillPffi"), so_far + 3);
    assert_false(is_obscure(fresh(), 0));
    assert_false(is_obscure(fresh(), ((CUdeviceptr)1 << 32) - 1));
    assert_false(is_obscure(fresh(), -(CUdeviceptr)1));
    assert_int_equal(tallied("_Z4fillPffi"), so_far + 3);
    OK(cuMemFree(p));
}

static void a_function_that_has_shown_an_address_hides_none(void **state)
{
    (void)state;
    CUfunction f = fresh();
    const CUdeviceptr p = device_alloc(CHUNK), masked = p ^ 0x5bd1e995c2b2ae35;
    assert_true(is_obscure(f, masked));
    assert_false(is_obscure(f, p));
    assert_false(is_obscure(f, masked));
    OK(cuMemFree(p));
}

static void memory_of_others_explains_an_address(void **state)
{
    (void)state;
    void *host;
    CUdeviceptr managed, mapped;
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp prop = device_memory();
    OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    assert_false(is_obscure(fresh(), (CUdeviceptr)(uintptr_t)host));
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    assert_false(is_obscure(fresh(), managed));
    OK(cuMemAddressReserve(&mapped, CHUNK, 0, 0, 0));
    assert_true(is_obscure(fresh(), mapped)); /* nothing is there */
    OK(cuMemCreate(&handle, CHUNK, &prop, 0));
    OK(cuMemMap(mapped, CHUNK, 0, handle, 0));
    assert_false(is_obscure(fresh(), mapped));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(mapped, CHUNK));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(mapped, CHUNK));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(host));
}

/* An image that lies in no loaded object, as code that is made at run time does. */
static void code_of_no_file_may_have_addresses_in_it(void **state)
{
    (void)state;
    struct stat s;
    CUmodule m;
    CUfunction f;
    const int file = open(KERNELS, O_RDONLY);
    assert_true(file >= 0 && !fstat(file, &s));
    void *image = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    assert_true(image != MAP_FAILED);
    OK(cuModuleLoadData(&m, image));
    OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
    const CUdeviceptr p = device_alloc(CHUNK);
    assert_true(is_obscure(f, 0));
    assert_false(is_obscure(f, p));
    OK(cuMemFree(p));
    munmap(image, (size_t)s.st_size);
    close(file);
}

static void the_user_may_vouch_for_a_kernel(void **state)
{
    (void)state;
    int n = 0;
    CUdeviceptr masked = (CUdeviceptr)1 << 40;
    OK(cuLaunchKernel(kernel("_Z3addPfPKfS1_i"), 1, 1, 1, 32, 1, 1, 0, NULL,
                      (void *[]){&masked, &masked, &masked, &n}, NULL));
    assert_false(opaque);
}

/* ---- handles ---- */

/* Whatever the driver is asked about: a wrong question ends this process (softgpu/driver/module/module.c). */
static void check_handle(CUfunction f, bool is_kernel, const void *owner)
{
    uint32_t offset, size;
    ebb_lock();
    assert_int_equal(ebb_function_is_kernel(&ebb_global, f), is_kernel);
    assert_ptr_equal(ebb_function_owner(&ebb_global, f), owner);
    assert_string_equal(ebb_function_name(&ebb_global, f), "_Z4fillPffi");
    assert_true(ebb_function_parameter(&ebb_global, f, 2, &offset, &size) && offset == 12 && size == 4);
    assert_false(ebb_function_parameter(&ebb_global, f, 3, &offset, &size));
    assert_true(ebb_function_is_from(&ebb_global, f, owner));
    assert_false(ebb_function_is_from(&ebb_global, f, test_module));
    assert_false(ebb_function_has_variables(&ebb_global, f));
    ebb_unlock();
}

static void handles_are_known_by_their_kind(void **state)
{
    (void)state;
    enum { MOST = 64 };
    CUlibrary library;
    CUkernel k, kernels[MOST];
    CUfunction f, functions[MOST];
    CUmodule module;
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, library, "_Z4fillPffi"));
    check_handle((CUfunction)k, true, library);
    OK(cuKernelGetFunction(&f, k));
    check_handle(f, false, library);
    /* The module that the library is here. */
    OK(cuLibraryGetModule(&module, library));
    OK(cuModuleGetFunction(&f, module, "_Z4fillPffi"));
    check_handle(f, false, library);
    OK(cuLibraryEnumerateKernels(kernels, MOST, library));
    OK(cuModuleEnumerateFunctions(functions, MOST, module));
    OK(cuLibraryUnload(library));
    OK(cuModuleLoad(&module, KERNELS));
    OK(cuModuleGetFunction(&f, module, "_Z4fillPffi"));
    check_handle(f, false, module);
    OK(cuModuleUnload(module));
}

/* The driver's own function, so that ebb does not see the call. */
static void *unseen(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    OK(ebb_driver.cuGetProcAddress_v2(name, &function, 12000, 0, &status));
    return function;
}

/* Looked up where ebb does not see it. */
static void handles_that_were_never_looked_up_are_told_apart(void **state)
{
    (void)state;
    CUlibrary library;
    CUkernel k;
    CUfunction f;
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(((PFN_cuLibraryGetKernel_v12000)unseen("cuLibraryGetKernel"))(&k, library, "_Z4fillPffi"));
    OK(((PFN_cuKernelGetFunction_v12000)unseen("cuKernelGetFunction"))(&f, k));
    check_handle((CUfunction)k, true, library);
    check_handle(f, false, library);
    OK(cuLibraryUnload(library));
}

/* Loaded where ebb does not see it: it may have variables, and be from anywhere else that ebb has not seen. */
static void what_was_never_seen_loading_may_have_variables(void **state)
{
    (void)state;
    CUmodule module;
    CUfunction f;
    OK(((PFN_cuModuleLoad_v2000)unseen("cuModuleLoad"))(&module, KERNELS));
    OK(cuModuleGetFunction(&f, module, "_Z4fillPffi"));
    ebb_lock();
    assert_true(ebb_function_has_variables(&ebb_global, f));
    assert_true(ebb_function_is_from(&ebb_global, f, module));
    assert_false(ebb_function_is_from(&ebb_global, f, test_module));
    ebb_unlock();
    assert_true(is_obscure(f, 0));
    OK(cuModuleUnload(module));
}

static int enter(void **state)
{
    run_stand_in.before = before;
    return driver_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_number_may_be_an_address),
        cmocka_unit_test(a_function_that_has_shown_an_address_hides_none),
        cmocka_unit_test(memory_of_others_explains_an_address),
        cmocka_unit_test(code_of_no_file_may_have_addresses_in_it),
        cmocka_unit_test(the_user_may_vouch_for_a_kernel),
        cmocka_unit_test(handles_are_known_by_their_kind),
        cmocka_unit_test(handles_that_were_never_looked_up_are_told_apart),
        cmocka_unit_test(what_was_never_seen_loading_may_have_variables),
    };
    setenv("EBB_BUDGET", "64MiB", 1);
    setenv("EBB_HARMLESS", "nothing,Z3add", 1);
    return cmocka_run_group_tests(tests, enter, NULL);
}
