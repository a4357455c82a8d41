/* internal.h: what the files of this folder share beyond hook.h. */
#ifndef EBB_HOOK_INTERNAL_H
#define EBB_HOOK_INTERNAL_H

#include <stdatomic.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/run.h"
#include "hook/hook.h"
#include "offload/ebb_offload.h"

/* ---- how the functions are written ---- */

static inline CUdeviceptr ebb_address_of(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* What answers for a row of driver_calls.h has the name of a driver's symbol and is exported under it. SYNC_CALL and
 * ASYNC_CALL define also the form for the per-thread default stream; in both, `stream` is a handle that says
 * which default stream is meant.
 */
#define EBB_EXPORT __attribute__((visibility("default")))

/* Straight to the driver. */
#define EBB_PASS(function, arguments)                                                                        \
    (!ebb_have_driver()    ? CUDA_ERROR_NOT_INITIALIZED                                                      \
     : ebb_driver.function ? ebb_driver.function arguments                                                   \
                           : CUDA_ERROR_NOT_SUPPORTED)

/* Once more, if what it lacked was host memory that had to be pinned without the lock: then the driver has not been called for it. */
#define EBB_MAKE(call)                                                                                       \
    CUresult result_of_call;                                                                                 \
    do                                                                                                       \
        result_of_call = call;                                                                               \
    while (ebb_pinned_call.open && ebb_call_again(result_of_call));                                          \
    return result_of_call

#define PLAIN_CALL(name, parameters, call)                                                                   \
    EBB_EXPORT CUresult name parameters;                                                                     \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        EBB_MAKE(call);                                                                                      \
    }
#define SYNC_CALL(name, parameters, call)                                                                    \
    EBB_EXPORT CUresult name parameters;                                                                     \
    EBB_EXPORT CUresult name##_ptds parameters;                                                              \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_LEGACY;                                                            \
        EBB_MAKE(call);                                                                                      \
    }                                                                                                        \
    CUresult name##_ptds parameters                                                                          \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_PER_THREAD;                                                        \
        EBB_MAKE(call);                                                                                      \
    }
#define ASYNC_CALL(name, parameters, call)                                                                   \
    EBB_EXPORT CUresult name parameters;                                                                     \
    EBB_EXPORT CUresult name##_ptsz parameters;                                                              \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        EBB_MAKE(call);                                                                                      \
    }                                                                                                        \
    CUresult name##_ptsz parameters                                                                          \
    {                                                                                                        \
        if (!stream)                                                                                         \
            stream = CU_STREAM_PER_THREAD;                                                                   \
        EBB_MAKE(call);                                                                                      \
    }

/* ---- what a launch's arguments point to (args.c) ---- */

enum { EBB_MAX_PARAM_BYTES = 32764 };

/* Copies the arguments of either form of cuLaunchKernel into one block, each at its offset, zeros between
 * them. False: the driver is the one to complain about them. A buffer in `extra` has the offsets that the driver reports, and exactly their
 * bytes (H200, driver 580.159.04), but for the end of the last one, which may be missing: not those of a structure, where a parameter is aligned
 * to more than the beginning of the constant bank. */
bool ebb_args_pack(const ebb_signature_t *signature, unsigned char *block, void **params, void **extra);

/* Accesses that a block of so many bytes can make. */
#define EBB_ARGS_ROOM(bytes) ((bytes) / 8 + (bytes) / 64)

/* Looks up every aligned 8-byte word of such a block, and every tensor map in it (map_at; not plain if there are too many);
 * fills `access` (EBB_ARGS_ROOM of the block). */
void ebb_args_scan(ebb_t *ebb, ebb_operation_t *op, const ebb_signature_t *signature,
                   const unsigned char *block, ebb_access_t *access);

/* A launch's block and accesses, on the stack as long as they fit there: not to be copied. */
enum { EBB_ARGS_USUAL = 1024 };
typedef struct ebb_args {
    unsigned char *block;
    ebb_access_t *access;
    size_t room; /* bytes of the block */
    _Alignas(16) unsigned char usual_block[EBB_ARGS_USUAL];
    ebb_access_t usual_access[EBB_ARGS_ROOM(EBB_ARGS_USUAL)];
} ebb_args_t;

/* Packs and scans: the operation's arguments and accesses are these then, until ebb_args_end, which is called in any case. False: they
 * cannot be known (no signature, a call that the driver will complain about, no memory). */
bool ebb_args_begin(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op, const ebb_signature_t *signature,
                    void **params, void **extra);
