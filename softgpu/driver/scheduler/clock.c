/* clock.c: virtual time, see scheduler.h. A simulation by events: between two of them every engine works at a constant rate. */
#include "softgpu/driver/scheduler/scheduler.h"
#include "softgpu/driver/scheduler/profile.h"

#include <stdlib.h>

/* What can be used by one op at a time. */
typedef enum engine {
    ENGINE_COMPUTE,
    ENGINE_COMMUNICATION, /* kernels that wait for others */
    ENGINE_TO_DEVICE,
    ENGINE_TO_HOST,
    ENGINE_CALLER,
    ENGINES,
    ENGINE_NONE
} engine_t;

enum { FULL_RATE = 1000 };

/* An op, as far as time is concerned: the op itself may be gone long before it is over here, or the other way round. */
typedef struct sg_act {
    sg_stream_t *stream; /* holds a reference */
    uint64_t number;
    unsigned device;
    engine_t engine;
    uint64_t left;     /* work: nanoseconds at full rate times FULL_RATE */
    unsigned takes;    /* ENGINE_COMMUNICATION: of the multiprocessors, out of FULL_RATE */
    sg_stream_t *wait; /* holds a reference; NULL: not a wait */
    uint64_t wait_number;
    sg_record_t *record;    /* holds a reference; NULL: nothing to record */
    uint64_t order;         /* of queueing, among all */
    struct sg_act *next;    /* in the stream */
    struct sg_act *next_up; /* waiting for the engine, or stalled */
} sg_act_t;

/* What a device is at, and what waits for that. */
typedef struct machine {
    sg_act_t *running[ENGINES], *waiting[ENGINES];
} machine_t;

static struct {
    uint64_t now_ns; /* the host's clock; everything up to it has been computed */
    uint64_t queued;
    machine_t machine[SG_MAX_DEVICES];
    sg_act_t *stalled; /* waits at the heads of their streams */
} clk = {.now_ns = 1000000};

/* ---- what an op takes ---- */

/* On which device an address lies; -1: on none. */
static int device_of(const void *p)
{
    sg_extent_t extent;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
    return sg_window_contains(at) && sg_extent_find_locked(at, &extent) ? (int)extent.device : -1;
}

static engine_t copy_engine(const sg_op_t *op)
{
    int to = device_of(op->copy.dst), from = device_of(op->copy.src);
    if (to == from && to >= 0)
        return ENGINE_COMPUTE;
    return to == (int)op->stream->ctx->device || from < 0 ? ENGINE_TO_DEVICE : ENGINE_TO_HOST;
}

static sg_way_t way_of(engine_t engine)
{
    return engine == ENGINE_TO_DEVICE ? SG_TO_DEVICE : SG_TO_HOST;
}

static uint64_t duration_ns(const sg_op_t *op, engine_t engine)
{
    if (op->kind == SG_OP_KERNEL) {
        const softgpu_launch_t *launch = &op->kernel.launch;
        if (engine == ENGINE_COMMUNICATION)
            return SG_KERNEL_NS + (uint64_t)op->kernel.function->kernel->communication_ns(launch);
        softgpu_cost_fn cost = op->kernel.function->kernel->cost;
        return sg_profile_kernel_ns(cost ? cost(launch) : sg_profile_default_cost(launch));
    }
    if (op->kind == SG_OP_HOST)
        return SG_HOST_FUNCTION_NS;
    size_t bytes = sg_copy_bytes(op);
    if (engine == ENGINE_COMPUTE) /* read once and written once, or only written */
        return sg_profile_memory_ns((op->kind == SG_OP_COPY ? 2.0 : 1.0) * (double)bytes);
    return sg_profile_link_ns(way_of(engine), bytes);
}

