/* empty.h: what bench_softgpu_launch needs of empty.cu. */
#ifndef EBB_BENCH_EMPTY_H
#define EBB_BENCH_EMPTY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

void empty_launch(cudaStream_t stream); /* empty<<<1, 32, 0, stream>>>(NULL, 1) */
const void *empty_symbol(void);

#ifdef __cplusplus
}
#endif
#endif
