/* behaviour: while a host function waits, its stream waits, and other streams go on.
 * rules: none
 * source: CUDA driver API, cuLaunchHostFunc
 */
#include "conformance.h"
#include <stdatomic.h>
#include <unistd.h>

static atomic_int gate;

static void wait_for_gate(void *data)
{
    (void)data;
    while (!atomic_load(&gate))
        usleep(100);
}

CONFORMANCE
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(sizeof(int));
    OK(cuLaunchHostFunc(held, wait_for_gate, NULL));
    fill(other, p, 4, 1);
    OK(cuStreamSynchronize(other));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    atomic_store(&gate, 1);
    OK(cuStreamSynchronize(held));
    CHECK(read_int(p) == 4);
}
