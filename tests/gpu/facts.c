/* facts.c QUESTION [--small] [MODULE]: what a device does where documents are silent, or where it is said to differ from them, and on
 * which ebb depends. One question in each process (facts.py asks them all), and within some of them each part in a child, so that a crash or an
 * error that stays answers that part alone.
 *
 * On stdout a line for each answer, as soon as there is one: "fact NAME ANSWER" is what devices may be compared by, "figure NAME VALUES" is
 * a measurement. Results of the driver are its numbers.
 *
 *   maps       where tensor maps lie among a kernel's parameters, and what is in them
 *   arguments  whether a kernel gets its arguments by kernelParams, and by a buffer (extra) in either layout
 *   handles    what each query says of each kind of handle; every pair in a child
 *   vmm        chunks of several sizes: create, map, give access, unmap, release; idle, and beside a kernel
 *   nvml       what NVML says that this process holds
 *   pinning    registering host memory, touched before or not, and by how many threads
 *   copies     the link one way, both ways, and beside products
 *   waits      which calls wait while a stream waits for a word in memory (facts_waits.c)
 *
 * --small: for trying it where figures mean nothing. MODULE: facts_kernels.fatbin (default: the one of the build folder).
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_driver.h"
#include "facts.h"

#define MIB          ((size_t)1 << 20)
#define GIB          ((size_t)1 << 30)
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct {
    const char *module;
    bool small;
} asked;

double facts_wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

const char *facts_module_path(void)
{
    return asked.module;
}

CUmodule facts_open_module(void)
{
    CUmodule module;
    open_device();
    OK(cuModuleLoad(&module, asked.module));
    return module;
}

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

void facts_ask_in_child(const char *name, void (*part)(const void *context), const void *context)
{
    enum { SECONDS = 15 }; /* no more than any question may take (facts.py); nvml has no child */
    int status = 0;
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (!child) {
        signal(SIGALRM, SIG_DFL);
        alarm(SECONDS);
        part(context);
        fflush(NULL);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status)
        printf("\n"); /* it may have begun a line */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("fact %s no answer in %d s\n", name, SECONDS);
    else if (WIFSIGNALED(status))
        printf("fact %s signal %d\n", name, WTERMSIG(status));
    else if (WEXITSTATUS(status))
        printf("fact %s none: the child ended with %d\n", name, WEXITSTATUS(status));
}

/* ---- maps ---- */

