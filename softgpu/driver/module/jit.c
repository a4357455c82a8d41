/* jit.c: PTX in memory becomes kernel libraries: read (softgpu/ptx), translated to C, compiled by the system's compiler, and kept.
 *
 * When a module is loaded only an outline is compiled (variables, the kernels' names, parameters and costs), and each kernel when it is
 * first launched, into a library of its own: a template library's modules hold dozens, of which a program launches few. What cannot be
 * translated is refused at load all the same. (A module that takes a function's address is compiled whole when it is loaded.)
 *
 * What the driver's interface says of PTX holds here: cuModuleLoadData and cuLibraryLoadData take it as text that ends with a zero,
 * cuModuleLoad as a file, both in fat binaries too (fatbin.c), and compile it. What is kept is named after the C text, the compiler's command and the processor, so that another translator, compiler or
 * machine finds nothing of this one's. A folder is filled under a name of its own and then renamed: processes may do so at once.
 *
 *   SOFTGPU_CC      the compiler, with flags of its own if need be (cc)
 *   SOFTGPU_CACHE   the folder ($XDG_CACHE_HOME/softgpu, or ~/.cache/softgpu); it may be removed at any time
 */
#include "softgpu/driver/module/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The headers that the C text includes (headers.S). */
extern const char sg_jit_abi_h[], sg_jit_warp_h[], sg_jit_warp_flow_h[], sg_jit_warp_float_h[],
    sg_jit_warp_memory_h[], sg_jit_warp_sync_h[], sg_jit_warp_mbarrier_h[], sg_jit_warp_stack_h[];
static const struct {
    const char *name, *text;
} headers[] = {{"softgpu/kernel_abi.h", sg_jit_abi_h},      {"warp.h", sg_jit_warp_h},
               {"warp_flow.h", sg_jit_warp_flow_h},         {"warp_float.h", sg_jit_warp_float_h},
               {"warp_memory.h", sg_jit_warp_memory_h},     {"warp_sync.h", sg_jit_warp_sync_h},
               {"warp_mbarrier.h", sg_jit_warp_mbarrier_h}, {"warp_stack.h", sg_jit_warp_stack_h}};
enum { HEADERS = sizeof headers / sizeof *headers };

enum { MOST_WORDS = 64, COMMAND_BYTES = 1024, MOST_PTX_BYTES = 1 << 28 };

typedef struct jit {
    char *text; /* of C; owned */
    size_t bytes;
    char command[COMMAND_BYTES]; /* of the compiler, in the folder with the files */
    char name[24];               /* of that folder in the cache */
} jit_t;

bool sg_jit_is_ptx(const void *image, size_t *bytes)
{
    const char *at = image;
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        else if (at[0] == '/' && at[1] == '*' && strstr(at, "*/"))
            at = strstr(at, "*/") + 2;
        else
            break;
    }
    if (strncmp(at, ".version", 8))
        return false;
    *bytes = (size_t)(at - (const char *)image) + strlen(at);
    return true;
}

/* Text, a fat binary or machine code: nothing else is read to its end. */
static bool is_image(FILE *f)
{
    char head[64];
    const size_t n = fread(head, 1, sizeof head, f);
    const uint32_t magic = SG_FATBIN_MAGIC;
    rewind(f);
    return n && (!memchr(head, 0, n) || (n == sizeof head && (!memcmp(head, &magic, sizeof magic) ||
                                                              !memcmp(head, ELFMAG, SELFMAG))));
}

static bool bytes_in_file(const char *image, size_t *bytes)
{
    const char *at;
    return sg_elf_open(image, bytes) || (sg_fatbin_open(image, &at, bytes) && at == image);
}

char *sg_jit_read(const char *path)
{
    struct stat facts;
    FILE *f = fopen(path, "re");
    char *image = f && is_image(f) && !fstat(fileno(f), &facts) && facts.st_size < MOST_PTX_BYTES
                      ? calloc(1, (size_t)facts.st_size + 1)
                      : NULL;
    const bool whole = image && fread(image, 1, (size_t)facts.st_size, f) == (size_t)facts.st_size;
    size_t bytes;
    if (f)
        fclose(f);
    if (whole && (sg_jit_is_ptx(image, &bytes) ||
                  (facts.st_size >= 64 && bytes_in_file(image, &bytes) && bytes <= (size_t)facts.st_size)))
        return image;
    free(image);
    return NULL;
}

/* ---- the text ---- */

