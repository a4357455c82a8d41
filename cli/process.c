/* process.c: see process.h. */
#include "cli/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

extern char **environ;

/* ---- what was typed ---- */

static void print_quoted(const char *word, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (*word && word[strspn(word, plain)] == 0) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        fprintf(out, *word == '\'' ? "'\\''" : "%c", *word);
    fputc('\'', out);
}

char *ebb_process_command(char **argv)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, "EBB_", 4)) {
            print_quoted(*e, f);
            fputc(' ', f);
        }
    fputs("ebb", f);
    for (; *argv; argv++) {
        fputc(' ', f);
        print_quoted(*argv, f);
    }
    return fclose(f) ? NULL : text;
}

char *ebb_process_title(char **program)
{
    char *title = NULL;
    size_t bytes;
    FILE *f = open_memstream(&title, &bytes);
    const char *slash = strrchr(program[0], '/');
    for (char **word = program; f && *word; word++)
        fprintf(f, word == program ? "%s" : " %s", word == program && slash ? slash + 1 : *word);
    return f && !fclose(f) ? title : NULL;
}

/* ---- running it ---- */

static volatile pid_t target; /* below 0: its process group */

static void pass_on(int signal_number)
{
    if (target)
        kill(target, signal_number);
}

/* What a terminal sends reaches a program of this process group as well; what is sent to this process is passed on. */
static void pass_signals_on(bool group)
{
    const struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART},
                           ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &forward, NULL);
    sigaction(SIGHUP, &forward, NULL);
    sigaction(SIGUSR1, &forward, NULL);
    sigaction(SIGUSR2, &forward, NULL);
    sigaction(SIGINT, group ? &forward : &ignore, NULL);
    sigaction(SIGQUIT, group ? &forward : &ignore, NULL);
}

static pid_t start(char **program, bool group)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* until it is known whom they are for */
    const pid_t pid = fork();
    if (!pid) {
        if (group)
            setpgid(0, 0);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(program[0], program);
        fprintf(stderr, "ebb: %s: %s\n", program[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid > 0) {
        if (group)
            setpgid(pid, pid); /* whichever comes first */
        target = group ? -pid : pid;
        pass_signals_on(group);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

int ebb_process_run(char **program, pid_t *pid, bool (*enough)(const void *context), const void *context)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    bool ended = false;
    int status = 0;
    *pid = start(program, enough);
    if (*pid < 0)
        return ebb_cli_fail("fork", strerror(errno));
    for (;;) {
        const pid_t done = waitpid(*pid, &status, enough && !ended ? WNOHANG : 0);
        if (done > 0)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (done < 0 && errno != EINTR)
            return ebb_cli_fail("waitpid", strerror(errno));
        if (done)
            continue;
        if ((ended = enough(context)))
            kill(target, SIGTERM);
        else
            nanosleep(&pause, NULL);
    }
}

/* ---- files of a run ---- */

bool ebb_process_folder(char out[EBB_FOLDER_ROOM])
{
    const char *place = getenv("TMPDIR");
    snprintf(out, EBB_FOLDER_ROOM, "%s/ebb-XXXXXX", place && *place ? place : "/tmp");
    return mkdtemp(out) || (ebb_cli_fail(out, strerror(errno)), false);
}

/* Traces of further kinds of step have the name with a number behind it. */
void ebb_process_remove_traces(const char *path)
{
    char more[PATH_MAX + 16];
    unlink(path);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(more, sizeof more, "%s.%u", path, i);
        unlink(more);
    }
}
