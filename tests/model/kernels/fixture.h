/* fixture.h: device tensors for tests of kernels.
 *
 * fixture_run() calls a test's body twice, with the same random numbers but tensors at other addresses (in
 * another order of 64-byte offsets, all aligned to 16 bytes as kernels.h asks). Whatever the body compares by
 * fixture_match() must be the same in bits both times. Tensors are surrounded by guard words, which nobody
 * may overwrite; outputs are NaN until written. Everything a body gets lives until its end.
 */
#ifndef EBB_TESTS_FIXTURE_H
#define EBB_TESTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#include "model/kernels/dtype.h"

/* For cmocka_run_group_tests: takes the device, prints the seed (EBB_TEST_SEED, or a fixed one). The whole
 * program skips (exit code 77) where there is no device. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

void fixture_run(void (*body)(const void *argument), const void *argument);

/* EBB_TEST_SMALL=1: shapes that are quickly done. EBB_TEST_DUMP=FILE: everything that is compared is written there too
 * (compare_modes.c). */
bool fixture_small(void);

/* A random integer in [0, below), and a number in [-1, 1). */
int fixture_below(int below);
double fixture_uniform(void);

/* Host memory, zeroed. */
double *fixture_doubles(size_t n);

/* A tensor of random numbers in [-size, size); *values: the same in double. */
float *fixture_random(double **values, size_t n, double size);
/* A tensor of given numbers, rounded to float; `values` becomes what the device has. */
float *fixture_tensor(double *values, size_t n);
int *fixture_ints(const int *values, size_t n);
float *fixture_output(size_t n);

/* Tensors of the type that kernels.h calls `type`: this one from here on (fp32 at first). */
void fixture_use(dtype_t type);
dtype_t fixture_type(void);
/* As above, of elements; *values, or `values`, becomes what the device has. */
void *fixture_elements(double **values, size_t n, double size);
void *fixture_given_elements(double *values, size_t n);
void *fixture_output_elements(size_t n);
/* values[n] as the device would store them. */
void fixture_round(double *values, size_t n);

/* What the device has. */
void fixture_read(float *to, const float *device, size_t n);

/* |device - expected| <= tolerance * |expected|, in the Euclidean norm; every number finite. */
void fixture_match_within(const char *what, const float *device, const double *expected, size_t n,
                          double tolerance);
/* Within 1e-5. */
void fixture_match(const char *what, const float *device, const double *expected, size_t n);
/* Elements: as that in fp32; in bf16 within `rounding`, or 5e-3, and their name for EBB_TEST_DUMP ends with "(bf16)". */
void fixture_match_elements(const char *what, const void *device, const double *expected, size_t n);
void fixture_match_elements_within(const char *what, const void *device, const double *expected, size_t n,
                                   double tolerance, double rounding);

#define fixture_ok(call)                                                                                     \
    do {                                                                                                     \
        const cudaError_t fixture_error_ = (call);                                                           \
        if (fixture_error_ != cudaSuccess)                                                                   \
            fail_msg("%s: %s", #call, cudaGetErrorString(fixture_error_));                                   \
    } while (0)

#endif
