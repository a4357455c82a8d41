/* lookup.c: the answers to look-ups by cuGetProcAddress, dlsym and dlvsym; see hook.h. */
#include "hook/internal.h"

#include <dlfcn.h>
#include <string.h>

#include "alloc/base/libc_symbol.h"
#include "alloc/base/status.h"
#include "ckpt/run/run.h"

/* ---- the SERVED and WATCHED rows ---- */

/* Only addresses are taken here: the functions are declared without their arguments. */
#define DECLARE(symbol)                          extern void ebb_at_##symbol(void) __asm__(#symbol);
#define DECLARE_PLAIN(symbol)                    DECLARE(symbol)
#define DECLARE_SYNC(symbol)                     DECLARE(symbol) DECLARE(symbol##_ptds)
#define DECLARE_ASYNC(symbol)                    DECLARE(symbol) DECLARE(symbol##_ptsz)
#define HOOKED(name, symbol, version, form, use) DECLARE_##form(symbol)
#include "alloc/base/driver_calls.h"

#define AT_PLAIN(symbol)                         (void *)ebb_at_##symbol, NULL, NULL
#define AT_SYNC(symbol)                          (void *)ebb_at_##symbol, (void *)ebb_at_##symbol##_ptds, "_ptds"
#define AT_ASYNC(symbol)                         (void *)ebb_at_##symbol, (void *)ebb_at_##symbol##_ptsz, "_ptsz"
#define ALIAS(name, symbol, version, form)       {#name, #symbol, version, AT_##form(symbol)},
#define HOOKED(name, symbol, version, form, use) ALIAS(name, symbol, version, form)
const ebb_entry_t ebb_entries[] = {
#include "alloc/base/driver_calls.h"
    {0},
};

/* The version from which on an entry answers for these flags: the per-thread default stream came with CUDA 7. */
static int version_of(const ebb_entry_t *e, bool per_thread)
{
    return per_thread && e->per_thread && e->version < 7000 ? 7000 : e->version;
}

const ebb_entry_t *ebb_entry_by_name(const char *name, int version, unsigned long long flags)
{
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const ebb_entry_t *best = NULL;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        int v = version_of(e, per_thread);
        if (v <= version && (!best || v > version_of(best, per_thread)) && !strcmp(e->name, name))
            best = e;
    }
    return best;
}

void *ebb_hook_of(const ebb_entry_t *e, unsigned long long flags)
{
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return per_thread && e->per_thread ? e->per_thread : e->plain;
}

void *ebb_hook_by_symbol(const char *symbol)
{
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        size_t length = strlen(e->symbol);
        if (strncmp(symbol, e->symbol, length))
            continue;
        if (!symbol[length])
            return e->plain;
        if (e->per_thread && !strcmp(symbol + length, e->suffix))
            return e->per_thread;
    }
    return NULL;
}

/* ---- the rest ---- */

#define PASSED(reason, names)                    names,
#define CALLED(name, symbol, version, form, use) #name,
static const char *const passed[] = {
#include "alloc/base/driver_calls.h"
};

/* Whether such a list has the name, of so many letters. */
static bool names(const char *list, const char *name, size_t length)
{
    while (*(list += strspn(list, " "))) {
        const size_t here = strcspn(list, " ");
        if (list[here - 1] == '*' ? length >= here - 1 && !strncmp(list, name, here - 1)
                                  : length == here && !strncmp(list, name, here))
            return true;
        list += here;
    }
    return false;
}

bool ebb_is_passed(const char *symbol)
{
    size_t length =
        strcspn(symbol, "_"); /* a form's number, and what it says of the default stream, follow */
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        if (names(passed[i], symbol, length))
            return true;
    return false;
}

/* The table has rows of that name, of which none answers: a form whose addresses have 32 bits. */
static bool is_of_32_bits(const char *name)
{
    const ebb_entry_t *e = ebb_entries;
    while (e->name && strcmp(e->name, name))
        e++;
    return e->name;
}

/* What is answered for a function of the driver's for which there is no entry. */
static void *without_entry(const char *symbol, void *real)
{
    return ebb_is_passed(symbol) || is_of_32_bits(symbol) ? real : ebb_unknown(symbol, real);
}

/* ---- cuGetProcAddress ---- */

/* What the driver has given for a name must be the form that the entry stands for: a newer driver may know a
 * newer one, with other arguments. */
static bool is_form(const ebb_entry_t *e, void *given, cuuint64_t flags)
{
    void *known = NULL;
    CUdriverProcAddressQueryResult status;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return !ebb_driver.cuGetProcAddress_v2(e->name, &known, version_of(e, per_thread), flags, &status) &&
           known == given;
}

/* The driver decides whether there is such a function in that version, the table whether it is ours. */
static CUresult proc_address(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!ebb_have_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUdriverProcAddressQueryResult ignored;
    CUresult result = ebb_driver.cuGetProcAddress_v2(name, out, version, flags, status ? status : &ignored);
    if (result || !name || strncmp(name, "cu", 2) || !out || !*out) /* the runtime asks for "", too */
        return result;
    const ebb_entry_t *e = ebb_entry_by_name(name, version, flags);
    *out = !e                        ? without_entry(name, *out)
           : is_form(e, *out, flags) ? ebb_hook_of(e, flags)
                                     : ebb_unknown(name, *out);
    return result;
}

PLAIN_CALL(cuGetProcAddress, (const char *name, void **out, int version, cuuint64_t flags),
           proc_address(name, out, version, flags, NULL))
PLAIN_CALL(cuGetProcAddress_v2,
           (const char *name, void **out, int version, cuuint64_t flags,
            CUdriverProcAddressQueryResult *status),
           proc_address(name, out, version, flags, status))

/* ---- dlsym and dlvsym ---- */

bool ebb_is_code_of(const void *code, const char *library)
{
    Dl_info info;
    return dladdr(code, &info) && info.dli_fname &&
           !strncmp(ebb_base_name(info.dli_fname), library, strlen(library));
}

/* Whether the code is the driver's own. On WSL2 libcuda.so.1 looks up the functions of the driver that is behind it (HAMi-core pull request
 * 326): given ebb's in their place it would call ebb, which calls it, for ever. */
static bool is_of_driver(const void *code)
{
    return ebb_is_code_of(code, "libcuda.so");
}

__attribute__((visibility("hidden"))) void *ebb_answer_dlsym(void *handle, const char *name,
                                                             const void *caller);

/* Called by the entries with the program's arguments, and where it goes on: ebb's answer, or NULL to go on to the real function. */
void *ebb_answer_dlsym(void *handle, const char *name, const void *caller)
{
    if (!ebb_libc.dlsym || !ebb_libc.dlvsym)
        ebb_libc_find();
    if (name && !strncmp(name, "nccl", 4) && handle != RTLD_DEFAULT && handle != RTLD_NEXT) {
        void *found = ebb_real_dlsym(handle, name);
        return found ? ebb_nccl_hook(name, found) : NULL;
    }
    if (!name || name[0] != 'c' || name[1] != 'u')
        return NULL;
    if (is_of_driver(caller))
        return NULL;
    void *ours = ebb_hook_by_symbol(name), *real = ebb_real_dlsym(handle, name);
    if (!real || real == ours || (!ours && !is_of_driver(real)))
        return NULL;
    ebb_driver_seen(handle);
    return !ebb_have_driver() ? NULL : ours ? ours : without_entry(name, real);
}
