#include "module.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "driver.h"
#include "image.h"

/* Those that have none are not here. */
typedef struct module {
    const void *handle;
    const void
        *image; /* packed, and part of a loaded file; looked at when somebody asks. NULL: it has some */
    struct module *next;
} module_t;

static module_t *list;

static void add(const void *handle, const void *image)
{
    module_t *m = malloc(sizeof *m);
    if (!m) {
        ebb_keep_everything("no host memory for the list of modules");
        return;
    }
    *m = (module_t){handle, image, list};
    list = m;
}

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
    if (found != EBB_IMAGE_NONE)
        add(handle, later ? image : NULL);
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

bool ebb_module_looked_up(const void *handle)
{
    module_t *m = list;
    while (m && m->handle != handle)
        m = m->next;
    const bool known = m && !m->image;
    if (m)
        m->image = NULL;
    else
        add(handle, NULL);
    return !known;
}

/* ---- a kernel's module ---- */

/* Where a kernel is from: a CUfunction, of a module; what the runtime launches may also be a kernel of a library. */
typedef struct origin {
    CUmodule module;
    CUlibrary library;
} origin_t;

static origin_t origin_of(CUfunction function)
{
    origin_t o = {NULL, NULL};
    if (ebb_driver.cuKernelGetLibrary && ebb_driver.cuKernelGetLibrary(&o.library, (CUkernel)function))
        o.library = NULL;
    if (!o.library && ebb_driver.cuFuncGetModule && ebb_driver.cuFuncGetModule(&o.module, function))
        o.module = NULL;
    return o;
}

/* A library is loaded into a context as a module. */
static bool is_origin(const origin_t *o, const void *handle)
{
    CUmodule loaded = NULL;
    if (handle == o->library || handle == o->module)
        return true;
    return o->module && ebb_driver.cuLibraryGetModule &&
           !ebb_driver.cuLibraryGetModule(&loaded, (CUlibrary)(uintptr_t)handle) && loaded == o->module;
}

bool ebb_function_has_variables(CUfunction function)
{
    if (!list)
        return false;
    const origin_t origin = origin_of(function);
    if (!origin.library && !origin.module)
        return true;
    for (module_t **link = &list; *link; link = &(*link)->next) {
        module_t *m = *link;
        if (!is_origin(&origin, m->handle))
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

bool ebb_function_is_from(CUfunction function, const void *handle)
{
    const origin_t origin = origin_of(function);
    return (!origin.library && !origin.module) || is_origin(&origin, handle);
}
