/* reduce.c: NCCL's types and reductions. Sums and products of 16-bit floats are fp32 until the last rank has been added, and rounded once;
 * integers wrap; an average is the sum divided by the number of ranks.
 */
#include "softgpu/nccl/internal.h"
#include "softgpu/blas/element.h"

#include <string.h>

size_t nccl_type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

bool nccl_can_reduce(ncclDataType_t type)
{
    return type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

static bool is_half(ncclDataType_t type)
{
    return type == ncclFloat16 || type == ncclBfloat16;
}

static int32_t cuda_type(ncclDataType_t type)
{
    return type == ncclFloat16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* ---- of one type, at most ROOM elements ---- */

enum { ROOM = 1024, DIVIDE = ncclNumOps, SCALE };

/* Integers are added and multiplied as `wide`, without sign: the same bits, and they may wrap. Of two floats a NaN is the larger and the smaller, as in
 * NCCL. An average of negative integers is of what they are. */
#define OPERATIONS(name, type, wide)                                                                         \
    static void name(int op, void *to_, const void *from_, size_t count, double by)                          \
    {                                                                                                        \
        type *to = to_;                                                                                      \
        const type *from = from_;                                                                            \
        for (size_t i = 0; i < count; i++)                                                                   \
            switch (op) {                                                                                    \
            case ncclProd:                                                                                   \
                to[i] = (type)((wide)to[i] * (wide)from[i]);                                                 \
                break;                                                                                       \
            case ncclMax:                                                                                    \
                to[i] = from[i] > to[i] || from[i] != from[i] ? from[i] : to[i];                             \
                break;                                                                                       \
            case ncclMin:                                                                                    \
                to[i] = from[i] < to[i] || from[i] != from[i] ? from[i] : to[i];                             \
                break;                                                                                       \
            case DIVIDE:                                                                                     \
                to[i] = (type)(to[i] / (type)by);                                                            \
                break;                                                                                       \
            case SCALE:                                                                                      \
                to[i] = (type)((wide)to[i] * (wide)(type)by);                                                \
                break;                                                                                       \
            default:                                                                                         \
                to[i] = (type)((wide)to[i] + (wide)from[i]);                                                 \
            }                                                                                                \
    }
OPERATIONS(int8, int8_t, uint32_t)
OPERATIONS(uint8, uint8_t, uint32_t)
OPERATIONS(int32, int32_t, uint32_t)
OPERATIONS(uint32, uint32_t, uint32_t)
OPERATIONS(int64, int64_t, uint64_t)
OPERATIONS(uint64, uint64_t, uint64_t)
OPERATIONS(float32, float, float)
OPERATIONS(float64, double, double)

/* `by`: for DIVIDE and SCALE, which read nothing. Floats of 16 bits are fp32 here. */
static void combine(ncclDataType_t type, int op, void *to, const void *from, size_t count, double by)
{
    static void (*const of_type[ncclNumTypes])(int, void *, const void *, size_t, double) = {
        [ncclInt8] = int8,       [ncclUint8] = uint8,    [ncclInt32] = int32,     [ncclUint32] = uint32,
        [ncclInt64] = int64,     [ncclUint64] = uint64,  [ncclFloat16] = float32, [ncclBfloat16] = float32,
        [ncclFloat32] = float32, [ncclFloat64] = float64};
    of_type[type](op, to, from, count, by);
}

/* ---- of any number ---- */

void nccl_reduce(const nccl_reduction_t *r, void *to, const void *const *from, int ranks, size_t count)
{
    const size_t bytes = nccl_type_bytes(r->type);
    const bool half = is_half(r->type);
    _Alignas(64) char sum[ROOM * sizeof(double)];
    float one[ROOM];
    for (size_t at = 0; at < count; at += ROOM) {
        const size_t n = count - at < ROOM ? count - at : ROOM;
        for (int rank = 0; rank < ranks; rank++) {
            const void *source = (const char *)from[rank] + at * bytes;
            if (half) {
                element_load(rank ? one : (float *)(void *)sum, source, (int64_t)n, 1, cuda_type(r->type));
                source = one;
            } else if (!rank) {
                memcpy(sum, source, n * bytes);
            }
            if (rank)
                combine(r->type, (int)r->op, sum, source, n, 0);
        }
        if (r->op == ncclAvg)
            combine(r->type, DIVIDE, sum, sum, n, ranks);
        if (half)
            element_store((char *)to + at * bytes, (float *)(void *)sum, (int64_t)n, 1, cuda_type(r->type));
        else
            memcpy((char *)to + at * bytes, sum, n * bytes);
    }
}

/* A factor as elements of the type have it. */
double nccl_factor(const nccl_reduction_t *r)
{
    const void *at = r->device_scale;
    float small;
    if (!at)
        return r->scale;
    switch (r->type) {
    case ncclInt8:
        return *(const int8_t *)at;
    case ncclUint8:
        return *(const uint8_t *)at;
    case ncclInt32:
        return *(const int32_t *)at;
    case ncclUint32:
        return *(const uint32_t *)at;
    case ncclInt64:
        return (double)*(const int64_t *)at;
    case ncclUint64:
        return (double)*(const uint64_t *)at;
    case ncclFloat64:
        return *(const double *)at;
    case ncclFloat32:
        return *(const float *)at;
    default:
        element_load(&small, at, 1, 1, cuda_type(r->type));
        return small;
    }
}

void nccl_contribute(const nccl_reduction_t *r, void *to, const void *from, size_t count)
{
    const size_t bytes = nccl_type_bytes(r->type);
    const double factor = r->scaled ? nccl_factor(r) : 1;
    float elements[ROOM];
    memcpy(to, from, count * bytes);
    if (r->scaled && !is_half(r->type))
        combine(r->type, SCALE, to, to, count, factor);
    for (size_t at = 0; r->scaled && is_half(r->type) && at < count; at += ROOM) {
        const size_t n = count - at < ROOM ? count - at : ROOM;
        char *piece = (char *)to + at * bytes;
        element_load(elements, piece, (int64_t)n, 1, cuda_type(r->type));
        combine(r->type, SCALE, elements, elements, n, factor);
        element_store(piece, elements, (int64_t)n, 1, cuda_type(r->type));
    }
}