CUresult sg_jit_refuse(const char *ptx, size_t bytes)
{
    const char *why;
    if (!sg_ptx_is_of_nvidia(ptx, bytes, &why))
        return CUDA_SUCCESS;
    sg_log(1, "PTX is refused: %s", why);
    return CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

CUresult sg_jit_module(const char *ptx, size_t bytes, sg_ptx_module_t **module)
{
    sg_ptx_error_t error;
    SG_TRY(sg_jit_refuse(ptx, bytes));
    if (sg_ptx_read(ptx, bytes, module, &error))
        return CUDA_SUCCESS;
    sg_log(1, "PTX is refused: %s", error.text);
    return CUDA_ERROR_INVALID_PTX;
}

static CUresult translate(const sg_ptx_module_t *module, uint32_t part, const sg_ptx_layout_t *layout,
                          jit_t *jit)
{
    sg_ptx_error_t error;
    FILE *out = open_memstream(&jit->text, &jit->bytes);
    bool good = out && sg_ptx_translate(module, part, layout, out, &error);
    if (out && fclose(out))
        good = false;
    if (good)
        return CUDA_SUCCESS;
    sg_log(1, "PTX is refused: %s", out ? error.text : "out of host memory");
    return out ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- where it is kept ---- */

static uint64_t hash(uint64_t h, const char *text) /* FNV-1a */
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

/* What -march=native goes by. */
static uint64_t hash_processor(uint64_t h)
{
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) {
            h = hash(h, line);
            break;
        }
    if (f)
        fclose(f);
    return h;
}

/* Made if need be; the caller's. NULL: there is none. */
static char *find_cache(void)
{
    const char *given = getenv("SOFTGPU_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *out = NULL;
    const int n = given && *given          ? asprintf(&out, "%s", given)
                  : cache && *cache == '/' ? asprintf(&out, "%s/softgpu", cache)
                  : home && *home == '/'   ? asprintf(&out, "%s/.cache/softgpu", home)
                                           : -1;
    if (n <= 0)
        return NULL;
    for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(out, 0777);
        *slash = '/';
    }
    mkdir(out, 0777);
    return out;
}

static FILE *open_in(int folder, const char *name, const char *mode)
{
    const int flags = *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    const int file = openat(folder, name, flags | O_CLOEXEC, 0666);
    FILE *f = file < 0 ? NULL : fdopen(file, mode);
    if (file >= 0 && !f)
        close(file);
    return f;
}

static bool write_text(int folder, const char *name, const char *text)
{
    FILE *f = open_in(folder, name, "w");
    const bool good = f && fputs(text, f) >= 0;
    return f && !fclose(f) && good;
}

/* Whether the folder of that name holds this very text, compiled. */
static bool is_kept(int cache, const char *name, const jit_t *jit)
{
    const int folder = openat(cache, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    FILE *f = faccessat(folder, "kernels.so", R_OK, 0) ? NULL : open_in(folder, "kernels.c", "r");
    char *kept = f ? malloc(jit->bytes + 1) : NULL;
    const bool same =
        kept && fread(kept, 1, jit->bytes + 1, f) == jit->bytes && !memcmp(kept, jit->text, jit->bytes);
    free(kept);
    if (f)
        fclose(f);
    close(folder);
    return same;
}

static void remove_folder(int cache, const char *name, int folder)
{
    static const char *const files[] = {"kernels.c", "kernels.so", "log"};
    for (int i = 0; i < HEADERS; i++)
        unlinkat(folder, headers[i].name, 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlinkat(folder, files[i], 0);
    unlinkat(folder, "softgpu", AT_REMOVEDIR);
    unlinkat(cache, name, AT_REMOVEDIR);
}

/* ---- compiling ---- */

/* Without what is preloaded into the program: the compiler has no device. The caller's, not what it leads to. */
static char **environment_of_compiler(void)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11))
            out[kept++] = environ[i];
    return out;
}