static CUresult encode(CUtensorMap *map, void *address)
{
    const cuuint64_t size[2] = {256, 64}, stride[1] = {1024};
    const cuuint32_t box[2] = {64, 16}, step[2] = {1, 1};
    memset(map, 0, sizeof *map);
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, address, size, stride, box, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void tell_words(const char *name, const CUtensorMap *map)
{
    printf("figure maps.words.%s", name);
    for (unsigned i = 0; i < CU_TENSOR_MAP_NUM_QWORDS; i++)
        printf(" %016llx", (unsigned long long)map->opaque[i]);
    printf("\n");
}

static void tell_differences(const CUtensorMap *a, const CUtensorMap *b)
{
    printf("fact maps.words_that_differ");
    for (unsigned i = 0; i < CU_TENSOR_MAP_NUM_QWORDS; i++)
        if (a->opaque[i] != b->opaque[i])
            printf(" %u", i);
    printf("\n");
}

/* The word that is the address; else the byte from which on it lies there, its upper 16 bits left out. */
static void tell_address(const CUtensorMap *map, CUdeviceptr address)
{
    const char *found = memmem(map, sizeof *map, &address, 6);
    for (unsigned i = 0; i < CU_TENSOR_MAP_NUM_QWORDS; i++)
        if (map->opaque[i] == address) {
            printf("fact maps.address_in_it word %u\n", i);
            return;
        }
    if (found)
        printf("fact maps.address_in_it byte %td\n", found - (const char *)map);
    else
        printf("fact maps.address_in_it no\n");
}

static void tell_offsets(CUmodule module)
{
    static const char *const names[] = {"first", "behind", "within", "old", "large"};
    for (unsigned i = 0; i < COUNT(names); i++) {
        char kernel[32];
        size_t offset, size;
        snprintf(kernel, sizeof kernel, "facts_%s", names[i]);
        const CUfunction f = function_of(module, kernel);
        printf("fact maps.%s.at", names[i]);
        for (size_t k = 0; !cuFuncGetParamInfo(f, k, &offset, &size); k++)
            printf(" %zu:%zu", offset, size);
        printf("\n");
    }
}

static void ask_maps(void)
{
    CUtensorMap a, again, b;
    CUdeviceptr memory;
    tell_offsets(facts_open_module());
    OK(cuMemAlloc(&memory, 4 * MIB));
    const CUdeviceptr other = memory + 2 * MIB;
    const CUresult result = encode(&a, (void *)(uintptr_t)memory);
    printf("fact maps.encode %d\n", (int)result);
    if (result)
        return;
    OK(encode(&again, (void *)(uintptr_t)memory));
    OK(encode(&b, (void *)(uintptr_t)other));
    printf("fact maps.encoded_twice %s\n", memcmp(&a, &again, sizeof a) ? "differs" : "is the same");
    tell_differences(&a, &b);
    tell_address(&a, memory);
    OK(cuTensorMapReplaceAddress(&again, (void *)(uintptr_t)other));
    printf("fact maps.replaced_address %s\n",
           memcmp(&again, &b, sizeof b) ? "differs from encoding it" : "is as encoding it");
    tell_words("first", &a);
    tell_words("second", &b);
}

/* ---- arguments ---- */

enum { SEEN = 40, BUFFER_BYTES = 1024 };

/* A kernel, its parameters in order, and where C's rules put them. */
typedef struct signature {
    const char *kernel;
    size_t size[2], host_offset[2], host_bytes;
} signature_t;

typedef struct launch {
    const signature_t *signature;
    enum { BY_POINTERS, BY_DEVICE_LAYOUT, BY_HOST_LAYOUT, WAYS } way;
    const char *name;
} launch_t;

static void launch(CUfunction f, const launch_t *l, const unsigned char *argument[2])
{
    _Alignas(128) unsigned char buffer[BUFFER_BYTES] = {0};
    void *pointers[] = {(void *)(uintptr_t)argument[0], (void *)(uintptr_t)argument[1], NULL};
    size_t bytes = l->signature->host_bytes;
    for (unsigned i = 0; i < 2; i++) {
        size_t offset = l->signature->host_offset[i], size = l->signature->size[i];
        if (l->way == BY_DEVICE_LAYOUT) {
            OK(cuFuncGetParamInfo(f, i, &offset, &size));
            bytes = offset + size;
        }
        memcpy(buffer + offset, argument[i], l->signature->size[i]);
    }
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUresult result = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, l->way == BY_POINTERS ? pointers : NULL,
                                     l->way == BY_POINTERS ? NULL : extra);
    printf("fact %s ", l->name);
    if (result)
        printf("refused: %d\n", (int)result);
    else if ((result = cuCtxSynchronize()))
        printf("failed: %d\n", (int)result);
}

static void try_launch(const void *context)
{
    const launch_t *l = context;
    const signature_t *s = l->signature;
    unsigned char given[SEEN * 8], seen[SEEN * 8];
    const unsigned char *argument[2] = {given, given + s->size[0]};
    CUdeviceptr variable;
    const CUmodule module = facts_open_module();
    OK(cuModuleGetGlobal(&variable, NULL, module, "facts_seen"));
    OK(cuMemsetD8(variable, 0, sizeof seen));
    for (unsigned i = 0; i < sizeof given; i++)
        given[i] = (unsigned char)(i * 7 + 1);
    launch(function_of(module, s->kernel), l, argument);
    if (cuMemcpyDtoH(seen, variable, sizeof seen))
        return; /* told */
    printf("%s\n", memcmp(seen, given, s->size[0] + s->size[1]) ? "other values" : "as given");
}

