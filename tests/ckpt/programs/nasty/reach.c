/* reach.c: traits of memory that an operation reaches although its arguments do not say so, or that is not the
 * device's own. */
#include <cuda.h>
#include <softgpu/private_loader.h>
#include <stdlib.h>

#include "nasty.h"

/* ---- mapped: pinned host memory as a kernel's input, which the host changes twice a step ---- */

static void mapped_set_up(worker_t *w)
{
    w->host_floats = nasty_pinned(NASTY_FLOATS * sizeof(float));
    CHECK(cudaHostGetDevicePointer((void **)&w->a, w->host_floats, 0));
}

static void mapped_change(worker_t *w)
{
    CHECK(cudaStreamSynchronize(w->stream));
    for (unsigned i = 0; i < NASTY_FLOATS; i++)
        w->host_floats[i] += (float)(i % 7) * 0.01f;
}

static void mapped_forward(worker_t *w, unsigned i)
{
    float by = 0.1f;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->a, &by, &w->n);
}

/* ---- managed: the same with memory that wanders ---- */

static void managed_set_up(worker_t *w)
{
    CHECK(cudaMallocManaged((void **)&w->a, NASTY_FLOATS * sizeof(float), cudaMemAttachGlobal));
    w->host_floats = w->a;
    for (unsigned i = 0; i < NASTY_FLOATS; i++)
        w->host_floats[i] = 0;
}

/* ---- batch: the data come from the host, into what the step's first kernel has made ---- */

static void batch_set_up(worker_t *w)
{
    w->host_floats = nasty_pinned(NASTY_FLOATS * sizeof(float));
}

static void batch_begin(worker_t *w)
{
    float by = 1.0f;
    mapped_change(w);
    w->c = new_activation(w);
    CHECK(cudaMemcpyAsync(w->c, w->host_floats, w->n * sizeof(float), cudaMemcpyHostToDevice, w->stream));
    LAUNCH(w, accumulate, blocks_of(10000), &w->w[1], &w->c, &by, &w->m[1]);
}

static void batch_end(worker_t *w)
{
    float by = 0.001f;
    LAUNCH(w, accumulate, blocks_of(w->m[1]), &w->dw[1], &w->c, &by, &w->m[1]);
    nasty_free(w, w->c);
}

/* ---- symbols: module variables as a kernel's inputs, which the host sets anew twice a step ---- */

static void symbols_set_up(worker_t *w)
{
    w->host_floats = nasty_pinned(2 * sizeof(float));
}

static void symbols_change(worker_t *w)
{
    CHECK(cudaStreamSynchronize(w->stream));
    w->host_floats[0] = 0.9f + 0.001f * (float)(++w->count % 64);
    w->host_floats[1] = 0.002f * (float)(w->count % 16);
    CHECK(cudaMemcpyToSymbolAsync(nasty_symbol_gain(), &w->host_floats[0], sizeof(float), 0,
                                  cudaMemcpyHostToDevice, w->stream));
    CHECK(cudaMemcpyToSymbolAsync(nasty_symbol_shift(), &w->host_floats[1], sizeof(float), 0,
                                  cudaMemcpyHostToDevice, w->stream));
}

static void symbols_forward(worker_t *w, unsigned i)
{
    LAUNCH(w, scaled, blocks_of(w->n), &w->x[i + 1], &w->n);
}

/* ---- passes: a kernel counts its launches in a module variable, which another one reads; the host knows its address ---- */

static void passes_set_up(worker_t *w)
{
    CHECK(cudaGetSymbolAddress((void **)&w->word, nasty_symbol_passes()));
}

static void passes_forward(worker_t *w, unsigned i)
{
    LAUNCH(w, counted, blocks_of(w->n), &w->x[i + 1], &w->n);
    LAUNCH(w, by_count, blocks_of(w->n), &w->x[i + 1], &w->n);
}

static void passes_finish(worker_t *w)
{
    nasty_read(w, w->word, sizeof *w->word);
}

/* ---- unseen: the same, and no host code ever asks for the variable ---- */

static void unseen_forward(worker_t *w, unsigned i)
{
    LAUNCH(w, counted_unseen, blocks_of(w->n), &w->x[i + 1], &w->n);
    LAUNCH(w, by_count_unseen, blocks_of(w->n), &w->x[i + 1], &w->n);
}

/* ---- private: the same kernels, of a module that was loaded past all documented functions (where the device has no such loader, those
 * of unseen) ---- */

