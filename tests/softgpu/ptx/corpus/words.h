/* words.h: CUDA's words for Clang without CUDA's headers (-nocudainc). */
#ifndef CORPUS_WORDS_H
#define CORPUS_WORDS_H

#define __global__             __attribute__((global))
#define __device__             __attribute__((device))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __noinline__           __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define THREAD (int)__nvvm_read_ptx_sreg_tid_x()
#define INDEX                                                                                                \
    (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x())

typedef unsigned long size_t;

#endif
