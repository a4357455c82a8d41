/* softgpu/ptx/warp_flow.h: a warp, and which of its lanes run; see warp.h.
 *
 * A function's blocks have numbers, in an order in which every loop is in one piece and what follows it comes behind. Lanes
 * that run are at one block; others wait at theirs, in the function's sg_flow_t. The group at the lowest number runs, so
 * that lanes meet again where their ways join, and behind a loop:
 *
 *   first == lowest number at which lanes wait, but for those that are blocked; SG_NONE: there are none
 *   a jump to a number below `first` is a goto; another one parks the lanes there, and the lowest group goes on
 *
 * Blocked are lanes in an operation of the warp (shfl.sync, bar.sync) until all that its mask names are there.
 * A loop that waits for other lanes (atomic or volatile accesses in it) is left for the group behind it after some rounds.
 *
 * Lanes that run in a function that was called see those that wait in its caller as not there. */
#ifndef SG_PTX_WARP_FLOW_H
#define SG_PTX_WARP_FLOW_H

#include <stdio.h>

#define SG_NONE     UINT32_MAX
#define SG_PATIENCE 200 /* accesses that may wait for others, before others run */

/* CUresult */
#define SG_ERROR_ASSERT     710
#define SG_ERROR_MISALIGNED 716
#define SG_ERROR_LAUNCH     719

/* What `run` gives the driver: a launch of warps. */
typedef struct sg_ptx_launch {
    softgpu_launch_t launch; /* of {warps, 1, 1} */
    const softgpu_launch_t *program;
    uint64_t workspace
        [2]; /* of a cooperative launch, which is one call: the toolkit's headers have its blocks meet there */
} sg_ptx_launch_t;

typedef struct sg_warp {
    const softgpu_launch_t *launch; /* the program's */
    const softgpu_services_t *services;
    const uint8_t *params;
    char *shared; /* where the window of shared memory is */
    struct sg_barriers *barriers;
    const char *stack; /* its upper end */
    uint32_t static_shared_bytes;
    uint64_t workspace; /* the launch's; 0: it is not cooperative */
    uint32_t alive;     /* lanes that have not exited */
    uint32_t waits;     /* accesses that may wait for others, since others ran */
    uint32_t number, warps, threads;
    uint32_t block[3];
    sg_v32 tid[3];
} sg_warp_t;

typedef struct sg_flow {
    uint32_t first;
    uint32_t mask; /* sg_dispatch(): of the group that runs */
    uint32_t blocks, words;
    uint64_t *waiting, *blocked; /* [words] */
    uint32_t *lanes;             /* [blocks]: there if the bit in `waiting` is set */
    const char *const *names;    /* [blocks]: of operations of the warp */
    sg_warp_t *warp;
    uint32_t released;         /* lanes that have met others in a bar.warp.sync at another place */
    uint32_t members[SG_WARP]; /* of lanes that are blocked */
} sg_flow_t;

typedef void (*sg_function_t)(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments);

/* ends the launch: does not return */
SG_SLOW void sg_fail(const sg_warp_t *w, int error, const char *why)
{
    w->services->fail(error, why, (softgpu_place_t){NULL, 0});
    __builtin_trap();
}

SG_INLINE bool sg_bit(const uint64_t *words, uint32_t at)
{
    return words[at / 64] >> at % 64 & 1;
}

