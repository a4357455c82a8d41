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

/* Of pieces of 1 KiB, those whose number % every is turn. */
static uint64_t hash(const unsigned char *p, size_t bytes, size_t turn, size_t every)
{
    uint64_t sum = 0;
    for (size_t i = 0; i * 8 < bytes; i++) {
        uint64_t word = 0;
        memcpy(&word, p + 8 * i, bytes - 8 * i < 8 ? bytes - 8 * i : 8);
        sum += i / 128 % every == turn ? mix(word, i) : 0;
    }
    return sum;
}

static unsigned char bytes[20011];

static CUdeviceptr new_bytes(void)
{
    CUdeviceptr p;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    OK(cuMemAlloc(&p, sizeof bytes));
    OK(cuMemcpyHtoD(p, bytes, sizeof bytes));
    return p;
}

static void blocks_of_every_size_give_the_same_hash(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 7, 8, 9, 255, 256, 1024, 1025, 4096, 20011};
    CUdeviceptr p = new_bytes(), partial, none = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned block = 32; block <= 1024; block *= 2)
            for (size_t every = 1; every <= 3; every += 2) {
                size_t n = sizes[s], slice = 300, turn = every / 2;
                const unsigned blocks = (unsigned)((n / 8 + slice) / slice);
                uint64_t got[16], sum = 0;
                assert_true(blocks <= 16);
                OK(cuMemAlloc(&partial, sizeof got));
                OK(LAUNCH("ebb_hash", blocks, block, &partial, &none, &p, &n, &slice, &turn, &every));
                read_back(got, partial, blocks * sizeof *got);
                for (unsigned b = 0; b < blocks; b++)
                    sum += got[b];
                assert_true(sum == hash(bytes, n, turn, every));
                OK(cuMemFree(partial));
            }
    OK(cuMemFree(p));
}

/* One of the parts, and what is different stays so. */
static void comparison_sees_one_bit(void **state)
{
    (void)state;
    size_t n = sizeof bytes, slice = 300, every = 3;
    CUdeviceptr p = new_bytes(), partial, different, none = 0;
    const unsigned blocks = 9;
    OK(cuMemAlloc(&partial, blocks * sizeof(uint64_t)));
    OK(cuMemAlloc(&different, 4));
    for (size_t at = 0; at < n; at += 997) {
        const unsigned char other = bytes[at] ^ 64;
        for (size_t turn = 0; turn < every; turn++) {
            uint32_t got[2] = {9, 9};
            OK(LAUNCH("ebb_hash", blocks, 256, &partial, &none, &p, &n, &slice, &turn, &every));
            OK(cuMemsetD32(different, 0, 1));
            OK(LAUNCH("ebb_hash", blocks, 256, &partial, &different, &p, &n, &slice, &turn, &every));
            read_back(&got[0], different, 4);
            OK(cuMemcpyHtoD(p + at, &other, 1));
            OK(LAUNCH("ebb_hash", blocks, 256, &partial, &different, &p, &n, &slice, &turn, &every));
            OK(cuMemcpyHtoD(p + at, &bytes[at], 1));
            OK(LAUNCH("ebb_hash", blocks, 256, &partial, &different, &p, &n, &slice, &turn, &every));
            read_back(&got[1], different, 4);
            assert_int_equal(got[0], 0);
            assert_int_equal(got[1], at / 1024 % every == turn);
        }
    }
    OK(cuMemFree(p));
    OK(cuMemFree(partial));
    OK(cuMemFree(different));
}

/* The slice of a block, and once. */
static void copy_takes_the_slices_that_are_other(void **state)
{
    (void)state;
    size_t n = sizeof bytes, slice = 4, turn = 0, every = 1;
    CUdeviceptr p = new_bytes(), to, partial, different, none = 0;
    const unsigned blocks = 5;
    static unsigned char got[sizeof bytes];
    OK(cuMemAlloc(&partial, blocks * sizeof(uint64_t)));
    OK(cuMemAlloc(&different, 4));
    OK(cuMemAlloc(&to, n));
    for (unsigned block = 32; block <= 1024; block *= 2)
        for (size_t at = block % 3; at < n; at += at < n - 3000 ? 2777 : 13) {
            const unsigned char other = bytes[at] ^ 64;
            const size_t first = at / 4096 * 4096;
            OK(LAUNCH("ebb_hash", blocks, 256, &partial, &none, &p, &n, &slice, &turn, &every));
            OK(cuMemcpyHtoD(p + at, &other, 1));
            OK(cuMemsetD32(different, 0, 1));
            for (int again = 0; again < 2; again++) {
                uint32_t verdict = 9;
                OK(cuMemsetD8(to, 0xee, n));
                OK(LAUNCH("ebb_hash_copy", blocks, block, &partial, &different, &p, &n, &slice, &to));
                read_back(got, to, n);
                for (size_t i = 0; i < n; i++)
                    if (got[i] != (again || i < first || i >= first + 4096 ? 0xee
                                   : i == at                               ? other
                                                                           : bytes[i]))
                        fail_msg("byte %zu is %#x, after another one at %zu", i, got[i], at);
                read_back(&verdict, different, 4);
                assert_int_equal(verdict, 1);
            }
            OK(cuMemcpyHtoD(p + at, &bytes[at], 1));
        }
    OK(cuMemFree(p));
    OK(cuMemFree(to));
    OK(cuMemFree(partial));
    OK(cuMemFree(different));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_size_give_the_same_hash),
        cmocka_unit_test(comparison_sees_one_bit),
        cmocka_unit_test(copy_takes_the_slices_that_are_other),
    };
    return cmocka_run_group_tests(tests, simt_setup, NULL);
}
