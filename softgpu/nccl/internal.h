/* internal.h: libnccl.so.2 of the software device: NVIDIA's interface (nccl.h, 2.28) between the ranks of one machine, which may be
 * processes, threads, or devices of one thread.
 *
 * The way of a call
 *   collectives.c   makes a piece of work of the call's arguments
 *   group.c         gathers what lies between ncclGroupStart and ncclGroupEnd; launches one kernel a communicator, on the caller's stream
 *   kernel.c        what the kernel does on the device: moves bytes through the segment, waits for the other ranks
 *   segment.c       the memory that all ranks of a communicator share, and who of them is still alive
 *   comm.c          communicators: making, splitting, ending; memory.c: what NCCL allocates and registers
 *
 * As with NVIDIA's library, a collective is a kernel launch with one argument of 4096 bytes, given by cuLaunchKernelEx's `extra`, of which
 * only the beginning is passed (src/enqueue.cc: ncclLaunchKernel, uploadWork). The operands are in there while they fit, and
 * beyond that in pinned memory, which no argument names. The kernel spins until the other ranks have come.
 *
 * Sums go by rank, in fp32 for types of 16 bits: the same bits whenever and wherever the ranks come.
 *
 * Threads: a communicator belongs to one thread at a time; different ones may be used at once. What is guarded by what is said with it.
 */
#ifndef SOFTGPU_NCCL_INTERNAL_H
#define SOFTGPU_NCCL_INTERNAL_H

#include <cuda.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/kernel_abi.h"

/* ---- segment.c ---- */

enum {
    NCCL_MAX_RANKS = 256,
    NCCL_SLOTS = 2,              /* a rank fills one while others still read the one before */
    NCCL_SLOT_BYTES = 256 << 10, /* of collectives: each rank has NCCL_SLOTS of them */
    NCCL_PAIR_BYTES = 64 << 10,  /* of sends: each pair of ranks has */
    NCCL_EXCHANGE_BYTES = 64,
};

/* Counts what has been put into slots, and what has been taken out; both only grow. */
typedef struct nccl_flow {
    _Alignas(64) _Atomic uint64_t put;
    _Alignas(64) _Atomic uint64_t taken;
} nccl_flow_t;

/* A rank as the others see it. */
typedef struct nccl_peer {
    _Alignas(64) _Atomic int pid; /* 0: not there yet */
    uint64_t began;               /* its process, in the kernel's ticks: numbers of processes come again */
    char bus[16];                 /* of its device */
    _Atomic bool left, aborted;   /* it has ended the communicator, in peace or not */
    _Atomic uint64_t exchanges;   /* so many texts has it put up for the others */
    char exchange[NCCL_SLOTS][NCCL_EXCHANGE_BYTES];
    nccl_flow_t flow; /* of collectives; `taken`: by this rank from all */
} nccl_peer_t;

typedef struct nccl_segment {
    void *memory;
    size_t bytes;
    int ranks, rank;
    bool dry;            /* nothing moves, and nobody is waited for: the others need not be there */
    nccl_peer_t *peer;   /* [ranks] */
    nccl_flow_t *pair;   /* [ranks][ranks], from and to */
    char *slots, *pairs; /* [ranks][NCCL_SLOTS], [ranks][ranks][NCCL_SLOTS] */
    uint64_t exchanges;
} nccl_segment_t;

/* A name of the right kind that nobody else has. */
ncclResult_t nccl_segment_name(char name[static NCCL_UNIQUE_ID_BYTES]);
/* Waits until all ranks have come: SOFTGPU_NCCL_TIMEOUT seconds, 120. ncclInvalidUsage: somebody else has this rank.
 * ncclRemoteError: one has ended meanwhile, or not come. `bus`: the device's address; two with the same are ncclInvalidUsage, as with
 * NVIDIA's library. */
