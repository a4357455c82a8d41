/* group.c: what lies between ncclGroupStart and ncclGroupEnd is gathered, and done at the end: communicators are made side by side, each by a
 * thread, since they wait for one another; then everything that one communicator has to do is one launch.
 */
#include "softgpu/nccl/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    ncclComm_t comm;
    CUstream stream;
    nccl_work_t work;
    bool launched;
} entry_t;

/* Of this thread. */
static _Thread_local struct {
    unsigned depth;
    entry_t *entry;
    size_t entries, room;
    nccl_init_t *init;
    size_t inits;
    ncclResult_t failed; /* the first that did */
} group;

/* ---- launches ---- */

static nccl_spill_t *find_spill(ncclComm_t comm, uint32_t count, bool captured)
{
    for (nccl_spill_t *spill = comm->spills; spill && !captured; spill = spill->next)
        if (!spill->captured && spill->room >= count && atomic_load(&spill->free))
            return spill;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    void *fresh = NULL;
    nccl_driver.cuThreadExchangeStreamCaptureMode(&mode);
    nccl_driver.cuMemHostAlloc(&fresh, sizeof(nccl_spill_t) + count * sizeof(nccl_work_t),
                               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    nccl_driver.cuThreadExchangeStreamCaptureMode(&mode);
    nccl_spill_t *spill = fresh;
    if (spill) {
        *spill = (nccl_spill_t){.next = comm->spills, .room = count, .captured = captured};
        comm->spills = spill;
    }
    return spill;
}

static CUfunction kernel_for(ncclComm_t comm, const nccl_work_t *work, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (work[i].what != work[0].what)
            return comm->kernel[NCCL_MIXED];
    return comm->kernel[work[0].what];
}

/* `stream` waits for what `on` holds. */
static ncclResult_t wait_for(ncclComm_t comm, CUstream stream, CUstream on)
{
    if (stream == on)
        return ncclSuccess;
    NCCL_DRIVER(cuEventRecord(comm->join, on));
    NCCL_DRIVER(cuStreamWaitEvent(stream, comm->join, 0));
    return ncclSuccess;
}

/* Behind the communicator's last kernel, among those of the same capture, or of none. */
static ncclResult_t wait_for_last(ncclComm_t comm, CUstream stream, bool captured, cuuint64_t capture)
{
    if (captured ? comm->in_graphs && comm->capture == capture : comm->launched && comm->last != stream)
        NCCL_DRIVER(cuStreamWaitEvent(stream, captured ? comm->captured : comm->order, 0));
    return ncclSuccess;
}

static ncclResult_t note_launch(ncclComm_t comm, CUstream stream, bool captured, cuuint64_t capture)
{
    NCCL_DRIVER(cuEventRecord(captured ? comm->captured : comm->order, stream));
    if (captured) {
        comm->in_graphs = true;
        comm->capture = capture;
    } else {
        comm->launched = true;
        comm->last = stream;
    }
    return ncclSuccess;
}

/* All of it by one kernel in `stream`. In the communicator's context. */
static ncclResult_t launch(ncclComm_t comm, const nccl_work_t *work, uint32_t count, CUstream stream)
{
    nccl_arguments_t a = {
        .comm = (nccl_device_part_t *)(uintptr_t)comm->part, .place = comm->place, .count = count};
    size_t bytes = offsetof(nccl_arguments_t, work);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t capture = 0;
    NCCL_DRIVER(cuStreamGetCaptureInfo(stream, &status, &capture, NULL, NULL, NULL, NULL));
    const bool captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (count <= NCCL_WORKS_INSIDE) {
        memcpy(a.work, work, count * sizeof *work);
        bytes += count * sizeof *work;
    } else {
        a.spill = find_spill(comm, count, captured);
        if (!a.spill)
            return nccl_fail(ncclUnhandledCudaError, "no pinned memory for %u operations", count);
        atomic_store(&a.spill->free, false);
        memcpy(a.spill->work, work, count * sizeof *work);
    }
    NCCL_TRY(wait_for_last(comm, stream, captured, capture));
    bytes = (bytes + 15) / 16 * 16; /* the rest of the argument is not passed */
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &a, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    const CUlaunchConfig config = {.gridDimX = comm->channels,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 512,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};
    const CUresult launched =
        nccl_driver.cuLaunchKernelEx(&config, kernel_for(comm, work, count), NULL, extra);
    if (launched && a.spill)
        atomic_store(&a.spill->free, true);
    return launched ? nccl_from_driver(launched, "cuLaunchKernelEx")
                    : note_launch(comm, stream, captured, capture);
}

/* What the group holds for the communicator of entry `first`: its stream is where the kernel goes, and others wait for it. */
static ncclResult_t launch_all_of(size_t first)
{
    ncclComm_t comm = group.entry[first].comm;
    CUstream stream = group.entry[first].stream;
    uint32_t count = 0;
    nccl_work_t *work = calloc(group.entries - first, sizeof *work);
    ncclResult_t result = work ? ncclSuccess : nccl_fail(ncclSystemError, "out of host memory");
    for (size_t i = first; i < group.entries && !result; i++) {
        entry_t *e = &group.entry[i];
        if (e->comm != comm)
            continue;
        work[count++] = e->work;
        e->launched = true;
        result = wait_for(comm, stream, e->stream);
    }
    if (!result)
        result = launch(comm, work, count, stream);
    for (size_t i = first; i < group.entries && !result; i++)
        if (group.entry[i].comm == comm)
            result = wait_for(comm, group.entry[i].stream, stream);
    free(work);
    return result;
}

static ncclResult_t launch_everything(void)
{
    ncclResult_t result = ncclSuccess;
    CUcontext previous;
    for (size_t i = 0; i < group.entries && !result; i++) {
        if (group.entry[i].launched)
            continue;
        nccl_driver.cuCtxPushCurrent(group.entry[i].comm->context);
        result = launch_all_of(i);
        nccl_driver.cuCtxPopCurrent(&previous);
    }
    return result;
}

/* ---- communicators ---- */

typedef struct init_thread {
    const nccl_init_t *init;
    pthread_t thread;
    ncclResult_t result; /* the thread's */
    char why[256];
    bool runs;
} init_thread_t;

static void *deliver(void *argument)
{
    init_thread_t *m = argument;
    m->result = nccl_init_now(m->init);
    snprintf(m->why, sizeof m->why, "%s", ncclGetLastError(NULL));
    return NULL;
}

static ncclResult_t init_all(void)
{
    ncclResult_t result = ncclSuccess;
    init_thread_t *m = calloc(group.inits + 1, sizeof *m);
    if (!m)
        return nccl_fail(ncclSystemError, "out of host memory");
    for (size_t i = 0; i < group.inits; i++) {
        m[i].init = &group.init[i];
        m[i].runs = !pthread_create(&m[i].thread, NULL, deliver, &m[i]);
        if (!m[i].runs)
            m[i].result = nccl_fail(ncclSystemError, "no thread");
    }
    for (size_t i = 0; i < group.inits; i++) {
        if (m[i].runs)
            pthread_join(m[i].thread, NULL);
        if (!result && m[i].result)
            result = nccl_fail(m[i].result, "%s", m[i].why);
    }
    free(m);
    return result;
}

/* ---- the interface ---- */

static ncclResult_t note(ncclResult_t result)
{
    if (result && !group.failed)
        group.failed = result;
    return result;
}

ncclResult_t nccl_init_comm(const nccl_init_t *init)
{
    if (!group.depth)
        return nccl_init_now(init);
    nccl_init_t *more = realloc(group.init, (group.inits + 1) * sizeof *more);
    if (!more)
        return note(nccl_fail(ncclSystemError, "out of host memory"));
    group.init = more;
    more[group.inits++] = *init;
    return ncclSuccess;
}

ncclResult_t nccl_enqueue(ncclComm_t comm, const nccl_work_t *work, CUstream stream)
{
    if (group.entries == group.room) {
        const size_t room = group.room ? 2 * group.room : 16;
        entry_t *more = realloc(group.entry, room * sizeof *more);
        if (!more)
            return note(nccl_fail(ncclSystemError, "out of host memory"));
        group.entry = more;
        group.room = room;
    }
    group.entry[group.entries++] = (entry_t){.comm = comm, .stream = stream, .work = *work};
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

static ncclResult_t end_group(bool launches)
{
    ncclResult_t result = group.failed;
    if (!result && launches)
        result = init_all();
    if (!result && launches)
        result = launch_everything();
    free(group.entry);
    free(group.init);
    memset(&group, 0, sizeof group);
    return result;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!group.depth)
        return nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return --group.depth ? ncclSuccess : end_group(true);
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (!group.depth || !info || info->magic != 0x74685283)
        return nccl_fail(ncclInvalidUsage, "no group, or a structure that is not initialised");
    info->estimatedTime = 0;
    return --group.depth ? ncclSuccess : end_group(false);
}

ncclResult_t nccl_reject(ncclResult_t why)
{
    return group.depth ? note(why) : why;
}
