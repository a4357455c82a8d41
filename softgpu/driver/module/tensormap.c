/* tensormap.c: descriptors of tensors for the tensor memory accelerator. NVIDIA documents their size and alignment and nothing of what
 * is in them. That word 0 is the address as it is, and that no other word depends on it: H200, driver 580.159.04.
 *
 *   word 0       the global address
 *   word 1       kind (1 tiled, 2 im2col), data type, rank, interleave, swizzle, promotion, fill, wide mode: a byte each
 *   words 2-5    strides of dimensions 1 to 4 in bytes
 *   words 6-8    sizes of dimensions 0 to 4 less 1, 32 bits each, then 32 bits of 0
 *   words 9-12   tiled: box sizes, im2col: corners, channels, pixels; see encode()
 *   word 13      element strides, a byte each; word 14 is 0
 *   word 15      a sum of words 1 to 14: bytes that anything but this driver has made are no descriptor
 *
 * The arguments are checked as NVIDIA documents it for cuTensorMapEncodeTiled and its sisters.
 */
#include "softgpu/driver/stream/streams.h"

#include <string.h>

typedef struct tensor {
    CUtensorMapDataType type;
    unsigned rank;
    CUdeviceptr address;
    const cuuint64_t *dim, *stride;
    const cuuint32_t *element_stride;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
} tensor_t;

enum { WORDS = 16, SIZES = 6, BOX = 9, STEPS = 13, SUM = 15, TILED = 1, IM2COL = 2 };

