/* behaviour: an event that was made for it orders work of two processes.
 * rules: none
 * source: CUDA driver API, cuIpcGetEventHandle and cuIpcOpenEventHandle
 */
#include "conformance.h"

#include <sys/wait.h>
#include <unistd.h>

static int child(int from, int to)
{
    struct {
        CUipcEventHandle event;
        CUipcMemHandle memory;
    } handles;
    CUdeviceptr p;
    CUevent e;
    int answer = 1;
    if (read(from, &handles, sizeof handles) != (ssize_t)sizeof handles || cuInit(0) ||
        cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 2;
    if (cuIpcOpenEventHandle(&e, handles.event) == CUDA_SUCCESS &&
        cuIpcOpenMemHandle(&p, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS) {
        CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr mine = device_alloc(4);
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
        OK(cuStreamWaitEvent(s, e, 0));
        OK(cuMemcpyDtoDAsync(mine, p, 4, s));
        answer = 7; /* the wait is in place */
        if (write(to, &answer, sizeof answer) != (ssize_t)sizeof answer)
            return 4;
        OK(cuStreamSynchronize(s));
        answer = read_int(mine) == 9 && !conformance_failures ? 0 : 3;
        OK(cuEventDestroy(e));
    }
    return write(to, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 4;
}

static int to_child[2], to_parent[2];
static pid_t pid;
static void start(void)
{
    if (pipe(to_child) || pipe(to_parent))
        exit(1);
    pid = fork();
    if (!pid)
        _exit(child(to_child[0], to_parent[1]));
}

CONFORMANCE_AFTER(start)
{
    struct {
        CUipcEventHandle event;
        CUipcMemHandle memory;
    } handles;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e, timed;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&timed, CU_EVENT_INTERPROCESS));
    CUresult made = cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (made == CUDA_ERROR_NOT_SUPPORTED)
        SKIP("no events between processes");
    OK(made);
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemsetD32(p, 1, 1));
    OK(cuCtxSynchronize());
    hold_t h = hold(s);
    fill(s, p, 9, 1);
    OK(cuEventRecord(e, s));
    OK(cuIpcGetEventHandle(&handles.event, e));
    OK(cuIpcGetMemHandle(&handles.memory, p));
    CHECK(write(to_child[1], &handles, sizeof handles) == (ssize_t)sizeof handles);
    int answer = -1, status;
    CHECK(read(to_parent[0], &answer, sizeof answer) == (ssize_t)sizeof answer);
    let_go(h);
    OK(cuStreamSynchronize(s));
    EXPECT(CUDA_SUCCESS, cuEventQuery(e));
    if (answer == 7)
        CHECK(read(to_parent[0], &answer, sizeof answer) == (ssize_t)sizeof answer);
    waitpid(pid, &status, 0);
    if (answer == 1)
        SKIP("another process cannot open the event here");
    CHECK(answer == 0);
}
