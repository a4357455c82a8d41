/* bench_replay.c: replays allocations, of real training steps (traces/) or random ones, through whatever stands
 * behind the driver API, and says what they cost and how much memory was reserved for them.
 *
 *   bench_replay FILE|KIND [--seed N] [--passes N] [--no-launch]
 *
 * FILE: lines "a ID BYTES", "f ID", "k ID..." (a launch on these buffers) and "step": what follows is repeated.
 * KIND: pytorch, random, two-streams, middle, fragment, grow (below).
 *
 * Live memory in whole pages: a buffer above 1 MiB counts as the pages of 2 MiB that it takes alone, which is what
 * a mapping or cuMemAlloc gives it; all smaller ones together as their bytes, in units of 512, rounded up to
 * pages once. Reserved: the most memory that existed at once, as the driver that does nothing has counted it; on
 * others, what the default pool says. "ratio" is the highest reserved over the highest live, "raw" over bytes as requested.
 *
 * Exit status 3: out of memory.
 */
#include "bench_driver.h"

#include <dlfcn.h>

enum { PAGE = 2 << 20, SMALL = 1 << 20, UNIT = 512, STREAMS = 2, MOST_PARAMS = 32 };

typedef struct event {
    char kind; /* a, f, k */
    uint8_t stream, params;
    uint32_t id;
    size_t bytes;
    uint32_t param[MOST_PARAMS];
} event_t;

static struct {
    event_t *event;
    size_t count, room, step; /* event[step...] repeats */
    uint32_t ids;
} trace;

