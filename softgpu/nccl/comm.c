/* comm.c: communicators: how they begin, what can be asked of them, how they end. */
#include "softgpu/nccl/internal.h"
#include "softgpu/runtime/driver_loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6e63636c636f6d6d)

nccl_driver_t nccl_driver;

/* What counts is the object that it lies in (softgpu/kernel_abi.h, rule 1). */
static const char kernel_image[] = ".version 9.0\n.target sm_80\n.address_size 64\n";

static const driver_entry_t driver_entries[] = {
#define ENTRY(name) {#name, offsetof(nccl_driver_t, name), 0},
    NCCL_DRIVER_FUNCTIONS(ENTRY)
#undef ENTRY
};

enum { ENTRIES = sizeof driver_entries / sizeof driver_entries[0] };

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;                   /* guarded by start_lock */
static CUkernel kernels[NCCL_KERNELS]; /* the same */

/* ---- errors ---- */

static _Thread_local char last_error[256];

ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(last_error, sizeof last_error, format, list);
    va_end(list);
    const char *debug = getenv("NCCL_DEBUG");
    if (debug && strcmp(debug, "VERSION"))
        fprintf(stderr, "softgpu: nccl: %s\n", last_error);
    return result;
}

ncclResult_t nccl_from_driver(CUresult result, const char *call)
{
    return nccl_fail(ncclUnhandledCudaError, "CUDA error %d of %s", (int)result, call);
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (NCCL_DEBUG=INFO tells more)",
        [ncclSystemError] = "unhandled system error (NCCL_DEBUG=INFO tells more)",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

/* What a function of NVIDIA's library does that no file here defines (the generated stubs call it). */
int nccl_stub(const char *name, _Atomic int *said);
int nccl_stub(const char *name, _Atomic int *said)
{
    if (!atomic_exchange(said, 1))
        fprintf(stderr, "softgpu: %s is not provided\n", name);
    return ncclInvalidUsage;
}

/* ---- the driver ---- */

static ncclResult_t find_driver(void)
{
    driver_lookup_fn lookup = driver_open();
    if (!lookup)
        return nccl_fail(ncclSystemError, "there is no CUDA driver");
    driver_fill(lookup, driver_entries, ENTRIES, 0, &nccl_driver);
    const char *missing = driver_missing(driver_entries, ENTRIES, &nccl_driver);
    if (missing)
        return nccl_fail(ncclSystemError, "the CUDA driver has no %s", missing);
    NCCL_DRIVER(cuInit(0));
    return ncclSuccess;
}

ncclResult_t nccl_start(void)
{
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&start_lock);
    if (!started && !(result = find_driver()))
        started = true;
    pthread_mutex_unlock(&start_lock);
    return result;
}

/* In a context. */
static ncclResult_t load_kernels(void)
{
    CUlibrary library;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&start_lock);
    if (!kernels[0]) {
        result = nccl_driver.cuLibraryLoadData(&library, kernel_image, NULL, NULL, 0, NULL, NULL, 0);
        for (int i = NCCL_KERNELS - 1; i >= 0 && !result; i--)
            result = nccl_driver.cuLibraryGetKernel(&kernels[i], library, nccl_kernel_names[i]);
    }
    pthread_mutex_unlock(&start_lock);
    return result ? nccl_from_driver(result, "cuLibraryLoadData") : ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return nccl_fail(ncclInvalidArgument, "no place for the version");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

/* ---- beginnings ---- */

/* What a link between two ranks carries each way, in GB/s, and a hop's latency, by SOFTGPU_NCCL_LINK: `nvlink`, `pcie`, or a network's
 * Gbit/s. By itself NVLink where a GPU of that name has it: NVIDIA's data sheets have 600 GB/s for A100, 900 for H100 and H200, 1800 for B200, both
 * ways together. The protocol takes some 20% of a link's rate (NVIDIA/nccl-tests issue 212: 370 of 450 GB/s on H100). Latencies and
 * numbers of channels are round figures of ours. */
static void choose_link(ncclComm_t comm, nccl_place_t *place)
{
    static const struct {
        const char *part;
        double gb_s;
    } nvlinks[] = {{"SXM4", 300}, {"HBM3", 450}, {"H200", 450}, {"B200", 900}};
    const char *wanted = getenv("SOFTGPU_NCCL_LINK");
    char name[128] = "";
    int major = 0;
    double nvlink = 0;
    nccl_driver.cuDeviceGetName(name, sizeof name, comm->device);
    nccl_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, comm->device);
    for (size_t i = 0; i < sizeof nvlinks / sizeof *nvlinks; i++)
        nvlink = strstr(name, nvlinks[i].part) ? nvlinks[i].gb_s : nvlink;
    const double network = wanted ? strtod(wanted, NULL) : 0;
    if (network > 0) {
        place->link_gb_s = 0.8 * network / 8;
        place->latency_ns = 10000;
        comm->channels = 2;
    } else if ((wanted && !strcmp(wanted, "nvlink")) || (!wanted && nvlink > 0)) {
        place->link_gb_s = 0.8 * (nvlink > 0 ? nvlink : 300);
        place->latency_ns = 1000;
        comm->channels = 16;
    } else {
        place->link_gb_s = 0.8 * (major >= 9 ? 55 : 26);
        place->latency_ns = 2000;
        comm->channels = 4;
    }
}

