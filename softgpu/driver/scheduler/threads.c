/* threads.c: the scheduler of real threads.
 *
 * An op whose turn has come is `listed`; workers take listed ops, claim groups of units with one atomic
 * addition each, and the last one to leave an op finishes it, which moves its stream on. A worker looks at the
 * list again whenever something was added to it, so that copies and kernels of several streams share the
 * workers.
 *
 * An idle worker spins for some microseconds (SOFTGPU_SPIN) before it sleeps: launches come in bursts, and
 * waking a thread costs more than a small kernel.
 *
 * A kernel that waits for others has a thread of its own, so that workers are there for what it waits for.
 */
#include "softgpu/driver/stream/streams.h"

#include <signal.h>
#include <stdio.h>

static struct {
    pthread_cond_t work, done, calls;
    _Atomic uint64_t listings; /* counts what was ever listed: a change means "look again" */
    unsigned workers, sleeping, waiters;
    sg_op_t *run_head, *run_tail;
    sg_op_t *call_head, *call_tail; /* host functions whose turn has come */
} sched = {
    .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .calls = PTHREAD_COND_INITIALIZER};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* ---- what the queues hand over ---- */

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
    if (!op->group) {
        op->group = op->units / (8 * sched.workers);
        if (!op->group)
            op->group = 1;
    }
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

static void *alone_main(void *argument)
{
    sg_op_t *op = argument;
    sg_rights_grant();
    sg_fault_run(op, 0, op->units);
    sg_lock();
    sg_op_finish_locked(op);
    sg_unlock();
    return NULL;
}

static void threads_ready_locked(sg_op_t *op)
{
    if (sg_op_waits(op) && !sg_start_thread(alone_main, op, "softgpu-waits"))
        return;
    if (sg_op_is_work(op)) {
        list_locked(op);
        return;
    }
    op->next_run = NULL;
    *(sched.call_head ? &sched.call_tail->next_run : &sched.call_head) = op;
    sched.call_tail = op;
    pthread_cond_signal(&sched.calls);
}

static void threads_queued_locked(const sg_op_t *op)
{
    (void)op;
}

static void threads_passed_locked(const sg_op_t *op)
{
    if (op->kind == SG_OP_RECORD && op->record.record)
        op->record.record->time_ns = sg_now_ns();
}

/* ---- waiting ---- */

static void threads_moved_locked(void)
{
    if (sched.waiters)
        pthread_cond_broadcast(&sched.done);
}

static bool threads_past_locked(const sg_stream_t *stream, uint64_t number)
{
    return atomic_load(&stream->completed) >= number;
}

static bool threads_reached_locked(sg_stream_t *stream, uint64_t number)
{
    return threads_past_locked(stream, number);
}

static void threads_wait_locked(sg_stream_t *stream, uint64_t number)
{
    sched.waiters++;
    while (!threads_past_locked(stream, number))
        pthread_cond_wait(&sched.done, &sg.lock);
    sched.waiters--;
}

static bool threads_spin(const sg_stream_t *stream, uint64_t number)
{
    uint64_t until = sg_now_ns() + sg.config.spin_ns;
    while (atomic_load(&stream->completed) < number && sg_now_ns() < until)
        for (int i = 0; i < 32; i++)
            relax();
    return atomic_load(&stream->completed) >= number;
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
    uint64_t until = sg_now_ns() + sg.config.spin_ns;
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
            sg_op_finish_locked(op);
    }
    return NULL;
}

static void *caller_main(void *argument)
{
    (void)argument;
    sg_mark_caller_thread();
    sg_lock();
    for (;;) {
        while (!sched.call_head)
            pthread_cond_wait(&sched.calls, &sg.lock);
        sg_op_t *op = sched.call_head;
        sched.call_head = op->next_run;
        sg_unlock();
        sg_run_host_function(op);
        sg_lock();
        sg_op_finish_locked(op);
    }
    return NULL;
}

CUresult sg_start_thread(void *(*body)(void *), void *argument, const char *name)
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
    int failed = pthread_create(&thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return CUDA_SUCCESS;
}

static CUresult threads_start(unsigned workers)
{
    sched.workers = workers;
    SG_TRY(sg_start_thread(caller_main, NULL, "softgpu-calls"));
    for (unsigned i = 0; i < workers; i++) {
        char name[24];
        snprintf(name, sizeof name, "softgpu-%u", i);
        SG_TRY(sg_start_thread(worker_main, NULL, name));
    }
    return CUDA_SUCCESS;
}

const sg_scheduler_t sg_threads_scheduler = {.start = threads_start,
                                             .queued_locked = threads_queued_locked,
                                             .ready_locked = threads_ready_locked,
                                             .passed_locked = threads_passed_locked,
                                             .moved_locked = threads_moved_locked,
                                             .past_locked = threads_past_locked,
                                             .reached_locked = threads_reached_locked,
                                             .wait_locked = threads_wait_locked,
                                             .spin = threads_spin};