ncclResult_t nccl_segment_open(nccl_segment_t *s, const char *name, int ranks, int rank, const char *bus);
void nccl_segment_close(nccl_segment_t *s);
/* Every rank gives some bytes (NCCL_EXCHANGE_BYTES at most) and gets those of all, on the host; those that are `absent` (NULL: none) do
 * neither. */
ncclResult_t nccl_segment_exchange(nccl_segment_t *s, const void *mine, size_t bytes, void *all,
                                   const bool *absent);
/* A rank that was there and is not `absent` has aborted, or its process has ended: its number, else -1. Takes some microseconds a rank. */
int nccl_segment_lost(const nccl_segment_t *s, const bool *absent);

static inline char *nccl_slot(const nccl_segment_t *s, int rank, uint64_t number)
{
    return s->slots + ((size_t)rank * NCCL_SLOTS + number % NCCL_SLOTS) * NCCL_SLOT_BYTES;
}
static inline nccl_flow_t *nccl_pair(const nccl_segment_t *s, int from, int to)
{
    return &s->pair[(size_t)from * (size_t)s->ranks + (size_t)to];
}
static inline char *nccl_pair_slot(const nccl_segment_t *s, int from, int to, uint64_t number)
{
    return s->pairs + (((size_t)from * (size_t)s->ranks + (size_t)to) * NCCL_SLOTS + number % NCCL_SLOTS) *
                          NCCL_PAIR_BYTES;
}

/* ---- reduce.c ---- */

/* 0: none of NCCL's types. */
size_t nccl_type_bytes(ncclDataType_t type);

/* What is done to elements: `op` is one of NCCL's five, or ncclSum with `scaled`. */
typedef struct nccl_reduction {
    ncclDataType_t type;
    ncclRedOp_t op;
    bool scaled;
    double scale;             /* each rank's own elements are multiplied by it first */
    const void *device_scale; /* on the device, of the type; NULL: `scale` */
} nccl_reduction_t;

/* Whether there is such a reduction: of 8-bit floats there is none here. */
bool nccl_can_reduce(ncclDataType_t type);
/* What `device_scale` points to, or `scale`. On the device, or where that is memory of the host's. */
double nccl_factor(const nccl_reduction_t *r);
/* to[count] = from[count], multiplied if it is scaled. */
void nccl_contribute(const nccl_reduction_t *r, void *to, const void *from, size_t count);
/* to[count] = from[0] op from[1] ... of `ranks` sources, in this order. */
void nccl_reduce(const nccl_reduction_t *r, void *to, const void *const *from, int ranks, size_t count);

/* ---- kernel.c ---- */

typedef enum nccl_what {
    NCCL_ALL_REDUCE,
    NCCL_REDUCE,
    NCCL_REDUCE_SCATTER,
    NCCL_BROADCAST,
    NCCL_ALL_GATHER,
    NCCL_ALL_TO_ALL,
    NCCL_GATHER,
    NCCL_SCATTER,
    NCCL_SEND,
    NCCL_RECV,
    NCCL_WHATS,
    NCCL_MIXED = NCCL_WHATS, /* of a launch: several kinds at once */
    NCCL_KERNELS
} nccl_what_t;

typedef struct nccl_work {
    const void *send;
    void *recv;
    size_t count; /* elements, as the call has it */
    nccl_what_t what;
    int peer; /* or root */
    nccl_reduction_t reduction;
} nccl_work_t;

/* What a kernel finds of its communicator. In pinned memory. */
typedef struct nccl_place {
    nccl_segment_t segment;
    _Atomic bool abort; /* the host wants its kernels to end */
    _Atomic int result; /* ncclResult_t: why they have ended */
    double link_gb_s, latency_ns;
} nccl_place_t;

/* What a kernel finds of its communicator in the device's memory: the first argument leads here, and from here to a buffer that no argument names.
 * As with NVIDIA's library both are memory that it creates itself (cuMemCreate), or with NCCL_CUMEM_ENABLE=0 memory as any program's. */
