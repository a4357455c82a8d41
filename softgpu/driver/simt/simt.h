/* simt.h: the engine of SIMT mode: a block's warps as fibers of one worker. What the lanes of a warp do is the translated code's
 * business (softgpu/ptx/warp.h).
 *
 * Glossary
 *   fiber     a warp of the program: a stack, and what it waits for
 *   context   where a fiber, or the worker itself, goes on (fiber.c)
 *   coroutine what a fiber runs on another stack: functions of PTX (fiber.c)
 *   block     a CUDA block under way: its fibers and their barrier (block.c)
 *   run       one call of a kernel library's `run`: some blocks, one after the other; of a cooperative launch all
 *             blocks, taking turns
 *
 * A fiber runs until it has to wait; then it picks the next one that can run and goes there directly. If there is none,
 * the block is stuck: some barrier is wrong, and the launch ends with an error that says which warps wait where.
 *
 * Shared variables are thread-local variables of the kernel library: fibers never leave their worker. Blocks of a
 * cooperative launch swap them.
 *
 * Order: fibers run by number, or, with SOFTGPU_SEED, in an order drawn from seed and block. A kernel whose
 * result changes with the seed lacks a barrier.
 *
 * Threads: everything here belongs to one worker (thread-local); no locks.
 */
#ifndef SG_SIMT_H
#define SG_SIMT_H

#include <setjmp.h>

#include "softgpu/driver/stream/streams.h"

#define SG_FIBER_STACK_BYTES ((size_t)1 << 20)
/* Code that is compiled without optimisation has a megabyte of vectors. */
#define SG_COROUTINE_STACK_BYTES ((size_t)4 << 20)
#define SG_WARP                  32u
#define SG_MAX_WARPS             32u

/* fault.c has the library's thread-local storage in the static block anyway. */
#define SG_FAST_TLS __attribute__((tls_model("initial-exec")))

/* ---- fiber.c: contexts and stacks ---- */
#if defined(__x86_64__) && !defined(SG_PORTABLE_FIBERS)
typedef struct sg_context {
    void *sp;
} sg_context_t;
#else
#include <ucontext.h>
typedef struct sg_context {
    ucontext_t uc;
} sg_context_t;
#endif

/* A context that will call `main`, which must not return, on this stack. */
void sg_context_make(sg_context_t *context, char *stack, size_t bytes, void (*main)(void));
void sg_context_switch(sg_context_t *from, sg_context_t *to);
/* Stack `index` of this worker; kept for ever. NULL: out of memory. */
char *sg_stack(uint32_t index);

/* Coroutines (softgpu_services_t): of the fiber that runs. */
void *sg_coroutine(void (*main)(void *coroutine));
void sg_coroutine_resume(void *coroutine);
void sg_coroutine_yield(void *coroutine);
void sg_coroutine_end(void *coroutine);
int sg_coroutine_is_stack(const void *at);
/* The fiber that has made the coroutine with that stack; NULL: it is in none. */
const struct sg_fiber *sg_coroutine_owner(const void *at);
/* Whether a fault there is that of a stack that has run out. */
bool sg_coroutine_overflowed(const void *at);
/* A run begins: none is in use. */
void sg_coroutines_begin(void);

/* ---- fibers and blocks ---- */
typedef enum sg_wait {
    SG_RUNS,    /* or can run */
    SG_BARRIER, /* of the block */
    SG_EXITED
} sg_wait_t;

/* A copy to shared memory that is under way. */
typedef struct sg_async {
    void *to;
    const void *from;
    uint32_t bytes, from_bytes;
    uint32_t group, lane;
    softgpu_place_t place;
} sg_async_t;

typedef struct sg_fiber {
    sg_context_t context;
    softgpu_thread_t thread;
    char *stack;
    uint32_t index; /* in the block */
    sg_wait_t wait;
    softgpu_place_t place; /* where it waits */
    sg_async_t *async; /* owned: copies that are not waited for; committed ones have a group below `groups` */
    uint32_t async_count, async_capacity, groups;
} sg_fiber_t;

struct sg_check_block;

typedef struct sg_block {
    uint64_t number;
    uint32_t warps;
    uint32_t alive; /* not exited */
    uint32_t at_barrier;
    uint32_t ready;     /* a bit for each warp that can run */
    uint32_t cursor;    /* the fiber that ran last */
    uint32_t pauses;    /* since something else happened */
    uint64_t random;    /* 0: in order */
    sg_fiber_t *fibers; /* [warps] */
    char *shared;       /* owned: its shared memory while another block of a cooperative launch runs */
    struct sg_check_block *check; /* checked mode */
} sg_block_t;

/* This worker's run. */
typedef struct sg_run {
    CUfunction function;
    softgpu_launch_t launch_copy; /* what kernels see: outlives a jump out of them */
    const softgpu_launch_t *launch;
    const softgpu_entry_t *entry;
    sg_block_t *block; /* that runs */
    sg_fiber_t *fiber; /* that runs; NULL: the worker itself */
    sg_context_t worker;
    bool failed;
    bool checked;
    uint32_t lane;         /* of which the next access is; SG_WARP: of no one's in particular */
    softgpu_place_t place; /* and where */
    uint64_t blocks;       /* of a cooperative launch: all */
    sg_block_t *all;
    struct sg_check *check; /* checked mode: of the launch */
} sg_run_t;

extern _Thread_local sg_run_t sg_run SG_FAST_TLS;
extern const softgpu_services_t sg_services;

/* block.c */
/* The thread-local storage of the kernel library that runs, which holds its shared variables. */
void sg_run_shared_area(char **at, size_t *bytes);
/* The program's threads of a block. */
uint32_t sg_run_threads(void);
/* The one that runs. */
uint32_t sg_run_thread(void);
/* Ends the launch: the context gets the sticky error, the log the kernel, the block, the thread and the text. On a fiber it
 * does not return. */
void sg_run_fail(CUresult error, softgpu_place_t place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "kernel k, block (0,0,0), thread (1,0,0)", or the warp, of what runs now. */
void sg_run_describe(char *out, size_t bytes);
/* After a fault, which has left the run by a jump. */
void sg_run_abandon(void);

/* async.c */
void sg_async_copy(void *to, const void *from, uint32_t bytes, uint32_t from_bytes, softgpu_place_t place);
void sg_async_commit(void);
void sg_async_wait(uint32_t pending);

#endif
