/* softgpu/ptx/warp_flow.h: a warp, and which of its lanes run; see warp.h.
 *
 * A function's blocks have numbers, in an order in which every loop is in one piece and what follows it comes behind. Lanes
 * that run are at one block; others wait at theirs, in the function's sg_flow_t. The group at the lowest number runs, so
 * that lanes meet again where their ways join, and behind a loop:
 *
 *   first == lowest number at which lanes wait, but for those that are blocked; SG_NONE: there are none (sg_lowest_of_all)
 *   a jump to a number below `first` is a goto; another one parks the lanes there, and the lowest group goes on
 *
 * Blocked are lanes in an operation of the warp (shfl.sync, bar.sync) until all that its mask names are there.
 * A loop that waits for other lanes (atomic or volatile accesses in it) is left for the group behind it after some rounds.
 *
 * A function in which lanes may wait runs on a stack of its own (a coroutine of the driver's), so that its caller can go on with
 * lanes that have returned, or have not called it. Lanes of several activations meet at an operation through a meeting, where
 * each leaves its operands.
 *
 *   call     an activation of such a function, as its caller sees it
 *   wakes    counts what may let blocked lanes go: a flow or call that was blocked at another count is tried again */
#ifndef SG_PTX_WARP_FLOW_H
#define SG_PTX_WARP_FLOW_H

#include <stdio.h>
#include <stdlib.h>

#define SG_NONE     UINT32_MAX
#define SG_PATIENCE 200 /* accesses that may wait for others, before others run */

/* CUresult */
#define SG_ERROR_MEMORY      2
#define SG_ERROR_ASSERT      710
#define SG_ERROR_INSTRUCTION 715
#define SG_ERROR_MISALIGNED  716
#define SG_ERROR_LAUNCH      719

/* What `run` gives the driver: a launch of warps. */
typedef struct sg_ptx_launch {
    softgpu_launch_t launch; /* of {warps, 1, 1} */
    const softgpu_launch_t *program;
    uint32_t
        workspace[4]; /* of a cooperative launch, which cooperative groups use for barriers of the grid */
} sg_ptx_launch_t;

/* Operands of an operation of the warp. */
typedef union sg_operands {
    sg_v32 v32[3];
    sg_v64 v64;
    uint32_t predicate;
} sg_operands_t;

/* Lanes that have come to one operation with one mask. It lives until each of them has its result. */
typedef struct sg_meeting {
    const void *site; /* NULL: free */
    uint32_t members, here, taken;
    bool led; /* a barrier of the block: one activation has been in it, with this result: */
    uint32_t result, lanes;
    sg_operands_t of;
} sg_meeting_t;

typedef struct sg_warp {
    const softgpu_launch_t *launch; /* the program's */
    const softgpu_services_t *services;
    const uint8_t *params;
    char *shared; /* where the window of shared memory is */
    struct sg_barriers *barriers;
    uint64_t workspace; /* of a cooperative launch, or 0 */
    uint32_t static_shared_bytes;
    uint32_t alive; /* lanes that have not exited */
    uint32_t waits; /* accesses that may wait for others, since others ran */
    uint32_t number, warps, threads;
    uint32_t block[3];
    sg_v32 tid[3];
    softgpu_place_t place; /* checked mode: of the instruction */
    uint64_t wakes;
    struct sg_call *call; /* that runs */
    const char *stuck;    /* the operation at which lanes were blocked last, and which */
    uint32_t stuck_lanes, meeting_count;
    sg_meeting_t meetings[SG_WARP];
} sg_warp_t;

typedef void (*sg_function_t)(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments);

typedef enum sg_state { SG_DONE, SG_BLOCKED, SG_WAITS } sg_state_t;

typedef struct sg_call { /* in its coroutine's memory */
    sg_warp_t *warp;
    sg_function_t function;
    uint8_t *const *arguments;
    uint32_t lanes;    /* that have not returned */
    uint32_t returned; /* and the caller does not know yet */
    uint32_t after;    /* the caller's block where they go on */
    sg_state_t state;
    uint64_t wakes; /* when it was blocked */
    struct sg_call *caller, *next;
} sg_call_t;