static CUkernel private_kernels[2];

static void private_set_up(worker_t *w)
{
    static const CUuuid id = SOFTGPU_PRIVATE_LOADER;
    const void *table = NULL;
    CUlibrary library;
    (void)w;
    if (cuGetExportTable(&table, &id))
        return;
    const softgpu_private_loader_t *loader = table;
    if (loader->load(&library, "/proc/self/exe") ||
        loader->find(&private_kernels[0], library, "counted_unseen") ||
        loader->find(&private_kernels[1], library, "by_count_unseen"))
        abort();
}

static void private_forward(worker_t *w, unsigned i)
{
    if (!private_kernels[0]) {
        unseen_forward(w, i);
        return;
    }
    for (unsigned k = 0; k < 2; k++)
        if (cuLaunchKernel((CUfunction)private_kernels[k], blocks_of(w->n), 1, 1, 256, 1, 1, 0, w->stream,
                           (void *[]){&w->x[i + 1], &w->n}, NULL))
            abort();
}

/* ---- masked: no argument of a kernel looks like an address, and it is one. Between the steps, when all that is left fits ---- */

static void masked_set_up(worker_t *w)
{
    w->a = nasty_keep(w, NASTY_FLOATS * sizeof(float));
    for (unsigned i = 0; i < w->layers; i += 4)
        nasty_stays(2 * (2 << 20));
    nasty_stays(2 << 20);
}

static void masked_after(worker_t *w)
{
    unsigned long long masked = (unsigned long long)(uintptr_t)w->a ^ NASTY_MASK;
    float by = 0.01f * (float)w->step;
    LAUNCH(w, accumulate_masked, blocks_of(w->n), &masked, &by, &w->n);
}

/* ---- table: a kernel finds its inputs by a table of pointers that the host has copied to the device ---- */

static void table_set_up(worker_t *w)
{
    float **kept[] = {&w->a, &w->b, &w->c};
    w->host_table = nasty_pinned(NASTY_MOST * sizeof(float *));
    w->table = nasty_alloc_at_once(NASTY_MOST * sizeof(float *)); /* not hashed: addresses */
    CHECK(cudaMemset(w->table, 0, NASTY_MOST * sizeof(float *)));
    for (unsigned i = 0; i < 3; i++) {
        unsigned n = NASTY_FLOATS, seed = 77 + i;
        w->host_table[i] = *kept[i] = nasty_keep(w, NASTY_FLOATS * sizeof(float));
        LAUNCH(w, fill, blocks_of(n), kept[i], &seed, &n);
    }
}

static void table_begin(worker_t *w)
{
    CHECK(cudaMemcpyAsync(w->table, w->host_table, 3 * sizeof(float *), cudaMemcpyHostToDevice, w->stream));
}

static void add_sum(worker_t *w, unsigned i, float *sum)
{
    float by = 0.2f;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &sum, &by, &w->n);
    nasty_free(w, sum);
}

static void table_forward(worker_t *w, unsigned i)
{
    unsigned count = 3;
    float *sum = new_activation(w);
    LAUNCH(w, grouped, blocks_of(w->n), &sum, &w->table, &count, &w->n);
    add_sum(w, i, sum);
}

/* What the table leads to changes. */
static void table_end(worker_t *w)
{
    float by = 0.01f;
    LAUNCH(w, accumulate, blocks_of(w->n), &w->a, &w->b, &by, &w->n);
}

/* ---- tables: a table for each launch, which is given back right behind it, as PyTorch does where it splits and packs what FSDP's collectives
 * move ---- */

enum { TABLES_WORDS = 10000 }; /* of every other one, as where numbers follow the pointers */

static void tables_set_up(worker_t *w)
{
    w->host_table = nasty_pinned((size_t)NASTY_LAYERS * TABLES_WORDS * sizeof(float *));
    for (unsigned k = 0; k < NASTY_LATE; k++)
        w->late[k] = nasty_keep(w, NASTY_FLOATS * sizeof(float));
}

