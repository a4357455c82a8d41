/* meet.c: rank 0 listens, the others come and are told. Once, when the training begins. */
#include "model/ranks/ranks.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "model/base/check.h"
#include "model/base/clock.h"

#define PATIENCE_S 180.0

/* What who comes says of itself. */
typedef struct hello {
    char words[16];
    uint32_t count, rank;
} hello_t;

static const char words[16] = "ebb-train rank";

static bool write_all(int s, const void *bytes, size_t count)
{
    for (const char *at = bytes; count > 0;) {
        const ssize_t n = send(s, at, count, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        count -= (size_t)n;
    }
    return true;
}

static bool read_all(int s, void *bytes, size_t count)
{
    for (char *at = bytes; count > 0;) {
        const ssize_t n = recv(s, at, count, 0);
        if (n <= 0)
            return false;
        at += n;
        count -= (size_t)n;
    }
    return true;
}

/* A socket at the world's address, bound there or connected. -1: not now. */
static int open_at(const world_t *world, bool listens)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = listens ? AI_PASSIVE : 0},
                    *found, *a;
    char port[16];
    const int on = 1;
    const struct timeval short_while = {.tv_sec = 5}; /* whoever else is there */
    int s = -1;
    snprintf(port, sizeof port, "%d", world->port);
    if (getaddrinfo(listens ? NULL : world->address, port, &hints, &found) != 0)
        return -1;
    for (a = found; a != NULL && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s < 0)
            continue;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &short_while,
                   sizeof short_while); /* inherited by what is accepted */
        if (listens ? bind(s, a->ai_addr, a->ai_addrlen) != 0 || listen(s, 128) != 0
                    : connect(s, a->ai_addr, a->ai_addrlen) != 0) {
            close(s);
            s = -1;
        }
    }
    freeaddrinfo(found);
    return s;
}

static void serve(const world_t *world, const void *bytes, size_t count)
{
    const double until = clock_seconds() + PATIENCE_S;
    const int listening = open_at(world, true);
    if (listening < 0)
        fatal("rank 0 cannot listen at port %d: %s; MASTER_PORT chooses another", world->port,
              strerror(errno));
    bool *came = calloc((size_t)world->count, sizeof *came);
    int told = 1;
    if (came == NULL)
        fatal("no host memory for %d ranks", world->count);
    came[0] = true;
    while (told < world->count) {
        struct pollfd ready = {.fd = listening, .events = POLLIN};
        if (clock_seconds() > until)
            fatal("only %d of %d ranks have come to port %d within %.0f s", told, world->count, world->port,
                  PATIENCE_S);
        if (poll(&ready, 1, 1000) <= 0)
            continue;
        const int s = accept(listening, NULL, NULL);
        hello_t g;
        if (s >= 0 && read_all(s, &g, sizeof g) && memcmp(g.words, words, sizeof words) == 0) {
            if (g.count != (uint32_t)world->count)
                fatal("rank %u is one of %u, this one of %d", g.rank, g.count, world->count);
            if (g.rank >= g.count || came[g.rank])
                fatal("two have rank %u", g.rank);
            came[g.rank] = write_all(s, bytes, count);
            told += came[g.rank];
        }
        if (s >= 0)
            close(s);
    }
    free(came);
    close(listening);
}

static void fetch(const world_t *world, void *bytes, size_t count)
{
    const double until = clock_seconds() + PATIENCE_S;
    hello_t g = {.count = (uint32_t)world->count, .rank = (uint32_t)world->rank};
    memcpy(g.words, words, sizeof words);
    for (;;) {
        const int s = open_at(world, false);
        const bool good = s >= 0 && write_all(s, &g, sizeof g) && read_all(s, bytes, count);
        if (s >= 0)
            close(s);
        if (good)
            return;
        if (clock_seconds() > until)
            fatal("rank %d of %d: rank 0 does not answer at %s, port %d (MASTER_ADDR, MASTER_PORT)",
                  world->rank, world->count, world->address, world->port);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

void ranks_meet(const world_t *world, void *bytes, size_t count)
{
    if (world->rank == 0)
        serve(world, bytes, count);
    else
        fetch(world, bytes, count);
}