typedef struct sg_flow {
    uint32_t first;
    uint32_t mask; /* sg_dispatch(): of the group that runs */
    uint32_t blocks, words;
    uint64_t *waiting, *blocked; /* [words] */
    uint32_t *lanes;             /* [blocks]: there if the bit in `waiting` is set */
    const char *const *names;    /* [blocks]: of operations of the warp */
    sg_warp_t *warp;
    sg_call_t *call, *calls; /* its own; those of its that have not ended */
    uint64_t wakes;
    /* Of the operation that is done now: the meeting, if lanes of other activations are in it, and all lanes. */
    sg_meeting_t *meeting;
    uint32_t met;
} sg_flow_t;

/* ends the launch: does not return */
SG_SLOW void sg_fail(const sg_warp_t *w, int error, const char *why)
{
    w->services->fail(error, why, (softgpu_place_t){NULL, 0});
    __builtin_trap();
}

SG_SLOW void sg_fail_at(const sg_warp_t *w, uint32_t lane, int error, const char *why, softgpu_place_t place)
{
    w->services->lane(lane, place);
    w->services->fail(error, why, place);
    __builtin_trap();
}

/* ---- checked mode ---- */
#ifdef SG_CHECKED
#define SG_RUN(run)                                                                                          \
    {                                                                                                        \
        NULL, NULL, run                                                                                      \
    }
#define SG_PLACE(warp, ...)     (warp)->place = __VA_ARGS__
#define SG_MET(warp, lanes)     (warp)->services->met(lanes)
#define SG_LANE(warp, i, where) (warp)->services->lane(i, where)
/* A lane is about to access memory. */
SG_SLOW void sg_announce(const sg_warp_t *w, uint32_t lane, uint64_t at, uint32_t bytes, softgpu_access_t how)
{
    w->services->lane(lane, w->place);
    w->services->access((const void *)(uintptr_t)at, bytes, how);
}
/* Lanes come to, or leave, a point that orders them. */
SG_SLOW void sg_order(const sg_warp_t *w, uint32_t mask, const void *at)
{
    SG_FOR_LANES(i, mask)
    {
        w->services->lane(i, w->place);
        w->services->order(at);
    }
}
#else
#define SG_RUN(run)                                                                                          \
    {                                                                                                        \
        NULL, run, NULL                                                                                      \
    }
#define SG_PLACE(warp, ...)
#define SG_MET(warp, lanes)
#define SG_LANE(warp, i, where)
#define sg_announce(warp, lane, at, bytes, how)
#define sg_order(warp, mask, at)
#endif

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

/* The same, with lanes in calls that were blocked and may go on: they are where they will return to. */
SG_INLINE uint32_t sg_lowest_of_all(const sg_flow_t *flow)
{
    uint32_t lowest = sg_lowest(flow, 0);
    for (const sg_call_t *c = flow->calls; c; c = c->next)
        if (c->state == SG_BLOCKED && c->wakes != flow->warp->wakes && c->after < lowest)
            lowest = c->after;
    return lowest;
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

/* ---- calls of functions in which lanes may wait ---- */
/* To the caller. */
SG_INLINE void sg_yield(sg_flow_t *flow, sg_state_t state)
{
    flow->call->state = state;
    flow->call->wakes = flow->warp->wakes;
    flow->warp->services->yield(flow->call);
}

SG_SLOW void sg_call_main(void *coroutine)
{
    sg_call_t *c = coroutine;
    c->function(c->warp, c->lanes, c->arguments);
    c->returned |= c->lanes & c->warp->alive;
    c->lanes = 0;
    c->state = SG_DONE;
    c->warp->services->yield(c);
}

SG_INLINE sg_call_t *sg_call_new(sg_warp_t *w, sg_function_t function, uint32_t mask,
                                 uint8_t *const *arguments, uint32_t after)
{
    sg_call_t *c = w->services->coroutine(sg_call_main);
    if (!c)
        sg_fail(w, SG_ERROR_MEMORY, "no memory for stacks of functions");
    *c = (sg_call_t){w, function, arguments, mask, 0, after, SG_WAITS, 0, w->call, NULL};
    return c;
}

SG_INLINE void sg_call_resume(sg_call_t *c)
{
    c->warp->call = c;
    c->warp->services->resume(c);
    c->warp->call = c->caller;
}

/* Runs it; true: it has ended, and is gone. */
SG_SLOW bool sg_call_go_on(sg_flow_t *flow, sg_call_t *c)
{
    sg_call_resume(c);
    sg_park(flow, c->after, c->returned & flow->warp->alive);
    c->returned = 0;
    if (c->state != SG_DONE)
        return false;
    flow->warp->services->end(c);
    return true;
}

SG_SLOW void sg_call(sg_flow_t *flow, sg_function_t function, uint32_t mask, uint8_t *const *arguments,
                     uint32_t after)
{
    if (!mask)
        return;
    sg_call_t *c = sg_call_new(flow->warp, function, mask, arguments, after);
    if (sg_call_go_on(flow, c))
        return;
    c->next = flow->calls;
    flow->calls = c;
}

/* Each that was blocked and may go on, or that waits in a loop, once. */
SG_SLOW void sg_resume_calls(sg_flow_t *flow, sg_state_t state)
{
    for (sg_call_t **link = &flow->calls; *link;) {
        sg_call_t *c = *link, *next = c->next;
        if (c->state == state && (state == SG_WAITS || c->wakes != flow->warp->wakes) &&
            sg_call_go_on(flow, c))
            *link = next;
        else
            link = &c->next;
    }
}

SG_INLINE void sg_return(sg_flow_t *flow, uint32_t mask)
{
    flow->call->returned |= mask;
    flow->call->lanes &= ~mask;
}

/* ---- which group runs ---- */
SG_INLINE bool sg_any_waits(const sg_flow_t *flow)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < flow->words; i++)
        any |= flow->waiting[i];
    return any != 0;
}