/* Nothing else uses what they write. */
static void tables_forward(worker_t *w, unsigned i)
{
    const size_t bytes = (i % 2 ? TABLES_WORDS : 2) * sizeof(float *);
    float **host = w->host_table + (size_t)i * TABLES_WORDS, **table = nasty_alloc(w, bytes), by = 0.01f;
    if (i == 0) /* the last step's have been copied */
        CHECK(cudaStreamSynchronize(w->stream));
    host[0] = w->x[i + 1];
    host[1] = w->late[i % NASTY_LATE];
    CHECK(cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, w->stream));
    LAUNCH(w, through_table, blocks_of(w->n), &table, &by, &w->n);
    if (i % 4 == 2) /* the last words are zeros */
        CHECK(cudaMemcpyAsync(table, host + TABLES_WORDS - 2, 2 * sizeof(float *), cudaMemcpyHostToDevice,
                              w->stream));
    nasty_free(w, table);
}

/* ---- device_table: a kernel has made the table, from its arguments ---- */

static void device_table_begin(worker_t *w)
{
    LAUNCH(w, make_table, 1, &w->table, &w->a, &w->b, &w->c);
}

/* ---- object: the host has copied the table, and only what a kernel has made leads to it ---- */

static void object_begin(worker_t *w)
{
    table_begin(w);
    if (!w->object) { /* not hashed: an address */
        w->object = nasty_alloc_at_once(sizeof(float **));
        LAUNCH(w, make_object, 1, &w->object, &w->table);
    }
}

static void object_forward(worker_t *w, unsigned i)
{
    unsigned count = 3;
    float *sum = new_activation(w);
    LAUNCH(w, grouped_by, blocks_of(w->n), &sum, &w->object, &count, &w->n);
    add_sum(w, i, sum);
}

/* ---- maps: a kernel's operands are tensor maps, as those of libraries for Hopper; on a device before that a kernel with pointers takes
 * its place ---- */

static CUtensorMap map_of(const worker_t *w, float *x)
{
    CUtensorMap map;
    const cuuint64_t size[] = {NASTY_MAP_ROW, w->n / NASTY_MAP_ROW},
                     stride[] = {NASTY_MAP_ROW * sizeof(float)};
    const cuuint32_t box[] = {NASTY_MAP_ROW, 1}, step[] = {1, 1};
    CHECK((cudaError_t)cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

static void maps_forward(worker_t *w, unsigned i)
{
    int supported;
    float by = 0.01f;
    CHECK((cudaError_t)cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
    if (supported) {
        CUtensorMap x = map_of(w, w->x[i + 1]);
        struct nasty_mapped rest = {.n = w->n, .by = by, .delta = map_of(w, w->x[i])};
        LAUNCH(w, accumulate_mapped, blocks_of(w->n), &x, &rest);
    } else {
        LAUNCH(w, accumulate, blocks_of(w->n), &w->x[i + 1], &w->x[i], &by, &w->n);
    }
}

/* ---- rectangles: copies of rectangles within the device ---- */

static void rectangles_forward(worker_t *w, unsigned i)
{
    CHECK(cudaMemcpy2DAsync(w->x[i + 1] + 64, 4096, w->x[i], 4096, 512, 60, cudaMemcpyDeviceToDevice,
                            w->stream));
}

const trait_t nasty_reach[] = {
    {.name = "mapped",
     .set_up = mapped_set_up,
     .begin = mapped_change,
     .forward = mapped_forward,
     .middle = mapped_change},
    {.name = "managed",
     .set_up = managed_set_up,
     .begin = mapped_change,
     .forward = mapped_forward,
     .middle = mapped_change},
    {.name = "batch", .set_up = batch_set_up, .begin = batch_begin, .end = batch_end},
    {.name = "symbols",
     .set_up = symbols_set_up,
     .begin = symbols_change,
     .forward = symbols_forward,
     .middle = symbols_change},
    {.name = "passes", .set_up = passes_set_up, .forward = passes_forward, .finish = passes_finish},
    {.name = "unseen", .forward = unseen_forward},
    {.name = "private", .set_up = private_set_up, .forward = private_forward},
    {.name = "masked", .set_up = masked_set_up, .after = masked_after},
    {.name = "table",
     .set_up = table_set_up,
     .begin = table_begin,
     .forward = table_forward,
     .end = table_end},
    {.name = "tables", .set_up = tables_set_up, .forward = tables_forward},
    {.name = "device_table",
     .set_up = table_set_up,
     .begin = device_table_begin,
     .forward = table_forward,
     .end = table_end},
    {.name = "object",
     .set_up = table_set_up,
     .begin = object_begin,
     .forward = object_forward,
     .end = table_end},
    {.name = "maps", .forward = maps_forward},
    {.name = "rectangles", .forward = rectangles_forward},
    {.name = NULL},
};