/* What it reaches beside its arguments: at least one pointer; they stand behind them from then on (ebb_operation_t.named_at). The operation is
 * opaque if there is no memory for them. */
void ebb_args_name(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op, const CUdeviceptr *pointer,
                   uint32_t count);
/* The same of the buffers that tables lead to from its accesses: each as a whole. Not plain then. */
void ebb_args_follow(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op);
void ebb_args_end(ebb_args_t *args);

/* Adds one access by address, if a live buffer is there. False: the address is ebb's, but in no live buffer, or so many bytes end behind it. */
bool ebb_access_add_span(ebb_t *ebb, ebb_operation_t *op, CUdeviceptr address, size_t bytes,
                         uint32_t param_offset);

/* ---- what NCCL's calls name (nccl.c) ---- */

/* Whether this thread is in a call of NCCL's, and if so its operands (NULL among them): at even places what is read, at odd ones what is written. Good
 * until the call returns. */
ebb_told_t ebb_operands(const CUdeviceptr **operands, uint32_t *count);
/* What a look-up of a function of NCCL's is answered with, which has found `found`; NULL: ebb does not listen to it. */
void *ebb_nccl_hook(const char *symbol, void *found);

/* ---- launch attributes (args.c) ---- */

/* Notes a launch's attributes in the operation: whether it is cooperative, and plain. It is that if all of them only say how its
 * blocks are placed and served, and name nothing else: no event, no other launch, no memory. */
void ebb_attributes_note(ebb_operation_t *operation, const CUlaunchAttribute *attributes, unsigned count);

/* ---- operations that are neither launches nor linear copies and memsets: EBB_OTHER (args.c) ---- */

/* What such an operation touches. An address in none of ebb's buffers is passed over, 0 among them. */
typedef struct ebb_other {
    const char *name; /* the driver's function: a literal of its own for each */
    CUstream stream;
    size_t bytes;               /* that it moves: part of what tells operations apart */
    const CUdeviceptr *address; /* [count] */
    size_t count;
    const size_t *span; /* [count] bytes from each address to the end of what it touches; NULL: not known */
    bool copies;        /* each to an even address from the one behind it */
} ebb_other_t;

/* Issues it by `issue(context)`, with everything resident that it touches. CUDA_ERROR_INVALID_VALUE, as from the
 * driver: an address lies in memory of ebb's that is no buffer (any more), or the span ends behind its buffer. */
CUresult ebb_issue_other(const ebb_other_t *other, CUresult (*issue)(const void *context),
                         const void *context);

/* The word that a memory operation of a stream is about, or 0. */
CUdeviceptr ebb_word_address(const CUstreamBatchMemOpParams *operation);
/* Where the two sides of a three-dimensional copy begin, the destination first; 0 for arrays. */
void ebb_copy_addresses(const CUDA_MEMCPY3D *copy, CUdeviceptr address[2]);

/* Whether one of the addresses lies in ebb's memory. Any thread. */
bool ebb_touches(const CUdeviceptr *address, size_t count);

/* The driver's, but not managed: it is asked, except for ebb's. */
bool ebb_is_device_memory(CUdeviceptr address);
/* Whether the host has to wait at the end of a synchronous memset or copy within the device: where one of the
 * addresses is host or managed memory, or has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS (CUDA driver API, "API
 * synchronization behavior"). Any thread, lock not held. */
bool ebb_host_waits(const CUdeviceptr *address, size_t count);
/* The program has asked that synchronous operations on some memory always wait (share.c). Any thread. */
bool ebb_sync_memops(const ebb_t *ebb);

/* ---- graphs that are launched node by node (nodes.c) ---- */

/* A graph's launch is one operation, for which all that it mentions has to be there at once. So as soon as memory is short (apart, below) it is
 * no operation any more: its nodes are issued one by one, by the calls that the program would make without a graph, and are seen, learned and
 * driven like these. They come in an order that their edges allow, on the stream of the launch; what could run side by side runs in turn. What the
 * graph allocates and frees within a launch is allocated and freed in the order of the stream, somewhere else each time, and the addresses in its
 * nodes follow.
 *
 * Not so, but one operation as ever, with all that it mentions pinned: graphs with memory that outlives the launch, is another graph's or peers', host
 * functions, events, semaphores, writes of words, conditions, child graphs, arrays, user objects, kernels of NCCL's or such that are obscure beside memory
 * of the graph's, copies of pageable host memory (a graph reads it when it runs, a call at once) or of tables with addresses of the graph's memory, nodes or
 * launches in another context, and graphs that the device may launch. So is one from the first change on that cannot be followed.
 *
 * An address of memory that the graph allocates is looked for as the program's own are (args.c): in aligned words and tensor maps.
 *
 * Lock held, unless it says otherwise. */