static bool creates_memory(void)
{
    const char *wanted = getenv("NCCL_CUMEM_ENABLE");
    return !wanted || strcmp(wanted, "0");
}

static ncclResult_t new_memory(CUdeviceptr *out, size_t bytes, int device)
{
    if (creates_memory())
        return nccl_pages_new(out, bytes, device);
    NCCL_DRIVER(cuMemAlloc(out, bytes));
    return ncclSuccess;
}

static void free_memory(CUdeviceptr at)
{
    if (at && creates_memory())
        nccl_pages_free(at);
    else if (at)
        nccl_driver.cuMemFree(at);
}

static ncclResult_t make_device_part(ncclComm_t comm)
{
    NCCL_TRY(new_memory(&comm->staging, NCCL_STAGING_BYTES, comm->device));
    NCCL_TRY(new_memory(&comm->part, sizeof(nccl_device_part_t), comm->device));
    const nccl_device_part_t part = {.place = comm->place, .staging = (char *)(uintptr_t)comm->staging};
    NCCL_DRIVER(cuMemsetD8(comm->staging, 0, NCCL_STAGING_BYTES));
    NCCL_DRIVER(cuMemcpyHtoD(comm->part, &part, sizeof part));
    /* Neither of the two has waited, and streams of the program's need not wait for the default one. */
    NCCL_DRIVER(cuCtxSynchronize());
    return ncclSuccess;
}

static void destroy(ncclComm_t comm)
{
    nccl_spill_t *next;
    CUcontext previous;
    nccl_driver.cuCtxPushCurrent(comm->context);
    for (nccl_spill_t *spill = comm->spills; spill; spill = next) {
        next = spill->next;
        nccl_driver.cuMemFreeHost(spill);
    }
    free_memory(comm->staging);
    free_memory(comm->part);
    CUevent events[] = {comm->order, comm->captured, comm->join};
    for (int i = 0; i < 3; i++)
        if (events[i])
            nccl_driver.cuEventDestroy(events[i]);
    if (comm->place) {
        nccl_segment_close(&comm->place->segment);
        nccl_driver.cuMemFreeHost(comm->place);
    }
    nccl_driver.cuCtxPopCurrent(&previous);
    nccl_driver.cuDevicePrimaryCtxRelease(comm->device);
    comm->magic = 0;
    free(comm);
}