/* No lanes run: the block at which the lowest group goes on; flow->blocks: there is none. */
SG_SLOW uint32_t sg_dispatch(sg_flow_t *flow)
{
    for (;;) {
        if (flow->wakes != flow->warp->wakes) {
            flow->wakes = flow->warp->wakes;
            sg_unblock(flow);
        }
        const uint32_t block = sg_lowest(flow, 0);
        if (sg_lowest_of_all(flow) < block) {
            sg_resume_calls(flow, SG_BLOCKED);
            continue;
        }
        if (block != SG_NONE) {
            flow->mask = sg_take(flow, block);
            flow->first = sg_lowest_of_all(flow);
            return block;
        }
        if (!flow->calls && !sg_any_waits(flow))
            return flow->blocks;
        sg_resume_calls(flow, SG_WAITS);
        if (sg_lowest_of_all(flow) != SG_NONE || flow->wakes != flow->warp->wakes ||
            (!flow->calls && !sg_any_waits(flow)))
            continue;
        bool waits = false;
        for (const sg_call_t *c = flow->calls; c; c = c->next)
            waits |= c->state == SG_WAITS;
        sg_yield(flow, waits ? SG_WAITS : SG_BLOCKED);
    }
}

/* A loop has waited for long: others run, of the block and of the warp. The group that is taken then is not put aside for
 * lower ones until lanes of it part, wait or end. */
SG_SLOW uint32_t sg_rotate(sg_flow_t *flow, uint32_t block, uint32_t mask)
{
    flow->warp->waits = 0;
    flow->warp->services->pause();
    sg_park(flow, block, mask);
    uint32_t next = sg_lowest(flow, block + 1);
    if (next == SG_NONE) {
        sg_resume_calls(flow, SG_BLOCKED);
        sg_resume_calls(flow, SG_WAITS);
        sg_yield(flow, SG_WAITS);
        next = sg_lowest(flow, 0);
    }
    flow->mask = sg_take(flow, next);
    flow->first = next == block ? sg_lowest_of_all(flow) : SG_NONE;
    return next;
}

SG_SLOW void sg_exit(sg_flow_t *flow, uint32_t mask)
{
    flow->warp->alive &= ~mask;
    flow->warp->wakes++;
}

/* ---- operations of the warp ---- */
static const char sg_anywhere; /* the site of bar.warp.sync: lanes at different ones meet */

