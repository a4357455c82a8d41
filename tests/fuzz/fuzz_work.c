/* fuzz_work.c: see fuzz.h. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "kernels.cuh"

CUfunction fuzz_kernel[FUZZ_KERNELS];

unsigned fuzz_choose_first(fuzz_worker_t *w, unsigned words)
{
    enum { FIRST = 48 };
    return fuzz_below(w, fuzz_lengths && words > FIRST ? FIRST : words);
}

/* ---- launches ---- */

/* In one of the three ways there are; `block`: the same arguments as one block of memory. */
static void launch(fuzz_worker_t *w, fuzz_kernel_t kernel, unsigned n, unsigned s, void **params,
                   unsigned char *block, size_t block_bytes)
{
    const unsigned blocks = n ? (n + FUZZ_SLICE - 1) / FUZZ_SLICE : 1, how = fuzz_below(w, 3);
    const CUfunction f = fuzz_kernel[kernel];
    if (how == 0) {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &block_bytes,
                         CU_LAUNCH_PARAM_END};
        CALL(w, cuLaunchKernel(f, blocks, 1, 1, 128, 1, 1, 0, w->stream[s], NULL, extra));
    } else if (how == 1) {
        CUlaunchConfig c = {.gridDimX = blocks,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 128,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = w->stream[s]};
        CALL(w, cuLaunchKernelEx(&c, f, params, NULL));
    } else {
        CALL(w, cuLaunchKernel(f, blocks, 1, 1, 128, 1, 1, 0, w->stream[s], params, NULL));
    }
}

/* Arguments at their offsets, aligned to their sizes. */
typedef struct block {
    unsigned char byte[256];
    size_t bytes;
} block_t;

static void put(block_t *b, const void *value, size_t bytes, size_t align)
{
    b->bytes = (b->bytes + align - 1) / align * align;
    memcpy(b->byte + b->bytes, value, bytes);
    b->bytes += bytes;
}

#define PUT(block, value) put(block, &(value), sizeof(value), _Alignof(__typeof__(value)))

static void launch_fill(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned s, unsigned seed)
{
    block_t a = {.bytes = 0};
    PUT(&a, b->address);
    PUT(&a, b->words);
    PUT(&a, seed);
    launch(w, FILL, b->words, s, (void *[]){&b->address, &b->words, &seed}, a.byte, a.bytes);
}

static void launch_mix(fuzz_worker_t *w, unsigned s)
{
    fuzz_buffer_t *in1 = fuzz_pick(w, false), *in2 = fuzz_pick(w, false), *out = fuzz_pick(w, true);
    if (!in1 || !in2 || !out || in1 == out || in2 == out)
        return;
    fuzz_order(w, in1, s, false);
    fuzz_order(w, in2, s, false);
    fuzz_order(w, out, s, true);
    unsigned salt = fuzz_below(w, 1000) + w->salt, skip = fuzz_choose_first(w, in1->words),
             rest = in1->words - skip;
    CUdeviceptr inside = in1->address + (CUdeviceptr)skip * 4; /* nowhere does its beginning stand */
    block_t a = {.bytes = 0};
    PUT(&a, out->address);
    PUT(&a, inside);
    PUT(&a, in2->address);
    PUT(&a, out->words);
    PUT(&a, rest);
    PUT(&a, in2->words);
    PUT(&a, salt);
    fuzz_count_need(w, fuzz_chunks((size_t)out->words * 4) + fuzz_chunks((size_t)in1->words * 4) +
                           fuzz_chunks((size_t)in2->words * 4));
    launch(w, MIX, out->words, s,
           (void *[]){&out->address, &inside, &in2->address, &out->words, &rest, &in2->words, &salt}, a.byte,
           a.bytes);
}

/* Four in a row: what is copied in, another one that it is copied on to, and one that leads to the other two. */
enum { TABLE = 128, TABLES = 4 * TABLE };
_Static_assert(sizeof(struct fuzz_gather) <= TABLE, "a table is too small");