typedef struct ebb_nodes ebb_nodes_t;

/* Whether the driver says of graphs what this needs. */
bool ebb_nodes_can_be_read(void);
/* The context that was current when they were read, in which all of them are to run. */
CUcontext ebb_nodes_context(const ebb_nodes_t *nodes);
/* The nodes' handles, each behind those that it waits for, the caller's; `chained`: there is no other such order. NULL: no host memory, or the driver does
 * not say (nodes_order.c). */
CUgraphNode *ebb_nodes_in_order(CUgraph graph, size_t *count, bool *chained);
/* NULL: it cannot be launched so, or there is no host memory. */
ebb_nodes_t *ebb_nodes_read(ebb_t *ebb, CUgraph graph);
void ebb_nodes_delete(ebb_nodes_t *nodes);
/* Those of a graph that the executable one was updated from: known by the handles of the older ones, which the program goes on using, if each has its
 * place. False: it may not. */
bool ebb_nodes_succeed(ebb_nodes_t *nodes, const ebb_nodes_t *older);
/* A kernel, a copy or a memset has other parameters from now on. False: that cannot be followed. */
bool ebb_nodes_set(ebb_t *ebb, ebb_nodes_t *nodes, CUgraphNode node, const CUgraphNodeParams *params);
bool ebb_nodes_enable(ebb_nodes_t *nodes, CUgraphNode node, bool enabled);
/* Whether what its copies bring now has no address of memory that it allocates: those are not followed. */
bool ebb_nodes_can_be_issued(const ebb_nodes_t *nodes);
/* The most that the graph has allocated at once, at most. */
size_t ebb_nodes_peak(const ebb_nodes_t *nodes);
/* An error: nothing has been issued, or the program has failed (ebb_fail_program), for a graph cannot be launched in part. Lock not held; not
 * while another thread is in here with these nodes. */
CUresult ebb_nodes_issue(ebb_nodes_t *nodes, CUstream stream);

/* ---- the buffers that a graph mentions; lock held (capture.c) ---- */

typedef struct ebb_mention {
    CUdeviceptr address; /* of a buffer, the table's key: what a launch reaches is the one that lies there by then */
    uint64_t pinned;     /* the generation of the one that is pinned for this; 0: none */
    bool copied; /* a copy or memset has it: the driver may look at it as long as the graph is made */
} ebb_mention_t;

/* What lies at an address is pinned from when it is noted, or launched, for as long as the graph mentions it; once graphs have come apart, only
 * what is copied, until the graph has been instantiated. */
typedef struct ebb_mentions {
    ebb_table_t addresses; /* ebb_mention_t */
    size_t alloc_bytes;    /* that the graph allocates itself */
    ebb_device_t *counted; /* on whose budget they count; NULL: they do not */
    bool executable;
    bool all;   /* something of it could not be read: a launch as one may touch anything */
    bool stays; /* all of it is pinned, whether graphs have come apart or not */
    /* Objects of the program's, which the driver gives up with the graph, unless it knows of a launch under way. */
    bool owns;
} ebb_mentions_t;

/* Makes it resident, if it is to be pinned. CUDA_ERROR_OUT_OF_MEMORY: it cannot be. */
ebb_status_t ebb_mentions_add(ebb_mentions_t *mentions, ebb_buffer_t *buffer, bool copied);
/* What another graph mentions is resident already, or need not be, or is when this one is launched. */
void ebb_mentions_add_all(ebb_t *ebb, ebb_mentions_t *to, const ebb_mentions_t *from);
/* Before a launch as one. CUDA_ERROR_OUT_OF_MEMORY: it does not fit beside what else must stay. */
ebb_status_t ebb_mentions_stay(ebb_t *ebb, ebb_mentions_t *mentions);
/* Pins what is copied, and then no more of it, once graphs have come apart. */
ebb_status_t ebb_mentions_show(ebb_t *ebb, const ebb_mentions_t *mentions);
void ebb_mentions_let_go(ebb_t *ebb, const ebb_mentions_t *mentions);
/* What the graph allocates, once. False: it does not fit. */
bool ebb_mentions_count(ebb_device_t *dev, ebb_mentions_t *mentions);
/* It mentions no buffer any more; what it allocates stays. */
void ebb_mentions_empty(ebb_t *ebb, ebb_mentions_t *mentions);
/* Releases what it holds; it is empty then. */
void ebb_mentions_clear(ebb_t *ebb, ebb_mentions_t *mentions);
/* Appends an access for each where a buffer lies, room for addresses.count of them. */
void ebb_mentions_list(ebb_t *ebb, const ebb_mentions_t *mentions, ebb_operation_t *operation);

