/* loop_diverge.c: a step that is another one at one launch; see loop.c: diverge, how, every. */
#include <cuda.h>

#include "loop.h"

enum { MORE, LESS, GEOMETRY, POINTERS, MEMORY, COPY, EARLY, LATE, NEWER };

/* The launch at which this step diverges (LATE: the one before did); -1: it does not. */
static int turn(const loop_t *l)
{
    const int at = l->step - (l->how == LATE) - l->diverge;
    if (l->until)
        return at >= 0 && l->step < l->until ? l->every : -1;
    return !l->diverge || at < 0 || at % 3 ? -1 : at / 3 * l->every;
}

/* A live activation that the next launch does not need; the first is always there. 0: there is none but that. */
static int spare(const loop_t *l)
{
    const int most = (l->backward_at < l->layers ? l->backward_at : l->filled - 1) - 1;
    return most < 1 || !l->x[1 + l->step % most] ? 0 : 1 + l->step % most;
}

static float *live(loop_t *l)
{
    return l->filled && l->x[0] ? l->x[spare(l)] : l->w[0];
}

static void copy_there_and_back(loop_t *l)
{
    float value[256];
    float *from = live(l);
    CHECK(cudaStreamSynchronize(l->stream));
    CHECK(cudaMemcpy(value, from, sizeof value, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++) {
        unsigned bits;
        memcpy(&bits, &value[i], sizeof bits);
        l->read = (l->read ^ bits) * 16777619u;
        value[i] *= 0.5f;
    }
    CHECK(cudaMemcpy(from, value, sizeof value, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
}

/* Within a live activation, by a function of CUDA 13.2. */
static void copy_by_a_newer_function(loop_t *l)
{
    CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpyAttributes * attributes,
                     CUstream stream) = NULL;
    CUmemcpyAttributes plain = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)live(l);
    enum cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuMemcpyWithAttributesAsync", (void **)&copy, 13020,
                                           cudaEnableDefault, &found));
    const CUresult result = copy(at + 1024, at, 1024, &plain, l->stream);
    CHECK(result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : (cudaError_t)result);
}

static void free_early(loop_t *l)
{
    const int i = spare(l);
    if (i)
        free_floats(l, &l->x[i]);
}

/* What the step before has kept is looked at once more. */
static void free_late(loop_t *l)
{
    if (!l->late)
        return;
    CHECK(loop_probe(l->sums, l->late, l->late_n, l->stream));
    free_floats(l, &l->late);
}

bool loop_keeps(const loop_t *l, int activation)
{
    const int at = l->step - l->diverge;
    return l->diverge && l->how == LATE && at >= 0 && at % 3 == 0 && activation == 1 + l->step % l->layers;
}

static bool leave_out(loop_t *l, loop_launch_t what, float *x, size_t count)
{
    if (what == MAKES)
        CHECK(cudaMemsetAsync(x, 0, count * sizeof *x, l->stream));
    return true;
}

bool loop_diverge(loop_t *l, loop_launch_t what, float *x, size_t count)
{
    if (l->launches != turn(l))
        return false;
    switch (l->how) {
    case MORE:
        CHECK(loop_probe(live(l), l->w[1], l->m, l->stream));
        return false;
    case LESS:
        return leave_out(l, what, x, count);
    case GEOMETRY:
        CHECK(loop_fill(x, 7, count / 2 + 1, l->stream));
        return false;
    case POINTERS:
        CHECK(loop_update(l->w[l->step % l->layers], l->dw[0], l->counter, 1e-3f, l->m, l->stream));
        return what == CHANGES;
    case MEMORY:
        l->more_memory = new_floats(l, l->n);
        CHECK(loop_fill(l->more_memory, 5, l->n, l->stream));
        return false;
    case COPY:
        copy_there_and_back(l);
        return false;
    case EARLY:
        free_early(l);
        return false;
    case NEWER:
        copy_by_a_newer_function(l);
        return false;
    default:
        free_late(l);
        return false;
    }
}

/* What has not come to its launch, or stays to the end. */
void loop_diverge_end(loop_t *l)
{
    if (l->diverge && turn(l) >= 0)
        free_late(l);
    if (!l->more_memory)
        return;
    CHECK(loop_probe(l->sums, l->more_memory, l->n, l->stream));
    free_floats(l, &l->more_memory);
}
