/* behaviour: cuMemAlloc's memory opens in another process, which sees the bytes and whose writes are seen; the process that
 * exported it does not open it.
 * rules: none
 * source: CUDA driver API, cuIpcGetMemHandle and cuIpcOpenMemHandle
 */
#include "conformance.h"

#include <sys/wait.h>
#include <unistd.h>

static int child(int from, int to)
{
    CUipcMemHandle handle;
    CUdeviceptr p, again;
    if (read(from, &handle, sizeof handle) != (ssize_t)sizeof handle || cuInit(0) ||
        cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 2;
    CUresult opened = cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    int seen = 0, answer = 1;
    if (opened == CUDA_SUCCESS) {
        OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        CHECK(again == p);
        OK(cuMemcpyDtoH(&seen, p, 4));
        OK(cuMemsetD32(p + 4, 56, 1));
        OK(cuCtxSynchronize());
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        OK(cuIpcCloseMemHandle(p));
        OK(cuIpcCloseMemHandle(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(p));
        answer = seen == 55 && !conformance_failures ? 0 : 3;
    }
    if (write(to, &answer, sizeof answer) != (ssize_t)sizeof answer)
        return 4;
    return answer;
}

/* Before CUDA is initialised: a child of a process that uses it has no device. */
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
    CUdeviceptr p = device_alloc(1 << 20), unwanted;
    OK(cuMemsetD32(p, 55, 2));
    OK(cuCtxSynchronize());
    CUipcMemHandle handle;
    OK(cuIpcGetMemHandle(&handle, p));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT,
           cuIpcOpenMemHandle(&unwanted, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(write(to_child[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
    int answer = -1, status;
    CHECK(read(to_parent[0], &answer, sizeof answer) == (ssize_t)sizeof answer);
    waitpid(pid, &status, 0);
    if (answer == 1)
        SKIP("another process cannot open the memory here");
    CHECK(answer == 0);
    CHECK(read_int(p + 4) == 56);
}
