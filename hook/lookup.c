/* lookup.c: the answer to a look-up by dlsym or dlvsym; see lookup.h. */
#include "hook/lookup.h"

#include <dlfcn.h>
#include <string.h>

#include "alloc/base/libc_symbol.h"
#include "hook/enter.h"

/* What the entries in dlsym.c jump to. Resolved on first use: whoever asks twice at once finds the same. */
__attribute__((visibility("hidden"))) void *ebb_next_dlsym, *ebb_next_dlvsym;

/* Whether the code is the driver's own. On WSL2 libcuda.so.1 looks up the functions of the driver that is behind it (HAMi-core pull request
 * 326): given ebb's in their place it would call ebb, which calls it, for ever. */
static bool is_of_driver(const void *code)
{
    static const char name[] = "libcuda.so";
    Dl_info info;
    return dladdr(code, &info) && info.dli_fname &&
           !strncmp(ebb_base_name(info.dli_fname), name, sizeof name - 1);
}

__attribute__((visibility("hidden"))) void *ebb_answer_dlsym(void *handle, const char *name,
                                                             const void *caller);

/* Called by the entries with the program's arguments, and where it goes on: ebb's answer, or NULL to go on to the real function. */
void *ebb_answer_dlsym(void *handle, const char *name, const void *caller)
{
    if (!ebb_next_dlsym || !ebb_next_dlvsym) {
        ebb_next_dlsym = ebb_libc_function("dlsym");
        ebb_next_dlvsym = ebb_libc_function("dlvsym");
    }
    if (!name || name[0] != 'c' || name[1] != 'u')
        return NULL;
    void *ours = ebb_hook_by_symbol(name);
    if (!ours || is_of_driver(caller))
        return NULL;
    void *real = ebb_real_dlsym(handle, name);
    if (!real || real == ours)
        return NULL;
    ebb_driver_seen(handle);
    return ebb_have_driver() ? ours : NULL;
}
