/* kernel.c: what runs on the device. A launch has a list of works; collectives go one after another, in pieces of a slot: each rank puts its
 * piece up, and when all have, everyone takes what it needs. Sends and receives of a launch go on side by side, since a rank may wait for what
 * another sends only after it has received.
 *
 * It never returns to its stream with a rank lost: what follows would compute with garbage. The kernel fails, as an illegal access would, unless
 * the host has asked for it to end (ncclCommAbort).
 */
#include "softgpu/nccl/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A launch, on one thread. */
typedef struct run {
    const softgpu_launch_t *launch;
    nccl_place_t *place;
    nccl_segment_t *s;
    uint64_t turns; /* of waiting, since it last went on */
    time_t lost_at; /* 0: nobody has been lost */
    bool over;
} run_t;

/* ---- waiting ---- */

enum { SPIN = 200, LOOK_EVERY = 1000, GRACE_S = 5 }; /* turns, of 50 us each after the first */

static void end(run_t *r, ncclResult_t why, const char *text)
{
    r->over = true;
    atomic_store(&r->place->result, (int)why);
    if (text)
        r->launch->services->fail(CUDA_ERROR_LAUNCH_FAILED, text, (softgpu_place_t){"nccl", 0});
}

/* A rank has been lost: who asks (ncclCommGetAsyncError) is told at once, and has some seconds to abort before the kernel fails. */
static void note_lost(run_t *r)
{
    const time_t now = time(NULL);
    atomic_store(&r->place->result, (int)ncclRemoteError);
    if (!r->lost_at)
        r->lost_at = now;
    if (now - r->lost_at >= GRACE_S)
        end(r, ncclRemoteError, "a rank of this communicator has ended");
}

/* One turn; false: it is over. */
static bool wait_a_little(run_t *r)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    if (atomic_load(&r->place->abort)) {
        end(r, ncclInternalError, NULL);
    } else if (++r->turns > SPIN) {
        nanosleep(&pause, NULL);
        if (r->turns % LOOK_EVERY == 0 && nccl_segment_lost(r->s, NULL) >= 0)
            note_lost(r);
    }
    return !r->over;
}

static void goes_on(run_t *r)
{
    r->turns = 0;
}

static uint64_t put_by(const run_t *r, int rank)
{
    return atomic_load_explicit(&r->s->peer[rank].flow.put, memory_order_acquire);
}

static uint64_t taken_by(const run_t *r, int rank)
{
    return atomic_load_explicit(&r->s->peer[rank].flow.taken, memory_order_acquire);
}

/* ---- collectives ---- */

/* A piece: what this rank puts up (NULL: nothing) and what it makes of what all have put up. */
typedef struct piece {
    const void *put;
    size_t count, bytes; /* elements, and of one */
    const nccl_reduction_t *contributes;
    /* With all ranks' slots; NULL: nothing. */
    void (*take)(const run_t *r, const nccl_work_t *w, const struct piece *p, void *to, int other);
    void *to;
    int other;
} piece_t;

static bool step(run_t *r, const nccl_work_t *w, const piece_t *p)
{
    nccl_segment_t *s = r->s;
    nccl_flow_t *mine = &s->peer[s->rank].flow;
    const uint64_t number = atomic_load_explicit(&mine->put, memory_order_relaxed);
    for (int rank = 0; rank < s->ranks; rank++)
        while (taken_by(r, rank) + NCCL_SLOTS <= number)
            if (!wait_a_little(r))
                return false;
    if (p->put && p->contributes)
        nccl_contribute(p->contributes, nccl_slot(s, s->rank, number), p->put, p->count);
    else if (p->put)
        memcpy(nccl_slot(s, s->rank, number), p->put, p->count * p->bytes);
    atomic_store_explicit(&mine->put, number + 1, memory_order_release);
    for (int rank = 0; rank < s->ranks; rank++)
        while (put_by(r, rank) <= number)
            if (!wait_a_little(r))
                return false;
    goes_on(r);
    if (p->take)
        p->take(r, w, p, p->to, p->other);
    atomic_store_explicit(&mine->taken, number + 1, memory_order_release);
    return true;
}

