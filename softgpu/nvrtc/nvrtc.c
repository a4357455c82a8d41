/* nvrtc.c: libnvrtc.so.13: sources that a program compiles while it runs. softgpu-clang++, in the library's own folder, compiles them (--nvrtc) to
 * PTX, which the software device takes as a module; what is handed out as machine code is that text as well, with the zero that ends it.
 *
 * NVIDIA's library would do, but what it makes is refused here (softgpu/README.md says why).
 *
 * Threads: calls for different programs may be made by several at once; those for one program may not, as NVIDIA's documentation has it.
 * Errors: NVRTC's codes. What the compiler says is the program's log. Not there (NVRTC_ERROR_INVALID_PROGRAM): OptiX IR, LTO IR; precompiled headers. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <nvrtc.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct file {
    char *name, *text;
} file_t;

/* A name expression, and what it is called in PTX: known after compiling. */
typedef struct expression {
    char *text, *lowered;
} expression_t;

struct _nvrtcProgram {
    file_t *files; /* the source, then its headers */
    size_t file_count;
    expression_t *expressions;
    size_t expression_count;
    char *ptx, *log; /* owned; NULL: not yet */
    int for_device;  /* of an architecture of devices (sm_80), not a virtual one */
};

const char *nvrtcGetErrorString(nvrtcResult result)
{
#define NAME(code) [NVRTC_##code] = "NVRTC_" #code
    static const char *const names[] = {NAME(SUCCESS),
                                        NAME(ERROR_OUT_OF_MEMORY),
                                        NAME(ERROR_PROGRAM_CREATION_FAILURE),
                                        NAME(ERROR_INVALID_INPUT),
                                        NAME(ERROR_INVALID_PROGRAM),
                                        NAME(ERROR_INVALID_OPTION),
                                        NAME(ERROR_COMPILATION),
                                        NAME(ERROR_BUILTIN_OPERATION_FAILURE),
                                        NAME(ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION),
                                        NAME(ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION),
                                        NAME(ERROR_NAME_EXPRESSION_NOT_VALID),
                                        NAME(ERROR_INTERNAL_ERROR)};
#undef NAME
    const size_t i = (size_t)result;
    return i < sizeof names / sizeof *names ? names[i] : "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    if (!major || !minor)
        return NVRTC_ERROR_INVALID_INPUT;
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

/* What Clang 19 writes PTX for, and CUDA 13 has. */
static const int architectures[] = {75, 80, 86, 87, 89, 90};

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    if (!count)
        return NVRTC_ERROR_INVALID_INPUT;
    *count = sizeof architectures / sizeof *architectures;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    if (!out)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(out, architectures, sizeof architectures);
    return NVRTC_SUCCESS;
}

/* ---- programs ---- */

static void free_program(nvrtcProgram program)
{
    for (size_t i = 0; i < program->file_count; i++) {
        free(program->files[i].name);
        free(program->files[i].text);
    }
    for (size_t i = 0; i < program->expression_count; i++) {
        free(program->expressions[i].text);
        free(program->expressions[i].lowered);
    }
    free(program->files);
    free(program->expressions);
    free(program->ptx);
    free(program->log);
    free(program);
}

/* Whether a header of that name stays within the folder it is written to. */
static int is_within(const char *name)
{
    return name && *name && *name != '/' && !strstr(name, "..");
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int header_count,
                               const char *const *headers, const char *const *header_names)
{
    (void)name; /* of messages alone */
    if (!out || !source || header_count < 0 || (header_count && (!headers || !header_names)))
        return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram program = calloc(1, sizeof *program);
    if (!program || !(program->files = calloc((size_t)header_count + 1, sizeof *program->files))) {
        free(program);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    nvrtcResult result = NVRTC_SUCCESS;
    for (int i = -1; i < header_count && !result; i++) {
        file_t *file = &program->files[program->file_count++];
        const char *text = i < 0 ? source : headers[i];
        if (i >= 0 && (!text || !is_within(header_names[i])))
            result = NVRTC_ERROR_INVALID_INPUT;
        else if (!(file->name = strdup(i < 0 ? "softgpu_program.cu" : header_names[i])) ||
                 !(file->text = strdup(text)))
            result = NVRTC_ERROR_OUT_OF_MEMORY;
    }
    if (result)
        free_program(program);
    else
        *out = program;
    return result;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    if (!program || !*program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    free_program(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char *text)
{
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (!text)
        return NVRTC_ERROR_INVALID_INPUT;
    if (program->log)
        return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    expression_t *more = realloc(program->expressions, (program->expression_count + 1) * sizeof *more);
    char *copy = more ? strdup(text) : NULL;
    if (more)
        program->expressions = more;
    if (!copy)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    more[program->expression_count++] = (expression_t){.text = copy};
    return NVRTC_SUCCESS;
}

/* ---- compiling ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL, part[4096];
    size_t bytes, n;
    FILE *out = f ? open_memstream(&text, &bytes) : NULL;
    while (out && (n = fread(part, 1, sizeof part, f)) > 0)
        fwrite(part, 1, n, out);
    if (f)
        fclose(f);
    if (out && fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

/* A file in the folder, with the folders that its name has. The source has behind it a variable for each name expression, which holds the address
 * of what is meant: its name is in PTX then. */
static int write_file(const char *folder, const file_t *file, nvrtcProgram program)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, file->name) < 0)
        return 0;
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *f = fopen(path, "we");
    free(path);
    if (!f)
        return 0;
    fputs(file->text, f);
    for (size_t i = 0; file == program->files && i < program->expression_count; i++)
        fprintf(f,
                "\nextern \"C\" __attribute__((device, used)) const void *const softgpu_name_%zu = (const "
                "void *)(%s);\n",
                i, program->expressions[i].text);
    return !fclose(f);
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts, (void)kind, (void)where;
    return remove(path);
}