/* One that has been complete is not of lanes that come now. */
SG_SLOW sg_meeting_t *sg_meeting_at(sg_warp_t *w, const void *site, uint32_t members)
{
    for (uint32_t i = 0; i < w->meeting_count; i++) {
        sg_meeting_t *m = &w->meetings[i];
        if (m->site == site && m->members == members && !m->taken)
            return m;
    }
    return NULL;
}

SG_SLOW sg_meeting_t *sg_meeting_new(sg_warp_t *w, const void *site, uint32_t members)
{
    uint32_t i = 0;
    while (i < w->meeting_count && w->meetings[i].site)
        i++;
    sg_meeting_t *m = &w->meetings[i]; /* there is one: a lane waits in one at most */
    w->meeting_count += i == w->meeting_count;
    m->site = site;
    m->members = members;
    m->here = m->taken = 0;
    m->led = false;
    return m;
}

/* A complete one, in which lanes of the mask have not got their results. */
SG_SLOW sg_meeting_t *sg_meeting_over(sg_warp_t *w, uint32_t mask)
{
    for (uint32_t i = 0; i < w->meeting_count; i++) {
        sg_meeting_t *m = &w->meetings[i];
        if (m->site && m->here & ~m->taken & mask && (m->taken || !(m->members & w->alive & ~m->here)))
            return m;
    }
    return NULL;
}

SG_SLOW void sg_leave_operands(sg_meeting_t *m, uint32_t mask, const sg_operands_t *of, uint32_t bits)
{
    m->here |= mask;
    if (bits == 1)
        m->of.predicate = sg_set1(mask, of->predicate, m->of.predicate);
    else if (bits == 64)
        m->of.v64 = sg_set64(mask, of->v64, m->of.v64);
    else
        for (uint32_t k = 0; k < bits / 32; k++)
            m->of.v32[k] = sg_set32(mask, of->v32[k], m->of.v32[k]);
}

SG_SLOW void sg_stranger(sg_flow_t *flow, uint32_t block, uint32_t lane, uint32_t members)
{
    char why[160];
    snprintf(why, sizeof why, "rule warp-mask: %s: lane %u has mask 0x%08x, which does not name it",
             flow->names[block], lane, members);
    sg_fail(flow->warp, SG_ERROR_LAUNCH, why);
}

/* Not all that the lanes' masks name are at this place of this activation: they are looked for in others. `kind`: of the operands, bits
 * of one (96: three of 32; 0: none), or -1: all lanes have to be in one activation. The lanes that can do it now; 0: none. */
SG_SLOW uint32_t sg_meet_slow(sg_flow_t *flow, uint32_t block, uint32_t mask, sg_v32 members,
                              const void *site, const sg_operands_t *of, int kind)
{
    sg_warp_t *w = flow->warp;
    const sg_l32 m = {members};
    uint32_t ready = 0;
    flow->meeting = sg_meeting_over(w, mask);
    if (flow->meeting)
        ready = flow->meeting->here & ~flow->meeting->taken & mask;
    bool later = flow->meeting != NULL;
    for (uint32_t todo = ready ? 0 : mask; todo;) {
        const uint32_t i = sg_first(todo), all = m.u[i], same = sg_eq_u32(members, sg_all32(all)) & mask;
        todo &= ~same;
        SG_FOR_LANES(k, same & ~all) sg_stranger(flow, block, k, all);
        sg_meeting_t *meeting = kind < 0 ? NULL : sg_meeting_at(w, site, all);
        if ((all & w->alive) == same) { /* after all */
            if (meeting)
                meeting->site = NULL;
            ready |= same;
            continue;
        }
        if (kind < 0)
            continue;
        if (!meeting)
            meeting = sg_meeting_new(w, site, all);
        sg_leave_operands(meeting, same, of, (uint32_t)kind);
        if (all & w->alive & ~meeting->here)
            continue;
        if (ready) {
            later = true;
            continue;
        }
        flow->meeting = meeting;
        ready = same;
        break;
    }
    flow->met = ready;
    if (flow->meeting) {
        if (!flow->meeting->taken)
            w->wakes++; /* the others' turn */
        later = true;
        flow->met = flow->meeting->here;
        flow->meeting->taken |= ready;
        if (flow->meeting->taken == flow->meeting->here)
            flow->meeting->site = NULL; /* what it holds stays until another begins */
    }
    if (mask & ~ready) {
        sg_park(flow, block, mask & ~ready);
        if (!later)
            flow->blocked[block / 64] |= UINT64_C(1) << block % 64;
        w->stuck = flow->names[block];
        w->stuck_lanes = mask & ~ready;
    }
    flow->first = sg_lowest_of_all(flow);
    return ready;
}

