/* plan_job.c: the thread that plans, and its jobs. */
#include "ckpt/run/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/base/clock.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/base/thread.h"
#include "ckpt/planner/planner.h"
#include "ckpt/run/run.h"

struct ebb_plan_jobs {
    ebb_thread_t thread;
    ebb_mutex_t mutex;                  /* guards what follows, and of each job `ended` and `next` */
    ebb_plan_job_t *oldest, *under_way; /* not begun; the thread's */
    bool closing;
};
const size_t ebb_part_plan_jobs = sizeof(struct ebb_plan_jobs);

static void delete (ebb_plan_job_t *job)
{
    ebb_plan_delete(ebb_job_first(job));
    ebb_plan_delete(job->plan);
    ebb_trace_delete(job->trace);
    ebb_boundary_delete(job->boundary);
    sem_destroy(&job->end);
    free(job);
}

/* ---- without ebb_lock() ---- */

static void found(void *finder, ebb_plan_t *plan)
{
    ebb_plan_job_t *job = finder;
    char why[256];
    plan = ebb_planning_check(job->trace, &job->request, plan, why, sizeof why);
    job->first_ns = ebb_now_ns() - job->begun_ns;
    atomic_store_explicit(&job->first, plan, memory_order_release);
}

static void work_on(ebb_plan_job_t *job)
{
    job->begun_ns = ebb_now_ns();
    if (job->floor)
        job->floor_bytes = ebb_plan_floor(job->trace, &job->request);
    else
        job->plan = ebb_planning(job->trace, &job->request, job->why, sizeof job->why);
    job->gap = job->plan && ebb_options.log_level >= EBB_INFO
                   ? ebb_plan_gap(job->plan, job->trace, &job->request)
                   : -1;
    job->took_ns = ebb_now_ns() - job->begun_ns;
}

/* NULL: there is none. */
static ebb_plan_job_t *begin_oldest(struct ebb_plan_jobs *jobs)
{
    ebb_mutex_lock(&jobs->mutex);
    ebb_plan_job_t *job = jobs->closing ? NULL : jobs->oldest;
    jobs->under_way = job;
    if (job)
        jobs->oldest = job->next;
    ebb_mutex_unlock(&jobs->mutex);
    return job;
}

/* The semaphore is posted under the lock: then it is not deleted meanwhile. */
static void end_under_way(struct ebb_plan_jobs *jobs)
{
    ebb_mutex_lock(&jobs->mutex);
    ebb_plan_job_t *job = jobs->under_way;
    const bool ended = job->ended;
    jobs->under_way = NULL;
    atomic_store_explicit(&job->done, true, memory_order_release);
    sem_post(&job->end);
    ebb_mutex_unlock(&jobs->mutex);
    if (ended)
        delete (job);
}

static void work(void *argument)
{
    struct ebb_plan_jobs *jobs = argument;
    for (ebb_plan_job_t *job; (job = begin_oldest(jobs));) {
        work_on(job);
        end_under_way(jobs);
    }
}

void ebb_run_stop(ebb_t *ebb)
{
    struct ebb_plan_jobs *jobs = ebb->run_shared ? ebb->run_shared->plan_jobs : NULL;
    if (!jobs || !jobs->thread.running)
        return;
    ebb_mutex_lock(&jobs->mutex);
    jobs->closing = true;
    if (jobs->under_way)
        atomic_store_explicit(&jobs->under_way->given_up, true, memory_order_relaxed);
    ebb_mutex_unlock(&jobs->mutex);
    ebb_thread_stop(&jobs->thread);
}

/* ---- under ebb_lock() ---- */

static void append(struct ebb_plan_jobs *jobs, ebb_plan_job_t *job)
{
    ebb_mutex_lock(&jobs->mutex);
    ebb_plan_job_t **last = &jobs->oldest;
    while (*last)
        last = &(*last)->next;
    *last = job;
    ebb_mutex_unlock(&jobs->mutex);
}

/* False: it has been begun. */
static bool take_back(struct ebb_plan_jobs *jobs, ebb_plan_job_t *job)
{
    ebb_plan_job_t **at = &jobs->oldest;
    while (*at && *at != job)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = job->next;
    return true;
}

/* EBB_PLAN_WAIT at most. Whether it is done. */
static bool wait_a_little(ebb_plan_job_t *job)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ebb_options.plan_wait / 1000);
    until.tv_nsec += (long)(ebb_options.plan_wait % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&job->end, &until))
        if (errno != EINTR)
            return false;
    return true;
}

static ebb_plan_job_t *new_job(bool floor, const ebb_trace_t *trace, const ebb_plan_request_t *request,
                               ebb_boundary_t *boundary)
{
    ebb_plan_job_t *job = calloc(1, sizeof *job);
    ebb_trace_t *copy = job ? ebb_trace_copy(trace) : NULL;
    if (!copy) {
        ebb_boundary_delete(boundary);
        free(job);
        return NULL;
    }
    job->floor = floor;
    job->trace = copy;
    job->boundary = boundary;
    job->request = *request;
    job->request.boundary = boundary;
    job->request.given_up = &job->given_up;
    job->request.found = floor ? NULL : found;
    job->request.finder = job;
    sem_init(&job->end, 0, 0);
    return job;
}

ebb_plan_job_t *ebb_job_ask(ebb_t *ebb, bool floor, const ebb_trace_t *trace,
                            const ebb_plan_request_t *request, ebb_boundary_t *boundary)
{
    struct ebb_plan_jobs *jobs = ebb->run_shared->plan_jobs;
    ebb_plan_job_t *job = new_job(floor, trace, request, boundary);
    if (!job)
        return NULL;
    if (!jobs->thread.work) {
        jobs->mutex = (ebb_mutex_t)EBB_MUTEX(EBB_RANK_POOL);
        jobs->thread = (ebb_thread_t){.name = "ebb-plans", .work = work, .argument = jobs};
    }
    append(jobs, job);
    ebb_thread_wake(&jobs->thread);
    const ebb_away_t away = ebb_lock_leave();
    job->waited = !jobs->thread.running || wait_a_little(job);
    ebb_lock_return(away);
    if (!jobs->thread.running)
        work(jobs); /* nothing else is asked then */
    return job;
}

void ebb_job_end(ebb_t *ebb, ebb_plan_job_t *job)
{
    struct ebb_plan_jobs *jobs = ebb->run_shared->plan_jobs;
    if (!job)
        return;
    ebb_mutex_lock(&jobs->mutex);
    const bool mine = ebb_job_is_done(job) || take_back(jobs, job);
    job->ended = true;
    if (!mine)
        atomic_store_explicit(&job->given_up, true, memory_order_relaxed);
    ebb_mutex_unlock(&jobs->mutex);
    if (mine)
        delete (job);
}