enum { NCCL_STAGING_BYTES = 4 << 20 };
typedef struct nccl_device_part {
    nccl_place_t *place;
    volatile char
        *staging; /* each launch writes to it, here and there, and finds what the last one has written */
    uint64_t launches;
} nccl_device_part_t;

/* Works that did not fit. The kernel sets `free` when it has read them for the last time. */
typedef struct nccl_spill {
    struct nccl_spill *next;
    uint32_t room;
    bool captured; /* a graph may launch it again: never free */
    _Atomic bool free;
    nccl_work_t work[];
} nccl_spill_t;

enum { NCCL_ARGUMENT_BYTES = 4096, NCCL_WORKS_INSIDE = (NCCL_ARGUMENT_BYTES - 32) / sizeof(nccl_work_t) };

/* The one argument. */
typedef union nccl_arguments {
    struct {
        nccl_device_part_t *comm;
        nccl_spill_t *spill; /* NULL: inside */
        uint32_t count, unused;
        const nccl_place_t *place; /* for whoever asks on the host what it takes */
        nccl_work_t work[NCCL_WORKS_INSIDE];
    };
    char all[NCCL_ARGUMENT_BYTES];
} nccl_arguments_t;
_Static_assert(sizeof(nccl_arguments_t) == NCCL_ARGUMENT_BYTES, "NVIDIA's kernels have one of 4096 bytes");

extern const char *const nccl_kernel_names[NCCL_KERNELS];

/* ---- comm.c ---- */

#define NCCL_DRIVER_FUNCTIONS(F)                                                                             \
    F(cuInit)                                                                                                \
    F(cuDeviceCanAccessPeer)                                                                                 \
    F(cuDeviceGetAttribute)                                                                                  \
    F(cuDeviceGetByPCIBusId)                                                                                 \
    F(cuDeviceGetCount)                                                                                      \
    F(cuDeviceGetName)                                                                                       \
    F(cuDeviceGetPCIBusId)                                                                                   \
    F(cuDevicePrimaryCtxRetain)                                                                              \
    F(cuDevicePrimaryCtxRelease)                                                                             \
    F(cuCtxEnablePeerAccess)                                                                                 \
    F(cuCtxGetCurrent)                                                                                       \
    F(cuCtxGetDevice)                                                                                        \
    F(cuCtxPushCurrent)                                                                                      \
    F(cuCtxPopCurrent)                                                                                       \
    F(cuEventCreate)                                                                                         \
    F(cuEventDestroy)                                                                                        \
    F(cuEventRecord)                                                                                         \
    F(cuEventSynchronize)                                                                                    \
    F(cuLibraryLoadData)                                                                                     \
    F(cuLibraryGetKernel)                                                                                    \
    F(cuKernelGetFunction)                                                                                   \
    F(cuFuncLoad)                                                                                            \
    F(cuLaunchKernelEx)                                                                                      \
    F(cuMemAddressFree)                                                                                      \
    F(cuMemAlloc)                                                                                            \
    F(cuMemFree)                                                                                             \
    F(cuMemcpyHtoD)                                                                                          \
    F(cuMemsetD8)                                                                                            \
    F(cuMemAddressReserve)                                                                                   \
    F(cuMemCreate)                                                                                           \
    F(cuMemFreeHost)                                                                                         \
    F(cuMemGetAddressRange)                                                                                  \
    F(cuMemGetAllocationGranularity)                                                                         \
    F(cuMemHostAlloc)                                                                                        \
    F(cuMemMap)                                                                                              \
    F(cuMemRelease)                                                                                          \
    F(cuMemSetAccess)                                                                                        \
    F(cuMemUnmap)                                                                                            \
    F(cuCtxSynchronize)                                                                                      \
    F(cuStreamGetCaptureInfo)                                                                                \
    F(cuStreamWaitEvent)                                                                                     \
    F(cuThreadExchangeStreamCaptureMode)

