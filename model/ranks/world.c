/* world.c: who a process is among those that were started together. */
#include "model/ranks/ranks.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/base/check.h"

extern char **environ;

#define MOST_RANKS   4096
#define MOST_STARTED 64                      /* of --gpus */
#define LAUNCHED     "LAUNCHED_BY_EBB_TRAIN" /* by world_start */

/* The first whose `count` and `rank` are both set counts. */
static const struct starter {
    const char *name, *count, *rank, *local;
} starters[] = {
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"},
};

static int number(const struct starter *by, const char *name, int least, int most)
{
    char *end;
    const char *text = getenv(name);
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most)
        usage_error("%s=%s, as %s sets it: must be between %d and %d", name, text, by->name, least, most);
    return (int)value;
}

/* torchrun has its own server at MASTER_PORT. Jobs of one machine that have no port of their own get one by their number. */
static int port_of(const struct starter *by)
{
    const char *job = getenv("SLURM_JOB_ID");
    if (getenv("MASTER_PORT") != NULL)
        return number(by, "MASTER_PORT", 1, 65534) + (getenv("TORCHELASTIC_RUN_ID") != NULL);
    return 29400 + (job != NULL ? atoi(job) % 1000 : 0);
}

world_t world_find(void)
{
    if (getenv(LAUNCHED) != NULL)
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* whoever waits for this rank is gone */
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const struct starter *by = &starters[i];
        if (getenv(by->count) == NULL || getenv(by->rank) == NULL)
            continue;
        world_t world = {.count = number(by, by->count, 1, MOST_RANKS), .starter = by->name};
        if (world.count == 1)
            break;
        world.rank = number(by, by->rank, 0, world.count - 1);
        world.local = getenv(by->local) != NULL ? number(by, by->local, 0, world.count - 1) : world.rank;
        const char *address = getenv("MASTER_ADDR");
        world.address = address != NULL ? address : "127.0.0.1";
        world.port = port_of(by);
        return world;
    }
    return (world_t){.count = 1};
}

/* ---- --gpus ---- */

/* Nobody listens there now. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, size) != 0 ||
        getsockname(s, (struct sockaddr *)&at, &size) != 0)
        fatal("no port for the ranks to meet at: %s", strerror(errno));
    close(s);
    return ntohs(at.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The launcher's ranks; 0: has ended. For its signal handler. */
static pid_t started[MOST_STARTED];

static void send_all(int signal_number)
{
    for (int i = 0; i < MOST_STARTED; i++)
        if (started[i] > 0)
            kill(started[i], signal_number);
}

static int start_all(int count, char **argv)
{
    posix_spawnattr_t attributes;
    sigset_t usual;
    int error = 0;
    posix_spawnattr_init(&attributes);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    for (int i = 0; i < count && error == 0; i++) {
        set_number("RANK", i);
        set_number("LOCAL_RANK", i);
        error = posix_spawn(&started[i], "/proc/self/exe", NULL, &attributes, argv, environ);
        if (error != 0) {
            started[i] = 0;
            fprintf(stderr, "ebb-train: rank %d could not be started: %s\n", i, strerror(error));
        }
    }
    posix_spawnattr_destroy(&attributes);
    return error == 0 ? 0 : EXIT_FATAL;
}

/* An interrupt comes from the terminal, which sends it to the ranks, too; a termination is passed on to them. */
int world_start(int count, char **argv)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, send_all);
    set_number("WORLD_SIZE", count);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", free_port());
    setenv(LAUNCHED, "1", 1);
    unsetenv("TORCHELASTIC_RUN_ID");
    int code = start_all(count, argv);
    for (;;) {
        int status;
        if (code != 0)
            send_all(SIGKILL);
        const pid_t ended = wait(&status);
        if (ended < 0 && errno == EINTR)
            continue;
        if (ended < 0)
            return code; /* all have */
        for (int i = 0; i < count; i++)
            if (started[i] == ended)
                started[i] = 0;
        if (code == 0 && (code = code_of(status)) != 0 && WIFSIGNALED(status))
            fprintf(stderr, "ebb-train: a rank was ended by signal %d\n", WTERMSIG(status));
    }
}
