/* Matrix and asynchronous-copy instructions against naive products and copies. */
#include <math.h>

#include "simt_test.h"

static uint64_t seed = 7;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 4503599627370496.0 - 1.0;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Numbers that the format holds, with their values. */
static uint16_t bf16(double *value)
{
    const uint32_t u = bits_of((float)uniform()) & 0xffff0000u;
    float f;
    memcpy(&f, &u, sizeof f);
    *value = (double)f;
    return (uint16_t)(u >> 16);
}
static uint16_t fp16(double *value)
{
    const int sign = uniform() < 0, exponent = (int)(15 * (uniform() + 1)) % 20,
              mantissa = (int)(512 * (uniform() + 1)) % 1024;
    *value = exponent ? ldexp(1 + mantissa / 1024.0, exponent - 15) : ldexp(mantissa, -24);
    *value = sign ? -*value : *value;
    return (uint16_t)(sign << 15 | exponent << 10 | mantissa);
}

static CUdeviceptr upload(const void *p, size_t bytes)
{
    CUdeviceptr d;
    OK(cuMemAlloc(&d, bytes));
    OK(cuMemcpyHtoD(d, p, bytes));
    return d;
}

static void check_product(const double *a, const double *b, const float *c, const float *d, int k)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sum = (double)c[i * 8 + j], size = fabs(sum);
            for (int x = 0; x < k; x++) {
                sum += a[i * k + x] * b[x * 8 + j];
                size += fabs(a[i * k + x] * b[x * 8 + j]);
            }
            if (!(fabs((double)d[i * 8 + j] - sum) <= 1e-6 * size + 1e-12))
                fail_msg("(%d,%d): %g, expected %g", i, j, (double)d[i * 8 + j], sum);
        }
}

static void products_of_16_bit_formats_match(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        double a[256], b[128];
        uint16_t ah[256], bh[128];
        float c[128], d[128];
        int is_bf16 = round != 1;
        for (int i = 0; i < 256; i++)
            ah[i] = is_bf16 ? bf16(&a[i]) : fp16(&a[i]);
        for (int i = 0; i < 128; i++) {
            bh[i] = is_bf16 ? bf16(&b[i]) : fp16(&b[i]);
            c[i] = (float)uniform();
        }
        CUdeviceptr pa = upload(ah, sizeof ah), pb = upload(bh, sizeof bh), pc = upload(c, sizeof c),
                    pd = device_zeros(sizeof d);
        if (round == 2)
            OK(LAUNCH("product_ldmatrix", 1, 32, &pd, &pa, &pb, &pc));
        else
            OK(LAUNCH("product_16", 1, 32, &pd, &pa, &pb, &pc, &is_bf16));
        read_back(d, pd, sizeof d);
        check_product(a, b, c, d, 16);
        OK(cuMemFree(pa));
        OK(cuMemFree(pb));
        OK(cuMemFree(pc));
        OK(cuMemFree(pd));
    }
}

static void products_of_tf32_match(void **state)
{
    (void)state;
    double a[128], b[64];
    uint32_t at[128], bt[64];
    float c[128], d[128];
    for (int i = 0; i < 128 + 64; i++) {
        const uint32_t u = bits_of((float)uniform()) & 0xffffe000u;
        float f;
        memcpy(&f, &u, sizeof f);
        *(i < 128 ? &a[i] : &b[i - 128]) = (double)f;
        *(i < 128 ? &at[i] : &bt[i - 128]) = u | 0x1234 >> 3; /* what lies below does not count */
    }
    for (int i = 0; i < 128; i++)
        c[i] = (float)uniform();
    CUdeviceptr pa = upload(at, sizeof at), pb = upload(bt, sizeof bt), pc = upload(c, sizeof c),
                pd = device_zeros(sizeof d);
    OK(LAUNCH("product_tf32", 1, 32, &pd, &pa, &pb, &pc));
    read_back(d, pd, sizeof d);
    check_product(a, b, c, d, 8);
    OK(cuMemFree(pa));
    OK(cuMemFree(pb));
    OK(cuMemFree(pc));
    OK(cuMemFree(pd));
}

static void floats_are_rounded_to_pairs(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits, rounded;
    } given[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80} /* a tie: to even */,
                 {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0x3f807fff, 0x3f80}, {0xbf8080ff, 0xbf81},
                 {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80},
                 {0x00000001, 0x0000}, {0x00018000, 0x0002}};
    enum { GIVEN = sizeof given / sizeof *given };
    uint32_t in[64], out[32];
    for (int i = 0; i < 64; i++)
        in[i] = given[i * 7 % GIVEN].bits;
    in[63] = 0xff800001; /* not a number */
    CUdeviceptr pin = upload(in, sizeof in), pout = device_zeros(sizeof out);
    OK(LAUNCH("packed", 1, 32, &pout, &pin));
    read_back(out, pout, sizeof out);
    for (int i = 0; i < 63; i++)
        assert_int_equal(out[i / 2] >> 16 * (i % 2) & 0xffff, given[i * 7 % GIVEN].rounded);
    assert_int_equal(out[31] >> 16, 0x7fff);
    OK(cuMemFree(pin));
    OK(cuMemFree(pout));
}

static void matrices_are_spread_over_lanes(void **state)
{
    (void)state;
    uint16_t m[128];
    uint32_t got[128];
    for (int i = 0; i < 128; i++)
        m[i] = (uint16_t)(100 * (i / 8) + i % 8);
    CUdeviceptr pm = upload(m, sizeof m), out = device_zeros(sizeof got);
    OK(LAUNCH("matrices", 1, 32, &out, &pm));
    read_back(got, out, sizeof got);
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        assert_int_equal(got[lane], m[g * 8 + 2 * t] | (uint32_t)m[g * 8 + 2 * t + 1] << 16);
        assert_int_equal(got[32 + lane], got[lane]);
        assert_int_equal(got[64 + lane], m[64 + g * 8 + 2 * t] | (uint32_t)m[64 + g * 8 + 2 * t + 1] << 16);
        assert_int_equal(got[96 + lane], m[2 * t * 8 + g] | (uint32_t)m[(2 * t + 1) * 8 + g] << 16);
    }
    OK(cuMemFree(pm));
    OK(cuMemFree(out));
}

