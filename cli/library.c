/* library.c: the library beside this program: where it is, and which version; `ebb version`. */
#include <dlfcn.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"

extern char **environ;

bool ebb_cli_find_library(char out[PATH_MAX])
{
    static const char *const folders[] = {"lib", EBB_LIBRARY_FOLDER}; /* as built, and as installed */
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        const char *const folder = dirname(self);
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
            snprintf(path, sizeof path, "%s/../%s/libebb.so", folder, folders[i]);
            if (realpath(path, out))
                return true;
        }
    }
    snprintf(out, PATH_MAX, "libebb.so");
    return false;
}

/* Under LD_PRELOAD: the library's own word. Looked up by name, since this command is not linked with it. */
static int run(int argc, char **argv)
{
    ebb_command_parse(&ebb_version_command, argc, argv, NULL, NULL);
    const char *(*version)(void);
    *(void **)&version = dlsym(RTLD_DEFAULT, "ebb_version");
    printf("ebb %s\nlibebb.so %s\n", EBB_VERSION, version ? version() : "is not preloaded");
    return 0;
}

const ebb_command_t ebb_version_command = {.name = "version",
                                           .summary =
                                               "of this command, and of the library if it is preloaded",
                                           .usage = "",
                                           .about = "Under 'ebb run' it tells the library's version, too.",
                                           .example = {""},
                                           .run = run};

/* This environment with LD_PRELOAD=library; the caller frees it. NULL: out of memory. */
static char **environment_with(char *preload)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + 2, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")))
            copy[kept++] = environ[i];
    if (copy)
        copy[kept] = preload;
    return copy;
}

bool ebb_cli_library_version(const char *library, char *out, size_t size)
{
    char preload[PATH_MAX + 16], text[256] = "", self[] = "/proc/self/exe";
    char *const command[] = {"ebb", "version", NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], status = -1;
    pid_t child;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    char **const environment = environment_with(preload);
    if (!environment || pipe(ends)) {
        free(environment);
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    const bool started = !posix_spawn(&child, self, &actions, NULL, command, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(ends[1]);
    FILE *const said = fdopen(ends[0], "r");
    const size_t n = said ? fread(text, 1, sizeof text - 1, said) : 0;
    text[n] = 0;
    if (said)
        fclose(said);
    else
        close(ends[0]);
    if (started)
        waitpid(child, &status, 0);
    const char *const at = strstr(text, "libebb.so ");
    if (status || !at || strstr(at, "not preloaded"))
        return false;
    snprintf(out, size, "%.*s", (int)strcspn(at + 10, "\n"), at + 10);
    return true;
}

bool ebb_cli_preload(void)
{
    char library[PATH_MAX], *value = NULL;
    const char *others = getenv("LD_PRELOAD");
    ebb_cli_find_library(library);
    if (asprintf(&value, "%s%s%s", library, others && *others ? ":" : "", others ? others : "") < 0)
        return false;
    setenv("LD_PRELOAD", value, 1);
    setenv("NVTX_INJECTION64_PATH", library, 0);
    free(value);
    return true;
}
