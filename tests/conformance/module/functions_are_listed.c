/* behaviour: a module lists its functions, each with its name; a name that it does not have is NOT_FOUND.
 * rules: handle
 * source: CUDA driver API, cuModuleEnumerateFunctions and cuModuleGetFunction
 */
#include "conformance.h"

CONFORMANCE
{
    CUmodule m = module, of;
    unsigned count = 0;
    OK(cuModuleGetFunctionCount(&count, m));
    CHECK(count >= 3);
    CUfunction *list = calloc(count, sizeof *list), f;
    OK(cuModuleEnumerateFunctions(list, count, m));
    bool found = false;
    for (unsigned i = 0; i < count; i++) {
        const char *name = NULL;
        OK(cuFuncGetName(&name, list[i]));
        found |= name && !strcmp(name, "fill");
        OK(cuFuncGetModule(&of, list[i]));
        CHECK(of == m);
    }
    CHECK(found);
    free(list);
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "no_such_kernel"));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&of, "/no/such/file.fatbin"));
}
