/* library.c: how a module image leads to its kernel library: softgpu/kernel_abi.h. */
#include "softgpu/driver/module/module.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

pthread_mutex_t sg_libraries_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

const softgpu_kernel_table_t *sg_library_open(const char *path, bool must_be_loaded)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | (must_be_loaded ? RTLD_NOLOAD : 0));
    if (!object) {
        if (!must_be_loaded && !access(path, R_OK))
            sg_log(1, "%s cannot be loaded: %s", path, dlerror());
        return NULL;
    }
    const softgpu_kernel_table_t *table = dlsym(object, SOFTGPU_TABLE_SYMBOL);
    /* dlsym also looks into what the object depends on. */
    struct link_map *map = NULL;
    Dl_info where;
    if (table && (dlinfo(object, RTLD_DI_LINKMAP, &map) || !dladdr(table, &where) ||
                  (ElfW(Addr))where.dli_fbase != map->l_addr))
        table = NULL;
    if (table && table->abi_version != SOFTGPU_ABI_VERSION) {
        sg_log(1, "%s has kernel table version %u, this driver wants %u: rebuild it", path,
               table->abi_version, SOFTGPU_ABI_VERSION);
        table = NULL;
    }
    if (!table)
        dlclose(object);
    return table; /* stays loaded: kernels may be running */
}

static const softgpu_kernel_table_t *found(const char *candidate, char **path)
{
    const softgpu_kernel_table_t *table = sg_library_open(candidate, false);
    if (table)
        *path = strdup(candidate);
    return *path ? table : NULL;
}

const softgpu_kernel_table_t *sg_library_find(const char *origin, char **path)
{
    char candidate[2 * PATH_MAX];
    *path = NULL;
    const softgpu_kernel_table_t *table = sg_library_open(origin, true);
    if (table)
        return table;
    snprintf(candidate, sizeof candidate, "%s.softgpu.so", origin);
    if ((table = found(candidate, path)))
        return table;
    const char *base = strrchr(origin, '/');
    base = base ? base + 1 : origin;
    const char *folders = getenv("SOFTGPU_KERNEL_PATH");
    for (const char *at = folders; at && *at;) {
        size_t length = strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s/%s.softgpu.so", (int)length, at, base);
        if ((table = found(candidate, path)))
            return table;
        at += length + (at[length] == ':');
    }
    Dl_info self; /* installed, they lie beside the driver, not among the programs */
    const char *slash =
        dladdr((void *)(uintptr_t)sg_library_find, &self) ? strrchr(self.dli_fname, '/') : NULL;
    if (slash) {
        snprintf(candidate, sizeof candidate, "%.*s/%s.softgpu.so", (int)(slash - self.dli_fname),
                 self.dli_fname, base);
        if ((table = found(candidate, path)))
            return table;
    }
    return NULL;
}

void sg_library_missing(const char *origin)
{
    const char *folders = getenv("SOFTGPU_KERNEL_PATH");
    sg_log(1,
           "no kernels for %s: neither %s.softgpu.so nor one in SOFTGPU_KERNEL_PATH=%s (softgpu_kernels() "
           "builds it), nor uncompressed PTX in it (softgpu-clang++ embeds that)",
           origin, origin, folders ? folders : "");
}

const softgpu_kernel_table_t *sg_library_again(const softgpu_kernel_table_t *table)
{
    Dl_info where;
    struct stat facts;
    char path[64];
    if (!dladdr(table, &where))
        return NULL;
    const int from = open(where.dli_fname, O_RDONLY | O_CLOEXEC);
    const int copy = memfd_create("softgpu-kernels", MFD_CLOEXEC);
    const softgpu_kernel_table_t *again = NULL;
    if (from >= 0 && copy >= 0 && !fstat(from, &facts)) {
        ssize_t n = 1;
        for (off_t left = facts.st_size; left > 0 && n > 0; left -= n)
            n = sendfile(copy, from, NULL, (size_t)left);
        snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
        again = sg_library_open(path, false);
    }
    if (from >= 0)
        close(from);
    if (copy >= 0 && !again) /* else it stays: another one must not get its name */
        close(copy);
    return again;
}