/* ---- captures (capture.c) ---- */

/* An operation on a capturing stream does not run. The buffers that it mentions are made resident (the driver
 * looks at the operands of copies when it makes a node of them) and stay so from then on, until the graph and
 * everything instantiated from it are destroyed, or graphs come apart. A launch of a graph as one is an operation (EBB_OTHER) on
 * all buffers that it mentions.
 *
 * While any stream is captured no plan is followed, the device as a whole is never waited for, and no event of
 * ebb's is recorded on a capturing stream: how far that one is, is asked before the capture begins. What has not
 * been mentioned may be evicted then as ever, on ebb's own streams. All with ebb_lock() held, unless it says
 * otherwise.
 */

/* Around the driver's call that begins a capture; `anew`: of a new graph. */
void ebb_capture_begins(ebb_t *ebb);
void ebb_capture_began(ebb_device_t *dev, CUresult result, CUstream stream, bool anew);
/* After the call that ends it: what was mentioned becomes the graph's. */
void ebb_capture_ended(ebb_device_t *dev, CUresult result, CUstream stream, CUgraph graph);
/* The stream is about to be destroyed, and with it a capture that began on it. */
void ebb_capture_stream_ends(const ebb_stream_t *stream);

/* An operation on a capturing stream: what it mentions belongs to the graph to be. CUDA_ERROR_OUT_OF_MEMORY: it
 * does not fit beside what else must stay. */
ebb_status_t ebb_capture_note(const ebb_operation_t *operation);
/* An allocation that the graph will make. */
void ebb_capture_note_alloc(ebb_t *ebb, CUstream stream, size_t bytes);

/* What a graph, or an executable one, mentions: made with the first question. Of a graph that lies within
 * another, what the other mentions; where that one is not known, what every graph is taken to mention. */
ebb_mentions_t *ebb_graph_mentions(ebb_t *ebb, const void *graph);
/* The same without making it: NULL, or what was there. */
const ebb_mentions_t *ebb_graph_known_mentions(ebb_t *ebb, const void *graph);
/* All that a graph mentions. */
void ebb_graph_mention(ebb_t *ebb, ebb_mentions_t *mentions, CUgraph graph);
/* `body` lies within `graph`; NULL: within an unknown one. */
void ebb_graph_contains(ebb_t *ebb, const void *graph, const void *body);
void ebb_graph_forget(ebb_t *ebb, const void *graph);
/* What every graph is taken to mention. */
ebb_mentions_t *ebb_graph_common_mentions(ebb_t *ebb);

/* Of an executable graph, what it is launched by once graphs have come apart; NULL: nothing. Takes over the nodes. */
void ebb_graph_give_nodes(ebb_t *ebb, const void *exec, ebb_nodes_t *nodes);
ebb_nodes_t *ebb_graph_nodes(ebb_t *ebb, const void *exec);
/* Where its last launch ended; stream NULL: it has had none. */
ebb_mark_t *ebb_graph_last_launch(ebb_t *ebb, const void *exec);
/* Whether memory has been short: graphs are launched node by node from then on, where that is possible. */
bool ebb_graphs_are_apart(ebb_device_t *dev);
/* Memory is short. False: the driver does not say enough of graphs for that. */
bool ebb_graphs_come_apart(ebb_t *ebb);
/* The same, and what the driver holds for graphs that are not launched as one any more goes back to it. False: it holds nothing, or a stream is being
 * captured. The host waits for their last launches. */
bool ebb_graphs_give_back(ebb_device_t *dev);

/* ---- what orders the program's streams and its host, reported to ckpt/run (work.c) ---- */

/* After the driver has done it, a record before; the lock is not held. One load if it is not wanted. */
void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event);
/* The same if `result` is a success; returns it. */
static inline CUresult ebb_order_done(CUresult result, ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    if (!result)
        ebb_order_note(kind, stream, event);
    return result;
}

/* What the host waits for before it returns from a synchronous call, unless that has failed. */
static inline CUresult ebb_order_wait(CUstream stream, CUresult result)
{
    return result ? result
                  : ebb_waited(ebb_order_done(EBB_PASS(cuStreamSynchronize, (stream)), EBB_ORDER_SYNC_STREAM,
                                              stream, NULL));
}

/* After a record. */
static inline CUresult ebb_order_recorded(CUresult result, CUevent event)
{
    if (result)
        ebb_order_note(EBB_ORDER_NOT_RECORDED, NULL, event);
    return result;
}

