#include "run_stand_in.h"

#include "ckpt/run/residence/residence.h"
#include "ckpt/run/stats/stats.h"
#include "offload/ebb_offload.h"

struct run_stand_in run_stand_in;

ebb_status_t ebb_run_before(ebb_device_t *dev, ebb_operation_t *operation)
{
    (void)dev;
    return run_stand_in.before ? run_stand_in.before(operation) : 0;
}

void ebb_run_after(ebb_device_t *dev, const ebb_operation_t *operation, CUresult result)
{
    (void)dev;
    if (run_stand_in.after)
        run_stand_in.after(operation, result);
}

ebb_buffer_t *ebb_run_serve(ebb_device_t *dev, const ebb_request_t *request)
{
    (void)dev;
    (void)request;
    return NULL;
}

bool ebb_run_drives(ebb_device_t *dev)
{
    (void)dev;
    return false;
}

void ebb_run_allocated(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    (void)buffer, (void)stream;
}

void ebb_run_out_of_memory(ebb_device_t *dev, const ebb_request_t *request)
{
    (void)dev;
    (void)request;
}

void ebb_run_unbacked(ebb_buffer_t *buffer)
{
    (void)buffer;
}

bool ebb_run_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    return run_stand_in.freeing && run_stand_in.freeing(buffer, stream);
}

bool ebb_run_make_room(ebb_device_t *dev, size_t chunks)
{
    return run_stand_in.make_room && run_stand_in.make_room(dev, chunks);
}

void ebb_run_ordered(ebb_device_t *dev, const ebb_order_t *order)
{
    (void)dev;
    (void)order;
}

bool ebb_run_wants_order(ebb_t *ebb)
{
    (void)ebb;
    return false;
}

void ebb_run_stop(ebb_t *ebb)
{
    (void)ebb;
}

/* No step is known. */
size_t ebb_run_wanted_budget(ebb_device_t *dev, unsigned times)
{
    (void)dev;
    (void)times;
    return 0;
}

void ebb_run_failed(ebb_device_t *dev, CUresult result)
{
    (void)dev, (void)result;
}

void ebb_run_waited(ebb_device_t *dev)
{
    if (run_stand_in.waited)
        run_stand_in.waited(dev);
}

bool ebb_run_wants_operations(ebb_device_t *dev)
{
    (void)dev;
    return false;
}

void ebb_run_interrupted(ebb_device_t *dev, const char *why)
{
    (void)dev;
    if (run_stand_in.interrupted)
        run_stand_in.interrupted(why);
}

void ebb_run_unloading(ebb_device_t *dev, const void *handle)
{
    (void)dev;
    (void)handle;
}

void ebb_run_ended(ebb_device_t *dev)
{
    (void)dev;
}

void ebb_stats_finish(ebb_t *ebb)
{
    (void)ebb;
}

/* ---- of offload, where that is not linked ---- */

__attribute__((weak)) bool ebb_offload_open(ebb_t *ebb)
{
    (void)ebb;
    return true;
}

__attribute__((weak)) void ebb_offload_stop(ebb_t *ebb)
{
    (void)ebb;
}

__attribute__((weak)) _Thread_local ebb_pinned_call_t ebb_pinned_call;

__attribute__((weak)) void ebb_pinned_call_is_final(void)
{
}

__attribute__((weak)) bool ebb_pinned_call_again(bool failed)
{
    (void)failed;
    return false;
}

__attribute__((weak)) bool ebb_pinned_defer(bool defer)
{
    (void)defer;
    return false;
}

__attribute__((weak)) bool ebb_pinned_is_wanted(void)
{
    return false;
}

/* Some of these tests have all of offload/, others none of it. */
__attribute__((weak)) void ebb_pinned_expect_nothing(ebb_device_t *dev)
{
    (void)dev;
}

__attribute__((weak)) ebb_status_t ebb_residence_acquire(ebb_device_t *dev, ebb_operation_t *operation)
{
    return ebb_run_before(dev, operation);
}

__attribute__((weak)) void ebb_residence_release(const ebb_operation_t *operation)
{
    ebb_run_after(NULL, operation, CUDA_ERROR_NOT_READY);
}