/* In the folder; what it says goes to the file "log" there. The exit code; -1: it could not be started. */
static int run(int folder, const char *command)
{
    char words[COMMAND_BYTES], *word[MOST_WORDS + 1], *save;
    int count = 0, status = -1;
    pid_t child;
    memcpy(words, command, sizeof words);
    for (char *w = strtok_r(words, " ", &save); w && count < MOST_WORDS; w = strtok_r(NULL, " ", &save))
        word[count++] = w;
    word[count] = NULL;
    char **environment = environment_of_compiler();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addfchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 1, "log", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int failed =
        environment ? posix_spawnp(&child, word[0], &actions, NULL, word, environment) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    while (!failed && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return failed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void show_log(int folder)
{
    char line[512];
    FILE *f = open_in(folder, "log", "r");
    for (int i = 0; f && i < 5 && fgets(line, sizeof line, f); i++) {
        line[strcspn(line, "\n")] = 0;
        sg_log(1, "  %s", line);
    }
    if (f)
        fclose(f);
}

/* In a folder that holds nothing. */
static CUresult compile(int folder, const jit_t *jit)
{
    bool good = !mkdirat(folder, "softgpu", 0777) && write_text(folder, "kernels.c", jit->text);
    for (int i = 0; i < HEADERS && good; i++)
        good = write_text(folder, headers[i].name, headers[i].text);
    if (!good) {
        sg_log(1, "PTX cannot be compiled: the cache cannot be written: %s", strerror(errno));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    const int code = run(folder, jit->command);
    if (!code)
        return CUDA_SUCCESS;
    if (code < 0 || code == 127) {
        sg_log(1, "PTX needs a C compiler, and this one cannot be started (SOFTGPU_CC names another): %s",
               jit->command);
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    }
    sg_log(1, "the C compiler does not take what PTX was translated to (exit code %d): %s", code,
           jit->command);
    show_log(folder);
    return CUDA_ERROR_INVALID_PTX;
}

/* *name: of a folder in the cache that holds the library. */
static CUresult make(const char *cache_path, int cache, const jit_t *jit, char **name)
{
    char *fresh;
    if (asprintf(&fresh, "%s/%s.XXXXXX", cache_path, jit->name) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const int folder = mkdtemp(fresh) ? open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const char *fresh_name = fresh + strlen(cache_path) + 1;
    CUresult result = folder < 0 ? CUDA_ERROR_OPERATING_SYSTEM : compile(folder, jit);
    if (folder < 0)
        sg_log(1, "PTX cannot be compiled: %s cannot be made: %s", fresh, strerror(errno));
    const bool taken = !result && renameat(cache, fresh_name, cache, jit->name);
    /* Another process has been quicker, or another text has the name: this one's is then used from where it is. */
    const bool apart = taken && !is_kept(cache, jit->name, jit);
    if (folder >= 0 && (result || (taken && !apart)))
        remove_folder(cache, fresh_name, folder);
    if (folder >= 0)
        close(folder);
    if (!result && !(*name = strdup(apart ? fresh_name : jit->name)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    free(fresh);
    return result;
}

static CUresult find_or_make(const char *cache_path, const jit_t *jit, char **path)
{
    char *name = NULL;
    const int cache = open(cache_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cache < 0) {
        sg_log(1, "PTX cannot be compiled: %s: %s (SOFTGPU_CACHE names another folder)", cache_path,
               strerror(errno));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    CUresult result = is_kept(cache, jit->name, jit) ? CUDA_SUCCESS : make(cache_path, cache, jit, &name);
    close(cache);
    if (!result && asprintf(path, "%s/%s/kernels.so", cache_path, name ? name : jit->name) < 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    free(name);
    return result;
}

static CUresult make_library(const sg_ptx_module_t *module, uint32_t part, const sg_ptx_layout_t *layout,
                             char **path)
{
    jit_t jit = {.text = NULL};
    const char *compiler = getenv("SOFTGPU_CC");
    CUresult result = translate(module, part, layout, &jit);
    const char *words = compiler && *compiler ? compiler : "cc"; /* flags of its own come last: they count */
    const int first = (int)strcspn(words, " ");
    const int n = snprintf(jit.command, sizeof jit.command,
                           "%.*s -std=gnu11 " SG_PTX_CFLAGS "%s%s -I. -o kernels.so kernels.c -lm", first,
                           words, sg_mode_is(SOFTGPU_CHECKED) ? " -DSG_CHECKED" : "", words + first);
    char *cache = result ? NULL : find_cache();
    if (!result && (!cache || n >= COMMAND_BYTES)) {
        sg_log(1, "PTX cannot be compiled: there is no folder for it (SOFTGPU_CACHE names one), or "
                  "SOFTGPU_CC is too long");
        result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    uint64_t h = hash(UINT64_C(14695981039346656037), jit.command);
    for (int i = 0; i < HEADERS; i++)
        h = hash(h, headers[i].text);
    snprintf(jit.name, sizeof jit.name, "%016" PRIx64, result ? 0 : hash_processor(hash(h, jit.text)));
    if (!result)
        result = find_or_make(cache, &jit, path);
    free(cache);
    free(jit.text);
    return result;
}

/* What cannot be translated is refused now, whatever is compiled later. */
static CUresult check(const sg_ptx_module_t *module)
{
    jit_t jit = {.text = NULL};
    const CUresult result = translate(module, SG_PTX_WHOLE, NULL, &jit);
    free(jit.text);
    return result;
}

CUresult sg_jit_check(const char *ptx, size_t bytes)
{
    sg_ptx_module_t *module = NULL;
    SG_TRY(sg_jit_module(ptx, bytes, &module));
    const CUresult result = check(module);
    sg_ptx_free(module);
    return result;
}

CUresult sg_jit_open(const char *ptx, size_t bytes, uint32_t *target, sg_ptx_module_t **parts, char **path)
{
    sg_ptx_module_t *module = NULL;
    CUresult result = sg_jit_module(ptx, bytes, &module);
    const bool apart = !result && sg_ptx_has_parts(module);
    *target = result ? 0 : module->target;
    if (apart)
        result = check(module);
    if (!result)
        result = make_library(module, apart ? SG_PTX_OUTLINE : SG_PTX_WHOLE, NULL, path);
    *parts = apart && !result ? module : NULL;
    if (!*parts)
        sg_ptx_free(module);
    return result;
}

CUresult sg_jit_kernel(const sg_ptx_module_t *module, const char *kernel, const sg_ptx_layout_t *layout,
                       char **path)
{
    uint32_t part = 0;
    while (part < module->function_count && !sg_names_match(module->functions[part]->name, kernel))
        part++;
    if (part == module->function_count)
        return CUDA_ERROR_NOT_FOUND;
    return make_library(module, sg_ptx_has_parts(module) ? part : SG_PTX_WHOLE, layout, path);
}
