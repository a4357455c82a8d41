/* threads.c: the scheduler of real threads.
 *
 * An op whose turn has come is `listed`; workers take listed ops, claim groups of units with one atomic
 * addition each, and the last one to leave an op finishes it and moves its stream on. A worker looks at the
 * list again whenever something was added to it, so that copies and kernels of several streams share the
 * workers.
 *
 * An idle worker spins for some microseconds before it sleeps: launches come in bursts, and waking a thread
 * costs more than a small kernel.
 */
#include "streams.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPIN_NS = 20000 };

static struct {
    pthread_cond_t work, done, calls;
    _Atomic uint64_t listings; /* counts what was ever listed: a change means "look again" */
    unsigned workers, sleeping, waiters;
    sg_op_t *run_head, *run_tail;
    sg_op_t *call_head, *call_tail; /* host functions whose turn has come */
    sg_stream_t *streams;
    unsigned stalled;
    uint64_t next_stream_id;
} sched = {
    .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .calls = PTHREAD_COND_INITIALIZER};

static _Thread_local bool on_caller;
static _Thread_local sg_stream_t *own_stream; /* the per-thread default stream */
static pthread_key_t own_stream_key;

bool sg_on_caller_thread(void)
{
    return on_caller;
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* ---- ops ---- */

sg_op_t *sg_op_new(sg_op_kind_t kind, size_t payload)
{
    sg_op_t *op = aligned_alloc(_Alignof(sg_op_t), sizeof *op);
    if (!op)
        return NULL;
    memset(op, 0, offsetof(sg_op_t, payload));
    op->kind = kind;
    op->payload_bytes = payload;
    if (payload > sizeof op->payload &&
        !(op->heap_payload = aligned_alloc(64, SG_ROUND_UP(payload, (size_t)64)))) {
        free(op);
        return NULL;
    }
    return op;
}

void sg_op_drop(sg_op_t *op)
{
    free(op->heap_payload);
    free(op);
}

static bool is_work(const sg_op_t *op)
{
    return op->kind == SG_OP_KERNEL || op->kind == SG_OP_COPY || op->kind == SG_OP_SET;
}

/* ---- streams ---- */

sg_stream_t *sg_stream_create_locked(bool blocking, int priority, unsigned flags)
{
    sg_stream_t *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->blocking = blocking;
    s->priority = priority;
    s->flags = flags;
    s->id = ++sched.next_stream_id;
    s->next = sched.streams;
    sched.streams = s;
    return s;
}

void sg_stream_unref_locked(sg_stream_t *stream)
{
    if (--stream->refs)
        return;
    sg_stream_t **link = &sched.streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    free(stream);
}

static void drop_own_stream(void *stream)
{
    if (atomic_load(&sg.forked))
        return;
    sg_lock();
    sg_stream_unref_locked(stream);
    own_stream = NULL;
    sg_unlock();
}

sg_stream_t *sg_stream_resolve_locked(CUstream handle)
{
    if (!handle || handle == CU_STREAM_LEGACY)
        return sg.ctx.legacy;
    if (handle == CU_STREAM_PER_THREAD) {
        if (!own_stream && (own_stream = sg_stream_create_locked(true, 0, 0)))
            pthread_setspecific(own_stream_key, own_stream);
        return own_stream;
    }
    for (sg_stream_t *s = sched.streams; s; s = s->next)
        if ((CUstream)s == handle)
            return s->destroyed ? NULL : s;
    return NULL;
}

/* ---- moving streams on; all under the lock ---- */

/* Behind its equals in priority. */
static void insert_locked(sg_op_t *op)
{
    op->listed = true;
    sg_op_t **link = &sched.run_head;
    while (*link && (*link)->stream->priority <= op->stream->priority)
        link = &(*link)->next_run;
    op->next_run = *link;
    *link = op;
}

static void list_locked(sg_op_t *op)
{
    insert_locked(op);
    atomic_fetch_add(&sched.listings, 1);
    if (sched.sleeping) {
        if (op->units > op->group)
            pthread_cond_broadcast(&sched.work);
        else
            pthread_cond_signal(&sched.work);
    }
}

static void unlist_locked(sg_op_t *op)
{
    sg_op_t **link = &sched.run_head;
    while (*link != op)
        link = &(*link)->next_run;
    *link = op->next_run;
    op->listed = false;
}

static void release_op_locked(sg_op_t *op)
{
    if (op->kind == SG_OP_WAIT)
        sg_stream_unref_locked(op->wait.stream);
    else if (op->kind == SG_OP_RECORD && op->record.record && !--op->record.record->refs)
        free(op->record.record);
    sg_op_drop(op);
}

/* Takes the finished head off its stream. */
static void retire_locked(sg_stream_t *s)
{
    sg_op_t *op = s->head;
    s->head = op->next;
    if (!s->head)
        s->tail = NULL;
    s->running = false;
    atomic_store(&s->completed, op->number);
    release_op_locked(op);
}

static bool wait_is_over(const sg_op_t *op)
{
    return atomic_load(&op->wait.stream->completed) >= op->wait.number;
}

/* Starts what can start at the head of the stream; passes over what needs no time. The stream may be gone
 * afterwards unless the caller holds a reference. */
static void advance_locked(sg_stream_t *s)
{
    s->refs++;
    while (s->head && !s->running) {
        sg_op_t *op = s->head;
        bool failed = atomic_load(&sg.ctx.sticky) != CUDA_SUCCESS;
        if (op->kind == SG_OP_WAIT && !wait_is_over(op)) {
            s->stalled = true;
            sched.stalled++;
            break;
        }
        if (op->kind == SG_OP_RECORD && op->record.record)
            op->record.record->time_ns = sg_now_ns();
        if (is_work(op) && op->units && !failed) {
            s->running = true;
            list_locked(op);
        } else if (op->kind == SG_OP_HOST &&
                   (!failed || op->host.callback)) { /* callbacks are told of errors */
            s->running = true;
            op->next_run = NULL;
            *(sched.call_head ? &sched.call_tail->next_run : &sched.call_head) = op;
            sched.call_tail = op;
            pthread_cond_signal(&sched.calls);
        } else {
            retire_locked(s);
            sg_stream_unref_locked(s); /* the op's reference */
        }
    }
    sg_stream_unref_locked(s);
}

/* Some stream has moved: those that waited for it may go on, which may free others. */
static void settle_locked(void)
{
    for (bool moved = true; moved && sched.stalled;) {
        moved = false;
        for (sg_stream_t *s = sched.streams; s; s = s->next) {
            if (!s->stalled || !wait_is_over(s->head))
                continue;
            s->stalled = false;
            sched.stalled--;
            advance_locked(s);
            moved = true;
            break; /* the list may have changed */
        }
    }
    if (sched.waiters)
        pthread_cond_broadcast(&sched.done);
}

static void finish_locked(sg_op_t *op)
{
    sg_stream_t *s = op->stream;
    retire_locked(s);
    advance_locked(s);
    sg_stream_unref_locked(s);
    settle_locked();
}

/* ---- submitting ---- */

static void append_locked(sg_stream_t *s, sg_op_t *op)
{
    op->stream = s;
    op->number = ++s->submitted;
    s->refs++;
    if (is_work(op) && !op->group) {
        op->group = op->units / (8 * sched.workers);
        if (!op->group)
            op->group = 1;
    }
    bool idle = !s->head;
    *(s->head ? &s->tail->next : &s->head) = op;
    s->tail = op;
    if (idle) {
        advance_locked(s);
        settle_locked();
    }
}

CUresult sg_submit_wait_locked(sg_stream_t *stream, sg_stream_t *on, uint64_t number)
{
    if (stream == on || atomic_load(&on->completed) >= number)
        return CUDA_SUCCESS;
    sg_op_t *op = sg_op_new(SG_OP_WAIT, 0);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->wait.stream = on;
    op->wait.number = number;
    on->refs++;
    append_locked(stream, op);
    return CUDA_SUCCESS;
}

/* CUDA's rules for the legacy default stream: it waits for all that blocking streams hold, and they for it.
 */
static void apply_legacy_rules_locked(sg_stream_t *s)
{
    sg_stream_t *legacy = sg.ctx.legacy;
    if (s == legacy) {
        for (sg_stream_t *other = sched.streams; other; other = other->next)
            if (other->blocking && other != legacy && sg_submit_wait_locked(legacy, other, other->submitted))
                sg_log(1, "out of host memory");
    } else if (s->blocking && legacy->submitted > s->legacy_seen) {
        if (sg_submit_wait_locked(s, legacy, legacy->submitted))
            sg_log(1, "out of host memory");
        s->legacy_seen = legacy->submitted;
    }
}

uint64_t sg_submit_locked(sg_stream_t *stream, sg_op_t *op)
{
    apply_legacy_rules_locked(stream);
    append_locked(stream, op);
    return stream->submitted;
}

CUresult sg_submit(CUstream handle, sg_op_t *op, bool wait)
{
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_work(op))
        sg_fault_keep_handlers();
    sg_lock();
    sg_stream_t *stream = sg_stream_resolve_locked(handle);
    if (!stream) {
        sg_unlock();
        sg_op_drop(op);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    uint64_t number = sg_submit_locked(stream, op);
    stream->refs++;
    sg_unlock();
    CUresult result = wait ? sg_wait_number(stream, number) : CUDA_SUCCESS;
    sg_lock();
    sg_stream_unref_locked(stream);
    sg_unlock();
    return result;
}

/* ---- waiting ---- */

CUresult sg_wait_number(sg_stream_t *stream, uint64_t number)
{
    uint64_t until = sg_now_ns() + SPIN_NS;
    while (atomic_load(&stream->completed) < number && sg_now_ns() < until)
        for (int i = 0; i < 32; i++)
            relax();
    if (atomic_load(&stream->completed) < number) {
        sg_lock();
        sched.waiters++;
        while (atomic_load(&stream->completed) < number)
            pthread_cond_wait(&sched.done, &sg.lock);
        sched.waiters--;
        sg_unlock();
    }
    return (CUresult)atomic_load(&sg.ctx.sticky);
}

bool sg_blocking_idle_locked(void)
{
    for (sg_stream_t *s = sched.streams; s; s = s->next)
        if (s->head && s->blocking)
            return false;
    return true;
}

/* Waits for what is queued now, stream after stream; what other threads add meanwhile is theirs. */
static CUresult wait_streams(bool blocking_only)
{
    sg_lock();
    sched.waiters++;
    for (sg_stream_t *s = sched.streams, *next; s; s = next) {
        uint64_t number = s->submitted;
        s->refs++; /* keeps it, and its place in the list */
        if (s->blocking || !blocking_only)
            while (atomic_load(&s->completed) < number)
                pthread_cond_wait(&sched.done, &sg.lock);
        next = s->next;
        sg_stream_unref_locked(s);
    }
    sched.waiters--;
    sg_unlock();
    return (CUresult)atomic_load(&sg.ctx.sticky);
}

CUresult sg_wait_all(void)
{
    return wait_streams(false);
}

CUresult sg_wait_blocking(void)
{
    return wait_streams(true);
}

/* ---- the threads ---- */

static sg_op_t *take_locked(void)
{
    for (sg_op_t *op = sched.run_head; op; op = op->next_run)
        if (atomic_load(&op->next_unit) < op->units)
            return op;
    return NULL;
}

/* Returns with the lock held when there may be work. */
static void idle_locked(void)
{
    uint64_t seen = atomic_load(&sched.listings);
    sg_unlock();
    uint64_t until = sg_now_ns() + SPIN_NS;
    do
        for (int i = 0; i < 32; i++)
            relax();
    while (atomic_load(&sched.listings) == seen && sg_now_ns() < until);
    sg_lock();
    if (take_locked())
        return;
    sched.sleeping++;
    while (!take_locked())
        pthread_cond_wait(&sched.work, &sg.lock);
    sched.sleeping--;
}

static void work_on(sg_op_t *op)
{
    uint64_t seen = atomic_load(&sched.listings);
    while (atomic_load(&sched.listings) == seen) {
        uint64_t first = atomic_fetch_add(&op->next_unit, op->group);
        if (first >= op->units)
            return;
        uint64_t count = op->units - first < op->group ? op->units - first : op->group;
        if (!sg_fault_run(op, first, count))
            atomic_store(&op->next_unit, op->units);
    }
}

static void *worker_main(void *argument)
{
    (void)argument;
    sg_rights_grant();
    sg_lock();
    for (;;) {
        sg_op_t *op = take_locked();
        if (!op) {
            idle_locked();
            continue;
        }
        op->active++;
        sg_unlock();
        work_on(op);
        sg_lock();
        op->active--;
        bool exhausted = atomic_load(&op->next_unit) >= op->units;
        if (op->listed) {
            unlist_locked(op);
            if (!exhausted)
                insert_locked(op); /* others get their turn */
        }
        if (exhausted && !op->active)
            finish_locked(op);
    }
    return NULL;
}

static void *caller_main(void *argument)
{
    (void)argument;
    on_caller = true;
    sg_lock();
    for (;;) {
        while (!sched.call_head)
            pthread_cond_wait(&sched.calls, &sg.lock);
        sg_op_t *op = sched.call_head;
        sched.call_head = op->next_run;
        sg_unlock();
        if (op->host.callback)
            op->host.callback(op->host.api_stream, (CUresult)atomic_load(&sg.ctx.sticky), op->host.data);
        else
            op->host.function(op->host.data);
        sg_lock();
        finish_locked(op);
    }
    return NULL;
}

static CUresult start_thread(void *(*body)(void *), const char *name)
{
    /* Signals are the program's; only faults must reach these threads. */
    sigset_t mine, old;
    sigfillset(&mine);
    sigdelset(&mine, SIGSEGV);
    sigdelset(&mine, SIGBUS);
    sigdelset(&mine, SIGFPE);
    sigdelset(&mine, SIGILL);
    pthread_sigmask(SIG_SETMASK, &mine, &old);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, body, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return CUDA_SUCCESS;
}

CUresult sg_sched_init(unsigned workers)
{
    if (pthread_key_create(&own_stream_key, drop_own_stream))
        return CUDA_ERROR_OPERATING_SYSTEM;
    sched.workers = workers;
    SG_TRY(start_thread(caller_main, "softgpu-calls"));
    for (unsigned i = 0; i < workers; i++) {
        char name[24];
        snprintf(name, sizeof name, "softgpu-%u", i);
        SG_TRY(start_thread(worker_main, name));
    }
    return CUDA_SUCCESS;
}