static CUdeviceptr take_tables(fuzz_worker_t *w, unsigned how, unsigned s)
{
    CUdeviceptr fresh = 0;
    if (how == 0)
        CALL(w, cuMemAllocAsync(&fresh, TABLES, w->stream[s]));
    if (how == 1)
        CALL(w, cuMemAlloc(&fresh, TABLES));
    if (how > 1 && !w->table[s])
        CALL(w, cuMemAlloc(&w->table[s], TABLES));
    return how > 1 ? w->table[s] : fresh;
}

/* Right behind the launch. */
static void give_tables(fuzz_worker_t *w, CUdeviceptr tables, unsigned how, unsigned s)
{
    if (how == 0)
        CALL(w, cuMemFreeAsync(tables, w->stream[s]));
    if (how == 1)
        CALL(w, cuMemFree(tables));
}

void fuzz_close_tables(fuzz_worker_t *w)
{
    for (unsigned s = 0; s < FUZZ_STREAMS; s++)
        if (w->table[s])
            CALL(w, cuMemFree(w->table[s]));
}

static void gather_by_table(fuzz_worker_t *w, const struct fuzz_gather *g, unsigned salt, unsigned s)
{
    const unsigned how = fuzz_below(w, 4);
    const bool copied = fuzz_chance(w, 30);
    unsigned ways = 1 + fuzz_chance(w, 30);
    const CUdeviceptr tables = take_tables(w, how, s), at = tables + (copied ? TABLE : 0);
    struct fuzz_gather *from = fuzz_host_memory(w, TABLE, false);
    *from = *g;
    CALL(w, cuMemcpyHtoDAsync(tables, from, sizeof *from, w->stream[s]));
    if (copied)
        CALL(w, cuMemcpyDtoDAsync(at, tables, sizeof *from, w->stream[s]));
    CUdeviceptr way = at;
    if (ways > 1) {
        CUdeviceptr *next = fuzz_host_memory(w, sizeof *next, false);
        *next = at;
        way = tables + 2 * TABLE;
        CALL(w, cuMemcpyHtoDAsync(way, next, sizeof *next, w->stream[s]));
    }
    block_t a = {.bytes = 0};
    PUT(&a, way);
    PUT(&a, ways);
    PUT(&a, salt);
    launch(w, GATHER_BY, g->n, s, (void *[]){&way, &ways, &salt}, a.byte, a.bytes);
    give_tables(w, tables, how, s);
}

static void launch_gather(fuzz_worker_t *w, unsigned s)
{
    struct fuzz_gather g = {.tag = 7};
    fuzz_buffer_t *out = fuzz_take(w, s, true);
    unsigned salt = fuzz_below(w, 1000) + w->salt;
    if (!out)
        return;
    size_t need = fuzz_chunks((size_t)out->words * 4);
    g.out = (unsigned *)out->address;
    g.n = out->words;
    for (unsigned k = 0; k < FUZZ_INPUTS; k++) {
        fuzz_buffer_t *in = fuzz_chance(w, 60) ? fuzz_pick(w, false) : NULL;
        if (!in || in == out)
            continue;
        fuzz_order(w, in, s, false);
        g.in[k] = (const unsigned *)in->address;
        g.count[k] = in->words;
        need += fuzz_chunks((size_t)in->words * 4);
    }
    fuzz_count_need(w, need);
    if (fuzz_tables && fuzz_chance(w, 75)) {
        gather_by_table(w, &g, salt, s);
        return;
    }
    block_t a = {.bytes = 0};
    PUT(&a, g);
    PUT(&a, salt);
    launch(w, GATHER, g.n, s, (void *[]){&g, &salt}, a.byte, a.bytes);
}

/* `x` is written if the flag is set. */
static void write_perhaps(fuzz_worker_t *w, fuzz_buffer_t *x, fuzz_buffer_t *flag, unsigned salt, unsigned s)
{
    fuzz_order(w, flag, s, false);
    fuzz_order(w, x, s, true);
    block_t a = {.bytes = 0};
    PUT(&a, x->address);
    PUT(&a, flag->address);
    PUT(&a, x->words);
    PUT(&a, salt);
    fuzz_count_need(w, fuzz_chunks((size_t)x->words * 4) + fuzz_chunks((size_t)flag->words * 4));
    launch(w, PERHAPS, x->words, s, (void *[]){&x->address, &flag->address, &x->words, &salt}, a.byte,
           a.bytes);
}

