#include "module.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "driver.h"
#include "image.h"

/* Those that have none are not here. */
typedef struct module {
    const void *handle;
    const void
        *image; /* packed, and part of a loaded file; looked at when somebody asks. NULL: it has been */
    struct module *next;
} module_t;

static module_t *list;

/* What lies in a loaded file stays where it is; other images the program may free once they are loaded. */
static bool stays(const void *image)
{
    Dl_info info;
    return dladdr(image, &info) != 0;
}

void ebb_module_loaded(const void *handle, const void *image)
{
    ebb_image_variables_t found = ebb_image_variables(image, false);
    const bool later = found == EBB_IMAGE_PACKED && stays(image);
    if (found == EBB_IMAGE_PACKED && !later)
        found = ebb_image_variables(image, true);
    if (found == EBB_IMAGE_NONE)
        return;
    module_t *m = malloc(sizeof *m);
    if (!m) {
        ebb_keep_everything("no host memory for the list of modules");
        return;
    }
    *m = (module_t){handle, later ? image : NULL, list};
    list = m;
}

static void take_out(module_t **link)
{
    module_t *m = *link;
    *link = m->next;
    free(m);
}

void ebb_module_forget(const void *handle)
{
    for (module_t **link = &list; *link;)
        if ((*link)->handle == handle)
            take_out(link);
        else
            link = &(*link)->next;
}

/* A library is loaded into a context as a module. */
static bool is_module_of(CUmodule module, const void *library)
{
    CUmodule loaded = NULL;
    return module && ebb_driver.cuLibraryGetModule &&
           !ebb_driver.cuLibraryGetModule(&loaded, (CUlibrary)(uintptr_t)library) && loaded == module;
}

bool ebb_module_has_variables(CUfunction function)
{
    CUmodule module = NULL;
    CUlibrary library = NULL;
    if (!list)
        return false;
    if (ebb_driver.cuKernelGetLibrary && ebb_driver.cuKernelGetLibrary(&library, (CUkernel)function))
        library = NULL;
    if (!library && ebb_driver.cuFuncGetModule && ebb_driver.cuFuncGetModule(&module, function))
        module = NULL;
    if (!library && !module)
        return true;
    for (module_t **link = &list; *link; link = &(*link)->next) {
        module_t *m = *link;
        if (library ? m->handle != library : m->handle != module && !is_module_of(module, m->handle))
            continue;
        if (m->image && ebb_image_variables(m->image, true) == EBB_IMAGE_NONE) {
            take_out(link);
            return false;
        }
        m->image = NULL;
        return true;
    }
    return false;
}