/* In the communicator's context. */
static ncclResult_t equip(ncclComm_t comm)
{
    void *place;
    NCCL_DRIVER(
        cuMemHostAlloc(&place, sizeof *comm->place, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    comm->place = memset(place, 0, sizeof *comm->place);
    NCCL_DRIVER(cuEventCreate(&comm->order, CU_EVENT_DISABLE_TIMING));
    NCCL_DRIVER(cuEventCreate(&comm->captured, CU_EVENT_DISABLE_TIMING));
    NCCL_DRIVER(cuEventCreate(&comm->join, CU_EVENT_DISABLE_TIMING));
    NCCL_TRY(make_device_part(comm));
    NCCL_TRY(load_kernels());
    /* Loaded now: a kernel that is loaded when it is launched waits for others, which may wait for it. */
    for (int i = 0; i < NCCL_KERNELS; i++) {
        NCCL_DRIVER(cuKernelGetFunction(&comm->kernel[i], kernels[i]));
        NCCL_DRIVER(cuFuncLoad(comm->kernel[i]));
    }
    choose_link(comm, comm->place);
    return ncclSuccess;
}

/* As NCCL: between ranks of one process, unless NCCL_P2P_DISABLE=1 (NVIDIA/nccl, src/transport/p2p.cc, p2pMap). In the communicator's context. */
static ncclResult_t enable_peers(ncclComm_t comm)
{
    const nccl_segment_t *s = &comm->place->segment;
    CUdevice device;
    CUcontext context;
    int can = 0;
    const char *disabled = getenv("NCCL_P2P_DISABLE");
    for (int i = 0; i < s->ranks && (!disabled || !strcmp(disabled, "0")); i++) {
        if (i == s->rank || atomic_load(&s->peer[i].pid) != getpid())
            continue;
        NCCL_DRIVER(cuDeviceGetByPCIBusId(&device, s->peer[i].bus));
        NCCL_DRIVER(cuDeviceCanAccessPeer(&can, comm->device, device));
        if (!can)
            continue;
        NCCL_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
        const CUresult result = nccl_driver.cuCtxEnablePeerAccess(context, 0);
        nccl_driver.cuDevicePrimaryCtxRelease(device);
        if (result && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
            return nccl_from_driver(result, "cuCtxEnablePeerAccess");
    }
    return ncclSuccess;
}

static ncclResult_t join(ncclComm_t *out, const char *name, int ranks, int rank, int device)
{
    CUcontext previous, context;
    char bus[16];
    NCCL_TRY(nccl_start());
    NCCL_DRIVER(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    NCCL_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm) {
        nccl_driver.cuDevicePrimaryCtxRelease(device);
        return nccl_fail(ncclSystemError, "out of host memory");
    }
    *comm =
        (struct ncclComm){.magic = MAGIC, .rank = rank, .ranks = ranks, .device = device, .context = context};
    nccl_driver.cuCtxPushCurrent(context);
    ncclResult_t result = equip(comm);
    if (!result)
        result = nccl_segment_open(&comm->place->segment, name, ranks, rank, bus);
    if (!result && (result = enable_peers(comm)))
        atomic_store(&comm->place->segment.peer[rank].aborted, true);
    if (result)
        destroy(comm);
    else
        *out = comm;
    nccl_driver.cuCtxPopCurrent(&previous);
    return result;
}

/* What each rank of a parent says of the communicator it wants. */
typedef struct split_info {
    int color, key;
    char name[NCCL_EXCHANGE_BYTES - 2 * sizeof(int)];
} split_t;

/* By key, then by rank in the parent. The name is the first one's. */
static ncclResult_t split(const nccl_init_t *b)
{
    ncclComm_t parent = b->parent;
    split_t mine = {.color = b->color, .key = b->key}, *all = calloc((size_t)parent->ranks, sizeof *all);
    char name[NCCL_UNIQUE_ID_BYTES] = "";
    if (!all)
        return nccl_fail(ncclSystemError, "out of host memory");
    ncclResult_t result = nccl_segment_name(name);
    memcpy(mine.name, name, sizeof mine.name);
    if (!result)
        result = nccl_segment_exchange(&parent->place->segment, &mine, sizeof mine, all, b->absent);
    int ranks = 0, rank = 0, first = -1;
    for (int i = 0; i < parent->ranks && !result; i++) {
        if (b->absent[i] || all[i].color != b->color)
            continue;
        ranks++;
        rank += all[i].key < b->key || (all[i].key == b->key && i < parent->rank);
        if (first < 0 || all[i].key < all[first].key)
            first = i;
    }
    if (!result && b->color == NCCL_SPLIT_NOCOLOR) {
        *b->out = NULL;
    } else if (!result) {
        memcpy(name, all[first].name, sizeof all->name);
        result = join(b->out, name, ranks, rank, parent->device);
    }
    free(all);
    return result;
}

ncclResult_t nccl_init_now(const nccl_init_t *b)
{
    return b->parent ? split(b) : join(b->out, b->name, b->ranks, b->rank, b->device);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return nccl_fail(ncclInvalidArgument, "no place for the id");
    NCCL_TRY(nccl_start());
    return nccl_segment_name(id->internal);
}

static ncclResult_t check_config(const ncclConfig_t *config)
{
    if (config && (config->magic != 0xcafebeef || config->size < offsetof(ncclConfig_t, blocking)))
        return nccl_fail(ncclInvalidArgument, "a configuration that is not initialised");
    return ncclSuccess;
}

ncclResult_t nccl_current_device(int *device)
{
    CUcontext context = NULL;
    *device = 0;
    NCCL_TRY(nccl_start());
    NCCL_DRIVER(cuCtxGetCurrent(&context));
    if (context)
        NCCL_DRIVER(cuCtxGetDevice(device));
    return ncclSuccess;
}

/* What is not blocking here is over when the call returns, all the same. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    nccl_init_t b = {.out = comm, .ranks = ranks, .rank = rank};
    if (!comm || ranks < 1 || ranks > NCCL_MAX_RANKS || rank < 0 || rank >= ranks ||
        strncmp(id.internal, "/softgpu-nccl-", 14))
        return nccl_fail(ncclInvalidArgument, "rank %d of %d, or an id that is none of this library's", rank,
                         ranks);
    *comm = NULL;
    NCCL_TRY(check_config(config));
    NCCL_TRY(nccl_current_device(&b.device));
    memcpy(b.name, id.internal, sizeof b.name);
    return nccl_init_comm(&b);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int count, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    if (count < 1 || !ids)
        return nccl_fail(ncclInvalidArgument, "no id");
    return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int count, const int *devices)
{
    int there = 0;
    nccl_init_t b = {.ranks = count};
    NCCL_TRY(nccl_start());
    NCCL_DRIVER(cuDeviceGetCount(&there));
    if (!comm || count < 1 || count > NCCL_MAX_RANKS)
        return nccl_fail(ncclInvalidArgument, "%d ranks", count);
    for (int i = 0; i < count; i++)
        if ((devices ? devices[i] : i) < 0 || (devices ? devices[i] : i) >= there)
            return nccl_fail(devices ? ncclUnhandledCudaError : ncclInvalidArgument, "there are %d devices",
                             there);
    NCCL_TRY(nccl_segment_name(b.name));
    NCCL_TRY(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        b.out = &comm[i];
        b.rank = i;
        b.device = devices ? devices[i] : i;
        nccl_init_comm(&b);
    }
    return ncclGroupEnd();
}

bool nccl_is_comm(ncclComm_t comm)
{
    return comm && comm->magic == MAGIC;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    NCCL_CHECK_COMM(comm);
    if (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
        return nccl_fail(ncclInvalidArgument, "color %d", color);
    if (comm->shrunk)
        return nccl_fail(ncclInvalidUsage, "it has been shrunk");
    *out = NULL;
    NCCL_TRY(check_config(config));
    return nccl_init_comm(&(nccl_init_t){.out = out, .parent = comm, .color = color, .key = key});
}

/* Those of graphs are known by nothing but the context. */
static ncclResult_t wait_for_kernels(ncclComm_t comm)
{
    CUcontext previous;
    nccl_driver.cuCtxPushCurrent(comm->context);
    const CUresult result = comm->in_graphs  ? nccl_driver.cuCtxSynchronize()
                            : comm->launched ? nccl_driver.cuEventSynchronize(comm->order)
                                             : CUDA_SUCCESS;
    nccl_driver.cuCtxPopCurrent(&previous);
    return result ? nccl_from_driver(result, "cuEventSynchronize") : ncclSuccess;
}

static ncclResult_t stop_kernels(ncclComm_t comm)
{
    atomic_store(&comm->place->abort, true);
    return wait_for_kernels(comm);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *out, ncclConfig_t *config,
                            int flags)
{
    NCCL_CHECK_COMM(comm);
    if (!out || !excluded || count < 1 || count >= comm->ranks)
        return nccl_fail(ncclInvalidArgument, "%d of %d ranks are to go", count, comm->ranks);
    *out = NULL;
    NCCL_TRY(check_config(config));
    nccl_init_t b = {.out = out, .parent = comm, .key = comm->rank};
    for (int i = 0; i < count; i++) {
        if (excluded[i] < 0 || excluded[i] >= comm->ranks || excluded[i] == comm->rank)
            return nccl_fail(ncclInvalidArgument, "rank %d is to go", excluded[i]);
        b.absent[excluded[i]] = true;
    }
    if (flags & NCCL_SHRINK_ABORT)
        NCCL_TRY(stop_kernels(comm));
    if (comm->shrunk)
        return nccl_fail(ncclInvalidUsage, "it has been shrunk");
    comm->shrunk = true;
    return nccl_init_comm(&b);
}

/* ---- what can be asked ---- */

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    NCCL_CHECK_COMM(comm);
    *count = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    NCCL_CHECK_COMM(comm);
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    NCCL_CHECK_COMM(comm);
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    NCCL_CHECK_COMM(comm);
    if (!result)
        return nccl_fail(ncclInvalidArgument, "no place for the error");
    *result = (ncclResult_t)atomic_load(&comm->place->result);
    const int lost = *result ? -1 : nccl_segment_lost(&comm->place->segment, NULL);
    if (lost >= 0)
        *result = nccl_fail(ncclRemoteError, "rank %d has ended", lost);
    return ncclSuccess;
}

/* ---- ends ---- */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    NCCL_CHECK_COMM(comm);
    if (comm->finalized)
        return nccl_fail(ncclInvalidArgument, "finalized before");
    comm->finalized = true;
    const ncclResult_t result = wait_for_kernels(comm);
    atomic_store(&comm->place->segment.peer[comm->rank].left, true);
    return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    NCCL_CHECK_COMM(comm);
    ncclResult_t result = comm->finalized ? ncclSuccess : ncclCommFinalize(comm);
    destroy(comm);
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    NCCL_CHECK_COMM(comm);
    nccl_peer_t *peer = &comm->place->segment.peer[comm->rank];
    atomic_store(&peer->aborted, true);
    stop_kernels(comm);
    destroy(comm);
    return ncclSuccess;
}

/* The kernels end, and the communicator can be asked, shrunk and destroyed, nothing else. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    NCCL_CHECK_COMM(comm);
    if (flags != NCCL_REVOKE_DEFAULT)
        return nccl_fail(ncclInvalidArgument, "flags %d", flags);
    return stop_kernels(comm);
}