static void launch_perhaps(fuzz_worker_t *w, unsigned s)
{
    fuzz_buffer_t *flag = fuzz_pick(w, false), *x = fuzz_pick(w, true);
    unsigned salt = fuzz_below(w, 1000);
    if (!x || !flag || x == flag)
        return;
    write_perhaps(w, x, flag, salt, s);
}

void fuzz_write_if(fuzz_worker_t *w, fuzz_buffer_t *x, fuzz_buffer_t *flag, unsigned value, unsigned s)
{
    unsigned *from = fuzz_host_memory(w, sizeof *from, false);
    *from = value;
    fuzz_order(w, flag, s, true);
    CALL(w, cuMemcpyHtoDAsync(flag->address, from, sizeof *from, w->stream[s]));
    write_perhaps(w, x, flag, 77, s);
    fuzz_trace(w, "write if", s);
}

static void launch_span(fuzz_worker_t *w, unsigned s)
{
    fuzz_buffer_t *x = fuzz_take(w, s, true);
    unsigned salt = fuzz_below(w, 1000) + w->salt;
    if (!x)
        return;
    CUdeviceptr end = x->address + (CUdeviceptr)x->words * 4;
    block_t a = {.bytes = 0};
    PUT(&a, x->address);
    PUT(&a, end);
    PUT(&a, salt);
    launch(w, SPAN, x->words, s, (void *[]){&x->address, &end, &salt}, a.byte, a.bytes);
}

static void launch_dawdle(fuzz_worker_t *w, unsigned s)
{
    fuzz_buffer_t *x = fuzz_take(w, s, true);
    unsigned salt = fuzz_below(w, 1000), rounds = fuzz_below(w, 400000);
    rounds = (unsigned)((uint64_t)rounds * EBB_CHUNK_KIB / 2048);
    if (!x)
        return;
    block_t a = {.bytes = 0};
    PUT(&a, x->address);
    PUT(&a, rounds);
    PUT(&a, salt);
    launch(w, DAWDLE, 0, s, (void *[]){&x->address, &rounds, &salt}, a.byte, a.bytes);
}

/* ---- copies and sets ---- */

static void copy_in(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned first, unsigned words, unsigned s)
{
    const size_t bytes = (size_t)words * 4;
    const CUdeviceptr to = b->address + (CUdeviceptr)first * 4;
    unsigned *from = fuzz_host_memory(w, bytes, false), seed = fuzz_below(w, 1U << 31) + w->salt;
    for (unsigned i = 0; i < words; i++)
        from[i] = seed += 0x9e3779b9U;
    switch (fuzz_below(w, 3)) {
    case 0:
        CALL(w, cuMemcpyHtoDAsync(to, from, bytes, w->stream[s]));
        break;
    case 1:
        CALL(w, cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, w->stream[s]));
        break;
    default:
        /* The synchronous form goes through the default stream; the other streams need not wait for it. */
        fuzz_order(w, b, 0, true);
        CALL(w, cuMemcpyHtoD(to, from, bytes));
    }
}

void fuzz_bring(fuzz_worker_t *w, fuzz_buffer_t *b, fuzz_buffer_t *x, unsigned s)
{
    struct fuzz_gather g = {.tag = 7,
                            .out = (unsigned *)x->address,
                            .n = x->words,
                            .in = {(const unsigned *)b->address},
                            .count = {b->words}};
    const unsigned salt = fuzz_below(w, 1000) + w->salt;
    fuzz_order(w, b, s, true);
    copy_in(w, b, 0, b->words, s);
    fuzz_order(w, b, s, false);
    fuzz_order(w, x, s, true);
    fuzz_count_need(w, fuzz_chunks((size_t)x->words * 4) + fuzz_chunks((size_t)b->words * 4));
    block_t a = {.bytes = 0};
    PUT(&a, g);
    PUT(&a, salt);
    launch(w, GATHER, g.n, s, (void *[]){&g, (void *)&salt}, a.byte, a.bytes);
    fuzz_trace(w, "bring", s);
}