/* ---- the program's own mappings (foreign.c) ---- */

/* What has become of them since the last time is known from now on. Lock held, nothing in preparation. */
void ebb_mappings_take_in(ebb_t *ebb);

/* ---- tables (tables.c) ---- */

/* Pointers and tensor maps that the program copies into device memory, where kernels may follow them (grouped matrix
 * products have such tables). Where a kernel's arguments lead to one, or to one that leads to it, what it points to are operands as the
 * arguments are. What stands in variables of modules and other memory than ebb's, or is led to from there, any kernel may follow: it
 * is pinned for as long as it stands there, and so is what a table points to that is pinned itself (a graph has it). Seen is what is copied
 * from the host, and on from there by flat copies; what kernels write is not.
 *
 * Lock held.
 */

/* So much of a copy from the host is looked through for pointers. What is larger is data, or packs pointers with numbers and has the pointers
 * first: then all up to the first word that is none (PyTorch's pack_vecs, aten/src/ATen/native/cuda/TensorShape.cu, with a number for each 2 KiB that a launch moves). */
enum { EBB_LARGEST_TABLE = 64 << 10 };

/* `bytes` are about to be copied from host or device memory to `to`, or will be by a graph (`later`): what stands there may be followed until
 * then, as with every copy taken while streams are captured. CUDA_ERROR_OUT_OF_MEMORY: what has to be pinned does
 * not fit beside what else must stay. What cannot be read is no host memory, and passed over. */
ebb_status_t ebb_table_written(ebb_t *ebb, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool later);
/* The addresses of the buffers that are reached from the operation's accesses by tables, each once, in an order that follows from the accesses'
 * and the tables'. Returns their number. Good until the next call about tables. */
uint32_t ebb_tables_follow(ebb_t *ebb, const ebb_operation_t *op, const CUdeviceptr **found);
/* Something that ebb does not see may reach the buffer at any time: ebb_buffer_pin, also of what it leads to. That stays pinned until other words
 * stand there. What comes while the buffer is pinned is pinned too. */
ebb_status_t ebb_table_pin(ebb_buffer_t *buffer);
/* The memory is freed or set. */
void ebb_table_gone(ebb_t *ebb, CUdeviceptr base, size_t bytes);

/* ---- functions of the driver that ebb does not know (unknown.c) ---- */

/* Those of a driver that is newer than driver_calls.h, and newer forms of its rows: cuda.core calls cuMemcpyWithAttributesAsync where the driver is of
 * CUDA 13.2 (NVIDIA/cuda-python). What they touch is anybody's guess. To look one up is harmless, and libraries look up all that they know of; so an
 * entry point is answered that goes on to the function with the arguments as they came. At its first call everything is made resident, and nothing
 * leaves the device any more; if there is no room for it, it returns CUDA_ERROR_OUT_OF_MEMORY instead, and may be called again. */

#define EBB_UNKNOWNS 256 /* a plain number: the assembler reads it, too */

/* The entry point that stands for it. If none is left, or no host memory, the function itself, and all that is done at once. Any thread, lock not
 * held. */
void *ebb_unknown(const char *name, void *real);

/* ---- what this folder remembers of the process (ebb_t's `hook`); guarded by ebb_lock() but for what is atomic ---- */

/* tables.c */
typedef struct ebb_pointer_table {
    struct ebb_table_word *word; /* [room] by address */
    size_t count, room;
    size_t lasting;     /* how many are reached without an operand */
    CUdeviceptr *found; /* [room] buffers: the last search's, or from which others are to be held */
    uint32_t found_count;
    uint64_t search;
    CUdeviceptr read[EBB_LARGEST_TABLE / sizeof(CUdeviceptr)]; /* the copy that is looked through */
} ebb_pointer_table_t;

struct ebb_hook {
    bool unserved_said; /* enter.c */
    /* capture.c */
    struct ebb_capture *captures;
    struct ebb_graph *graphs;
    ebb_mentions_t common; /* what every graph is taken to mention */
    bool apart;
    /* foreign.c */
    struct ebb_physical *physicals;
    _Atomic(struct ebb_change *) changes; /* owns; the last one first */
    atomic_bool segments_noticed;
    struct ebb_array *arrays;
    /* share.c */
    atomic_bool ipc_refused; /* and said so */
    atomic_bool sync_memops;
    struct ebb_texture *textures;
    ebb_pointer_table_t pointers;
    /* unknown.c */
    _Atomic(struct ebb_unknown *) unknown[EBB_UNKNOWNS];
};

#endif