static void ask_arguments(void)
{
    static const signature_t signatures[] = {
        {"facts_first", {128, 8}, {0, 128}, 256},
        {"facts_behind", {8, 128}, {0, 128}, 256},
        {"facts_old", {128, 8}, {0, 128}, 192},
    };
    static const char *const ways[WAYS] = {"pointers", "buffer_as_reported", "buffer_as_in_c"};
    for (unsigned i = 0; i < COUNT(signatures); i++)
        for (unsigned way = 0; way < WAYS; way++) {
            char name[64];
            snprintf(name, sizeof name, "arguments.%s.%s", signatures[i].kernel + strlen("facts_"),
                     ways[way]);
            const launch_t l = {&signatures[i], way, name};
            facts_ask_in_child(name, try_launch, &l);
        }
}

/* ---- handles ---- */

/* What is asked, of a pointer that is a handle of some kind. */
static CUresult func_name(void *h)
{
    const char *name;
    return cuFuncGetName(&name, h);
}

static CUresult func_param(void *h)
{
    size_t offset, size;
    return cuFuncGetParamInfo(h, 0, &offset, &size);
}

static CUresult func_module(void *h)
{
    CUmodule module;
    return cuFuncGetModule(&module, h);
}

static CUresult func_attribute(void *h)
{
    int value;
    return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, h);
}

static CUresult kernel_name(void *h)
{
    const char *name;
    return cuKernelGetName(&name, h);
}

static CUresult kernel_param(void *h)
{
    size_t offset, size;
    return cuKernelGetParamInfo(h, 0, &offset, &size);
}

static CUresult kernel_library(void *h)
{
    CUlibrary library;
    return cuKernelGetLibrary(&library, h);
}

static CUresult kernel_function(void *h)
{
    CUfunction f;
    return cuKernelGetFunction(&f, h);
}

static CUresult kernel_attribute(void *h)
{
    int value;
    return cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, h, 0);
}

static CUresult launches(void *h)
{
    unsigned char argument[256] = {0};
    void *pointers[] = {argument, argument + 128};
    const CUresult result = cuLaunchKernel(h, 1, 1, 1, 1, 1, 1, 0, NULL, pointers, NULL);
    return result ? result : cuCtxSynchronize();
}

static void *module_function(void)
{
    return function_of(facts_open_module(), "facts_first");
}

static void *library_kernel(void)
{
    CUlibrary library;
    CUkernel kernel;
    open_device();
    OK(cuLibraryLoadFromFile(&library, asked.module, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "facts_first"));
    return kernel;
}

static void *kernels_function(void)
{
    CUfunction f;
    OK(cuKernelGetFunction(&f, library_kernel()));
    return f;
}

typedef struct query {
    char name[64];
    CUresult (*ask)(void *handle);
    void *(*handle)(void);
} query_t;

static void try_query(const void *context)
{
    const query_t *q = context;
    void *handle = q->handle();
    printf("fact %s %d\n", q->name, (int)q->ask(handle));
}

static void ask_handles(void)
{
    static const struct {
        const char *name;
        void *(*make)(void);
    } kinds[] = {{"CUfunction", module_function},
                 {"CUkernel", library_kernel},
                 {"function_of_CUkernel", kernels_function}};
    static const struct {
        const char *name;
        CUresult (*ask)(void *);
    } queries[] = {{"cuFuncGetName", func_name},
                   {"cuFuncGetParamInfo", func_param},
                   {"cuFuncGetModule", func_module},
                   {"cuFuncGetAttribute", func_attribute},
                   {"cuKernelGetName", kernel_name},
                   {"cuKernelGetParamInfo", kernel_param},
                   {"cuKernelGetLibrary", kernel_library},
                   {"cuKernelGetFunction", kernel_function},
                   {"cuKernelGetAttribute", kernel_attribute},
                   {"cuLaunchKernel", launches}};
    for (unsigned k = 0; k < COUNT(kinds); k++)
        for (unsigned i = 0; i < COUNT(queries); i++) {
            query_t q = {.ask = queries[i].ask, .handle = kinds[k].make};
            snprintf(q.name, sizeof q.name, "handles.%s.%s", kinds[k].name, queries[i].name);
            facts_ask_in_child(q.name, try_query, &q);
        }
}

