/* behaviour: with host pointer mode a routine that returns a number blocks until the work before it in its stream is done.
 * rules: none
 * source: cuBLAS documentation, Scalar Parameters
 * uses: cublas
 */
#include "blas.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_int released;
static hold_t held;

static void *release(void *unused)
{
    (void)unused;
    usleep(50000); /* only so that a call which does not wait is caught: nothing else depends on it */
    atomic_store(&released, 1);
    let_go(held);
    return NULL;
}

CONFORMANCE
{
    enum { N = 100 };
    float *x = integers(N, 1), *d = to_device(x, N * sizeof *x), first = 0, second = 0;
    pthread_t thread;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    BLAS(cublasSnrm2(handle, N, d, 1, &first)); /* what is loaded at first use is loaded */
    held = hold(stream);
    pthread_create(&thread, NULL, release, NULL);
    BLAS(cublasSnrm2(handle, N, d, 1, &second));
    CHECK(atomic_load(&released));
    CHECK(first == second);
    pthread_join(thread, NULL);
    BLAS(cublasDestroy(handle));
}
