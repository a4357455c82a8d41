/* doctor.c: `ebb doctor`: what ebb would find on this machine, and in a program. */
#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "offload/machine.h"

extern char **environ;

void ebb_doctor_host(void)
{
    const ebb_limits_t l = ebb_limits_read();
    const double gib = 1 << 30;
    size_t most = l.cgroup_bytes < l.machine_bytes ? l.cgroup_bytes : l.machine_bytes, budget = most / 2;
    const int64_t option = ebb_options.host_budget;
    if (option)
        budget = option < 0 ? (size_t)((double)most * (double)-option / 100) : (size_t)option;
    printf("host      %.1f GiB of memory, %.1f available", (double)l.machine_bytes / gib,
           (double)l.available_bytes / gib);
    if (l.cgroup_bytes != SIZE_MAX)
        printf("; the control group allows %.1f, %.1f in use", (double)l.cgroup_bytes / gib,
               (double)l.cgroup_used_bytes / gib);
    printf("\npinning   up to %.1f GiB (EBB_HOST_BUDGET)", (double)(budget < most ? budget : most) / gib);
    char reason[256];
    if (l.memlock_bytes == SIZE_MAX)
        puts("; no limit of locked memory");
    else
        printf("; `ulimit -l` is %zu KiB\n", l.memlock_bytes >> 10);
    if (ebb_limits_explain(&l, 0, budget < most ? budget : most, reason, sizeof reason))
        printf("          not all of it can be had: %s\n", reason);
}

/* What `ebb run` preloads. False: it cannot be, or is another version than this command. */
static bool tell_library(void)
{
    char library[PATH_MAX], version[64];
    const bool beside = ebb_cli_find_library(library);
    printf("library   %s%s\n", library, beside ? "" : ": not beside this program");
    if (!ebb_cli_library_version(library, version, sizeof version)) {
        puts("          it cannot be preloaded here, or is older than this command");
        return false;
    }
    printf("          version %s", version);
    const bool same = !strcmp(version, EBB_VERSION);
    puts(same ? "" : ", and this command is " EBB_VERSION ": they may not understand each other");
    return same;
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    (void)c, (void)key, (void)value;
    *(bool *)request = false;
}

static int run(int argc, char **argv)
{
    bool measure = true;
    char **program = ebb_command_parse(&ebb_doctor_command, argc, argv, take, &measure);
    bool good = ebb_options_read(environ);
    good &= ebb_doctor_device(measure);
    ebb_doctor_host();
    good &= tell_library();
    if (*program)
        good &= ebb_doctor_program(*program);
    return good ? 0 : 1;
}

static const ebb_flag_t flags[] = {{NULL, "no-measure", 'n', NULL, "do not measure the link"}, {0}};
const ebb_command_t ebb_doctor_command = {
    .name = "doctor",
    .summary = "look at device, driver, link, host memory, and at a program",
    .usage = "[--] [PROGRAM [ARGUMENT...]]",
    .about = "Looks at what ebb would find on this machine, and at what it would hook in PROGRAM, which is "
             "not run. Exit code "
             "1: there is no device, or nothing to hook.",
    .example = {"", "-- python3", "--no-measure -- ./train"},
    .flags = flags,
    .words = EBB_TAKES_PROGRAM,
    .run = run};