/* ---- vmm ---- */

enum { CALLS = 5 };
static const char *const call_names[CALLS] = {"create", "map", "access", "unmap", "release"};

typedef struct chunk {
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t bytes;
} chunk_t;

static CUresult call(chunk_t *c, unsigned which)
{
    switch (which) {
    case 0:
        return cuMemCreate(&c->handle, c->bytes, &c->prop, 0);
    case 1:
        return cuMemMap(c->at, c->bytes, 0, c->handle, 0);
    case 2:
        return cuMemSetAccess(c->at, c->bytes, &c->access, 1);
    case 3:
        return cuMemUnmap(c->at, c->bytes);
    default:
        return cuMemRelease(c->handle);
    }
}

/* Each call's time in `us`; the first result that is not 0. */
static CUresult cycle(chunk_t *c, double us[CALLS])
{
    for (unsigned i = 0; i < CALLS; i++) {
        const double began = facts_wall_us();
        const CUresult result = call(c, i);
        us[i] = facts_wall_us() - began;
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

static chunk_t chunk_at(CUdeviceptr at, size_t bytes)
{
    return (chunk_t){
        .prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        .at = at,
        .bytes = bytes};
}

static void tell_cycle(const char *when, size_t bytes, CUresult result, const double us[CALLS])
{
    printf("fact vmm.%zu.%s %d\nfigure vmm.%zu.%s", bytes / MIB, when, (int)result, bytes / MIB, when);
    for (unsigned i = 0; i < CALLS; i++)
        printf(" %s %.1f us", call_names[i], us[i]);
    printf("\n");
}

/* A kernel that runs until it is told, in memory that is mapped as ebb maps it, at the beginning of the range `c` is about. */
typedef struct spin {
    chunk_t memory;
    volatile unsigned *host;
    CUstream stream;
} spin_t;

static spin_t start_spin(CUfunction f, CUdeviceptr at)
{
    enum { TICKS_PER_US = 1500, SECONDS = 3 };
    spin_t s = {.memory = chunk_at(at, 2 * MIB)};
    void *host;
    unsigned words = 2 * MIB / 4;
    long long ticks = (long long)SECONDS * 1000000 * TICKS_PER_US;
    for (unsigned i = 0; i < 3; i++)
        OK(call(&s.memory, i));
    OK(cuMemAllocHost(&host, 4096));
    memset(host, 0, 4096);
    s.host = host;
    OK(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8(at, 0, 2 * MIB));
    void *arguments[] = {&host, &at, &words, &ticks};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s.stream, arguments, NULL));
    while (!s.host[0])
        ;
    return s;
}

/* What became of the kernel. */
static const char *end_spin(spin_t *s, bool *ran)
{
    *ran = cuStreamQuery(s->stream) == CUDA_ERROR_NOT_READY;
    s->host[1] = 1;
    const CUresult result = cuStreamSynchronize(s->stream);
    static char text[32];
    if (!result && s->host[2])
        return "ends well";
    snprintf(text, sizeof text, "fails: %d", (int)result);
    return text;
}