static void copy_out(fuzz_worker_t *w, unsigned s)
{
    const fuzz_buffer_t *b = fuzz_take(w, s, false);
    if (!b)
        return;
    const unsigned first = fuzz_choose_first(w, b->words), words = 1 + fuzz_below(w, b->words - first);
    void *to = fuzz_host_memory(w, (size_t)words * 4, true);
    const CUdeviceptr from = b->address + (CUdeviceptr)first * 4;
    if (fuzz_chance(w, 50))
        CALL(w, cuMemcpyDtoHAsync(to, from, (size_t)words * 4, w->stream[s]));
    else
        CALL(w, cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, (size_t)words * 4, w->stream[s]));
}

static void copy_within(fuzz_worker_t *w, unsigned s)
{
    fuzz_buffer_t *a = fuzz_pick(w, false), *b = fuzz_pick(w, true);
    if (!a || !b || a == b)
        return;
    fuzz_order(w, a, s, false);
    fuzz_order(w, b, s, true);
    const unsigned most = a->words < b->words ? a->words : b->words, words = 1 + fuzz_below(w, most);
    const CUdeviceptr from = a->address + (CUdeviceptr)fuzz_choose_first(w, a->words - words + 1) * 4,
                      to = b->address + (CUdeviceptr)fuzz_choose_first(w, b->words - words + 1) * 4;
    fuzz_count_need(w, fuzz_chunks((size_t)a->words * 4) + fuzz_chunks((size_t)b->words * 4));
    if (fuzz_chance(w, 50))
        CALL(w, cuMemcpyDtoDAsync(to, from, (size_t)words * 4, w->stream[s]));
    else
        CALL(w, cuMemcpyAsync(to, from, (size_t)words * 4, w->stream[s]));
}

static void set(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned first, unsigned words, unsigned s)
{
    const CUdeviceptr to = b->address + (CUdeviceptr)first * 4;
    const unsigned value = fuzz_below(w, 1U << 31);
    switch (fuzz_below(w, 4)) {
    case 0:
        CALL(w, cuMemsetD8Async(to, (unsigned char)value, (size_t)words * 4, w->stream[s]));
        break;
    case 1:
        CALL(w, cuMemsetD16Async(to, (unsigned short)value, (size_t)words * 2, w->stream[s]));
        break;
    case 2:
        CALL(w, cuMemsetD32Async(to, value, words, w->stream[s]));
        break;
    default:
        fuzz_order(w, b, 0, true);
        CALL(w, cuMemsetD32(to, value, words));
    }
}

static void touch_part(fuzz_worker_t *w, unsigned s, bool by_copy)
{
    fuzz_buffer_t *b = fuzz_take(w, s, true);
    if (!b)
        return;
    const unsigned first = fuzz_choose_first(w, b->words), words = 1 + fuzz_below(w, b->words - first);
    if (by_copy)
        copy_in(w, b, first, words, s);
    else
        set(w, b, first, words, s);
}

void fuzz_initialise(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned s)
{
    fuzz_arena_operation(w);
    fuzz_order(w, b, s, true);
    switch (fuzz_below(w, 4)) {
    case 0:
        copy_in(w, b, 0, b->words, s);
        break;
    case 1:
        set(w, b, 0, b->words, s);
        break;
    default:
        launch_fill(w, b, s, fuzz_below(w, 1000) + w->salt);
    }
    fuzz_trace(w, "initialise", s);
}

/* ---- questions, and requests that nothing can serve ---- */

static void check(const fuzz_worker_t *w, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: worker %u, operation %u: not so: %s\n", w->index, w->operations, what);
    exit(5);
}

