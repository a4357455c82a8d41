/* run_check.c: see run_check.h. */
#include "cli/run_check.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/pytorch.h"

extern char **environ;

static void check_options(const ebb_command_t *c, char *const *environment)
{
    char why[1024];
    for (char *const *e = environment; *e; e++)
        if (!ebb_option_set(*e, why, sizeof why))
            ebb_command_refuse(c, "%s", why);
    ebb_options_read(environment);
}

/* ---- files ---- */

/* Whether it can be written, or made; `renamed`: under another name first. */
static bool is_writable(const char *path, bool renamed)
{
    char folder[PATH_MAX];
    struct stat s;
    const bool exists = !stat(path, &s);
    if (exists && S_ISDIR(s.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (exists && !renamed)
        return !access(path, W_OK);
    if (!exists && errno != ENOENT)
        return false;
    snprintf(folder, sizeof folder, "%s", path);
    return !access(dirname(folder), W_OK | X_OK);
}

static void check_files(const ebb_command_t *c, const char *report)
{
    const struct {
        const char *name, *path;
        bool read;
    } files[] = {{"EBB_TRACE", ebb_options.trace, false},
                 {"EBB_PLAN", ebb_options.plan, true},
                 {"EBB_SAVE_PLAN", ebb_options.save_plan, false},
                 {"EBB_STATS", ebb_options.stats, false},
                 {"--report", report ? report : "", false}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *const path = files[i].path;
        const bool good = !*path || (files[i].read ? !access(path, R_OK) : is_writable(path, path == report));
        if (!good)
            ebb_command_refuse(c, "%s %s: %s", files[i].name, path, strerror(errno));
    }
}

/* ---- the program ---- */

static void check_program(const ebb_command_t *c, const char *program)
{
    char path[PATH_MAX];
    ebb_image_t image;
    if (!ebb_program_find(program, path, NULL) || !ebb_image_open(path, &image))
        return; /* which exec will say */
    const char *const why = ebb_image_is_privileged(&image) ? "runs with another user's rights"
                            : ebb_image_is_static(&image)   ? "is statically linked"
                                                            : NULL;
    if (why)
        fprintf(stderr, "ebb %s: %s %s: nothing can be preloaded, it runs without ebb and its budget\n",
                c->name, path, why);
    ebb_image_close(&image);
}

bool ebb_run_prepare(const ebb_command_t *c, const char *program, const char *report, bool keep_allocator)
{
    check_options(c, environ);
    check_files(c, report);
    check_program(c, program);
    if (!keep_allocator)
        ebb_pytorch_configure();
    return ebb_cli_preload() || (ebb_cli_fail("out of memory", NULL), false);
}
