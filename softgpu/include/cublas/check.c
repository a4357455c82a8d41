/* check.c: compiled, never linked, where the toolkit has cuBLAS: NVIDIA's headers first, then every number of
 * ours as an assertion and every function of ours as a second declaration, which must be compatible with the
 * first. */
#include <cublasLt.h>
#include <cublas_v2.h>

#define SOFTGPU_CUBLAS_CHECK
#include "cublasLt.h"
