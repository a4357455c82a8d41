/* behaviour: every reduction of every type gives sum, product, minimum, maximum and average of what the ranks have; a sum whose operands are
 * multiplied first takes the factor from the host at once, or from the device when it runs.
 * rules: none
 * source: NCCL user guide, ncclDataType_t, ncclRedOp_t, ncclRedOpCreatePreMulSum
 * uses: nccl
 */
#include "ranks.h"

/* Small whole numbers are exact in each type: rank r has r + 2. */
static size_t encode(ncclDataType_t type, double value, void *to)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint16_t bf16 = (uint16_t)(bits >> 16),
                   f16 = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                                    (bits >> 13 & 1023));
#define PUT(type_, value_)                                                                                   \
    do {                                                                                                     \
        const type_ v_ = (type_)(value_);                                                                    \
        memcpy(to, &v_, sizeof v_);                                                                          \
        return sizeof v_;                                                                                    \
    } while (0)
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        PUT(uint8_t, value);
    case ncclInt32:
    case ncclUint32:
        PUT(uint32_t, value);
    case ncclInt64:
    case ncclUint64:
        PUT(uint64_t, value);
    case ncclFloat16:
        PUT(uint16_t, f16);
    case ncclBfloat16:
        PUT(uint16_t, bf16);
    case ncclFloat32:
        PUT(float, value);
    default:
        PUT(double, value);
    }
}

static bool reduces_to(ncclDataType_t type, ncclRedOp_t op, double mine, double want)
{
    enum { COUNT = 5 };
    unsigned char given[8 * COUNT], wanted[8 * COUNT], got[8 * COUNT];
    size_t bytes = 0;
    for (int i = 0; i < COUNT; i++) {
        bytes = encode(type, mine, given + (size_t)i * bytes);
        encode(type, want, wanted + (size_t)i * bytes);
    }
    CUdeviceptr p = device_alloc(sizeof given);
    OK(cuMemcpyHtoD(p, given, sizeof given));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), COUNT, type, op, comm, stream));
    WAIT(stream);
    OK(cuMemcpyDtoH(got, p, sizeof got));
    OK(cuMemFree(p));
    return !memcmp(got, wanted, COUNT * bytes);
}

static void multiplied_first(ncclDataType_t type)
{
    unsigned char factor[8];
    ncclRedOp_t op;
    const size_t bytes = encode(type, rank + 1, factor);
    CUdeviceptr p = device_alloc(sizeof factor);
    OK_NCCL(ncclRedOpCreatePreMulSum(&op, factor, type, ncclScalarHostImmediate, comm));
    memset(factor, 0, sizeof factor);
    CHECK(reduces_to(type, op, rank + 2, 2 + 6 + 12));
    EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, comm));
    OK_NCCL(ncclRedOpCreatePreMulSum(&op, AT(p, 0), type, ncclScalarDevice, comm));
    encode(type, 2, factor);
    OK(cuMemcpyHtoD(p, factor, bytes));
    CHECK(reduces_to(type, op, rank + 2, 2 * (2 + 3 + 4)));
    EXPECT_NCCL(ncclSuccess, ncclRedOpDestroy(op, comm));
    OK(cuMemFree(p));
}

RANKED(3)
{
    static const ncclDataType_t types[] = {ncclInt8,   ncclUint8,   ncclInt32,    ncclUint32,  ncclInt64,
                                           ncclUint64, ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64};
    static const double want[] = {
        [ncclSum] = 9, [ncclProd] = 24, [ncclMax] = 4, [ncclMin] = 2, [ncclAvg] = 3};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int op = ncclSum; op <= ncclAvg; op++)
            if (!reduces_to(types[t], (ncclRedOp_t)op, rank + 2, want[op])) {
                printf("type %d, reduction %d\n", (int)types[t], op);
                CHECK(!"what is wanted");
            }
        multiplied_first(types[t]);
    }
}
