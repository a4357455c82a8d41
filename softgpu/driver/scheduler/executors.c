/* executors.c: the deterministic scheduler's threads, see scheduler.h. */
#include "softgpu/driver/scheduler/scheduler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SLICE_NS = 5000000,
    /* What runs longer than this is let loose: time of the processor for work (how loaded the machine is must not
     * matter), time of the clock for host functions, which may sleep, and for work that does. A kernel that waits for others is let
     * loose after a slice. */
    PATIENCE_NS = 100000000,
    SLEEPING_PATIENCE_NS = 2000000000
};

typedef struct executor {
    pthread_cond_t wake;
    _Atomic(sg_op_t *) op; /* what it is at; written under sg.lock. NULL: nothing */
    uint64_t limit;
    bool loose, is_caller, started;
    clockid_t processor_time; /* of its thread */
    struct executor *next;
} executor_t;

static struct {
    executor_t *all;
    unsigned count;
    pthread_cond_t changed; /* on the monotonic clock */
} pool;

static inline void relax(void)
{
#if defined(__x86_64__)
    for (int i = 0; i < 32; i++)
        __builtin_ia32_pause();
#endif
}

/* ---- the executors themselves ---- */

/* Returns with the lock held when the executor has been handed something. */
static void idle_locked(executor_t *e)
{
    sg_unlock();
    uint64_t until = sg_now_ns() + sg.config.spin_ns;
    while (!atomic_load(&e->op) && sg_now_ns() < until)
        relax();
    sg_lock();
    while (!atomic_load(&e->op))
        pthread_cond_wait(&e->wake, &sg.lock);
}

/* A group at a time, so that once this is let loose, others can take what it has not begun. */
static bool run_units(sg_op_t *op, uint64_t limit)
{
    uint64_t first = atomic_load(&op->next_unit);
    while (first < limit) {
        uint64_t count = op->group < limit - first ? op->group : limit - first;
        if (!atomic_compare_exchange_weak(&op->next_unit, &first, first + count))
            continue;
        if (!sg_fault_run(op, first, count))
            return false;
        first = atomic_load(&op->next_unit);
    }
    return true;
}

static void *executor_main(void *argument)
{
    executor_t *e = argument;
    if (e->is_caller)
        sg_mark_caller_thread();
    else
        sg_rights_grant();
    sg_lock();
    if (pthread_getcpuclockid(pthread_self(), &e->processor_time))
        e->processor_time = CLOCK_MONOTONIC;
    e->started = true;
    for (;;) {
        if (!atomic_load(&e->op))
            idle_locked(e);
        sg_op_t *op = atomic_load(&e->op);
        sg_unlock();
        bool ok = true;
        if (e->is_caller)
            sg_run_host_function(op);
        else
            ok = run_units(op, e->limit);
        sg_lock();
        bool loose = e->loose;
        e->loose = false;
        sg_executed_locked(op, ok, loose);
        atomic_store(&e->op, NULL);
        sg_executors_wake_locked();
    }
    return NULL;
}

static executor_t *new_executor_locked(bool is_caller)
{
    executor_t *e = calloc(1, sizeof *e);
    char name[24];
    snprintf(name, sizeof name, is_caller ? "softgpu-calls" : "softgpu-%u", pool.count);
    if (!e)
        return NULL;
    pthread_cond_init(&e->wake, NULL);
    e->is_caller = is_caller;
    if (sg_start_thread(executor_main, e, name)) {
        free(e);
        return NULL;
    }
    e->next = pool.all;
    pool.all = e;
    pool.count++;
    return e;
}

CUresult sg_executors_start(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return new_executor_locked(true) && new_executor_locked(false) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_OPERATING_SYSTEM;
}

/* ---- handing over ---- */

static executor_t *find_idle_locked(bool is_caller)
{
    for (executor_t *e = pool.all; e; e = e->next)
        if (e->is_caller == is_caller && !atomic_load(&e->op))
            return e;
    return NULL;
}

bool sg_executor_free_locked(const sg_op_t *op)
{
    if (find_idle_locked(op->kind == SG_OP_HOST))
        return true;
    return op->kind != SG_OP_HOST && pool.count < SG_MAX_WORKERS && new_executor_locked(false);
}

void sg_executors_wake_locked(void)
{
    pthread_cond_broadcast(&pool.changed);
}

void sg_executors_wait_locked(void)
{
    pthread_cond_wait(&pool.changed, &sg.lock);
}

static uint64_t read_clock(clockid_t which)
{
    struct timespec t;
    if (clock_gettime(which, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_slice_locked(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLICE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&pool.changed, &sg.lock, &until);
}

bool sg_executor_run_locked(sg_op_t *op, uint64_t limit)
{
    executor_t *e = find_idle_locked(op->kind == SG_OP_HOST);
    e->limit = limit;
    uint64_t since = sg_now_ns();
    uint64_t spent = e->started ? read_clock(e->processor_time) : 0;
    atomic_store(&e->op, op);
    pthread_cond_signal(&e->wake);
    sg_unlock();
    while (atomic_load(&e->op) == op && sg_now_ns() < since + sg.config.spin_ns)
        relax();
    sg_lock();
    while (atomic_load(&e->op) == op) {
        wait_slice_locked();
        uint64_t waited = sg_now_ns() - since;
        uint64_t worked = e->started ? read_clock(e->processor_time) - spent : 0;
        if (atomic_load(&e->op) == op && (sg_op_waits(op) || waited > SLEEPING_PATIENCE_NS ||
                                          (e->is_caller ? waited : worked) > PATIENCE_NS)) {
            e->loose = true;
            return false;
        }
    }
    return true;
}