static void ask(fuzz_worker_t *w)
{
    size_t free_bytes, total, bytes = 0;
    CUdeviceptr base = 0;
    unsigned type = 0;
    CALL(w, cuMemGetInfo(&free_bytes, &total));
    check(w, free_bytes <= total, "free is at most total");
    if (!w->buffers)
        return;
    const fuzz_buffer_t *b = &w->buffer[fuzz_below(w, w->buffers)];
    if (!b->address)
        return;
    const CUdeviceptr inside = b->address + fuzz_below(w, b->words * 4);
    CALL(w, cuMemGetAddressRange(&base, &bytes, inside));
    check(w, base == (b->segment ? b->segment : b->address) && bytes >= (size_t)b->words * 4,
          "an address lies in its buffer");
    CALL(w, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    check(w, type == CU_MEMORYTYPE_DEVICE, "a device address is one");
}

/* More than any device has: every driver refuses, and the program goes on. */
static void ask_too_much(fuzz_worker_t *w)
{
    CUdeviceptr p = 0;
    const size_t bytes =
        (size_t)1 << (EBB_CHUNK_KIB < 2048 ? 36 : 44); /* ebb looks for addresses, chunk by chunk */
    CUresult result = fuzz_chance(w, 50) ? cuMemAlloc(&p, bytes) : cuMemAllocAsync(&p, bytes, w->stream[0]);
    check(w, result == CUDA_ERROR_OUT_OF_MEMORY || fuzz_faults, "what no device has is out of memory");
    check(w, result, "what no device has is not there");
}

/* ---- */

static void allocate_one(fuzz_worker_t *w, unsigned s)
{
    (void)s;
    fuzz_allocate(w, fuzz_chance(w, 75));
}

static void free_one(fuzz_worker_t *w, unsigned s)
{
    (void)s;
    const unsigned index = w->buffers ? fuzz_below(w, w->buffers) : 0;
    if (w->buffers && !w->buffer[index].permanent && !w->buffer[index].shared)
        fuzz_free(w, index);
}

static void copy_part(fuzz_worker_t *w, unsigned s)
{
    touch_part(w, s, true);
}

static void set_part(fuzz_worker_t *w, unsigned s)
{
    touch_part(w, s, false);
}

static void ask_something(fuzz_worker_t *w, unsigned s)
{
    (void)s;
    ask(w);
}

static void ask_for_too_much(fuzz_worker_t *w, unsigned s)
{
    (void)s;
    ask_too_much(w);
}

static void wait_for_all(fuzz_worker_t *w, unsigned s)
{
    (void)s;
    fuzz_wait_all(w);
}

/* Of a hundred, those below `until` and not below the row before. */
static const struct {
    unsigned until;
    const char *name;
    void (*function)(fuzz_worker_t *w, unsigned s);
} rows[] = {{14, "allocate", allocate_one},    {22, "free", free_one},
            {40, "mix", launch_mix},           {50, "gather", launch_gather},
            {56, "perhaps", launch_perhaps},   {64, "span", launch_span},
            {70, "dawdle", launch_dawdle},     {77, "copy within", copy_within},
            {82, "copy in", copy_part},        {87, "set", set_part},
            {92, "copy out", copy_out},        {95, "wait", fuzz_wait},
            {97, "ask", ask_something},        {98, "ask too much", ask_for_too_much},
            {99, "wait for all", wait_for_all}};

static void operate(fuzz_worker_t *w, unsigned s, unsigned choice)
{
    unsigned i = 0;
    w->operations++;
    fuzz_arena_operation(w);
    while (i < sizeof rows / sizeof rows[0] && choice >= rows[i].until)
        i++;
    if (i == sizeof rows / sizeof rows[0])
        return;
    rows[i].function(w, s);
    fuzz_trace(w, rows[i].name, s);
}

void fuzz_operate(fuzz_worker_t *w)
{
    const unsigned s = fuzz_below(w, w->streams);
    operate(w, s, fuzz_below(w, 100));
    if (w->mean && fuzz_chance(fuzz_mean_dice(w), 10))
        fuzz_mean_between(w);
}

void fuzz_touch(fuzz_worker_t *w)
{
    const unsigned s = fuzz_below(w, w->streams);
    operate(w, s, 22 + fuzz_below(w, 78));
}

void fuzz_checkpoint(fuzz_worker_t *w, const char *name)
{
    fuzz_wait_all(w);
    fprintf(w->out, "%u %s: copied out %016llx\n", w->index, name, (unsigned long long)w->hash);
    for (unsigned i = 0; i < w->buffers; i++) {
        const fuzz_buffer_t *b = &w->buffer[i];
        if (!b->address)
            continue;
        void *p = malloc((size_t)b->words * 4);
        if (!p)
            abort();
        CALL(w, cuMemcpyDtoH(p, b->address, (size_t)b->words * 4));
        fprintf(w->out, "%u %s: buffer %u, %u words, %016llx\n", w->index, name, b->id, b->words,
                (unsigned long long)fuzz_hash(0, p, (size_t)b->words * 4));
        free(p);
    }
}
