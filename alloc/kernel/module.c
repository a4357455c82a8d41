#include "alloc/kernel/kernel.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "alloc/kernel/code.h"

typedef struct ebb_module {
    const void *handle;
    bool is_library, from_file;
    ebb_image_variables_t found; /* PACKED: not looked at yet */
    const void *image;           /* then: part of a loaded file */
    struct ebb_module *next;
} module_t;

static module_t *find(ebb_t *ebb, const void *handle)
{
    module_t *m = ebb->modules.list;
    while (m && m->handle != handle)
        m = m->next;
    return m;
}

/* What lies in a loaded file stays where it is; other images the program may free once they are loaded. */
static bool stays(const void *image)
{
    Dl_info info;
    return dladdr(image, &info) != 0;
}

void ebb_module_loaded(ebb_t *ebb, const void *handle, bool is_library, const void *image, bool from_file)
{
    if (find(ebb, handle))
        ebb_module_forget(ebb, handle); /* one that has gone with its context */
    const bool is_part = !from_file && stays(image);
    ebb_image_variables_t found = ebb_image_variables(image, false);
    if (found == EBB_IMAGE_PACKED && !is_part)
        found = ebb_image_variables(image, true);
    module_t *m = malloc(sizeof *m);
    if (!m)
        return; /* never seen, then */
    *m = (module_t){handle, is_library, from_file || is_part, found, image, ebb->modules.list};
    ebb->modules.list = m;
}

void ebb_module_forget(ebb_t *ebb, const void *handle)
{
    module_t **link = &ebb->modules.list;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    module_t *m = *link;
    if (m) {
        *link = m->next;
        free(m);
    }
    ebb_functions_forget(ebb, handle);
    ebb->modules.unloaded++;
}

uint64_t ebb_modules_unloaded(ebb_t *ebb)
{
    return ebb->modules.unloaded;
}

bool ebb_module_looked_up(ebb_t *ebb, const void *handle)
{
    module_t *m = find(ebb, ebb_module_source(ebb, handle));
    if (!m || (m->found != EBB_IMAGE_NONE && m->found != EBB_IMAGE_PACKED))
        return false;
    m->found = EBB_IMAGE_SOME;
    return true;
}

/* What its image says, by now for certain. */
static ebb_image_variables_t found_in(module_t *m)
{
    if (m->found == EBB_IMAGE_PACKED)
        m->found = ebb_image_variables(m->image, true);
    return m->found;
}

bool ebb_module_is_readable(ebb_t *ebb, const void *handle)
{
    module_t *m = find(ebb, handle);
    return m && m->from_file && found_in(m) != EBB_IMAGE_UNKNOWN;
}

bool ebb_module_is_known(ebb_t *ebb, const void *handle)
{
    return find(ebb, handle) != NULL;
}

const void *ebb_module_source(ebb_t *ebb, const void *module)
{
    CUmodule loaded;
    if (find(ebb, module) || !ebb_driver.cuLibraryGetModule)
        return module;
    for (const module_t *m = ebb->modules.list; m; m = m->next)
        if (m->is_library && !ebb_driver.cuLibraryGetModule(&loaded, (CUlibrary)(uintptr_t)m->handle) &&
            loaded == module)
            return m->handle;
    return module;
}

bool ebb_function_has_variables(ebb_t *ebb, CUfunction function)
{
    module_t *m = find(ebb, ebb_function_owner(ebb, function));
    return !m || found_in(m) != EBB_IMAGE_NONE;
}