static event_t *add(char kind, uint32_t id, size_t bytes)
{
    if (trace.count == trace.room) {
        trace.room = trace.room ? 2 * trace.room : 1024;
        trace.event = realloc(trace.event, trace.room * sizeof *trace.event);
    }
    event_t *e = &trace.event[trace.count++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->id = id;
    e->bytes = bytes;
    if (id >= trace.ids)
        trace.ids = id + 1;
    return e;
}

static void add_launch(uint32_t a, uint32_t b)
{
    event_t *e = add('k', a, 0);
    e->params = 2;
    e->param[0] = a;
    e->param[1] = b;
}

/* ---- real steps ---- */

static void read_trace(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    if (!f) {
        perror(path);
        exit(1);
    }
    while (fgets(line, sizeof line, f)) {
        unsigned id;
        size_t bytes;
        int used = 1, n;
        if (sscanf(line, "a %u %zu", &id, &bytes) == 2) {
            add('a', id, bytes);
        } else if (sscanf(line, "f %u", &id) == 1) {
            add('f', id, 0);
        } else if (!strncmp(line, "step", 4)) {
            trace.step = trace.count;
        } else if (line[0] == 'k') {
            event_t *e = add('k', 0, 0);
            for (; e->params < MOST_PARAMS && sscanf(line + used, "%u%n", &id, &n) == 1; used += n)
                e->param[e->params++] = id;
        }
    }
    fclose(f);
}

/* ---- random ones ---- */

static uint64_t seed = 1;

static size_t below(size_t n)
{
    return (size_t)(random64(&seed) >> 16) % n;
}

/* Each power of two as likely as the next. */
static size_t log_uniform(unsigned low_bits, unsigned high_bits)
{
    size_t power = (size_t)1 << (low_bits + below(high_bits - low_bits));
    return power + below(power);
}

/* Eager training with shapes that differ from step to step: activations that live until the backward pass,
 * temporaries, statistics, gradients as large as activations. */
static void make_pytorch(void)
{
    enum { LAYERS = 24, SAVED = 8, STEPS = 20 };
    static const size_t full[SAVED] = {24 << 20, 12 << 20,   4096,      4 << 20,
                                       16 << 20, 1536 << 10, 640 << 10, 32 << 10};
    uint32_t id = 0;
    for (; id < 150; id++)
        add('a', id, log_uniform(11, 24));
    trace.step = trace.count;
    for (unsigned step = 0; step < STEPS; step++) {
        size_t tokens = 384 + below(641); /* of 1024 */
        uint32_t saved = id;
        for (unsigned l = 0; l < LAYERS; l++)
            for (unsigned s = 0; s < SAVED; s++) {
                uint32_t at = saved + l * SAVED + s, temporary = saved + LAYERS * SAVED;
                add('a', at, full[s] * tokens / 1024 + 4);
                add('a', temporary, full[below(SAVED)] * tokens / 1024 + 4);
                add_launch(at, temporary);
                add('f', temporary, 0);
            }
        for (unsigned l = LAYERS; l-- > 0;)
            for (unsigned s = SAVED; s-- > 0;) {
                uint32_t at = saved + l * SAVED + s, gradient = saved + LAYERS * SAVED;
                add('a', gradient, full[s] * tokens / 1024 + 4);
                add_launch(at, gradient);
                add('f', at, 0);
                add('f', gradient, 0);
            }
    }
}

/* Slots taken and freed at random; halfway the sizes become others. */
static void make_random(unsigned low, unsigned high, unsigned slots, unsigned streams)
{
    bool *taken = calloc(slots, sizeof *taken);
    for (unsigned i = 0; i < 40 * slots; i++) {
        uint32_t s = (uint32_t)below(slots);
        size_t bytes = i < 20 * slots ? log_uniform(low, high - 1) : log_uniform(low + 1, high);
        event_t *e = taken[s] ? add('f', s, 0) : add('a', s, bytes);
        e->stream = (uint8_t)(s % streams);
        if (!taken[s]) {
            e = add('k', s, 0);
            e->stream = (uint8_t)(s % streams);
            e->params = 1;
            e->param[0] = s;
        }
        taken[s] = !taken[s];
    }
    for (uint32_t s = 0; s < slots; s++)
        if (taken[s])
            add('f', s, 0)->stream = (uint8_t)(s % streams);
    free(taken);
}

/* Fill with one size, free every second buffer, go on with a size that does not fit into the holes. */
static void make_fragment(void)
{
    enum { EACH = 1500 };
    uint32_t id = 0;
    for (size_t bytes = 700; bytes < SMALL; bytes = bytes * 3 / 2) {
        for (unsigned i = 0; i < EACH; i++)
            add('a', id + i, bytes);
        add_launch(id, id);
        for (unsigned i = 0; i < EACH; i += 2)
            add('f', id + i, 0);
        if (id)
            for (unsigned i = 1; i < EACH; i += 2)
                add('f', id - EACH + i, 0);
        id += EACH;
    }
    for (unsigned i = 1; i < EACH; i += 2)
        add('f', id - EACH + i, 0);
}

/* A buffer that grows by copying, as a list of results or a key-value cache does. */
static void make_grow(void)
{
    add('a', 0, 64 << 10);
    for (unsigned i = 1; i < 400; i++) {
        add('a', i % 2, (64 << 10) + (size_t)i * (200 << 10));
        add_launch(0, 1);
        add('f', (i + 1) % 2, 0);
    }
    add('f', 1, 0);
}

static bool make(const char *kind)
{
    if (!strcmp(kind, "pytorch"))
        make_pytorch();
    else if (!strcmp(kind, "random"))
        make_random(9, 26, 300, 1);
    else if (!strcmp(kind, "two-streams"))
        make_random(9, 26, 300, 2);
    else if (!strcmp(kind, "middle"))
        make_random(17, 22, 400, 1);
    else if (!strcmp(kind, "fragment"))
        make_fragment();
    else if (!strcmp(kind, "grow"))
        make_grow();
    return trace.count;
}

/* ---- what is live ---- */

typedef struct live {
    size_t pages, small_bytes, bytes, peak_pages, peak_bytes;
} live_t;

static void count(live_t *l, size_t bytes, bool born)
{
    size_t pages = bytes > SMALL ? (bytes + PAGE - 1) / PAGE : 0;
    size_t units = bytes > SMALL ? 0 : (bytes + UNIT - 1) / UNIT * UNIT;
    l->pages += born ? pages : -pages;
    l->small_bytes += born ? units : -units;
    l->bytes += born ? bytes : -bytes;
    size_t all = l->pages + (l->small_bytes + PAGE - 1) / PAGE;
    l->peak_pages = all > l->peak_pages ? all : l->peak_pages;
    l->peak_bytes = l->bytes > l->peak_bytes ? l->bytes : l->peak_bytes;
}

static live_t count_live(void)
{
    live_t l = {0};
    size_t *bytes = calloc(trace.ids + 1, sizeof *bytes);
    for (size_t i = 0; i < trace.count; i++) {
        const event_t *e = &trace.event[i];
        if (e->kind == 'a')
            bytes[e->id] = e->bytes;
        if (e->kind != 'k')
            count(&l, bytes[e->id], e->kind == 'a');
    }
    free(bytes);
    return l;
}

/* ---- replay ---- */

static CUstream stream[STREAMS];
static CUfunction function[MOST_PARAMS + 1];
static CUdeviceptr *address;

static void run(size_t from, size_t to, bool launches)
{
    for (size_t i = from; i < to; i++) {
        const event_t *e = &trace.event[i];
        void *params[MOST_PARAMS];
        if (e->kind == 'a') {
            CUresult result = cuMemAllocAsync(&address[e->id], e->bytes, stream[e->stream]);
            if (result == CUDA_ERROR_OUT_OF_MEMORY)
                exit(3);
            OK(result);
        } else if (e->kind == 'f') {
            OK(cuMemFreeAsync(address[e->id], stream[e->stream]));
        } else if (launches) {
            for (unsigned k = 0; k < e->params; k++)
                params[k] = &address[e->param[k]];
            OK(cuLaunchKernel(function[e->params], e->params, 1, 1, 32, 1, 1, 0, stream[e->stream], params,
                              NULL));
        }
    }
}

static void get_ready(bool launches)
{
    open_device();
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    CUmodule module;
    if (launches)
        OK(cuModuleLoadData(&module, ""));
    for (unsigned n = 0; launches && n <= MOST_PARAMS; n++) {
        char name[8];
        snprintf(name, sizeof name, "p%u", n);
        OK(cuModuleGetFunction(&function[n], module, name));
    }
    address = calloc(trace.ids + 1, sizeof *address);
}

static size_t reserved_bytes(void)
{
    size_t (*peak)(void);
    CUmemoryPool pool;
    cuuint64_t reserved;
    *(void **)&peak = dlsym(RTLD_DEFAULT, "null_driver_peak_bytes");
    if (peak)
        return peak();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved));
    return reserved;
}