/* A program may also have mapped a file that the loader does not know. */
static bool mapped_file(const void *image, char out[PATH_MAX])
{
    char line[PATH_MAX + 128];
    uintptr_t begin, end;
    int path = 0;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = 0;
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &path) == 2 &&
                (uintptr_t)image - begin < end - begin;
    }
    if (maps)
        fclose(maps);
    return found && line[path] == '/' && realpath(line + path, out);
}

bool sg_library_origin(const void *image, char out[PATH_MAX])
{
    Dl_info info;
    if (!image || !dladdr(image, &info) || !info.dli_fname)
        return image && mapped_file(image, out);
    /* For the program itself the name may be relative, or whatever it was started as. */
    void *self = dlopen(NULL, RTLD_NOW);
    struct link_map *map = NULL;
    bool main_program = self && !dlinfo(self, RTLD_DI_LINKMAP, &map) && !*map->l_name &&
                        !strcmp(info.dli_fname, program_invocation_name);
    if (self)
        dlclose(self);
    const char *name = main_program ? "/proc/self/exe" : info.dli_fname;
    ssize_t n = main_program ? readlink(name, out, PATH_MAX - 1) : -1;
    if (n > 0)
        out[n] = 0;
    else if (!realpath(info.dli_fname, out))
        snprintf(out, PATH_MAX, "%s", info.dli_fname);
    return true;
}

/* ---- which unit ---- */

/* A name ends with a zero in machine code's tables, otherwise in PTX. */
static bool has_name(const char *name, const char *at, size_t bytes)
{
    const size_t length = strlen(name);
    const char *end = at + bytes;
    while ((at = memmem(at, (size_t)(end - at), name, length))) {
        at += length;
        if (at == end || !(isalnum((unsigned char)*at) || *at == '_' || *at == '$'))
            return true;
    }
    return false;
}

static bool names_all(const softgpu_unit_t *unit, const char *at, size_t bytes)
{
    for (uint32_t i = 0; i < unit->kernel_count; i++)
        if (!has_name(unit->kernels[i]->name, at, bytes))
            return false;
    for (uint32_t i = 0; i < unit->variable_count && !unit->kernel_count; i++)
        if (!has_name(unit->variables[i].name, at, bytes))
            return false;
    return unit->kernel_count || unit->variable_count;
}

bool sg_library_is_of(const softgpu_kernel_table_t *table, const char *ptx, size_t bytes)
{
    const softgpu_unit_t whole = {.kernels = table->kernels, .kernel_count = table->kernel_count};
    bool found = !table->unit_count && names_all(&whole, ptx, bytes);
    for (uint32_t i = 0; i < table->unit_count && !found; i++)
        found = names_all(&table->units[i], ptx, bytes);
    return found;
}

/* Only where it matters: where there are variables, or two kernels of one name. */
static bool matters(const softgpu_kernel_table_t *table)
{
    for (uint32_t i = 0; i < table->unit_count; i++)
        if (table->units[i].variable_count)
            return true;
    for (uint32_t i = 0; i < table->kernel_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(table->kernels[i]->name, table->kernels[j]->name))
                return true;
    return false;
}

uint32_t sg_library_unit(const softgpu_kernel_table_t *table, const void *image)
{
    const char *at;
    size_t bytes;
    uint32_t unit = SG_ALL_UNITS;
    if (table->unit_count < 2 || !matters(table) || !sg_fatbin_open(image, &at, &bytes))
        return SG_ALL_UNITS;
    for (uint32_t i = 0; i < table->unit_count; i++) {
        if (!names_all(&table->units[i], at, bytes))
            continue;
        /* The one that names most: a unit's names may all be another one's too. */
        if (unit == SG_ALL_UNITS || table->units[i].kernel_count > table->units[unit].kernel_count)
            unit = i;
    }
    return unit;
}
