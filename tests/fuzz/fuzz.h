/* fuzz.h: a random CUDA program made from a seed. It knows nothing of ebb: what it prints depends on the seed alone, so
 * that runs with and without the library can be compared, and runs with different budgets.
 *
 * The program consists of workers, one a thread, each with buffers, streams and random numbers of its own; the buffers of
 * the first one's start are read by all. A worker keeps the rules of CUDA: what it puts on a stream is ordered behind all
 * that touched the same buffers, by events, by waiting, or by what the default stream promises, and never more than that.
 *
 * With --repeat the program is a training loop of a kind: a random step, repeated with divergences (fuzz_repeat.c).
 *
 * Errors: without --faults any error ends the program with exit code 3. With it a call is tried again up to three times;
 * an error that is not among those a driver may report for a passing shortage or fault still is the end (exit code 4), one
 * that stays ends the program early, with exit code 0 and the line "stopped".
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <cuda.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FUZZ_BUFFERS = 96, FUZZ_STREAMS = 6, FUZZ_WORKERS = 4, FUZZ_TOUCHED = 16, FUZZ_SEGMENTS = 64 };

/* Bytes of ebb's chunks and of the largest buffer that shares one. All sizes here are parts of a chunk, so that a build with small ones
 * runs the same programs on less memory. */
#ifndef EBB_CHUNK_KIB
#define EBB_CHUNK_KIB 2048
#endif
enum { FUZZ_CHUNK = EBB_CHUNK_KIB << 10, FUZZ_SMALL = FUZZ_CHUNK / 2 };

typedef enum fuzz_kernel { FILL, MIX, GATHER, GATHER_BY, PERHAPS, SPAN, DAWDLE, FUZZ_KERNELS } fuzz_kernel_t;
extern CUfunction fuzz_kernel[FUZZ_KERNELS];
extern CUmemoryPool fuzz_pool; /* NULL: the device has none */

/* One allocation. Streams are bits: which have touched it since the host last knew them to be idle. */
typedef struct fuzz_buffer {
    CUdeviceptr address;
    unsigned words;
    unsigned id;
    unsigned users, writer; /* bits; `writer`: at most one */
    bool shared;            /* read by all workers; never written or freed before they have ended */
    bool permanent;         /* outlives an iteration */
    bool of_pool;           /* allocated in stream order */
    CUdeviceptr segment;    /* 0: an allocation of its own */
    size_t segment_bytes;
} fuzz_buffer_t;

typedef struct fuzz_segment fuzz_segment_t;     /* fuzz_arena.c */
typedef struct fuzz_mean fuzz_mean_t;           /* fuzz_mean.c */
typedef struct fuzz_interface fuzz_interface_t; /* fuzz_interface.c */

/* Host memory that copies may still be using. */
typedef struct fuzz_host {
    void *p;
    enum { PAGEABLE, ALLOCATED, REGISTERED } kind;
    size_t bytes;
    bool fold;          /* a copy out, to be hashed when it is done */
    unsigned operation; /* that issued it */
    struct fuzz_host *next;
} fuzz_host_t;

typedef struct fuzz_worker {
    unsigned index, operations, iterations;
    size_t most_bytes; /* live, roughly */
    size_t largest_bytes;
    uint64_t random;
    unsigned salt; /* differs between iterations, where `random` does not */
    fuzz_buffer_t buffer[FUZZ_BUFFERS];
    unsigned buffers, next_id;
    bool slots; /* a buffer keeps its place among them, and a freed one leaves a hole: address 0 */
    CUstream stream[FUZZ_STREAMS];
    CUevent event[FUZZ_STREAMS];
    bool blocking[FUZZ_STREAMS]; /* against the legacy stream, which is number 0 */
    unsigned streams;
    bool lone; /* one stream only: what ebb plans best */
    fuzz_host_t *host;
    size_t live, peak, small, small_peak;
    size_t chunks, chunks_peak;      /* bytes: what large buffers take, in whole chunks */
    size_t need;                     /* bytes of the operation that touches most, in chunks */
    uint64_t hash;                   /* of what was copied out */
    fuzz_mean_t *mean;               /* NULL: not asked for */
    fuzz_interface_t *interface;     /* the same */
    CUdeviceptr table[FUZZ_STREAMS]; /* for what is done on it; 0: none yet */
    fuzz_segment_t *segment[FUZZ_SEGMENTS];
    unsigned segments;
    size_t segment_bytes;              /* of all */
    CUdeviceptr reached[FUZZ_TOUCHED]; /* segments that the operation under way touches */
    unsigned reached_count;
    size_t reached_bytes;
    unsigned errors;
    jmp_buf stop;
    bool stopped;
    FILE *out;
    char *text;
    size_t text_bytes;
    FILE *trace;                                   /* NULL: not asked for (fuzz_trace.c) */
    unsigned touched[FUZZ_TOUCHED], touched_count; /* ids of buffers that the operation under way touches */
    unsigned wrong;                                /* an operation; 0: none */
    unsigned written;                              /* id of the buffer that it writes */
} fuzz_worker_t;

