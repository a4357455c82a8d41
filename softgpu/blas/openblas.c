/* openblas.c: OpenBLAS as this library needs it: single-threaded calls, from several threads at once.
 *
 * SOFTGPU_OPENBLAS_STATIC: a serial build, linked in statically. Such a build (Debian's libopenblas-serial,
 * for one) takes its work buffers from a table without any lock, unless it was made with USE_LOCKING: two
 * concurrent calls may get the same buffer and return wrong numbers (seen in up to 18% of calls with two
 * threads and 104 x 104 matrices). The two functions that touch the table are linked with --wrap and get a
 * lock here, which a call takes twice, for some tens of nanoseconds.
 * It also chooses its routines by the CPU's model number, and for a model newer than itself takes SSE3's
 * (0.3.21 on an Emerald Rapids: a trainer's step took three times as long). What the CPU can do says more
 * than its number: its question for OPENBLAS_CORETYPE is answered by that, for any model, where the user hasn't.
 *
 * Otherwise a threaded build is linked dynamically. It is safe as it is, but must not use threads of its own:
 * they would fight with the workers for the CPUs, and have no rights to device memory. With OpenMP that is a
 * setting of each thread.
 */
#include "softgpu/blas/gemm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef SOFTGPU_OPENBLAS_STATIC

void *__real_blas_memory_alloc(int kind);
void __real_blas_memory_free(void *buffer);
void *__wrap_blas_memory_alloc(int kind);
void __wrap_blas_memory_free(void *buffer);

static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;

void *__wrap_blas_memory_alloc(int kind)
{
    pthread_mutex_lock(&buffer_lock);
    void *buffer = __real_blas_memory_alloc(kind);
    pthread_mutex_unlock(&buffer_lock);
    return buffer;
}

void __wrap_blas_memory_free(void *buffer)
{
    pthread_mutex_lock(&buffer_lock);
    __real_blas_memory_free(buffer);
    pthread_mutex_unlock(&buffer_lock);
}

char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);

/* By --wrap, for all calls within the library. */
char *__wrap_getenv(const char *name)
{
    char *value = __real_getenv(name);
#ifdef __x86_64__
    if (!value && strcmp(name, "OPENBLAS_CORETYPE") == 0) {
        __builtin_cpu_init(); /* OpenBLAS asks from a constructor */
        if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq"))
            return (char *)"SkylakeX";
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return (char *)"Haswell";
    }
#endif
    return value;
}

void blas_prepare_thread(void)
{
}

#else

void openblas_set_num_threads(int count);

void blas_prepare_thread(void)
{
    static _Thread_local int prepared;
    if (!prepared)
        openblas_set_num_threads(1);
    prepared = 1;
}

#endif
