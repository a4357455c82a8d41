/* segment.c: memory that the ranks of a communicator share: a file in /dev/shm, which has no name any more once all of them have it.
 *
 * Nobody is ever waited for without a look, now and then, at whether it is still alive.
 */
#define _GNU_SOURCE
#include "softgpu/nccl/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_S = 120, LOOK_EVERY_MS = 50 };

/* ---- who is alive ---- */

/* When the process began; 0: it has ended. proc_pid_stat(5): field 22, and 3 is its state. */
static uint64_t beginning_of(int pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    const size_t length = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[length] = 0;
    const char *at = strrchr(text, ')'); /* behind the program's name, which may hold anything */
    if (!at || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static bool is_lost(const nccl_segment_t *s, int rank)
{
    const nccl_peer_t *peer = &s->peer[rank];
    const int pid = atomic_load(&peer->pid);
    if (pid <= 0 || rank == s->rank || atomic_load(&peer->left))
        return false;
    return atomic_load(&peer->aborted) || (pid != getpid() && beginning_of(pid) != peer->began);
}

int nccl_segment_lost(const nccl_segment_t *s, const bool *absent)
{
    for (int rank = 0; rank < s->ranks; rank++)
        if (!(absent && absent[rank]) && is_lost(s, rank))
            return rank;
    return -1;
}

/* ---- coming together ---- */

ncclResult_t nccl_segment_name(char name[static NCCL_UNIQUE_ID_BYTES])
{
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return nccl_fail(ncclSystemError, "no random number: %s", strerror(errno));
    memset(name, 0, NCCL_UNIQUE_ID_BYTES);
    snprintf(name, NCCL_UNIQUE_ID_BYTES, "/softgpu-nccl-%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
    return ncclSuccess;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t timeout_ms(void)
{
    const char *text = getenv("SOFTGPU_NCCL_TIMEOUT");
    const long seconds = text ? strtol(text, NULL, 10) : DEFAULT_TIMEOUT_S;
    return (uint64_t)(seconds > 0 ? seconds : DEFAULT_TIMEOUT_S) * 1000;
}

/* One turn of waiting on the host; `until` in ms. */
static ncclResult_t wait_a_little(const nccl_segment_t *s, const bool *absent, uint64_t until, uint64_t *look)
{
    static const struct timespec pause = {.tv_nsec = 200000};
    nanosleep(&pause, NULL);
    const uint64_t now = now_ms();
    if (now < *look)
        return ncclSuccess;
    *look = now + LOOK_EVERY_MS;
    const int lost = nccl_segment_lost(s, absent);
    if (lost >= 0)
        return nccl_fail(ncclRemoteError, "rank %d has ended", lost);
    return now < until ? ncclSuccess
                       : nccl_fail(ncclRemoteError,
                                   "not all of %d ranks have come within %llu s (SOFTGPU_NCCL_TIMEOUT)",
                                   s->ranks, (unsigned long long)(timeout_ms() / 1000));
}

static ncclResult_t map(nccl_segment_t *s, const char *name)
{
    const size_t ranks = (size_t)s->ranks, page = 4096;
    const size_t seats =
        (ranks * sizeof(nccl_peer_t) + ranks * ranks * sizeof(nccl_flow_t) + page - 1) / page * page;
    s->bytes = seats + ranks * NCCL_SLOTS * NCCL_SLOT_BYTES + ranks * ranks * NCCL_SLOTS * NCCL_PAIR_BYTES;
    const int file = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return nccl_fail(ncclSystemError, "%s: %s", name, strerror(errno));
    if (!ftruncate(file, (off_t)s->bytes)) /* all of them to the same size; what is there stays */
        s->memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int why = errno;
    close(file);
    if (!s->memory || s->memory == MAP_FAILED) {
        s->memory = NULL;
        return nccl_fail(ncclSystemError, "%zu bytes in %s: %s", s->bytes, name, strerror(why));
    }
    s->peer = s->memory;
    s->pair = (nccl_flow_t *)(s->peer + ranks);
    s->slots = (char *)s->memory + seats;
    s->pairs = s->slots + ranks * NCCL_SLOTS * NCCL_SLOT_BYTES;
    return ncclSuccess;
}

static ncclResult_t enter(nccl_segment_t *s, const char *bus, bool *mine)
{
    nccl_peer_t *peer = &s->peer[s->rank];
    int nobody = 0;
    /* Until its number is there the rest is not read. */
    const uint64_t began = beginning_of(getpid());
    if (!atomic_compare_exchange_strong(&peer->pid, &nobody, -1))
        return nccl_fail(ncclInvalidUsage, "two have rank %d", s->rank);
    *mine = true;
    peer->began = began;
    snprintf(peer->bus, sizeof peer->bus, "%s", bus);
    atomic_store(&peer->pid, getpid());
    const uint64_t until = now_ms() + timeout_ms();
    uint64_t look = 0;
    if (s->dry)
        return ncclSuccess;
    for (int rank = 0; rank < s->ranks;)
        if (atomic_load(&s->peer[rank].pid) > 0)
            rank++;
        else
            NCCL_TRY(wait_a_little(s, NULL, until, &look));
    /* All of them find the same. */
    for (int a = 0; a < s->ranks; a++)
        for (int b = 0; b < a; b++)
            if (!strcmp(s->peer[a].bus, s->peer[b].bus))
                return nccl_fail(ncclInvalidUsage, "Duplicate GPU: ranks %d and %d have device %s", b, a,
                                 s->peer[a].bus);
    return ncclSuccess;
}

ncclResult_t nccl_segment_open(nccl_segment_t *s, const char *name, int ranks, int rank, const char *bus)
{
    const char *dry = getenv("SOFTGPU_DRY");
    *s = (nccl_segment_t){.ranks = ranks, .rank = rank, .dry = dry && !strcmp(dry, "1")};
    NCCL_TRY(map(s, name));
    bool mine = false;
    const ncclResult_t result = enter(s, bus, &mine);
    if (result == ncclRemoteError && mine)
        atomic_store(&s->peer[rank].aborted, true);
    shm_unlink(name); /* everybody has it open, or nobody is to find it */
    if (result)
        nccl_segment_close(s);
    return result;
}

void nccl_segment_close(nccl_segment_t *s)
{
    if (s->memory)
        munmap(s->memory, s->bytes);
    s->memory = NULL;
}

/* ---- a word on the host ---- */

ncclResult_t nccl_segment_exchange(nccl_segment_t *s, const void *mine, size_t bytes, void *all,
                                   const bool *absent)
{
    nccl_peer_t *peer = &s->peer[s->rank];
    const uint64_t number = s->exchanges++, until = now_ms() + timeout_ms();
    uint64_t look = 0;
    /* Nobody puts up its next but one before all have put up their next, and so have read this one. */
    memcpy(peer->exchange[number % NCCL_SLOTS], mine, bytes);
    atomic_store(&peer->exchanges, number + 1);
    for (int rank = 0; rank < s->ranks; rank++) {
        const nccl_peer_t *its = s->dry ? peer : &s->peer[rank];
        while (!(absent && absent[rank]) && atomic_load(&its->exchanges) <= number)
            NCCL_TRY(wait_a_little(s, absent, until, &look));
        memcpy((char *)all + (size_t)rank * bytes, its->exchange[number % NCCL_SLOTS], bytes);
    }
    return ncclSuccess;
}
