/* ipc_event.c: events that several processes share: two counters in a page of shared memory. Recording counts up `recorded`
 * and puts a copy of that number to `reached` into the stream; waiting means waiting for `reached` (poll.c). */
#include "softgpu/driver/stream/streams.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct sg_shared_event {
    _Atomic uint64_t recorded, reached; /* the program sees neither */
};

typedef struct event_data {
    char magic[8];
    int32_t pid, fd;
} event_data_t;
_Static_assert(sizeof(event_data_t) <= sizeof(CUipcEventHandle), "the data fit");

static const char magic[8] = "sgpuevt";

static sg_shared_event_t *map(int fd)
{
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

sg_shared_event_t *sg_shared_event_new(int *fd)
{
    *fd = memfd_create("softgpu-event", MFD_CLOEXEC);
    sg_shared_event_t *e = *fd >= 0 && !ftruncate(*fd, 4096) ? map(*fd) : NULL;
    if (!e && *fd >= 0)
        close(*fd);
    return e;
}

/* The page stays: work that has been queued may still write to it. It is small. */
void sg_shared_event_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

CUresult sg_shared_event_record_locked(sg_shared_event_t *e, sg_stream_t *s)
{
    sg_op_t *op = sg_op_new(SG_OP_COPY, sizeof(uint64_t));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t number = atomic_fetch_add(&e->recorded, 1) + 1;
    op->copy.dst = (char *)&e->reached;
    op->copy.src = memcpy(sg_op_payload(op), &number, sizeof number);
    op->copy.bytes = sizeof number;
    sg_copy_split(op);
    sg_submit_locked(s, op);
    return CUDA_SUCCESS;
}

CUresult sg_shared_event_wait_locked(sg_shared_event_t *e, sg_stream_t *s)
{
    sg_op_t *op = sg_op_new(SG_OP_WAIT, 0);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->wait.poll = (sg_poll_t){.address = (CUdeviceptr)(uintptr_t)&e->reached,
                                .value = atomic_load(&e->recorded),
                                .bytes = sizeof(uint64_t)};
    sg_submit_locked(s, op);
    return CUDA_SUCCESS;
}

bool sg_shared_event_over(const sg_shared_event_t *e)
{
    return atomic_load(&e->reached) >= atomic_load(&e->recorded);
}

/* What is recorded when the call begins. */
void sg_shared_event_synchronize(const sg_shared_event_t *e)
{
    uint64_t number = atomic_load(&e->recorded);
    while (atomic_load(&e->reached) < number && !atomic_load(&sg_current_context()->sticky))
        usleep(50);
}

SG_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    int fd = sg_event_shared_fd_locked(event);
    sg_unlock();
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    event_data_t data = {.pid = getpid(), .fd = fd};
    memcpy(data.magic, magic, sizeof magic);
    memset(out, 0, sizeof *out);
    memcpy(out, &data, sizeof data);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    SG_TRY(sg_enter_context());
    event_data_t data;
    memcpy(&data, &handle, sizeof data);
    if (!out || memcmp(data.magic, magic, sizeof magic))
        return CUDA_ERROR_INVALID_VALUE;
    if (data.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", data.pid, data.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    sg_shared_event_t *shared = map(fd);
    if (!shared && fd >= 0)
        close(fd);
    return shared ? sg_event_open_shared(out, shared, fd) : CUDA_ERROR_MAP_FAILED;
}