/* Where a rank has put the piece that this one takes next. */
static char *slot_of(const run_t *r, int rank)
{
    return nccl_slot(r->s, rank,
                     atomic_load_explicit(&r->s->peer[r->s->rank].flow.taken, memory_order_relaxed));
}

static void take_sum(const run_t *r, const nccl_work_t *w, const piece_t *p, void *to, int other)
{
    const void *from[NCCL_MAX_RANKS];
    (void)other;
    for (int rank = 0; rank < r->s->ranks; rank++)
        from[rank] = slot_of(r, rank);
    nccl_reduce(&w->reduction, to, from, r->s->ranks, p->count);
}

static void take_one(const run_t *r, const nccl_work_t *w, const piece_t *p, void *to, int other)
{
    (void)w;
    memcpy(to, slot_of(r, other), p->count * p->bytes);
}

/* Rank after rank, w->count elements apart. */
static void take_all(const run_t *r, const nccl_work_t *w, const piece_t *p, void *to, int other)
{
    (void)other;
    for (int rank = 0; rank < r->s->ranks; rank++)
        take_one(r, w, p, (char *)to + (size_t)rank * w->count * p->bytes, rank);
}

static const char *chunk(const void *base, const nccl_work_t *w, size_t bytes, int number)
{
    return (const char *)base + (size_t)number * w->count * bytes;
}

/* In pieces of a slot; what has a part for each rank, part by part. False: over. */
static bool collective(run_t *r, const nccl_work_t *w)
{
    const int me = r->s->rank, ranks = r->s->ranks, root = w->peer;
    const bool parts =
        w->what == NCCL_REDUCE_SCATTER || w->what == NCCL_ALL_TO_ALL || w->what == NCCL_SCATTER;
    const bool reduces =
        w->what == NCCL_ALL_REDUCE || w->what == NCCL_REDUCE || w->what == NCCL_REDUCE_SCATTER;
    const size_t bytes = nccl_type_bytes(w->reduction.type), most = NCCL_SLOT_BYTES / bytes;
    for (int round = 0; round < (parts ? ranks : 1); round++)
        for (size_t at = 0; at < w->count; at += most) {
            const size_t off = at * bytes;
            piece_t p = {.put = (const char *)w->send + off,
                         .count = w->count - at < most ? w->count - at : most,
                         .bytes = bytes,
                         .contributes = reduces ? &w->reduction : NULL,
                         .to = (char *)w->recv + off};
            switch (w->what) {
            case NCCL_ALL_REDUCE:
                p.take = take_sum;
                break;
            case NCCL_REDUCE:
                p.take = me == root ? take_sum : NULL;
                break;
            case NCCL_REDUCE_SCATTER: /* the round's rank gets its part */
                p.put = chunk(w->send, w, bytes, round) + off;
                p.take = me == round ? take_sum : NULL;
                break;
            case NCCL_BROADCAST:
                p.put = me == root ? p.put : NULL;
                p.take = me == root && w->send == w->recv ? NULL : take_one;
                p.other = root;
                break;
            case NCCL_ALL_GATHER:
                p.take = take_all;
                break;
            case NCCL_ALL_TO_ALL: /* everyone gives to the one that is so far ahead, and takes from the one so far behind */
                p.put = chunk(w->send, w, bytes, (me + round) % ranks) + off;
                p.other = (me - round + ranks) % ranks;
                p.to = (char *)w->recv + (size_t)p.other * w->count * bytes + off;
                p.take = take_one;
                break;
            case NCCL_GATHER:
                p.take = me == root ? take_all : NULL;
                break;
            default: /* NCCL_SCATTER */
                p.put = me == root ? chunk(w->send, w, bytes, round) + off : NULL;
                p.take = me == round ? take_one : NULL;
                p.other = root;
            }
            if (!step(r, w, &p))
                return false;
        }
    return true;
}