static engine_t engine_of(const sg_op_t *op)
{
    switch (op->kind) {
    case SG_OP_COPY:
        return copy_engine(op);
    case SG_OP_HOST:
        return ENGINE_CALLER;
    case SG_OP_KERNEL:
        return sg_op_waits(op) ? ENGINE_COMMUNICATION : ENGINE_COMPUTE;
    case SG_OP_SET:
        return ENGINE_COMPUTE;
    default:
        return ENGINE_NONE;
    }
}

/* A block has a multiprocessor. */
static unsigned multiprocessors_taken(const sg_op_t *op)
{
    const softgpu_launch_t *l = &op->kernel.launch;
    const uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], all = sg_profile->multiprocessors;
    return (unsigned)(FULL_RATE * (blocks < all ? blocks : all) / all);
}

/* ---- beginnings and ends ---- */

/* Takes the head off its stream. The stream may be gone afterwards. */
static void end_locked(sg_act_t *act)
{
    sg_stream_t *s = act->stream;
    s->lane.head = act->next;
    if (!s->lane.head)
        s->lane.tail = NULL;
    s->lane.done = act->number;
    if (act->record) {
        act->record->time_ns = clk.now_ns;
        if (!--act->record->refs)
            free(act->record);
    }
    if (act->wait)
        sg_stream_unref_locked(act->wait);
    free(act);
    sg_stream_unref_locked(s);
}

static bool stalls(const sg_act_t *act)
{
    return act->wait && !sg_clock_over_locked(act->wait, act->wait_number);
}

/* By priority, then in the order of queueing. */
static void line_up(sg_act_t *act)
{
    sg_act_t **link = &clk.machine[act->device].waiting[act->engine];
    while (*link && ((*link)->stream->priority < act->stream->priority ||
                     ((*link)->stream->priority == act->stream->priority && (*link)->order < act->order)))
        link = &(*link)->next_up;
    act->next_up = *link;
    *link = act;
}

/* The turn of the stream's head has come. What takes no time is over at once, and so on. */
static void turn_locked(sg_stream_t *s)
{
    s->refs++;
    for (sg_act_t *act; (act = s->lane.head);) {
        if (stalls(act)) {
            act->next_up = clk.stalled;
            clk.stalled = act;
            break;
        }
        if (act->engine != ENGINE_NONE) {
            line_up(act);
            break;
        }
        end_locked(act);
    }
    sg_stream_unref_locked(s);
}

/* Something is over: waits that waited for it end, engines that are free take up what is next. */
static void settle_locked(void)
{
    for (sg_act_t **link = &clk.stalled; *link;) {
        sg_act_t *act = *link;
        if (stalls(act)) {
            link = &act->next_up;
            continue;
        }
        *link = act->next_up;
        turn_locked(act->stream);
        link = &clk.stalled; /* others may go on because of it, and the list has changed */
    }
    for (unsigned d = 0; d < sg.config.devices; d++)
        for (int e = 0; e < ENGINES; e++) {
            machine_t *m = &clk.machine[d];
            if (m->running[e] || !m->waiting[e])
                continue;
            m->running[e] = m->waiting[e];
            m->waiting[e] = m->waiting[e]->next_up;
        }
}

/* ---- time passes ---- */

static uint64_t rate(const machine_t *m, engine_t engine)
{
    bool in = m->running[ENGINE_TO_DEVICE], out = m->running[ENGINE_TO_HOST];
    if (engine == ENGINE_COMPUTE) {
        const sg_act_t *communicates = m->running[ENGINE_COMMUNICATION];
        const unsigned slower = (in ? sg_profile_copy_slowdown_permille(SG_TO_DEVICE) : 0) +
                                (out ? sg_profile_copy_slowdown_permille(SG_TO_HOST) : 0) +
                                (communicates ? communicates->takes : 0);
        return slower < FULL_RATE ? FULL_RATE - slower : 1;
    }
    return (engine == ENGINE_TO_DEVICE || engine == ENGINE_TO_HOST) && in && out
               ? sg_profile_both_permille(way_of(engine))
               : FULL_RATE;
}

