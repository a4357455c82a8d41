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

/* ---- which build ---- */

/* The kernels that an image names. */
typedef struct names {
    char **name; /* owned, each */
    uint32_t count, room;
    bool read; /* any of its parts could be */
} names_t;

static void add_name(names_t *n, const char *at, size_t length)
{
    if (n->count == n->room) {
        char **more = realloc(n->name, (2 * n->room + 16) * sizeof *n->name);
        if (!more)
            return;
        n->name = more;
        n->room = 2 * n->room + 16;
    }
    if ((n->name[n->count] = strndup(at, length)))
        n->count++;
}

/* In machine code each kernel has a section for its parameters; in PTX it is an entry. */
static void read_names(names_t *n, bool ptx, const char *at, size_t bytes)
{
    const char *const mark = ptx ? ".entry " : ".nv.constant0.", *const end = at + bytes;
    while ((at = memmem(at, (size_t)(end - at), mark, strlen(mark)))) {
        at += strlen(mark);
        size_t length = 0;
        while (at + length < end &&
               (isalnum((unsigned char)at[length]) || at[length] == '_' || at[length] == '$'))
            length++;
        add_name(n, at, length);
    }
}

/* Every part names the same, for another architecture: one that is not compressed will do. */
static names_t names_in(const void *image, bool unpack)
{
    names_t n = {.count = 0};
    sg_part_t part;
    for (size_t at = 0; image && !n.read && sg_image_next(image, &at, &part);) {
        char *unpacked = part.packed && unpack ? sg_part_unpack(&part) : NULL;
        n.read = !part.packed || unpacked;
        if (unpacked)
            read_names(&n, part.ptx, unpacked, part.unpacked_bytes);
        else if (n.read)
            read_names(&n, part.ptx, part.at, part.bytes);
        free(unpacked);
    }
    return n;
}

static bool are_among(const softgpu_kernel_t *const *kernels, uint32_t count, const names_t *n)
{
    for (uint32_t i = 0, k; i < count; i++) {
        for (k = 0; k < n->count && !sg_names_match(kernels[i]->name, n->name[k]);)
            k++;
        if (k == n->count)
            return false;
    }
    return true;
}

/* It has all kernels of the image, and one of its units, if it tells them apart, has no other ones. */
static bool is_of(const softgpu_kernel_table_t *table, const names_t *n)
{
    for (uint32_t k = 0, i; k < n->count; k++) {
        for (i = 0; i < table->kernel_count && !sg_names_match(table->kernels[i]->name, n->name[k]);)
            i++;
        if (i == table->kernel_count)
            return false;
    }
    bool found = !n->count || !table->unit_count;
    for (uint32_t i = 0; i < table->unit_count && !found; i++)
        found = are_among(table->units[i].kernels, table->units[i].kernel_count, n);
    return found;
}

/* ---- where it is ---- */

typedef struct seeker {
    const char *origin;
    const void *image;
    names_t *names; /* of the image, unpacked where a library's name is all that speaks for it */
    char **path;
} seeker_t;

static const softgpu_kernel_table_t *found(const seeker_t *s, const char *candidate, bool folder_is_named)
{
    const softgpu_kernel_table_t *table = sg_library_open(candidate, false);
    if (table && !s->names->read && !folder_is_named)
        *s->names = names_in(s->image, true);
    if (table && (s->names->read ? is_of(table, s->names) : folder_is_named))
        *s->path = strdup(candidate);
    else if (table && s->names->read)
        sg_log(1, "%s is of another build than a module image in %s: their kernels have other names",
               candidate, s->origin);
    else if (table)
        sg_log(
            1,
            "%s is not taken for kernels of %s: what the module image holds cannot be read. If they belong "
            "together, name the folder in SOFTGPU_KERNEL_PATH",
            candidate, s->origin);
    return *s->path ? table : NULL;
}

static const softgpu_kernel_table_t *seek(const seeker_t *s)
{
    char candidate[2 * PATH_MAX];
    snprintf(candidate, sizeof candidate, "%s.softgpu.so", s->origin);
    const softgpu_kernel_table_t *table = found(s, candidate, false);
    const char *base = strrchr(s->origin, '/');
    base = base ? base + 1 : s->origin;
    const char *folders = getenv("SOFTGPU_KERNEL_PATH");
    for (const char *at = folders; !table && at && *at;) {
        size_t length = strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s/%s.softgpu.so", (int)length, at, base);
        table = found(s, candidate, true);
        at += length + (at[length] == ':');
    }
    Dl_info self; /* installed, they lie beside the driver, not among the programs */
    const char *slash =
        dladdr((void *)(uintptr_t)sg_library_find, &self) ? strrchr(self.dli_fname, '/') : NULL;
    if (!table && slash) {
        snprintf(candidate, sizeof candidate, "%.*s/%s.softgpu.so", (int)(slash - self.dli_fname),
                 self.dli_fname, base);
        table = found(s, candidate, false);
    }
    return table;
}

const softgpu_kernel_table_t *sg_library_find(const char *origin, const void *image, char **path)
{
    *path = NULL;
    const softgpu_kernel_table_t *table = sg_library_open(origin, true);
    if (table)
        return table;
    names_t names = names_in(image, false);
    table = seek(&(seeker_t){origin, image, &names, path});
    for (uint32_t i = 0; i < names.count; i++)
        free(names.name[i]);
    free(names.name);
    return table;
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