static void beside_kernel(const void *context)
{
    const size_t bytes = *(const size_t *)context;
    const CUmodule module = facts_open_module();
    CUdeviceptr range;
    double us[CALLS] = {0};
    bool ran;
    OK(cuMemAddressReserve(&range, 2 * bytes, bytes, 0, 0));
    chunk_t c = chunk_at(range + bytes, bytes);
    OK(cycle(&c, us)); /* what comes first only is not what is asked */
    spin_t s = start_spin(function_of(module, "facts_spin"), range);
    const CUresult result = cycle(&c, us);
    printf("fact vmm.%zu.kernel_beside %s", bytes / MIB, end_spin(&s, &ran));
    printf("\nfact vmm.%zu.waits_for_the_kernel %s\n", bytes / MIB, ran ? "no" : "yes");
    tell_cycle("beside", bytes, result, us);
}

static void idle(const void *context)
{
    const size_t bytes = *(const size_t *)context;
    CUdeviceptr at;
    double us[CALLS] = {0};
    CUresult result = CUDA_SUCCESS;
    open_device();
    OK(cuMemAddressReserve(&at, bytes, bytes, 0, 0));
    chunk_t c = chunk_at(at, bytes);
    for (unsigned round = 0; !result && round < 3; round++)
        result = cycle(&c, us);
    tell_cycle("idle", bytes, result, us);
}

static void ask_vmm(void)
{
    static const size_t sizes[] = {2 * MIB, 16 * MIB, 64 * MIB, 512 * MIB};
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        char name[64];
        snprintf(name, sizeof name, "vmm.%zu.idle", sizes[i] / MIB);
        facts_ask_in_child(name, idle, &sizes[i]);
        snprintf(name, sizeof name, "vmm.%zu.kernel_beside", sizes[i] / MIB);
        facts_ask_in_child(name, beside_kernel, &sizes[i]);
    }
}

/* ---- nvml ---- */

typedef struct nvml_process { /* nvmlProcessInfo_t */
    unsigned pid;
    unsigned long long used_bytes; /* all ones: not known */
    unsigned gpu_instance, compute_instance;
} nvml_process_t;

typedef struct nvml {
    void *device;
    int (*processes)(void *device, unsigned *count, nvml_process_t *out);
} nvml_t;

static bool open_nvml(nvml_t *n)
{
    char bus[32];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*by_bus)(const char *, void **) =
        (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&n->processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    return init && by_bus && n->processes && !init() && !by_bus(bus, &n->device);
}

/* Of this process; false: it is not among those that NVML knows, or that fails. */
static bool held_bytes(const nvml_t *n, const char *when, unsigned long long *bytes)
{
    nvml_process_t process[64];
    unsigned count = COUNT(process);
    const int status = n->processes(n->device, &count, process);
    printf("figure nvml.%s status %d, %u processes\n", when, status, status ? 0 : count);
    for (unsigned i = 0; !status && i < count && i < COUNT(process); i++)
        if (process[i].pid == (unsigned)getpid()) {
            *bytes = process[i].used_bytes;
            return true;
        }
    return false;
}

static void ask_nvml(void)
{
    const size_t bytes = asked.small ? 64 * MIB : GIB;
    unsigned long long before, after;
    size_t free_before, free_after, total;
    CUdeviceptr at;
    nvml_t n;
    open_device();
    const bool there = open_nvml(&n);
    printf("fact nvml.there %s\n", there ? "yes" : "no");
    const bool listed = there && held_bytes(&n, "before", &before);
    OK(cuMemGetInfo(&free_before, &total));
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    chunk_t c = chunk_at(at, bytes);
    for (unsigned i = 0; i < 3; i++)
        OK(call(&c, i));
    OK(cuMemGetInfo(&free_after, &total));
    printf("fact nvml.free_memory_falls_by_it %s\n", free_before - free_after == bytes ? "yes" : "no");
    printf("figure nvml.free_memory_falls_by %zd of %zu bytes\n", (ptrdiff_t)(free_before - free_after),
           bytes);
    if (!there)
        return;
    const bool still = listed && held_bytes(&n, "after", &after);
    printf("fact nvml.lists_this_process %s\n", listed ? "yes" : "no");
    if (!still)
        return;
    printf("fact nvml.bytes_of_it %s\n", after == ~0ull            ? "not told"
                                         : after < bytes           ? "less than it has created"
                                         : after - before == bytes ? "grow by what it creates"
                                                                   : "are more");
    printf("figure nvml.bytes %llu before, %llu with %zu more\n", before, after, bytes);
}

