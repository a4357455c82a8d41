/* function.c: what is known of a kernel's module. */
#include "driver.h"
#include "ebb_alloc.h"
#include "foreign.h"
#include "module.h"

bool ebb_function_has_variables(CUfunction function)
{
    if (ebb_module_has_variables(function))
        return true;
    CUmodule module = NULL;
    CUlibrary library = NULL;
    if (ebb_driver.cuFuncGetModule && ebb_driver.cuFuncGetModule(&module, function))
        module = NULL;
    /* What the runtime launches may be a kernel of a library. */
    if (ebb_driver.cuKernelGetLibrary && ebb_driver.cuKernelGetLibrary(&library, (CUkernel)function))
        library = NULL;
    return (module && ebb_foreign_of(module)) || (library && ebb_foreign_of(library));
}