typedef struct nccl_driver {
#define MEMBER(name) __typeof__(name) *name;
    NCCL_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} nccl_driver_t;

/* Constant once nccl_start has succeeded. */
extern nccl_driver_t nccl_driver;
/* The driver, and cuInit. Any number of times, from any thread. */
ncclResult_t nccl_start(void);

enum { NCCL_OPS_OF_ITS_OWN = 64 };

struct ncclComm {
    uint64_t magic;
    int rank, ranks, device;
    CUcontext context;         /* the primary one, retained */
    nccl_place_t *place;       /* pinned, owned */
    CUdeviceptr part, staging; /* owned */
    CUfunction kernel[NCCL_KERNELS];
    /* Kernels of a communicator run one after another: `order` is recorded behind each that is launched at once, `captured` behind each that is
     * captured, by the capture of that number. What a graph launches is in order with nothing else: that is the program's. */
    CUevent order, captured;
    CUevent join;  /* for the streams of a group */
    CUstream last; /* of the last launch, while `launched` */
    cuuint64_t capture;
    bool launched, in_graphs, finalized;
    bool shrunk; /* its ranks don't have the same numbers of exchanges any more */
    unsigned channels;
    nccl_spill_t *spills;
    /* ncclRedOpCreatePreMulSum: op NUMBER is ncclNumOps + its place. */
    struct {
        bool used;
        nccl_reduction_t reduction;
    } op[NCCL_OPS_OF_ITS_OWN];
};

/* NULL, or one that has ended: false. */
bool nccl_is_comm(ncclComm_t comm);
/* Keeps what ncclGetLastError says, of this thread; returns `result`. */
ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
ncclResult_t nccl_from_driver(CUresult result, const char *call);
#define NCCL_DRIVER(call)                                                                                    \
    do {                                                                                                     \
        const CUresult driver_ = nccl_driver.call;                                                           \
        if (driver_)                                                                                         \
            return nccl_from_driver(driver_, #call);                                                         \
    } while (0)
#define NCCL_TRY(call)                                                                                       \
    do {                                                                                                     \
        const ncclResult_t result_ = (call);                                                                 \
        if (result_)                                                                                         \
            return result_;                                                                                  \
    } while (0)

#define NCCL_CHECK_COMM(comm)                                                                                \
    do {                                                                                                     \
        if (!nccl_is_comm(comm))                                                                             \
            return nccl_fail(ncclInvalidArgument, "%s: no communicator", __func__);                          \
    } while (0)
/* The device that is current, else the first. */
ncclResult_t nccl_current_device(int *device);

/* ---- memory.c ---- */

/* Whole pages of the driver's, with an address of their own, which another process could be given, as NVIDIA's library makes them. */
ncclResult_t nccl_pages_new(CUdeviceptr *out, size_t bytes, int device);
ncclResult_t nccl_pages_free(CUdeviceptr at);

/* ---- group.c ---- */

/* nccl.h has no prototypes of these. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* A communicator to be made. Inside a group it is made when that ends, beside the others. */
typedef struct nccl_init {
    ncclComm_t *out;
    char name[NCCL_UNIQUE_ID_BYTES];
    int ranks, rank, device;
    ncclComm_t parent;           /* NULL: by name */
    int color, key;              /* of a split */
    bool absent[NCCL_MAX_RANKS]; /* of the parent's, which say nothing */
} nccl_init_t;
ncclResult_t nccl_init_comm(const nccl_init_t *init);
ncclResult_t nccl_init_now(const nccl_init_t *init); /* comm.c: what nccl_init_comm does when it is time */

/* Inside a group: launched when that ends. */
ncclResult_t nccl_enqueue(ncclComm_t comm, const nccl_work_t *work, CUstream stream);
/* A call was wrong: so is the group that it is in. Returns `why`. */
ncclResult_t nccl_reject(ncclResult_t why);

#endif