/* ---- pinning ---- */

typedef struct stretch {
    char *at;
    size_t bytes;
    bool pin; /* else touch */
    CUcontext context;
    CUresult result;
} stretch_t;

static void *work_on(void *context)
{
    stretch_t *s = context;
    if (s->pin) {
        s->result = cuCtxSetCurrent(s->context);
        if (!s->result)
            s->result = cuMemHostRegister(s->at, s->bytes, CU_MEMHOSTREGISTER_PORTABLE);
    } else {
        for (size_t i = 0; i < s->bytes; i += 4096)
            s->at[i] = 1;
    }
    return NULL;
}

/* Each thread an equal part. */
static CUresult on_threads(char *at, size_t bytes, unsigned threads, bool pin)
{
    enum { MOST = 8 };
    pthread_t thread[MOST];
    stretch_t part[MOST];
    CUcontext context;
    CUresult result = CUDA_SUCCESS;
    OK(cuCtxGetCurrent(&context));
    for (unsigned i = 0; i < threads; i++) {
        part[i] = (stretch_t){at + bytes / threads * i, bytes / threads, pin, context, CUDA_SUCCESS};
        if (pthread_create(&thread[i], NULL, work_on, &part[i]))
            exit(1);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        result = part[i].result ? part[i].result : result;
    }
    return result;
}

/* A way to get so many bytes that are pinned. */
typedef struct way {
    const char *name;
    unsigned touching, pinning; /* threads; 0: not touched, and the driver allocates */
    bool huge;
} way_t;

static size_t pinned_bytes(void)
{
    const size_t most = (size_t)sysconf(_SC_PAGE_SIZE) * (size_t)sysconf(_SC_PHYS_PAGES) / 8;
    const size_t wanted = asked.small ? 32 * MIB : 8 * GIB;
    return wanted < most ? wanted : most / (8 * MIB) * (8 * MIB);
}

static void register_memory(const way_t *w, size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    madvise(at, bytes, w->huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const double began = facts_wall_us();
    if (w->touching)
        on_threads(at, bytes, w->touching, false);
    const double touched = facts_wall_us();
    const CUresult result = on_threads(at, bytes, w->pinning, true);
    const double pinned = facts_wall_us();
    printf("fact pinning.%s %d\n", w->name, (int)result);
    printf("figure pinning.%s %zu MiB: touching %.3f s, registering %.3f s\n", w->name, bytes / MIB,
           (touched - began) * 1e-6, (pinned - touched) * 1e-6);
    for (unsigned i = 0; !result && i < w->pinning; i++)
        OK(cuMemHostUnregister(at + bytes / w->pinning * i));
    munmap(at, bytes);
}

static void try_pinning(const void *context)
{
    const way_t *w = context;
    const size_t bytes = pinned_bytes();
    size_t before, after, total;
    void *p;
    open_device();
    OK(cuMemGetInfo(&before, &total));
    if (w->pinning) {
        register_memory(w, bytes);
        return;
    }
    const double began = facts_wall_us();
    const CUresult result = cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE);
    const double ended = facts_wall_us();
    OK(cuMemGetInfo(&after, &total));
    printf("fact pinning.%s %d\n", w->name, (int)result);
    printf("figure pinning.%s %zu MiB: %.3f s; takes %zd bytes of the device\n", w->name, bytes / MIB,
           (ended - began) * 1e-6, (ptrdiff_t)(before - after));
}