/* At an operation of the warp: `members` as each lane has it. True: all that they name are there. */
SG_INLINE bool sg_meet(sg_flow_t *flow, uint32_t block, uint32_t *mask, sg_v32 members)
{
    const bool waited = sg_bit(flow->waiting, block);
    if (waited) {
        *mask |= sg_take(flow, block);
        flow->first = sg_lowest_of_all(flow);
    }
    const uint32_t one = sg_lane32(members, sg_first(*mask));
    flow->meeting = NULL;
    flow->met = *mask;
    return !waited && (one & flow->warp->alive) == *mask && !(sg_ne_u32(members, sg_all32(one)) & *mask);
}

/* Operands, of all lanes that have met. */
SG_INLINE sg_v32 sg_met32(const sg_flow_t *flow, uint32_t k, sg_v32 x)
{
    return __builtin_expect(flow->meeting != NULL, 0) ? flow->meeting->of.v32[k] : x;
}
SG_INLINE sg_v64 sg_met64(const sg_flow_t *flow, sg_v64 x)
{
    return __builtin_expect(flow->meeting != NULL, 0) ? flow->meeting->of.v64 : x;
}
SG_INLINE uint32_t sg_met1(const sg_flow_t *flow, uint32_t p)
{
    return __builtin_expect(flow->meeting != NULL, 0) ? flow->meeting->of.predicate : p;
}
/* A barrier of the block is one activation's. */
SG_INLINE bool sg_was_led(const sg_flow_t *flow)
{
    const bool led = flow->meeting && flow->meeting->led;
    if (flow->meeting)
        flow->meeting->led = true;
    return led;
}

#define SG_FLOW(count, operations)                                                                           \
    uint64_t words_[2 * (((count) + 63) / 64)];                                                              \
    uint32_t lanes_[count];                                                                                  \
    memset(words_, 0, sizeof words_);                                                                        \
    sg_flow_t flow = {.first = SG_NONE,                                                                      \
                      .blocks = count,                                                                       \
                      .words = ((count) + 63) / 64,                                                          \
                      .waiting = words_,                                                                     \
                      .blocked = words_ + ((count) + 63) / 64,                                               \
                      .lanes = lanes_,                                                                       \
                      .names = operations,                                                                   \
                      .warp = w,                                                                             \
                      .call = w->call,                                                                       \
                      .wakes = w->wakes};                                                                    \
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
    w->shared = shared;
    w->workspace = program->cooperative ? (uint64_t)(uintptr_t)own->workspace : 0;
    w->threads = dim[0] * dim[1] * dim[2];
    w->warps = launch->block[0];
    w->number = self->thread[0];
    w->waits = w->meeting_count = 0;
    w->wakes = 0;
    w->call = NULL;
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

SG_SLOW void sg_warp_run(sg_warp_t *w, sg_function_t kernel)
{
    sg_call_t *c = sg_call_new(w, kernel, w->alive, NULL, 0);
    do
        sg_call_resume(c);
    while (c->state == SG_WAITS);
    if (c->state == SG_BLOCKED) {
        char why[256];
        snprintf(
            why, sizeof why,
            "rule warp-mask: %s: lanes 0x%08x of warp %u wait for lanes that do not come (there are 0x%08x)",
            w->stuck, w->stuck_lanes, w->number, w->alive);
        sg_fail(w, SG_ERROR_LAUNCH, why);
    }
    w->services->end(c);
}

SG_INLINE void sg_run_warps(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                            const softgpu_entry_t *entry)
{
    sg_ptx_launch_t own = {*launch, launch, {0}};
    own.launch.block[0] = (launch->block[0] * launch->block[1] * launch->block[2] + SG_WARP - 1) / SG_WARP;
    own.launch.block[1] = own.launch.block[2] = 1;
    launch->services->run_warps(&own.launch, first, count, entry);
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
