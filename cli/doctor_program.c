/* doctor_program.c: by which way a program reaches the driver, told from its files. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor.h"

typedef struct image {
    const unsigned char *at;
    size_t bytes;
    mode_t mode;
} image_t;

static bool open_image(const char *path, image_t *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    void *p = MAP_FAILED;
    if (file >= 0 && !fstat(file, &s) && S_ISREG(s.st_mode) && s.st_size > 4)
        p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    if (p == MAP_FAILED)
        return false;
    *out = (image_t){.at = p, .bytes = (size_t)s.st_size, .mode = s.st_mode};
    return true;
}

static void close_image(const image_t *image)
{
    munmap((void *)(uintptr_t)image->at, image->bytes);
}

static bool contains(const image_t *image, const char *text)
{
    return memmem(image->at, image->bytes, text, strlen(text)) != NULL;
}

/* As execvp finds it. */
static bool find_program(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return realpath(name, out) != NULL;
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        char candidate[PATH_MAX];
        const size_t n = strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)n, at, name);
        if (n && !access(candidate, X_OK) && realpath(candidate, out))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* "#!/usr/bin/env python3" -> python3; "#!/bin/sh" -> /bin/sh. */
static bool interpreter_of(const image_t *image, char *out, size_t room)
{
    char line[256];
    if (image->at[0] != '#' || image->at[1] != '!')
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(image->bytes - 2 < 250 ? image->bytes - 2 : 250),
             (const char *)image->at + 2);
    line[strcspn(line, "\n")] = 0;
    char *save = NULL, *word = strtok_r(line, " \t", &save);
    while (word && (strstr(word, "/env") || !strcmp(word, "-S")))
        word = strtok_r(NULL, " \t", &save);
    return word && snprintf(out, room, "%s", word) < (int)room;
}

/* ---- ELF ---- */

/* The dynamic loader that it asks for; NULL: it asks for none, or is not for this kind of machine. */
static const char *loader_of(const image_t *image)
{
    const Elf64_Ehdr *e = (const void *)image->at;
    if (image->bytes < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_phoff > image->bytes ||
        (image->bytes - e->e_phoff) / sizeof(Elf64_Phdr) < e->e_phnum)
        return NULL;
    const Elf64_Phdr *p = (const void *)(image->at + e->e_phoff);
    for (unsigned i = 0; i < e->e_phnum; i++)
        if (p[i].p_type == PT_INTERP && p[i].p_offset < image->bytes &&
            p[i].p_filesz < image->bytes - p[i].p_offset && p[i].p_filesz &&
            !image->at[p[i].p_offset + p[i].p_filesz - 1])
            return (const char *)image->at + p[i].p_offset;
    return NULL;
}

/* A runtime that is linked in opens the driver by name and asks it for its look-up function by name. */
static bool has_own_runtime(const image_t *image)
{
    return contains(image, "libcuda.so.1") && contains(image, "cuGetProcAddress");
}

typedef struct ways {
    bool driver, runtime, own_runtime, torch, missing;
} ways_t;

static void note_library(ways_t *w, const char *name, const char *path)
{
    image_t image;
    if (!strncmp(name, "libcuda.so", 10))
        w->driver = true;
    else if (!strncmp(name, "libcudart.so", 12))
        w->runtime = true;
    else if (strstr(name, "torch_cuda"))
        w->torch = true;
    if (!path) {
        printf("          %s is not found\n", name);
        w->missing = true;
    } else if (strncmp(name, "libcuda", 7) && open_image(path, &image)) {
        if (has_own_runtime(&image)) {
            printf("          %s brings a CUDA runtime of its own, hooked by its look-ups\n", name);
            w->own_runtime = true;
        }
        close_image(&image);
    }
}

/* All libraries that it is linked with, as the loader finds them; nothing of them is run. */
static bool list_libraries(const char *loader, const char *program, ways_t *w)
{
    int pipe_ends[2];
    if (pipe(pipe_ends))
        return false;
    pid_t child = fork();
    if (!child) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        unsetenv("LD_PRELOAD");
        execl(loader, loader, "--list", program, (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]);
    FILE *f = fdopen(pipe_ends[0], "r");
    char line[PATH_MAX + 256];
    while (f && fgets(line, sizeof line, f)) { /* "\tname => path (0x...)" */
        char *arrow = strstr(line, " => "), *name = line + strspn(line, " \t");
        if (!arrow)
            continue;
        *arrow = 0;
        char *path = arrow + 4, *end = strstr(path, " (0x");
        if (end)
            *end = 0;
        note_library(w, name, end ? path : NULL);
    }
    if (f)
        fclose(f);
    return true;
}

/* ---- what is said ---- */

/* The version of PyTorch that an interpreter would import, from its metadata; PyTorch itself is not started. */
static void show_pytorch(const char *python)
{
    char command[PATH_MAX + 128], version[64] = "";
    snprintf(command, sizeof command,
             "LD_PRELOAD= '%s' -c 'import importlib.metadata as m; print(m.version(\"torch\"))' 2>/dev/null",
             python);
    FILE *f = strchr(python, '\'') ? NULL : popen(command, "r");
    if (f && fgets(version, sizeof version, f)) {
        version[strcspn(version, "\n")] = 0;
        printf("          PyTorch %s: `ebb run` chooses backend:cudaMallocAsync, without which its tensors "
               "are hidden\n",
               version);
    }
    if (f)
        pclose(f);
}

static void show_ways(const ways_t *w, const char *path)
{
    const char *base = strrchr(path, '/') + 1;
    if (w->driver)
        puts("          calls the driver itself (libcuda): its functions are found in libebb first");
    if (w->runtime)
        puts("          uses the shared CUDA runtime (libcudart), hooked by its look-ups");
    if (w->torch)
        puts("          uses PyTorch's libraries");
    if (!w->driver && !w->runtime && !w->own_runtime && !w->torch)
        puts("          is not linked with CUDA; what it opens later is hooked then");
    if (!strncmp(base, "python", 6))
        show_pytorch(path);
}

static bool show_binary(const char *path)
{
    image_t image;
    ways_t w = {.driver = false};
    if (!open_image(path, &image)) {
        printf("program   %s: %s\n", path, strerror(errno));
        return false;
    }
    const char *loader = loader_of(&image);
    bool good = false;
    if (image.mode & (S_ISUID | S_ISGID))
        printf("program   %s runs with another user's rights: the loader ignores LD_PRELOAD\n", path);
    else if (!loader)
        printf("program   %s is not a dynamically linked program of this machine: nothing can be preloaded\n",
               path);
    else {
        good = true;
        printf("program   %s\n", path);
        if (has_own_runtime(&image)) {
            puts("          has the CUDA runtime linked in (static), hooked by its look-ups");
            w.own_runtime = true;
        }
        if (!list_libraries(loader, path, &w))
            puts("          its libraries cannot be listed");
        show_ways(&w, path);
    }
    close_image(&image);
    return good && !w.missing;
}

bool ebb_doctor_program(const char *program)
{
    char path[PATH_MAX], interpreter[256];
    image_t image;
    if (!find_program(program, path)) {
        printf("program   %s: not found\n", program);
        return false;
    }
    for (int depth = 0; depth < 4 && open_image(path, &image); depth++) {
        const bool script = interpreter_of(&image, interpreter, sizeof interpreter);
        close_image(&image);
        if (!script)
            break;
        printf("script    %s, run by %s\n", path, interpreter);
        if (!find_program(interpreter, path)) {
            printf("program   %s: not found\n", interpreter);
            return false;
        }
    }
    return show_binary(path);
}