static void ask_pinning(void)
{
    static const way_t ways[] = {{"cuMemHostAlloc", 0, 0, false},
                                 {"registered_untouched", 0, 1, false},
                                 {"registered_untouched_by_8", 0, 8, false},
                                 {"touched_by_1", 1, 1, false},
                                 {"touched_by_8", 8, 1, false},
                                 {"touched_by_8_registered_by_8", 8, 8, false},
                                 {"huge_pages_touched_by_8", 8, 1, true}};
    for (unsigned i = 0; i < COUNT(ways); i++) {
        char name[64];
        snprintf(name, sizeof name, "pinning.%s", ways[i].name);
        facts_ask_in_child(name, try_pinning, &ways[i]);
    }
}

/* ---- copies ---- */

/* cuBLAS, looked for when it is asked: where it is missing, the other questions are answered all the same. */
typedef struct blas {
    void *handle;
    int (*gemm)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
                int type_c, int ldc, int compute, int algorithm);
    CUdeviceptr a, b, c;
    int side, count;
} blas_t;

static bool open_blas(blas_t *blas, CUstream stream)
{
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    int (*create)(void **) = (int (*)(void **))dlsym(library, "cublasCreate_v2");
    int (*set_stream)(void *, CUstream) = (int (*)(void *, CUstream))dlsym(library, "cublasSetStream_v2");
    *(void **)&blas->gemm = dlsym(library, "cublasGemmEx");
    if (!create || !set_stream || !blas->gemm || create(&blas->handle) || set_stream(blas->handle, stream))
        return false;
    blas->side = asked.small ? 128 : 8192;
    blas->count = asked.small ? 2 : 20;
    const size_t bytes = 2 * (size_t)blas->side * (size_t)blas->side;
    OK(cuMemAlloc(&blas->a, bytes));
    OK(cuMemAlloc(&blas->b, bytes));
    OK(cuMemAlloc(&blas->c, bytes));
    OK(cuMemsetD8(blas->a, 0, bytes));
    OK(cuMemsetD8(blas->b, 0, bytes));
    return true;
}

static void multiply(const blas_t *blas)
{
    enum { BF16 = 14, COMPUTE_32F = 68, DEFAULT = -1 }; /* library_types.h, cublas_api.h */
    const float one = 1, zero = 0;
    const int n = blas->side;
    for (int i = 0; i < blas->count; i++)
        if (blas->gemm(blas->handle, 0, 0, n, n, n, &one, (void *)blas->a, BF16, n, (void *)blas->b, BF16, n,
                       &zero, (void *)blas->c, BF16, n, COMPUTE_32F, DEFAULT)) {
            fprintf(stderr, "facts: cublasGemmEx failed\n");
            exit(1);
        }
}

enum { MOST_COPIES = 16 };

typedef struct link {
    size_t bytes;
    int copies;
    CUdeviceptr device_out, device_in;
    void *host_out, *host_in;
    CUstream out, in, compute;
    CUevent begin, out_end[MOST_COPIES], in_end[MOST_COPIES], compute_end; /* of each copy */
    const blas_t *blas;
} link_t;

static float since_begin(const link_t *l, CUevent end)
{
    float ms;
    OK(cuEventElapsedTime(&ms, l->begin, end));
    return ms;
}

/* GB/s of the copies that end before the `other` way has none left: what follows has the link for itself. */
static double rate(const link_t *l, const CUevent *end, const CUevent *other)
{
    float until = since_begin(l, end[l->copies - 1]);
    int i = l->copies - 1;
    if (other && since_begin(l, other[i]) < until)
        until = since_begin(l, other[i]);
    while (i > 0 && since_begin(l, end[i]) > until)
        i--;
    return (double)l->bytes * (i + 1) * 1e-6 / (double)since_begin(l, end[i]);
}