/* The path of softgpu-clang++, the caller's; NULL: there is no memory. */
static char *find_driver(void)
{
    Dl_info self;
    char *path = NULL;
    char *library = dladdr((void *)(uintptr_t)nvrtcVersion, &self) ? realpath(self.dli_fname, NULL) : NULL;
    char *slash = library ? strrchr(library, '/') : NULL;
    if (slash && asprintf(&path, "%.*s/softgpu-clang++", (int)(slash - library), library) < 0)
        path = NULL;
    free(library);
    return path;
}

/* The exit code; -1: it could not be started. What it says goes to the file "log" in the folder. */
static int run_compiler(const char *driver, const char *folder, int count, const char *const *options)
{
    const char *const fixed[] = {
        driver, "--nvrtc", "-ptx", "-I.", "-o", "softgpu_program.ptx", "softgpu_program.cu"};
    enum { FIXED = sizeof fixed / sizeof *fixed };
    size_t variables = 0, kept = 0;
    while (environ[variables])
        variables++;
    char **environment = calloc(variables + 1, sizeof *environment),
         **words = calloc((size_t)count + FIXED + 1, sizeof *words);
    int status = -1, failed = ENOMEM;
    if (words && environment) {
        for (size_t i = 0; i < variables; i++) /* what is preloaded is for the program */
            if (strncmp(environ[i], "LD_PRELOAD=", 11))
                environment[kept++] = environ[i];
        memcpy(words, fixed, sizeof fixed);
        if (count)
            memcpy(words + FIXED, options, (size_t)count * sizeof *options);
        posix_spawn_file_actions_t actions;
        pid_t child;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addchdir_np(&actions, folder);
        posix_spawn_file_actions_addopen(&actions, 1, "log", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        failed = posix_spawn(&child, words[0], &actions, NULL, words, environment);
        posix_spawn_file_actions_destroy(&actions);
        while (!failed && waitpid(child, &status, 0) < 0)
            if (errno != EINTR)
                failed = errno;
    }
    free(words);
    free(environment);
    return failed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* What the variables that write_file() has added are initialised with. 0: one is not there. */
static int find_lowered(nvrtcProgram program)
{
    for (size_t i = 0; i < program->expression_count; i++) {
        char line[64];
        snprintf(line, sizeof line, " softgpu_name_%zu = ", i);
        const char *at = strstr(program->ptx, line);
        const char *begin = at ? at + strlen(line) : NULL;
        if (begin && !strncmp(begin, "generic(", 8))
            begin += 8;
        const size_t length =
            begin ? strspn(begin, "_$0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") : 0;
        if (!length || !(program->expressions[i].lowered = strndup(begin, length)))
            return 0;
    }
    return 1;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    if (!program || program->log)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (count < 0 || (count && !options))
        return NVRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < count; i++)
        program->for_device |= strstr(options[i], "sm_") != NULL;
    const char *temporary = getenv("TMPDIR");
    char *driver = find_driver(), *folder = NULL, *path = NULL;
    if (!driver ||
        asprintf(&folder, "%s/softgpu-nvrtc.XXXXXX", temporary && *temporary ? temporary : "/tmp") < 0) {
        free(driver);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    int written = mkdtemp(folder) != NULL;
    for (size_t i = 0; i < program->file_count && written; i++)
        written = write_file(folder, &program->files[i], program);
    nvrtcResult result = NVRTC_ERROR_INTERNAL_ERROR;
    if (written) {
        const int code = run_compiler(driver, folder, count, options);
        if (asprintf(&path, "%s/log", folder) > 0 && code >= 0)
            program->log = read_text(path);
        if (!program->log && asprintf(&program->log, "softgpu: %s cannot be started\n", driver) < 0)
            program->log = NULL;
        free(path);
        if (!code && asprintf(&path, "%s/softgpu_program.ptx", folder) > 0) {
            program->ptx = read_text(path);
            free(path);
        }
        result = code > 0       ? NVRTC_ERROR_COMPILATION
                 : program->ptx ? NVRTC_SUCCESS
                                : NVRTC_ERROR_INTERNAL_ERROR;
        if (!result && !find_lowered(program))
            result = NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    }
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(folder);
    free(driver);
    return result;
}

/* ---- what has come of it ---- */

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes)
{
    if (!bytes)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program || !program->ptx)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = strlen(program->ptx) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *out)
{
    if (!out)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program || !program->ptx)
        return NVRTC_ERROR_INVALID_PROGRAM;
    strcpy(out, program->ptx);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    const nvrtcResult result = nvrtcGetPTXSize(program, bytes);
    if (!result && !program->for_device)
        *bytes = 0;
    return result;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *out)
{
    return program && !program->for_device ? NVRTC_ERROR_INVALID_PROGRAM : nvrtcGetPTX(program, out);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    if (!bytes)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = (program->log ? strlen(program->log) : 0) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *out)
{
    if (!out)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    strcpy(out, program->log ? program->log : "");
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char *text, const char **out)
{
    if (!text || !out)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (!program->ptx)
        return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    for (size_t i = 0; i < program->expression_count; i++)
        if (!strcmp(program->expressions[i].text, text)) {
            *out = program->expressions[i].lowered;
            return *out ? NVRTC_SUCCESS : NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
        }
    return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}

/* ---- what Clang does not make ---- */

int softgpu_nvrtc_stub(const char *name, _Atomic int *said);
int softgpu_nvrtc_stub(const char *name, _Atomic int *said)
{
    if (!atomic_exchange(said, 1))
        fprintf(stderr, "softgpu: %s is not provided\n", name);
    return NVRTC_ERROR_INVALID_PROGRAM;
}