/* ---- sends and receives ---- */

/* How far a work of the launch is: bytes. */
typedef struct progress {
    size_t done;
} progress_t;

static size_t bytes_of(const nccl_work_t *w)
{
    return w->count * nccl_type_bytes(w->reduction.type);
}

/* As far as it can go without waiting; whether it has. */
static bool push(const run_t *r, const nccl_work_t *w, progress_t *p)
{
    const int me = r->s->rank;
    const bool sends = w->what == NCCL_SEND;
    nccl_flow_t *flow = sends ? nccl_pair(r->s, me, w->peer) : nccl_pair(r->s, w->peer, me);
    const size_t all = bytes_of(w);
    bool moved = false;
    while (p->done < all) {
        const uint64_t put = atomic_load_explicit(&flow->put, memory_order_acquire),
                       taken = atomic_load_explicit(&flow->taken, memory_order_acquire);
        const size_t n = all - p->done < NCCL_PAIR_BYTES ? all - p->done : NCCL_PAIR_BYTES;
        if (sends ? put - taken == NCCL_SLOTS : put == taken)
            break;
        if (sends) {
            memcpy(nccl_pair_slot(r->s, me, w->peer, put), (const char *)w->send + p->done, n);
            atomic_store_explicit(&flow->put, put + 1, memory_order_release);
        } else {
            memcpy((char *)w->recv + p->done, nccl_pair_slot(r->s, w->peer, me, taken), n);
            atomic_store_explicit(&flow->taken, taken + 1, memory_order_release);
        }
        p->done += n;
        moved = true;
    }
    return moved;
}

static bool is_pair(const nccl_work_t *w)
{
    return w->what == NCCL_SEND || w->what == NCCL_RECV;
}

/* An earlier one of the launch with the same partner and direction comes first. */
static bool is_behind(const nccl_work_t *work, const progress_t *p, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (work[k].what == work[i].what && work[k].peer == work[i].peer && p[k].done < bytes_of(&work[k]))
            return true;
    return false;
}

static void pairs(run_t *r, const nccl_work_t *work, progress_t *p, uint32_t count)
{
    for (bool left = true; left && !r->over;) {
        bool moved = false;
        left = false;
        for (uint32_t i = 0; i < count; i++)
            if (is_pair(&work[i]) && p[i].done < bytes_of(&work[i])) {
                moved |= !is_behind(work, p, i) && push(r, &work[i], &p[i]);
                left |= p[i].done < bytes_of(&work[i]);
            }
        if (moved)
            goes_on(r);
        else if (left)
            wait_a_little(r);
    }
}

/* ---- the kernels ---- */

/* NVIDIA's kernels pass data through buffers of their own. Here what one launch leaves there the next one looks for. */
static void use_staging(run_t *r, nccl_device_part_t *comm)
{
    const size_t step = NCCL_STAGING_BYTES / 8;
    const char last = (char)comm->launches++, next = (char)comm->launches;
    for (size_t at = step / 2; at < NCCL_STAGING_BYTES; at += step) {
        if (comm->staging[at] != last)
            end(r, ncclInternalError, "memory of the communicator's own has changed");
        comm->staging[at] = next;
    }
}

static void run(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const nccl_arguments_t *a = launch->params;
    const nccl_work_t *work = a->spill ? a->spill->work : a->work;
    (void)first, (void)count;
    run_t r = {.launch = launch, .place = a->comm->place, .s = &a->comm->place->segment};
    use_staging(&r, a->comm);
    progress_t *p = calloc(a->count, sizeof *p);
    if (!p)
        end(&r, ncclSystemError, "out of host memory");
    for (uint32_t i = 0; i < a->count && !r.over; i++)
        if (!is_pair(&work[i]))
            collective(&r, &work[i]);
    if (!r.over)
        pairs(&r, work, p, a->count);
    free(p);
    if (a->spill && !a->spill->captured)
        atomic_store(&a->spill->free, true);
}