/* Nanoseconds until the first running op ends; UINT64_MAX: nothing runs. */
static uint64_t until_next_end(void)
{
    uint64_t least = UINT64_MAX;
    for (const machine_t *m = clk.machine; m < clk.machine + sg.config.devices; m++)
        for (int e = 0; e < ENGINES; e++)
            if (m->running[e]) {
                uint64_t ns = (m->running[e]->left + rate(m, e) - 1) / rate(m, e);
                least = ns < least ? ns : least;
            }
    return least;
}

/* Lets a device work for a while; what has ended is taken off its engine and put into `ended`. */
static sg_act_t *work(machine_t *m, uint64_t ns, sg_act_t *ended)
{
    uint64_t rates[ENGINES]; /* before anything ends */
    for (int e = 0; e < ENGINES; e++)
        rates[e] = rate(m, e);
    for (int e = 0; e < ENGINES; e++) {
        sg_act_t *act = m->running[e];
        if (!act)
            continue;
        uint64_t done = ns * rates[e];
        act->left -= done < act->left ? done : act->left;
        if (act->left)
            continue;
        m->running[e] = NULL;
        act->next_up = ended;
        ended = act;
    }
    return ended;
}

/* No more than until_next_end. */
static void pass_locked(uint64_t ns)
{
    sg_act_t *ended = NULL;
    clk.now_ns += ns;
    for (unsigned d = 0; d < sg.config.devices; d++)
        ended = work(&clk.machine[d], ns, ended);
    for (sg_act_t *act; (act = ended);) {
        ended = act->next_up;
        sg_stream_t *s = act->stream;
        s->refs++;
        end_locked(act);
        turn_locked(s);
        sg_stream_unref_locked(s);
    }
    settle_locked();
}

/* ---- what others see ---- */

void sg_clock_call_locked(void)
{
    uint64_t left = SG_CALL_NS;
    for (uint64_t ns; (ns = until_next_end()) <= left; left -= ns)
        pass_locked(ns);
    pass_locked(left);
}

uint64_t sg_clock_now_locked(void)
{
    return clk.now_ns;
}

void sg_clock_add_locked(const sg_op_t *op)
{
    sg_stream_t *s = op->stream;
    sg_act_t *act = calloc(1, sizeof *act);
    if (!act) {
        sg_log(1, "out of host memory: the virtual clock misses an operation");
        return;
    }
    act->stream = s;
    act->number = op->number;
    act->order = ++clk.queued;
    act->device = s->ctx->device;
    act->engine = engine_of(op);
    if (act->engine != ENGINE_NONE)
        act->left = duration_ns(op, act->engine) * FULL_RATE;
    if (act->engine == ENGINE_COMMUNICATION)
        act->takes = multiprocessors_taken(op);
    s->refs++;
    if (op->kind == SG_OP_WAIT &&
        op->wait.stream) { /* that a value comes takes no time that could be known */
        act->wait = op->wait.stream;
        act->wait_number = op->wait.number;
        act->wait->refs++;
    } else if (op->kind == SG_OP_RECORD && op->record.record) {
        act->record = op->record.record;
        act->record->refs++;
    }
    bool first = !s->lane.head;
    *(first ? &s->lane.head : &s->lane.tail->next) = act;
    s->lane.tail = act;
    if (first) {
        turn_locked(s);
        settle_locked();
    }
}

bool sg_clock_over_locked(const sg_stream_t *stream, uint64_t number)
{
    return stream->lane.done >= number || !stream->lane.head;
}

void sg_clock_wait_locked(const sg_stream_t *stream, uint64_t number)
{
    for (uint64_t ns; !sg_clock_over_locked(stream, number); pass_locked(ns))
        if ((ns = until_next_end()) == UINT64_MAX)
            return; /* nothing is under way: an op was missed for lack of memory */
}
