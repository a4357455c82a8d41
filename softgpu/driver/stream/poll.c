/* poll.c: waits for values in memory. Whatever moves a stream looks at them again (queue.c); a thread of their own looks
 * now and then while there are any, since host code, a running kernel and other processes may write too. */
#include "softgpu/driver/scheduler/scheduler.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <unistd.h>

enum { PERIOD_US = 50 };

static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned waiting; /* ops in streams that wait for a value */

/* Reads device memory on whatever thread: with the rights for it, for that moment. The word as a whole, and nothing that is read
 * later before it; whatever writes it does so at the same time, a copy or the host itself, which ThreadSanitizer would call a race. */
__attribute__((no_sanitize("thread"))) static uint64_t peek(const sg_poll_t *p)
{
    bool had = sg_rights_held();
    sg_rights_grant();
    const void *word = sg_host(p->address);
    uint64_t value = p->bytes == 8 ? __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE)
                                   : __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
    if (!had)
        sg_rights_revoke();
    return value;
}

bool sg_poll_over_locked(const sg_poll_t *p, CUcontext ctx)
{
    sg_extent_t extent;
    if (atomic_load(&ctx->sticky))
        return true; /* nothing that comes after it will run */
    if (sg_window_contains(p->address) && !sg_extent_find_locked(p->address, &extent)) {
        sg_set_sticky_in(ctx, CUDA_ERROR_ILLEGAL_ADDRESS,
                         "a stream waits for a value at 0x%llx, which was freed", p->address);
        return true;
    }
    uint64_t now = peek(p), mask = p->bytes == 8 ? UINT64_MAX : UINT32_MAX;
    switch (p->condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (p->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return now & p->value & mask;
    case CU_STREAM_WAIT_VALUE_NOR:
        return ~(now | p->value) & mask;
    default: /* cyclic */
        return p->bytes == 8 ? (int64_t)(now - p->value) >= 0 : (int32_t)(uint32_t)(now - p->value) >= 0;
    }
}

void sg_poll_count_locked(int change)
{
    waiting += (unsigned)change;
    if (change > 0)
        pthread_cond_signal(&wanted);
}

unsigned sg_poll_waiting(void)
{
    return waiting;
}

static void *poll_main(void *argument)
{
    (void)argument;
    sg_rights_grant();
    sg_lock();
    for (;;) {
        while (!waiting)
            pthread_cond_wait(&wanted, &sg.lock);
        sg_settle_locked();
        sg_executors_wake_locked(); /* for a host that waits under the deterministic scheduler */
        sg_unlock();
        usleep(PERIOD_US);
        sg_lock();
    }
    return NULL;
}

void sg_poll_start(void)
{
    static bool started;
    sg_lock();
    if (!started)
        started = sg_start_thread(poll_main, NULL, "softgpu-polls") == CUDA_SUCCESS;
    sg_unlock();
}