/* What goes over the slowest link of a ring, and how often it is handed on ("Performance", nccl-tests: busbw). */
static double ring_ns(const nccl_work_t *w, const nccl_place_t *place)
{
    const double n = place->segment.ranks, bytes = (double)bytes_of(w), others = n - 1;
    double carried = bytes, hops = 1;
    switch (w->what) {
    case NCCL_ALL_REDUCE:
        carried = 2 * bytes * others / n;
        hops = 2 * others;
        break;
    case NCCL_REDUCE_SCATTER:
    case NCCL_ALL_GATHER:
    case NCCL_ALL_TO_ALL: /* `count` is of one rank's part */
    case NCCL_GATHER:
    case NCCL_SCATTER:
        carried = bytes * others;
        hops = others;
        break;
    case NCCL_REDUCE:
    case NCCL_BROADCAST:
        hops = others;
        break;
    default:
        break;
    }
    return n > 1 ? carried / place->link_gb_s + hops * place->latency_ns : 0;
}

static double communication_ns(const softgpu_launch_t *launch)
{
    const nccl_arguments_t *a = launch->params;
    const nccl_work_t *work = a->spill ? a->spill->work : a->work;
    double ns = 0, sent = 0, received = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (is_pair(&work[i]))
            *(work[i].what == NCCL_SEND ? &sent : &received) += ring_ns(&work[i], a->place);
        else
            ns += ring_ns(&work[i], a->place);
    return ns + (sent > received ? sent : received); /* both ways at once */
}

/* ---- the table ---- */

static const softgpu_param_t params[] = {{0, NCCL_ARGUMENT_BYTES, 16}};

/* As NVIDIA's are called, without algorithm, type and operation. */
#define KERNELS(K)                                                                                           \
    K(NCCL_ALL_REDUCE, "AllReduce")                                                                          \
    K(NCCL_REDUCE, "Reduce")                                                                                 \
    K(NCCL_REDUCE_SCATTER, "ReduceScatter")                                                                  \
    K(NCCL_BROADCAST, "Broadcast")                                                                           \
    K(NCCL_ALL_GATHER, "AllGather")                                                                          \
    K(NCCL_ALL_TO_ALL, "AlltoAll")                                                                           \
    K(NCCL_GATHER, "Gather")                                                                                 \
    K(NCCL_SCATTER, "Scatter")                                                                               \
    K(NCCL_SEND, "Send")                                                                                     \
    K(NCCL_RECV, "Recv")                                                                                     \
    K(NCCL_MIXED, "Generic")

const char *const nccl_kernel_names[NCCL_KERNELS] = {
#define NAME(id, name) [id] = "ncclDevKernel_" name,
    KERNELS(NAME)
#undef NAME
};

static const softgpu_kernel_t kernels[NCCL_KERNELS] = {
#define KERNEL(id, name_)                                                                                    \
    [id] = {.name = "ncclDevKernel_" name_,                                                                  \
            .param_count = 1,                                                                                \
            .params = params,                                                                                \
            .run = {[SOFTGPU_FAST] = run},                                                                   \
            .communication_ns = communication_ns},
    KERNELS(KERNEL)
#undef KERNEL
};

static const softgpu_kernel_t *const kernel_list[NCCL_KERNELS] = {
#define POINTER(id, name) [id] = &kernels[id],
    KERNELS(POINTER)
#undef POINTER
};

extern const softgpu_kernel_table_t softgpu_kernel_table __attribute__((visibility("default")));
const softgpu_kernel_table_t softgpu_kernel_table = {
    .abi_version = SOFTGPU_ABI_VERSION, .kernel_count = NCCL_KERNELS, .kernels = kernel_list};
