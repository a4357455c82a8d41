/* nccl.c: NCCL's calls, as far as ebb listens: they tell where the operands of its kernels are, which its launches do not always. A kernel of NCCL's has
 * the addresses among its arguments only while they fit (src/enqueue.cc: ncclDevWorkStorageTypeArgs), else in a buffer that it finds by itself.
 *
 * What a call names is kept until it, or the group that it is in, has returned. Launches that this thread makes meanwhile get all of it, as words
 * behind their arguments: at even places what is read, at odd ones what is written. (Of a communicator that does not block, another thread launches:
 * then it counts as touching everything, alloc/kernel/obscure.c.) Such a launch is never made again.
 *
 * Everything goes on to NCCL. It is found as the program's reference would have found it: behind ebb among what is loaded for everyone, by its name, or
 * among what the calling library depends on.
 */
#include "hook/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/libc_symbol.h"
#include "alloc/base/status.h"
#include "alloc/base/thread.h"

/* NCCL's types, as far as they matter here (nccl.h; the same since 2.0). */
typedef int result_t;
typedef struct ncclComm *comm_t;
enum { SUCCESS = 0, SYSTEM_ERROR = 2 };

enum { MOST_OPERANDS = 2048 };

struct ebb_operands {
    unsigned depth; /* of groups, and of the call itself */
    uint32_t count; /* more than MOST_OPERANDS: too many, none is told */
    CUdeviceptr at[MOST_OPERANDS];
};

/* How each is called, and what it tells. */
#define CALLS(C)                                                                                             \
    C(ncclAllReduce, (const void *send, void *recv, size_t n, int type, int op, comm_t c, CUstream s),       \
      (send, recv, n, type, op, c, s), name(send, recv))                                                     \
    C(ncclReduce,                                                                                            \
      (const void *send, void *recv, size_t n, int type, int op, int root, comm_t c, CUstream s),            \
      (send, recv, n, type, op, root, c, s), name(send, recv))                                               \
    C(ncclReduceScatter, (const void *send, void *recv, size_t n, int type, int op, comm_t c, CUstream s),   \
      (send, recv, n, type, op, c, s), name(send, recv))                                                     \
    C(ncclBroadcast, (const void *send, void *recv, size_t n, int type, int root, comm_t c, CUstream s),     \
      (send, recv, n, type, root, c, s), name(send, recv))                                                   \
    C(ncclBcast, (void *buffer, size_t n, int type, int root, comm_t c, CUstream s),                         \
      (buffer, n, type, root, c, s), name(buffer, buffer))                                                   \
    C(ncclAllGather, (const void *send, void *recv, size_t n, int type, comm_t c, CUstream s),               \
      (send, recv, n, type, c, s), name(send, recv))                                                         \
    C(ncclAlltoAll, (const void *send, void *recv, size_t n, int type, comm_t c, CUstream s),                \
      (send, recv, n, type, c, s), name(send, recv))                                                         \
    C(ncclGather, (const void *send, void *recv, size_t n, int type, int root, comm_t c, CUstream s),        \
      (send, recv, n, type, root, c, s), name(send, recv))                                                   \
    C(ncclScatter, (const void *send, void *recv, size_t n, int type, int root, comm_t c, CUstream s),       \
      (send, recv, n, type, root, c, s), name(send, recv))                                                   \
    C(ncclSend, (const void *send, size_t n, int type, int peer, comm_t c, CUstream s),                      \
      (send, n, type, peer, c, s), name(send, NULL))                                                         \
    C(ncclRecv, (void *recv, size_t n, int type, int peer, comm_t c, CUstream s),                            \
      (recv, n, type, peer, c, s), name(NULL, recv))                                                         \
    C(ncclGroupStart, (void), (), (void)0)                                                                   \
    C(ncclGroupEnd, (void), (), (void)0)                                                                     \
    C(ncclGroupSimulateEnd, (void *info), (info), (void)0)

static struct {
    _Atomic bool heard; /* a call */
    pthread_once_t once;
    pthread_key_t at_thread_end;
    /* The real ones; NULL: not looked for yet. */
#define MEMBER(call, parameters, arguments, tells) result_t(*_Atomic call) parameters;
    CALLS(MEMBER)
#undef MEMBER
} nccl = {.once = PTHREAD_ONCE_INIT};

