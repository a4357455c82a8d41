/* behaviour: a file that is loaded twice gives two modules with variables of their own; a module loaded anew begins with fresh
 * ones.
 * rules: none
 * source: CUDA driver API, cuModuleLoad
 */
#include "conformance.h"

static CUdeviceptr counter_of(CUmodule m)
{
    CUdeviceptr p = 0;
    size_t bytes;
    OK(cuModuleGetGlobal(&p, &bytes, m, "conformance_counter"));
    return p;
}

CONFORMANCE
{
    CUmodule a, b;
    CUfunction f;
    CUdeviceptr out = device_alloc(4);
    OK(cuModuleLoad(&a, conformance_kernels()));
    OK(cuModuleLoad(&b, conformance_kernels()));
    CHECK(counter_of(a) != counter_of(b));
    OK(cuModuleGetFunction(&f, b, "use_variables"));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
    CHECK(read_int(counter_of(a)) == 5);
    CHECK(read_int(counter_of(b)) == 37);
    OK(cuModuleUnload(b));
    OK(cuModuleLoad(&b, conformance_kernels()));
    CHECK(read_int(counter_of(b)) == 5);
    OK(cuModuleUnload(b));
    OK(cuModuleUnload(a));
    OK(cuMemFree(out));
}
