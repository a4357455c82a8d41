/* status.h: how functions of ebb report failure, what ebb says, and the sizes that the allocator and plans share. */
#ifndef EBB_STATUS_H
#define EBB_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- sizes ---- */

/* The sizes that the allocator and plans share. */

#ifndef EBB_CHUNK_KIB /* CMake's EBB_CHUNK_KIB: a power of two from 64 */
#define EBB_CHUNK_KIB 2048
#endif
#define EBB_CHUNK_BYTES ((size_t)EBB_CHUNK_KIB << 10)
/* Requests up to this size share slabs; larger ones get a range of whole chunks. */
#define EBB_SMALL_BYTES (EBB_CHUNK_BYTES / 2)

/* ---- the log ---- */

/* What ebb says, on stderr, one line at a time. Never on stdout, never more than EBB_LOG allows. */

typedef enum ebb_log_level { EBB_QUIET, EBB_WARN, EBB_INFO, EBB_DEBUG } ebb_log_level_t;

void ebb_log(ebb_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- failure ---- */

/* How functions of ebb report failure.
 *
 * ebb_status_t is 0 or a CUresult: only codes that the driver itself could return ever reach the program.
 * What failed, and over how many bytes, is kept per thread for the log line that follows. */

typedef int ebb_status_t;

/* Returns `code` after noting what was being done. `operation` must be a literal. */
ebb_status_t ebb_fail(ebb_status_t code, const char *operation, size_t bytes);

/* The last failure noted on this thread: "cuMemCreate of 2097152 bytes: CUDA_ERROR_OUT_OF_MEMORY". Valid
 * until the next call. None: "no host memory", for only malloc fails without a note. */
const char *ebb_last_failure(void);
/* Another call of the program's begins: what has failed in earlier ones is none of its reasons. */
void ebb_forget_failure(void);

#define EBB_TRY(call)                                                                                        \
    do {                                                                                                     \
        ebb_status_t ebb_try_ = (ebb_status_t)(call);                                                        \
        if (ebb_try_)                                                                                        \
            return ebb_try_;                                                                                 \
    } while (0)

/* A driver call whose failure is worth a word: EBB_DRIVER(cuMemCreate, bytes, (&h, bytes, &prop, 0)). */
#define EBB_DRIVER(function, bytes, arguments)                                                               \
    do {                                                                                                     \
        ebb_status_t ebb_try_ = (ebb_status_t)ebb_driver.function arguments;                                 \
        if (ebb_try_)                                                                                        \
            return ebb_fail(ebb_try_, #function, bytes);                                                     \
    } while (0)

/* Broken invariants: EBB_ASSERT always, EBB_DCHECK in debug builds. Input is never checked by these. A preloaded
 * library never aborts: the first broken invariant is logged, and with the program's next call ebb stops deciding anything.
 * The plan is left; what it has dropped is made again; nothing is learned, planned, dropped or moved ahead of need any more, on any
 * device. What is on the host is fetched when it is touched, and stays.
 * Where the budget cannot hold everything, buffers still leave for what is touched, the least recently used first, each with
 * its content on the host. To keep them would be no safer: refused memory ends the program for certain, and the mechanism that
 * brings back what is on the host already is the one that it would avoid.
 * Any thread, with any lock held or none. */
void ebb_broken(const char *condition, const char *file, int line);
unsigned ebb_broken_count(void); /* so far */
#define EBB_ASSERT(condition) ((condition) ? (void)0 : ebb_broken(#condition, __FILE__, __LINE__))
#ifdef NDEBUG
#define EBB_DCHECK(condition) ((void)sizeof(condition))
#else
#define EBB_DCHECK(condition) EBB_ASSERT(condition)
#endif

#endif