/* The lowest at which lanes wait that are not blocked, from `from` up. */
SG_INLINE uint32_t sg_lowest(const sg_flow_t *flow, uint32_t from)
{
    for (uint32_t i = from / 64; i < flow->words; i++) {
        uint64_t bits = flow->waiting[i] & ~flow->blocked[i];
        if (i == from / 64)
            bits &= ~UINT64_C(0) << from % 64;
        if (bits)
            return i * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return SG_NONE;
}

SG_SLOW void sg_park(sg_flow_t *flow, uint32_t block, uint32_t mask)
{
    if (!mask)
        return;
    flow->lanes[block] = (sg_bit(flow->waiting, block) ? flow->lanes[block] : 0) | mask;
    flow->waiting[block / 64] |= UINT64_C(1) << block % 64;
    flow->blocked[block / 64] &= ~(UINT64_C(1) << block % 64);
    if (block < flow->first)
        flow->first = block;
}

SG_INLINE uint32_t sg_take(sg_flow_t *flow, uint32_t block)
{
    flow->waiting[block / 64] &= ~(UINT64_C(1) << block % 64);
    flow->blocked[block / 64] &= ~(UINT64_C(1) << block % 64);
    return flow->lanes[block];
}

SG_INLINE void sg_unblock(sg_flow_t *flow)
{
    for (uint32_t i = 0; i < flow->words; i++)
        flow->blocked[i] = 0;
}

/* All that wait are blocked. Lanes in different bar.warp.sync may have met; else the launch ends. */
SG_SLOW void sg_no_group_can_run(sg_flow_t *flow)
{
    uint32_t there = 0, met = 0, b, last = 0;
    for (b = 0; b < flow->blocks; b++)
        if (sg_bit(flow->waiting, b)) {
            last = b;
            there |= strncmp(flow->names[b], "bar.warp.sync", 13) ? 0 : flow->lanes[b];
        }
    SG_FOR_LANES(i, there)
    met |= (uint32_t) !(flow->members[i] & flow->warp->alive & ~there) << i;
    if (met) {
        flow->released |= met;
        sg_unblock(flow);
        return;
    }
    char why[256];
    snprintf(why, sizeof why,
             "rule warp-mask: %s: lanes 0x%08x of warp %u wait for lanes that do not come (there are 0x%08x)",
             flow->names[last], flow->lanes[last], flow->warp->number, flow->warp->alive);
    sg_fail(flow->warp, SG_ERROR_LAUNCH, why);
}

/* No lanes run: the block at which the lowest group goes on; flow->blocks: there is none. */
SG_SLOW uint32_t sg_dispatch(sg_flow_t *flow)
{
    uint32_t block = sg_lowest(flow, 0);
    for (uint32_t i = 0; i < flow->words && block == SG_NONE; i++)
        if (flow->waiting[i]) {
            sg_no_group_can_run(flow);
            block = sg_lowest(flow, 0);
        }
    if (block == SG_NONE)
        return flow->blocks;
    flow->mask = sg_take(flow, block);
    flow->first = sg_lowest(flow, 0);
    return block;
}

/* A loop has waited for long: others run, of the block and of the warp. The group that is taken then is not put aside for
 * lower ones until lanes of it part, wait or end. */
SG_SLOW uint32_t sg_rotate(sg_flow_t *flow, uint32_t block, uint32_t mask)
{
    flow->warp->waits = 0;
    flow->warp->services->pause();
    sg_park(flow, block, mask);
    uint32_t next = sg_lowest(flow, block + 1);
    if (next == SG_NONE)
        next = sg_lowest(flow, 0);
    flow->mask = sg_take(flow, next);
    flow->first = next == block ? sg_lowest(flow, 0) : SG_NONE;
    return next;
}

SG_SLOW void sg_exit(sg_flow_t *flow, uint32_t mask)
{
    flow->warp->alive &= ~mask;
    sg_unblock(flow);
}

/* Lanes may have exited in a function that was called: those of `mask` that go on. */
SG_INLINE uint32_t sg_returned(sg_flow_t *flow, uint32_t mask)
{
    if (mask & ~flow->warp->alive)
        sg_unblock(flow);
    return mask & flow->warp->alive;
}

/* At an operation of the warp: `members` as each lane has it. Lanes that are not all there are put aside. The lanes that can
 * do it now; 0: none. */
SG_SLOW uint32_t sg_meet_slow(sg_flow_t *flow, uint32_t block, uint32_t mask, sg_v32 members)
{
    sg_l32 m = {members};
    uint32_t ready = 0;
    SG_FOR_LANES(i, mask)
    {
        uint32_t same = 0;
        flow->members[i] = m.u[i];
        SG_FOR_LANES(k, mask)
        same |= (uint32_t)(m.u[k] == m.u[i]) << k;
        if (!(m.u[i] >> i & 1)) {
            char why[160];
            snprintf(why, sizeof why, "rule warp-mask: %s: lane %u has mask 0x%08x, which does not name it",
                     flow->names[block], i, m.u[i]);
            sg_fail(flow->warp, SG_ERROR_LAUNCH, why);
        }
        if ((m.u[i] & flow->warp->alive) == same)
            ready |= 1u << i;
    }
    ready |= mask & flow->released;
    flow->released &= ~mask;
    if (mask & ~ready) {
        sg_park(flow, block, mask & ~ready);
        flow->blocked[block / 64] |= UINT64_C(1) << block % 64;
        flow->first = sg_lowest(flow, 0);
    }
    return ready;
}

SG_INLINE uint32_t sg_meet(sg_flow_t *flow, uint32_t block, uint32_t mask, sg_v32 members)
{
    if (sg_bit(flow->waiting, block)) {
        mask |= sg_take(flow, block);
        flow->first = sg_lowest(flow, 0);
    }
    uint32_t one = sg_lane32(members, sg_first(mask));
    if ((one & flow->warp->alive) == mask && !(sg_ne_u32(members, sg_all32(one)) & mask))
        return mask;
    return sg_meet_slow(flow, block, mask, members);
}

#define SG_FLOW(count, operations)                                                                           \
    uint64_t words_[2 * (((count) + 63) / 64)];                                                              \
    uint32_t lanes_[count];                                                                                  \
    memset(words_, 0, sizeof words_);                                                                        \
    sg_flow_t flow = {                                                                                       \
        SG_NONE, 0, count, ((count) + 63) / 64, words_, words_ + ((count) + 63) / 64, lanes_, operations,    \
        w,       0, {0}};                                                                                    \
    uint32_t next
#define SG_GO(to)                                                                                            \
    do {                                                                                                     \
        if ((to) < flow.first)                                                                               \
            goto b##to;                                                                                      \
        sg_park(&flow, to, mask);                                                                            \
        goto dispatch;                                                                                       \
    } while (0)
/* Backward, in a function with accesses that may wait. */
#define SG_GO_BACK(to)                                                                                       \
    do {                                                                                                     \
        if (__builtin_expect(w->waits > SG_PATIENCE, 0)) {                                                   \
            next = sg_rotate(&flow, to, mask);                                                               \
            goto jump;                                                                                       \
        }                                                                                                    \
        SG_GO(to);                                                                                           \
    } while (0)

/* ---- a warp's life ---- */
SG_INLINE void sg_warp_begin(sg_warp_t *w, const softgpu_launch_t *launch, const softgpu_thread_t *self,
                             char *shared)
{
    const sg_ptx_launch_t *own = (const sg_ptx_launch_t *)(const void *)launch;
    const softgpu_launch_t *program = own->program;
    const uint32_t *dim = program->block;
    w->launch = program;
    w->services = launch->services;
    w->params = program->params;
    w->workspace = program->cooperative ? (uint64_t)(uintptr_t)own->workspace : 0;
    w->shared = shared;
    w->stack = __builtin_frame_address(0);
    w->threads = dim[0] * dim[1] * dim[2];
    w->warps = launch->block[0];
    w->number = self->thread[0];
    w->waits = 0;
    const uint32_t begin = w->number * SG_WARP, count = w->threads - begin;
    w->alive = count >= SG_WARP ? SG_ALL : (1u << count) - 1;
    for (int k = 0; k < 3; k++)
        w->block[k] = self->block[k];
    sg_l32 x, y, z;
    uint32_t at[3] = {begin % dim[0], begin / dim[0] % dim[1], begin / dim[0] / dim[1]};
    for (uint32_t i = 0; i < SG_WARP; i++) {
        x.u[i] = at[0];
        y.u[i] = at[1];
        z.u[i] = at[2];
        if (++at[0] == dim[0]) {
            at[0] = 0;
            if (++at[1] == dim[1]) {
                at[1] = 0;
                at[2]++;
            }
        }
    }
    w->tid[0] = x.v;
    w->tid[1] = y.v;
    w->tid[2] = z.v;
}

SG_INLINE void sg_run_warps(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                            const softgpu_entry_t *entry)
{
    sg_ptx_launch_t own = {*launch, launch, {0, 0}};
    own.launch.block[0] = (launch->block[0] * launch->block[1] * launch->block[2] + SG_WARP - 1) / SG_WARP;
    own.launch.block[1] = own.launch.block[2] = 1;
    launch->services->run_blocks(&own.launch, first, count, entry);
}

/* ---- special registers ---- */
SG_INLINE sg_v32 sg_laneid(void)
{
    sg_l32 d;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d.u[i] = i;
    return d.v;
}
// clang-format off
#define SG_LANEMASK(name, expression) SG_INLINE sg_v32 sg_lanemask_##name(void) { sg_l32 d; for (uint32_t i = 0; i < SG_WARP; i++) d.u[i] = expression; return d.v; }
SG_LANEMASK(eq, 1u << i) SG_LANEMASK(le, SG_ALL >> (31 - i)) SG_LANEMASK(lt, (1u << i) - 1) SG_LANEMASK(ge, SG_ALL << i) SG_LANEMASK(gt, ~(SG_ALL >> (31 - i)))
    // clang-format on
    SG_INLINE uint64_t sg_clock(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    static _Thread_local uint64_t ticks;
    return ++ticks;
#endif
}
struct timespec;
SG_SLOW uint64_t sg_globaltimer(void)
{
    struct {
        int64_t seconds, ns;
    } now = {0, 0};
    extern int clock_gettime(int, struct timespec *);
    clock_gettime(0, (struct timespec *)(void *)&now);
    return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.ns;
}

#endif