static uint64_t mix(uint64_t x, unsigned i)
{
    x = (x + i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 29;
}

static uint64_t sum_of(const uint64_t w[WORDS])
{
    uint64_t sum = 0;
    for (unsigned i = 1; i < SUM; i++)
        sum = mix(sum ^ w[i], i);
    return sum;
}

/* False: it is no descriptor. */
static bool read_words(uint64_t w[WORDS], const void *map)
{
    memcpy(w, map, WORDS * sizeof *w);
    return w[SUM] == sum_of(w);
}

/* In bits; 0: no such type. */
static unsigned element_bits(CUtensorMapDataType type)
{
    static const unsigned char bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
    return (unsigned)type < sizeof bits ? bits[type] : 0;
}

static bool is_float(CUtensorMapDataType type)
{
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

/* Packed values that are spread over 16 bytes. */
static bool is_spread(CUtensorMapDataType type)
{
    return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

static bool dims_are_valid(const tensor_t *t)
{
    unsigned align = t->interleave == CU_TENSOR_MAP_INTERLEAVE_32B || is_spread(t->type) ? 32 : 16;
    if (!t->address || t->address % align)
        return false;
    for (unsigned i = 0; i < t->rank; i++)
        if (!t->dim[i] || t->dim[i] > (cuuint64_t)1 << 32 || !t->element_stride[i] ||
            t->element_stride[i] > 8)
            return false;
    for (unsigned i = 0; i + 1 < t->rank; i++)
        if (t->stride[i] % align || t->stride[i] >= (cuuint64_t)1 << 40)
            return false;
    return !(is_spread(t->type) && t->dim[0] % 128) &&
           !(t->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B && t->dim[0] % 2);
}

static unsigned swizzle_bytes(CUtensorMapSwizzle swizzle)
{
    return swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32 : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
}

static bool modes_are_valid(const tensor_t *t, uint64_t inner_bytes)
{
    if ((unsigned)t->interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
        (unsigned)t->swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
        (unsigned)t->promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
        (unsigned)t->fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
        return false;
    if (t->fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(t->type))
        return false;
    if (t->interleave == CU_TENSOR_MAP_INTERLEAVE_32B && t->swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
        return false;
    if (t->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return t->rank >= 3;
    return t->swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || inner_bytes <= swizzle_bytes(t->swizzle);
}

/* box: [4] 64-bit words that depend on the kind. */
static void encode(CUtensorMap *out, const tensor_t *t, unsigned kind, unsigned wide, const uint64_t box[4])
{
    uint64_t w[WORDS] = {t->address};
    const uint8_t modes[8] = {(uint8_t)kind,          (uint8_t)t->type,    (uint8_t)t->rank,
                              (uint8_t)t->interleave, (uint8_t)t->swizzle, (uint8_t)t->promotion,
                              (uint8_t)t->fill,       (uint8_t)wide};
    uint32_t sizes[6] = {0};
    uint8_t steps[8] = {0};
    memcpy(&w[1], modes, sizeof modes);
    for (unsigned i = 0; i < t->rank; i++) {
        sizes[i] = (uint32_t)(t->dim[i] - 1);
        steps[i] = (uint8_t)t->element_stride[i];
        if (i + 1 < t->rank)
            w[2 + i] = t->stride[i];
    }
    memcpy(&w[SIZES], sizes, sizeof sizes);
    memcpy(&w[BOX], box, 4 * sizeof box[0]);
    memcpy(&w[STEPS], steps, sizeof steps);
    w[SUM] = sum_of(w);
    _Static_assert(sizeof w == sizeof out->opaque, "a descriptor has 128 bytes");
    memcpy(out->opaque, w, sizeof w);
}

static CUresult check_common(const CUtensorMap *out, const tensor_t *t, unsigned min_rank)
{
    SG_TRY(sg_enter());
    if (sg.config.arch < 90)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool fits = out && (uintptr_t)out % 64 == 0 && element_bits(t->type) && t->rank >= min_rank &&
                t->rank <= 5 && t->dim && t->element_stride && (t->stride || t->rank == 1);
    return fits && dims_are_valid(t) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                          void *address, const cuuint64_t *dim, const cuuint64_t *stride,
                                          const cuuint32_t *box, const cuuint32_t *element_stride,
                                          CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                          CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    tensor_t t = {
        type,      rank, (CUdeviceptr)(uintptr_t)address, dim, stride, element_stride, interleave, swizzle,
        promotion, fill};
    SG_TRY(check_common(out, &t, 1));
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t sizes[8] = {0};
    for (unsigned i = 0; i < rank; i++) {
        if (!box[i] || box[i] > 256)
            return CUDA_ERROR_INVALID_VALUE;
        sizes[i] = box[i];
    }
    uint64_t inner = (uint64_t)box[0] * element_bits(type) / 8, words[4];
    if ((interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && !is_spread(type) && inner % 16) ||
        (is_spread(type) && box[0] != 128) || !modes_are_valid(&t, inner))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(words, sizes, sizeof words);
    encode(out, &t, TILED, 0, words);
    return CUDA_SUCCESS;
}

/* Corners of the box of pixels: rank - 2 of them, within limits that shrink with their number. */
static bool corners_are_valid(unsigned rank, const int *lower, const int *upper, const cuuint64_t *dim)
{
    int limit = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
    for (unsigned i = 0; i < rank - 2; i++) {
        /* The box goes from `lower` to the last pixel plus `upper`; corners are given as {D, H, W}, W is dimension 1. */
        int64_t size = (int64_t)dim[rank - 2 - i] + upper[i] - lower[i];
        if (lower[i] < -limit || lower[i] >= limit || upper[i] < -limit || upper[i] >= limit || size <= 0)
            return false;
    }
    return true;
}

SG_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                           void *address, const cuuint64_t *dim, const cuuint64_t *stride,
                                           const int *lower, const int *upper, cuuint32_t channels,
                                           cuuint32_t pixels, const cuuint32_t *element_stride,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    tensor_t t = {
        type,      rank, (CUdeviceptr)(uintptr_t)address, dim, stride, element_stride, interleave, swizzle,
        promotion, fill};
    SG_TRY(check_common(out, &t, 3));
    if (!lower || !upper || !channels || channels > 256 || !pixels || pixels > 1024 ||
        !corners_are_valid(rank, lower, upper, dim) || (is_spread(type) && channels != 128) ||
        !modes_are_valid(&t, (uint64_t)channels * element_bits(type) / 8))
        return CUDA_ERROR_INVALID_VALUE;
    int16_t corners[8] = {0};
    for (unsigned i = 0; i < rank - 2; i++) {
        corners[i] = (int16_t)lower[i];
        corners[4 + i] = (int16_t)upper[i];
    }
    uint64_t words[4] = {0, 0, (uint64_t)pixels << 32 | channels, 0};
    memcpy(words, corners, sizeof corners);
    encode(out, &t, IM2COL, 0, words);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    SG_TRY(sg_enter());
    uint64_t w[WORDS];
    if (!map || (uintptr_t)map % 64 || !address || (uintptr_t)address % 16 || !read_words(w, map))
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[0] = (uint64_t)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUdeviceptr sg_tensor_map_address(const void *map)
{
    uint64_t w[WORDS];
    return read_words(w, map) ? w[0] : 0;
}

int sg_tensor_map_read(const void *map, softgpu_tensor_t *out)
{
    uint64_t w[WORDS];
    uint8_t modes[8], steps[8];
    uint32_t sizes[6];
    if (!read_words(w, map))
        return 0;
    memcpy(modes, &w[1], sizeof modes);
    memcpy(steps, &w[STEPS], sizeof steps);
    memcpy(sizes, &w[SIZES], sizeof sizes);
    memcpy(out->box, &w[BOX], sizeof out->box);
    out->at = sg_host(w[0]);
    out->rank = modes[2];
    const unsigned bits = element_bits((CUtensorMapDataType)modes[1]);
    out->element_bytes = bits / 8;
    if (modes[0] != TILED || bits % 8 || modes[3] || modes[4])
        return 0;
    for (unsigned i = 0; i < out->rank; i++) {
        out->size[i] = (uint64_t)sizes[i] + 1;
        out->stride[i] = i ? w[1 + i] : out->element_bytes;
        if (steps[i] != 1)
            return 0;
    }
    return 1;
}