/* What the command line asks for: at least two streams, at least two threads, buffers that are cut from segments, kernels whose operands
 * only tables in device memory name, steps whose buffers have other sizes each time, operands that come from the host and are freed at once. */
extern bool fuzz_faults, fuzz_streams, fuzz_threads, fuzz_arenas, fuzz_tables, fuzz_lengths, fuzz_brings;
/* Of a worker's tables, at most. */
enum { FUZZ_TABLE_BYTES = FUZZ_CHUNK / 16 };

/* ---- fuzz_calls.c: calls, tried again where that is the program's lot, and random numbers ---- */

/* Whether to try once more; does not return when there is no point. */
bool fuzz_failed(fuzz_worker_t *w, CUresult result, unsigned attempt, const char *call);

/* CALL(w, cuMemAlloc(&p, n)) */
#define CALL(w, call) for (unsigned attempt_ = 0; fuzz_failed(w, (call), attempt_, #call); attempt_++)

unsigned fuzz_below(fuzz_worker_t *w, unsigned limit);
bool fuzz_chance(fuzz_worker_t *w, unsigned percent);
uint64_t fuzz_hash(uint64_t hash, const void *data, size_t bytes);

/* ---- fuzz_memory.c: buffers, streams and the order between them ---- */

void fuzz_allocate(fuzz_worker_t *w, bool large);
unsigned fuzz_choose_words(fuzz_worker_t *w, bool large);
/* Into a hole; nothing if that is more than the worker may have. */
void fuzz_allocate_at(fuzz_worker_t *w, unsigned index, unsigned words);
void fuzz_free(fuzz_worker_t *w, unsigned index);
/* A buffer to be written or only read; NULL: there is none. */
fuzz_buffer_t *fuzz_pick(fuzz_worker_t *w, bool write);
/* Puts `s` behind what an operation on the buffer must wait for. That operation has to follow: what the default stream's
 * rules order is ordered by the operation itself. */
void fuzz_order(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned s, bool write);
/* Both. */
fuzz_buffer_t *fuzz_take(fuzz_worker_t *w, unsigned s, bool write);
/* The host waits for a stream, in one of several ways. */
void fuzz_wait(fuzz_worker_t *w, unsigned s);
void fuzz_wait_all(fuzz_worker_t *w);
void fuzz_open_streams(fuzz_worker_t *w);
void fuzz_close_streams(fuzz_worker_t *w);
void *fuzz_host_memory(fuzz_worker_t *w, size_t bytes, bool fold);
/* Notes what an operation touches together. */
void fuzz_count_need(fuzz_worker_t *w, size_t bytes);
size_t fuzz_chunks(size_t bytes);

/* ---- fuzz_arena.c: buffers that are cut from few large allocations ---- */

/* Its address, and who may still use what lies there. False: that is more than the worker may have. */
bool fuzz_arena_take(fuzz_worker_t *w, size_t bytes, fuzz_buffer_t *out);
void fuzz_arena_give(fuzz_worker_t *w, const fuzz_buffer_t *b);
/* The operation that began last touches the buffer, and with it its segment. */
void fuzz_arena_operation(fuzz_worker_t *w);
void fuzz_arena_touch(fuzz_worker_t *w, const fuzz_buffer_t *b);
void fuzz_arena_close(fuzz_worker_t *w);