int main(int argc, char **argv)
{
    unsigned passes = 10;
    bool launches = true;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--no-launch"))
            launches = false;
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = strtoull(argv[++i], NULL, 0) * 0x9e3779b97f4a7c15u | 1;
        else if (i + 1 < argc && !strcmp(argv[i], "--passes"))
            passes = (unsigned)strtoul(argv[++i], NULL, 0);
    }
    if (argc < 2) {
        fprintf(stderr, "usage: bench_replay FILE|KIND [--seed N] [--passes N] [--no-launch]\n");
        return 2;
    }
    if (!make(argv[1]))
        read_trace(argv[1]);
    live_t live = count_live();
    get_ready(launches);
    run(0, trace.step, launches);
    uint64_t best = UINT64_MAX, first = 0;
    for (unsigned pass = 0; pass < passes; pass++) {
        uint64_t start = now_ns();
        run(trace.step, trace.count, launches);
        uint64_t ns = now_ns() - start;
        first = pass ? first : ns;
        best = ns < best ? ns : best;
    }
    size_t calls[2] = {0, 0}; /* allocations and frees; launches */
    for (size_t i = trace.step; i < trace.count; i++)
        calls[trace.event[i].kind == 'k'] += launches || trace.event[i].kind != 'k';
    size_t reserved = reserved_bytes();
    size_t pages = (reserved + PAGE - 1) / PAGE;
    printf(
        "%s allocs+frees %zu launches %zu ns_per_call %.1f first_pass %.1f reserved_pages %zu live_pages %zu "
        "ratio %.3f raw %.3f\n",
        argv[1], calls[0], calls[1], (double)best / (double)(calls[0] + calls[1]),
        (double)first / (double)(calls[0] + calls[1]), pages, live.peak_pages,
        (double)pages / (double)live.peak_pages, (double)reserved / (double)live.peak_bytes);
    return 0;
}
