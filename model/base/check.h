/* check.h: how the trainer fails: one line on stderr, "ebb-train: ...", that says what to do, and an exit
 * code.
 *
 *   usage_error()     the command line or an input file is at fault     exit 2
 *   fatal()           anything else, CUDA and cuBLAS included           exit 1
 *   CUDA(call)        the call must return cudaSuccess
 *   BLAS(call)        the call must return CUBLAS_STATUS_SUCCESS
 *
 * A rehearsal (dry_run.h) walks through the same code without a device: the two macros leave their calls out.
 */
#ifndef EBB_MODEL_CHECK_H
#define EBB_MODEL_CHECK_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#define EXIT_FATAL 1
#define EXIT_USAGE 2

_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells that the line on stdout, a terminal, is (not) finished, so that a message starts on a line of its own. */
void message_line_open(bool open);

extern bool rehearsing; /* set, if ever, before anything else */

#define CUDA(call) (rehearsing ? (void)0 : check_cuda((call), #call, __FILE__, __LINE__))
#define BLAS(call) (rehearsing ? (void)0 : check_blas((call), #call, __FILE__, __LINE__))

/* From checks_hold on, calls that fail end nothing. checks_release tells the first of them in `text`, or "", and ends that. */
typedef char check_text_t[256];
extern bool checks_held;
void checks_hold(void);
void checks_release(check_text_t text);

void check_cuda(cudaError_t error, const char *call, const char *file, int line);
void check_blas(cublasStatus_t status, const char *call, const char *file, int line);

#endif