/* ---- fuzz_work.c: what happens to contents ---- */

/* Where in a buffer an operation begins, in words; with other sizes each time always the same. */
unsigned fuzz_choose_first(fuzz_worker_t *w, unsigned words);
void fuzz_initialise(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned s);
void fuzz_operate(fuzz_worker_t *w);
/* The same without allocating or freeing. */
void fuzz_touch(fuzz_worker_t *w);
void fuzz_close_tables(fuzz_worker_t *w);
/* Prints a hash of every buffer. */
void fuzz_checkpoint(fuzz_worker_t *w, const char *name);

/* ---- fuzz_trace.c: which operation was the first to read or write other bytes ---- */

/* With FUZZ_TRACE=FILE: one file for each worker, FILE.0 and so on. With FUZZ_WRONG=N, to test what looks for such an operation: the first
 * worker's N-th operation writes a wrong byte. */
void fuzz_trace_open(fuzz_worker_t *w);
/* The operation that is being prepared touches the buffer. */
void fuzz_trace_touch(fuzz_worker_t *w, const fuzz_buffer_t *b, bool write);
/* With FUZZ_COPIES: what a copy out has brought, to stderr, once the program itself has waited for it: it changes nothing about the order. */
void fuzz_trace_copy(const fuzz_worker_t *w, const fuzz_host_t *host);
/* It has been issued. The host waits for it, and a line for each buffer that it touched is written, with its hash. */
void fuzz_trace(fuzz_worker_t *w, const char *name, unsigned s);

/* Writes `value` to the buffer's first word, from the host, and launches a kernel that writes to `x` if that is odd. */
void fuzz_write_if(fuzz_worker_t *w, fuzz_buffer_t *x, fuzz_buffer_t *flag, unsigned value, unsigned s);

/* Fills `b` from the host, and launches a kernel that makes `x` from it. */
void fuzz_bring(fuzz_worker_t *w, fuzz_buffer_t *b, fuzz_buffer_t *x, unsigned s);

/* ---- fuzz_mean.c: what happens around operations (--mean) ---- */

extern bool fuzz_is_mean;
void fuzz_mean_open(fuzz_worker_t *w, uint64_t seed);
/* Between two steps or operations: allocations that fail, or have to be made room for; memory of the driver's own that comes and goes, and
 * so a budget that shrinks and grows. */
void fuzz_mean_between(fuzz_worker_t *w);
/* Begins to free in another thread, which runs beside what the worker does until its next such free, the end of its step, or its own end.
 * Or not at all: false. */
bool fuzz_mean_free(fuzz_worker_t *w, const fuzz_buffer_t *b, CUstream stream, bool ordered);
/* Of the buffer that may not have been freed yet. */
size_t fuzz_mean_freeing_bytes(const fuzz_worker_t *w);
/* Bytes of the driver's own memory at most. */
size_t fuzz_mean_foreign_bytes(const fuzz_worker_t *w);
/* Random numbers for what only mean programs do; NULL: this one is none. */
fuzz_worker_t *fuzz_mean_dice(fuzz_worker_t *w);
void fuzz_mean_close(fuzz_worker_t *w);
/* Also of a worker that has stopped. */
void fuzz_mean_discard(fuzz_worker_t *w);

/* ---- fuzz_interface.c: what the program tells ebb, where that is there (--interface; ckpt/run/ebb.h) ---- */

extern bool fuzz_uses_interface;
void fuzz_interface_open(fuzz_worker_t *w, uint64_t seed);
/* Between two operations, or (`step`) before a step: buffers that are kept for a while, pauses, budgets, marks. */
void fuzz_interface_moment(fuzz_worker_t *w, bool step);
/* Bytes that are kept at most, in whole chunks. */
size_t fuzz_interface_kept_bytes(const fuzz_worker_t *w);
void fuzz_interface_close(fuzz_worker_t *w);
void fuzz_interface_discard(fuzz_worker_t *w);

/* ---- fuzz_repeat.c: a step, over and over, and not always the same ---- */

extern bool fuzz_repeats;
void fuzz_repeat(fuzz_worker_t *w);

#endif