ebb_told_t ebb_operands(const CUdeviceptr **operands, uint32_t *count)
{
    const struct ebb_operands *o = ebb_this_thread.operands;
    *count = 0;
    if (!atomic_load_explicit(&nccl.heard, memory_order_relaxed))
        return EBB_NEVER_TOLD;
    if (!o || !o->count || o->count > MOST_OPERANDS)
        return EBB_UNTOLD;
    *operands = o->at;
    *count = o->count;
    return EBB_TOLD;
}

static void forget(void *ended)
{
    free(ended);
    ebb_this_thread.operands = NULL;
}

static void make_key(void)
{
    pthread_key_create(&nccl.at_thread_end, forget);
}

static struct ebb_operands *of_thread(void)
{
    if (!ebb_this_thread.operands) {
        pthread_once(&nccl.once, make_key);
        atomic_store(&nccl.heard, true);
        ebb_this_thread.operands = calloc(1, sizeof *ebb_this_thread.operands);
        pthread_setspecific(nccl.at_thread_end, ebb_this_thread.operands);
    }
    return ebb_this_thread.operands;
}

static void begin(void)
{
    struct ebb_operands *o = of_thread();
    if (o)
        o->depth++;
}

static void end(void)
{
    struct ebb_operands *o = ebb_this_thread.operands;
    if (o && o->depth && !--o->depth)
        o->count = 0;
}

static void name(const void *read, const void *written)
{
    struct ebb_operands *o = of_thread();
    if (!o)
        return;
    if (o->count + 2 > MOST_OPERANDS) {
        o->count = MOST_OPERANDS + 1;
        return;
    }
    o->at[o->count++] = (CUdeviceptr)(uintptr_t)read;
    o->at[o->count++] = (CUdeviceptr)(uintptr_t)written;
}

/* ---- the real ones ---- */

/* Not ours; NULL: there is none. */
static void *find_by(void *handle, const char *symbol, const void *ours)
{
    void *found = handle ? ebb_real_dlsym(handle, symbol) : NULL;
    return found != ours ? found : NULL;
}

static void *find(const char *symbol, const void *ours, const void *caller)
{
    Dl_info info;
    void *found = find_by(RTLD_NEXT, symbol, ours), *handle;
    for (int i = 0; i < 2 && !found; i++) {
        const char *where = i == 0 ? "libnccl.so.2" : dladdr(caller, &info) ? info.dli_fname : NULL;
        if (where && (handle = dlopen(where, RTLD_LAZY | RTLD_NOLOAD))) {
            found = find_by(handle, symbol, ours);
            dlclose(handle);
        }
    }
    if (!found)
        ebb_log(EBB_WARN, "%s was called, but there is no NCCL that has it", symbol);
    return found;
}

/* Lasts for the program's call of a group too, if that is where it is: a group's launches are made when it ends. */
static void before(const char *call)
{
    begin();
    if (!strcmp(call, "ncclGroupStart"))
        begin();
}

static void after(const char *call, result_t result)
{
    const bool starts = !strcmp(call, "ncclGroupStart");
    end();
    if ((starts && result) || (!starts && !strncmp(call, "ncclGroup", 9)))
        end();
}

#define DEFINE(call, parameters, arguments, tells)                                                           \
    __attribute__((visibility("default"))) result_t call parameters;                                         \
    result_t call parameters                                                                                 \
    {                                                                                                        \
        if (!nccl.call)                                                                                      \
            nccl.call = (result_t(*) parameters)find(#call, (void *)call, __builtin_return_address(0));      \
        if (!nccl.call)                                                                                      \
            return SYSTEM_ERROR;                                                                             \
        before(#call);                                                                                       \
        tells;                                                                                               \
        const result_t result = nccl.call arguments;                                                         \
        after(#call, result);                                                                                \
        return result;                                                                                       \
    }
CALLS(DEFINE)
#undef DEFINE

void *ebb_nccl_hook(const char *symbol, void *found)
{
#define ANSWER(call, parameters, arguments, tells)                                                           \
    if (!strcmp(symbol, #call)) {                                                                            \
        if (found == (void *)call)                                                                           \
            return found;                                                                                    \
        nccl.call = (result_t(*) parameters)found;                                                           \
        return (void *)call;                                                                                 \
    }
    CALLS(ANSWER)
#undef ANSWER
    return NULL;
}
