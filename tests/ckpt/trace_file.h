/* trace_file.h: the trace that a program has left behind (EBB_TRACE). For CMocka tests: what cannot be read fails the test. */
#ifndef EBB_TESTS_TRACE_FILE_H
#define EBB_TESTS_TRACE_FILE_H

#include "ckpt/trace/trace.h"

/* The caller's, by ebb_trace_delete(). */
ebb_trace_t *trace_file_read(const char *path);

#endif
