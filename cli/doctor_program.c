/* doctor_program.c: by which way a program reaches the driver, told from its files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/program.h"

/* A runtime that is linked in opens the driver by name and asks it for its look-up function by name. */
static bool has_own_runtime(const ebb_image_t *image)
{
    return ebb_image_contains(image, "libcuda.so.1") && ebb_image_contains(image, "cuGetProcAddress");
}

typedef struct ways {
    bool driver, runtime, own_runtime, torch, missing;
} ways_t;

static void note_library(ways_t *w, const char *name, const char *path)
{
    ebb_image_t image;
    if (!strncmp(name, "libcuda.so", 10))
        w->driver = true;
    else if (!strncmp(name, "libcudart.so", 12))
        w->runtime = true;
    else if (strstr(name, "torch_cuda"))
        w->torch = true;
    if (!path) {
        printf("          %s is not found\n", name);
        w->missing = true;
    } else if (strncmp(name, "libcuda", 7) && ebb_image_open(path, &image)) {
        if (has_own_runtime(&image)) {
            printf("          %s brings a CUDA runtime of its own, hooked by its look-ups\n", name);
            w->own_runtime = true;
        }
        ebb_image_close(&image);
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
    ebb_image_t image;
    ways_t w = {.driver = false};
    if (!ebb_image_open(path, &image)) {
        printf("program   %s: %s\n", path, strerror(errno));
        return false;
    }
    const char *loader = ebb_image_loader(&image);
    bool good = false;
    if (ebb_image_is_privileged(&image))
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
    ebb_image_close(&image);
    return good && !w.missing;
}

static void show_script(const char *path, const char *interpreter)
{
    printf("script    %s, run by %s\n", path, interpreter);
}

bool ebb_doctor_program(const char *program)
{
    char path[PATH_MAX];
    if (ebb_program_find(program, path, show_script))
        return show_binary(path);
    printf("program   %s: not found\n", path);
    return false;
}