/* All that is asked for at once. */
static void run_link(link_t *l, const char *name, bool out, bool in, bool products)
{
    OK(cuEventRecord(l->begin, l->compute));
    OK(cuStreamWaitEvent(l->out, l->begin, 0));
    OK(cuStreamWaitEvent(l->in, l->begin, 0));
    for (int i = 0; i < l->copies; i++) {
        if (out)
            OK(cuMemcpyDtoHAsync(l->host_out, l->device_out, l->bytes, l->out));
        if (in)
            OK(cuMemcpyHtoDAsync(l->device_in, l->host_in, l->bytes, l->in));
        OK(cuEventRecord(l->out_end[i], l->out));
        OK(cuEventRecord(l->in_end[i], l->in));
    }
    if (products)
        multiply(l->blas);
    OK(cuEventRecord(l->compute_end, l->compute));
    OK(cuCtxSynchronize());
    printf("figure copies.%s", name);
    if (out)
        printf(" out %.2f GB/s", rate(l, l->out_end, in ? l->in_end : NULL));
    if (in)
        printf(" in %.2f GB/s", rate(l, l->in_end, out ? l->out_end : NULL));
    if (products)
        printf(" products %.3f ms", (double)since_begin(l, l->compute_end));
    printf("\n");
}

static void open_link(link_t *l)
{
    *l = (link_t){.bytes = asked.small ? MIB : 256 * MIB, .copies = asked.small ? 2 : MOST_COPIES};
    OK(cuMemAlloc(&l->device_out, l->bytes));
    OK(cuMemAlloc(&l->device_in, l->bytes));
    OK(cuMemAllocHost(&l->host_out, l->bytes));
    OK(cuMemAllocHost(&l->host_in, l->bytes));
    OK(cuMemsetD8(l->device_out, 0x5a, l->bytes));
    memset(l->host_in, 0xa5, l->bytes);
    OK(cuStreamCreate(&l->out, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&l->in, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&l->compute, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&l->begin, 0));
    for (int i = 0; i < MOST_COPIES; i++) {
        OK(cuEventCreate(&l->out_end[i], 0));
        OK(cuEventCreate(&l->in_end[i], 0));
    }
    OK(cuEventCreate(&l->compute_end, 0));
}

static void ask_copies(void)
{
    link_t l;
    blas_t blas;
    open_device();
    open_link(&l);
    run_link(&l, "one_way", true, false, false);
    run_link(&l, "the_other", false, true, false);
    run_link(&l, "both_ways", true, true, false);
    printf("fact copies.arrive %s\n", ((char *)l.host_out)[l.bytes - 1] == 0x5a ? "yes" : "no");
    const bool there = open_blas(&blas, l.compute);
    printf("fact copies.cublas %s\n", there ? "yes" : "no");
    if (!there)
        return;
    l.blas = &blas;
    run_link(&l, "warm_up", false, false, true);
    run_link(&l, "products", false, false, true);
    run_link(&l, "products_and_one_way", true, false, true);
    run_link(&l, "products_and_the_other", false, true, true);
    run_link(&l, "products_and_both_ways", true, true, true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*ask)(void);
    } questions[] = {{"maps", ask_maps},     {"arguments", ask_arguments}, {"handles", ask_handles},
                     {"vmm", ask_vmm},       {"nvml", ask_nvml},           {"pinning", ask_pinning},
                     {"copies", ask_copies}, {"waits", facts_ask_waits}};
    setvbuf(
        stdout, NULL, _IONBF,
        0); /* a child that crashes has told what it knew, and has nothing of its parent's to tell again */
    asked.module = FACTS_KERNELS;
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--small"))
            asked.small = true;
        else
            asked.module = argv[i];
    for (unsigned i = 0; argc > 1 && i < COUNT(questions); i++)
        if (!strcmp(argv[1], questions[i].name)) {
            questions[i].ask();
            return 0;
        }
    fprintf(
        stderr,
        "facts QUESTION [--small] [MODULE]: maps, arguments, handles, vmm, nvml, pinning, copies, waits\n");
    return 2;
}
