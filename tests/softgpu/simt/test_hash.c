/* ebb's own kernels (ckpt/run/profile/kernels/hash.cu), which only fast mode has ever run: the same numbers in every mode and with every
 * size of block. */
#include "simt_test.h"

static uint64_t mix(uint64_t word, uint64_t index)
{
    uint64_t z = word + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t hash(const unsigned char *p, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i * 8 < bytes; i++) {
        uint64_t word = 0;
        memcpy(&word, p + 8 * i, bytes - 8 * i < 8 ? bytes - 8 * i : 8);
        sum += mix(word, i);
    }
    return sum;
}

static void blocks_of_every_size_give_the_same_hash(void **state)
{
    (void)state;
    static unsigned char bytes[20011];
    const size_t sizes[] = {1, 7, 8, 9, 255, 256, 4096, 20011};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    CUdeviceptr p, partial;
    OK(cuMemAlloc(&p, sizeof bytes));
    OK(cuMemcpyHtoD(p, bytes, sizeof bytes));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned block = 32; block <= 1024; block *= 2) {
            size_t n = sizes[s], slice = 300;
            const unsigned blocks = (unsigned)((n / 8 + slice) / slice);
            uint64_t got[16], sum = 0;
            assert_true(blocks <= 16);
            OK(cuMemAlloc(&partial, sizeof got));
            OK(LAUNCH("ebb_hash", blocks, block, &partial, &p, &n, &slice));
            read_back(got, partial, blocks * sizeof *got);
            for (unsigned b = 0; b < blocks; b++)
                sum += got[b];
            assert_true(sum == hash(bytes, n));
            OK(cuMemFree(partial));
        }
    OK(cuMemFree(p));
}

static void comparison_sees_one_bit(void **state)
{
    (void)state;
    uint64_t a[5] = {1, 2, 3, 4, 5};
    unsigned count = 5;
    uint32_t different = 9;
    CUdeviceptr pa, pb, out;
    OK(cuMemAlloc(&pa, sizeof a));
    OK(cuMemAlloc(&pb, sizeof a));
    OK(cuMemAlloc(&out, 4));
    OK(cuMemcpyHtoD(pa, a, sizeof a));
    for (int i = 0; i <= 5; i++) {
        uint64_t b[5] = {1, 2, 3, 4, 5};
        if (i < 5)
            b[i] ^= UINT64_C(1) << 40;
        OK(cuMemcpyHtoD(pb, b, sizeof b));
        OK(LAUNCH("ebb_hash_compare", 1, 32, &out, &pa, &pb, &count));
        read_back(&different, out, 4);
        assert_int_equal(different, i < 5);
    }
    OK(cuMemFree(pa));
    OK(cuMemFree(pb));
    OK(cuMemFree(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_size_give_the_same_hash),
        cmocka_unit_test(comparison_sees_one_bit),
    };
    return cmocka_run_group_tests(tests, simt_setup, NULL);
}