static void asynchronous_copies_arrive_when_waited_for(void **state)
{
    (void)state;
    int in[256], out[512];
    for (int i = 0; i < 256; i++)
        in[i] = 1000 + i;
    CUdeviceptr pin = upload(in, sizeof in), pout = device_zeros(sizeof out);
    for (int bytes = 4; bytes <= 16; bytes *= 2) {
        const int count = 64 * bytes / 4;
        for (int n = count - 3; n <= count; n += 3) {
            OK(LAUNCH("copies", 1, 64, &pout, &pin, &n, &bytes));
            read_back(out, pout, sizeof out);
            for (int i = 0; i < count; i++) {
                assert_int_equal(out[i], i < n ? in[i] : 0);
                assert_int_equal(out[count + i], n == count ? in[i] : 0);
            }
        }
    }
    OK(LAUNCH("copy_without_wait", 1, 64, &pout, &pin));
    read_back(out, pout, sizeof out);
    assert_int_equal(out[5], -1);
    OK(cuMemFree(pin));
    OK(cuMemFree(pout));
}

/* Rows of 20, of which 18 are the tensor's; boxes inside, and over each of its edges. */
static void boxes_of_a_tensor_are_copied(void **state)
{
    (void)state;
    enum { PITCH = 20, WIDTH = 18, HEIGHT = 6 };
    static const struct {
        int x, y;
    } at[] = {{4, 1}, {-3, -2}, {14, 4}, {30, 0}};
    int in[HEIGHT][PITCH], now[HEIGHT][PITCH], box[4][8];
    for (int i = 0; i < HEIGHT * PITCH; i++)
        in[i / PITCH][i % PITCH] = 100 + i;
    CUdeviceptr tensor = upload(in, sizeof in), out = device_zeros(sizeof box);
    CUtensorMap map;
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, (void *)tensor,
                              (cuuint64_t[]){WIDTH, HEIGHT}, (cuuint64_t[]){PITCH * 4}, (cuuint32_t[]){8, 4},
                              (cuuint32_t[]){1, 1}, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        int x = at[k].x, y = at[k].y;
        OK(cuMemcpyHtoD(tensor, in, sizeof in));
        OK(LAUNCH("double_box", 1, 32, &map, &out, &x, &y));
        read_back(box, out, sizeof box);
        read_back(now, tensor, sizeof now);
        for (int i = 0; i < HEIGHT * PITCH; i++) {
            const int row = i / PITCH, column = i % PITCH;
            const bool inside =
                column < WIDTH && row - y >= 0 && row - y < 4 && column - x >= 0 && column - x < 8;
            assert_int_equal(now[row][column], in[row][column] * (inside ? 2 : 1));
        }
        for (int i = 0; i < 32; i++) {
            const int row = y + i / 8, column = x + i % 8;
            const bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
            assert_int_equal(box[i / 8][i % 8], inside ? in[row][column] : 0);
        }
    }
    OK(cuMemFree(tensor));
    OK(cuMemFree(out));
}

static void blocks_may_wait_for_earlier_ones(void **state)
{
    (void)state;
    int got, want = 0;
    CUdeviceptr sum = device_zeros(4), turn = device_zeros(4);
    for (int b = 0; b < 15; b++)
        want = want * 3 + b;
    OK(LAUNCH("in_turn", 15, 32, &sum, &turn));
    read_back(&got, sum, 4);
    assert_int_equal(got, want);
    OK(cuMemFree(sum));
    OK(cuMemFree(turn));
}

static void a_grid_may_meet(void **state)
{
    (void)state;
    enum { BLOCKS = 6 };
    int got[2 * BLOCKS];
    CUdeviceptr out = device_zeros(sizeof got), part = device_zeros(4 * BLOCKS), arrived = device_zeros(4);
    OK(cuLaunchCooperativeKernel(kernel("across_the_grid"), BLOCKS, 1, 1, 48, 1, 1, 0, NULL,
                                 (void *[]){&out, &part, &arrived}));
    read_back(got, out, sizeof got);
    for (int round = 0; round < 2; round++)
        for (int b = 0; b < BLOCKS; b++)
            assert_int_equal(got[round * BLOCKS + b],
                             (BLOCKS * (BLOCKS + 1) / 2 + round * BLOCKS) * 100 + b + 1 + round);
    OK(cuMemFree(out));
    OK(cuMemFree(part));
    OK(cuMemFree(arrived));
}

/* Last: the context is lost. */
static void a_warp_without_all_lanes_is_reported(void **state)
{
    (void)state;
    CUdeviceptr d = device_zeros(128);
    OK(LAUNCH("partial_warp", 1, 32, &d));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_16_bit_formats_match),
        cmocka_unit_test(products_of_tf32_match),
        cmocka_unit_test(floats_are_rounded_to_pairs),
        cmocka_unit_test(matrices_are_spread_over_lanes),
        cmocka_unit_test(asynchronous_copies_arrive_when_waited_for),
        cmocka_unit_test(boxes_of_a_tensor_are_copied),
        cmocka_unit_test(blocks_may_wait_for_earlier_ones),
        cmocka_unit_test(a_grid_may_meet),
        cmocka_unit_test(a_warp_without_all_lanes_is_reported),
    };
    return cmocka_run_group_tests(tests, simt_setup, NULL);
}
