/* intercept.h: how the intercepted entry points are written. For this folder.
 *
 * Every function in this folder has the name of a driver's symbol and is exported under it. SYNC_CALL and
 * ASYNC_CALL define also the form for the per-thread default stream; in both, `stream` is a handle that says
 * which default stream is meant.
 */
#ifndef EBB_INTERCEPT_H
#define EBB_INTERCEPT_H

#include "alloc/base/driver.h"
#include "hook/enter.h"

#define EBB_EXPORT __attribute__((visibility("default")))

/* Straight to the driver. */
#define EBB_PASS(function, arguments)                                                                        \
    (!ebb_have_driver()    ? CUDA_ERROR_NOT_INITIALIZED                                                      \
     : ebb_driver.function ? ebb_driver.function arguments                                                   \
                           : CUDA_ERROR_NOT_SUPPORTED)

/* Once more, if what it lacked was host memory that had to be pinned without the lock: then the driver has not been called for it. */
#define EBB_MAKE(call)                                                                                       \
    CUresult result_of_call;                                                                                 \
    ebb_call_begins();                                                                                       \
    do                                                                                                       \
        result_of_call = call;                                                                               \
    while (ebb_call_again(result_of_call));                                                                  \
    return result_of_call

#define PLAIN_CALL(name, parameters, call)                                                                   \
    EBB_EXPORT CUresult name parameters;                                                                     \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        EBB_MAKE(call);                                                                                      \
    }
#define SYNC_CALL(name, parameters, call)                                                                    \
    EBB_EXPORT CUresult name parameters;                                                                     \
    EBB_EXPORT CUresult name##_ptds parameters;                                                              \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_LEGACY;                                                            \
        EBB_MAKE(call);                                                                                      \
    }                                                                                                        \
    CUresult name##_ptds parameters                                                                          \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_PER_THREAD;                                                        \
        EBB_MAKE(call);                                                                                      \
    }
#define ASYNC_CALL(name, parameters, call)                                                                   \
    EBB_EXPORT CUresult name parameters;                                                                     \
    EBB_EXPORT CUresult name##_ptsz parameters;                                                              \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        EBB_MAKE(call);                                                                                      \
    }                                                                                                        \
    CUresult name##_ptsz parameters                                                                          \
    {                                                                                                        \
        if (!stream)                                                                                         \
            stream = CU_STREAM_PER_THREAD;                                                                   \
        EBB_MAKE(call);                                                                                      \
    }

/* share.c: the program has asked that synchronous operations on some memory always wait (SYNC_MEMOPS). Any thread. */
bool ebb_sync_memops(void);

#endif
