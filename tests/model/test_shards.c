/* Token shards: every sequence once in an epoch, in an order that is the same wherever it is entered; several files,
 * files above 2 GiB, and batches that are read ahead. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/rng.h"
#include "model/data/ahead.h"
#include "model/data/data.h"
#include "model/data/order.h"

static void order_is_a_permutation_of_every_size(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 600; count++) {
        order_t order = order_of(rng_at(4, count), count);
        unsigned char *seen = calloc(count, 1);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = order_at(&order, i);
            assert_true(at < count);
            assert_int_equal(seen[at]++, 0);
        }
        free(seen);
    }
}

/* Where each of 11 numbers goes, over many keys: every place equally often. */
static void order_sends_each_number_everywhere(void **state)
{
    (void)state;
    enum { COUNT = 11, KEYS = 22000 };
    static int hits[COUNT][COUNT];
    for (uint64_t key = 0; key < KEYS; key++) {
        order_t order = order_of(rng_at(1, key), COUNT);
        for (uint64_t i = 0; i < COUNT; i++)
            hits[i][order_at(&order, i)]++;
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++) /* 2000 expected, deviation 43 */
            assert_in_range(hits[i][k], 1780, 2220);
}

static void order_of_many_is_quick_and_scattered(void **state)
{
    (void)state;
    uint64_t count = ((uint64_t)1 << 61) + 12345, close_by = 0;
    order_t order = order_of(77, count);
    uint64_t last = order_at(&order, 0);
    for (uint64_t i = 1; i < 2000; i++) {
        uint64_t at = order_at(&order, i);
        assert_true(at < count);
        close_by += at > last - count / 100 && at < last + count / 100;
        last = at;
    }
    assert_in_range(close_by, 5, 90); /* 40 expected */
}

#define WIDE_FIRST 100000 /* of tokens of 4 bytes: above what 2 hold */

/* Shards of the given numbers of tokens; token i of all is i modulo vocab. Returns a pattern in path. */
static void make_shards(char path[256], const size_t *counts, int files, int token_bytes, uint32_t vocab)
{
    uint32_t next = token_bytes == 4 ? WIDE_FIRST : 0;
    for (int i = 0; i < files; i++) {
        char name[32], file[256];
        uint32_t *tokens = malloc(counts[i] * sizeof *tokens);
        for (size_t k = 0; k < counts[i]; k++)
            tokens[k] = next++ % vocab;
        snprintf(name, sizeof name, "part-%03d.bin", i);
        files_shard(files_path(file, name), tokens, counts[i], token_bytes);
        free(tokens);
    }
    files_path(path, "part-*.bin");
}

static dataset_t open_shards(const char *path, int T, bool all, int vocab)
{
    fault_t fault;
    dataset_t data;
    if (!dataset_open(&data, "--data", path, DATA_AUTO, vocab, &fault) ||
        !dataset_split(&data, T, all, &fault))
        fail_msg("%s", fault.text);
    return data;
}

static void shards_are_numbered_through_and_read_across(void **state)
{
    (void)state;
    static const size_t counts[] = {100, 3, 9001, 1, 50};
    static const int widths[] = {2, 4};
    for (int w = 0; w < 2; w++) {
        char path[256];
        fault_t fault;
        uint32_t vocab = widths[w] == 2 ? 60000 : 130000;
        make_shards(path, counts, 5, widths[w], vocab);
        dataset_t data = open_shards(path, 8, true, (int)vocab);
        assert_int_equal(data.shard_count, 5);
        assert_int_equal(data.token_bytes, widths[w]);
        assert_int_equal(data.count, 9155);
        for (uint64_t trial = 0; trial < 300; trial++) {
            static int tokens[9155];
            uint64_t first = rng_at(trial, 0) % 9155, count = 1 + rng_at(trial, 1) % (9155 - first);
            assert_true(dataset_read(&data, first, count, tokens, &fault));
            for (uint64_t i = 0; i < count; i++)
                if (tokens[i] != (int)(first + i) + (widths[w] == 4 ? WIDE_FIRST : 0))
                    fail_msg("token %d is %d", (int)(first + i), tokens[i]);
        }
        dataset_close(&data);
        files_clean();
    }
}

/* Every epoch takes each file's sequences once; over the epochs, each token that one can hold is seen. */
static void epochs_take_every_sequence_once(void **state)
{
    (void)state;
    static const size_t counts[] = {1000, 57, 16, 17, 2500, 40};
    enum { T = 16, TOKENS = 1000 + 57 + 16 + 17 + 2500 + 40 };
    char path[256];
    make_shards(path, counts, 6, 2, 60000);
    dataset_t data = open_shards(path, T, true, 60000);
    uint64_t expected = 0;
    for (int i = 0; i < 6; i++)
        expected += (counts[i] - 1) / T;
    assert_int_equal(data.sequences, expected);

    static unsigned char ever[TOKENS];
    uint64_t same_place = 0;
    for (uint64_t epoch = 0; epoch < 60; epoch++) {
        unsigned char seen[TOKENS] = {0};
        for (uint64_t i = 0; i < data.sequences; i++) {
            uint64_t start = dataset_sequence_start(&data, 3, epoch * data.sequences + i);
            same_place += epoch > 0 && start == dataset_sequence_start(&data, 3, i);
            uint64_t first = 0; /* of its file, found the slow way */
            int file = 0;
            while (start >= first + counts[file])
                first += counts[file++];
            assert_true(start + T < first + counts[file]); /* with its last target */
            for (uint64_t t = 0; t < T; t++) {
                assert_int_equal(seen[start + t]++, 0); /* as an input, no token twice */
                ever[start + t] = 1;
            }
            ever[start + T] = 1;
        }
        size_t inputs = 0;
        for (size_t k = 0; k < TOKENS; k++)
            inputs += seen[k];
        assert_int_equal(inputs, expected * T); /* none left out, none twice */
    }
    assert_true(same_place < 60 * data.sequences / 20);
    for (size_t k = 0, first = 0, file = 0; k < TOKENS; k++) {
        if (k == first + counts[file])
            first += counts[file++];
        if (ever[k] != (counts[file] > T))
            fail_msg("token %zu, in file %zu: seen %d", k, file, ever[k]);
    }
    dataset_close(&data);
    files_clean();
}

static void held_out_tokens_of_shards_are_never_trained_on(void **state)
{
    (void)state;
    static const size_t counts[] = {3000, 3000, 90};
    char path[256];
    make_shards(path, counts, 3, 2, 60000);
    dataset_t data = open_shards(path, 16, false, 60000);
    assert_int_equal(data.count - data.train_count, 6090 / 20);
    uint64_t latest = 0;
    for (uint64_t q = 0; q < 40 * data.sequences; q++) {
        uint64_t last = dataset_sequence_start(&data, 1, q) + 16;
        latest = latest > last ? latest : last;
    }
    assert_int_equal(latest, data.train_count - 1);
    dataset_close(&data);
    files_clean();

    dataset_t many = {.token_bytes = 2, .count = (uint64_t)1 << 33, .shard_count = 1};
    shard_t shard = {.path = path, .count = many.count};
    fault_t fault;
    many.shards = &shard;
    assert_true(dataset_split(&many, 1024, false, &fault));
    assert_int_equal(many.count - many.train_count, 1 << 20); /* at most */
}

/* 6 GiB, of which next to nothing is there. */
static void file_above_2_gib_is_read_to_its_end(void **state)
{
    (void)state;
    char path[256];
    const uint64_t count = 1610612736, T = 8;
    uint32_t header[256] = {20240801, 7, (uint32_t)count};
    uint64_t size = sizeof header + 4 * count;
    int file = open(files_path(path, "large.bin"), O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    if (ftruncate(file, (off_t)size) != 0) {
        print_message("no sparse file of %llu bytes here\n", (unsigned long long)size);
        close(file);
        skip();
    }
    assert_int_equal(pwrite(file, header, sizeof header, 0), sizeof header);
    uint32_t last[5] = {11, 12, 13, 14, 15};
    assert_int_equal(pwrite(file, last, sizeof last, (off_t)(size - sizeof last)), sizeof last);
    close(file);

    dataset_t data = open_shards(path, (int)T, true, 100);
    int tokens[10], inputs[8], targets[8];
    fault_t fault;
    assert_int_equal(data.count, count);
    assert_int_equal(data.sequences, (count - 1) / T);
    assert_true(dataset_read(&data, count - 10, 10, tokens, &fault));
    for (int i = 0; i < 10; i++)
        assert_int_equal(tokens[i], i < 5 ? 0 : 6 + i);
    assert_true(dataset_sequence(&data, count - 1 - T, (int)T, inputs, targets, &fault));
    assert_int_equal(targets[7], 15);
    assert_int_equal(inputs[7], 14);
    uint64_t far = 0;
    for (uint64_t q = 0; q < 200; q++)
        far += dataset_sequence_start(&data, 1, q) * 4 > (uint64_t)INT32_MAX;
    assert_in_range(far, 100, 170); /* 133 expected */
    dataset_close(&data);
    unlink(path);
}

static void fingerprint_tells_data_apart(void **state)
{
    (void)state;
    static const size_t counts[] = {1000, 500}, other[] = {1000, 501};
    char path[256];
    fault_t fault;
    uint64_t hashes[4];
    for (int i = 0; i < 4; i++) {
        make_shards(path, i == 1 ? other : counts, 2, i == 2 ? 4 : 2, i == 3 ? 900 : 160000);
        dataset_t data = open_shards(path, 8, true, 200000);
        uint64_t again;
        assert_true(dataset_fingerprint(&data, &hashes[i], &fault));
        assert_true(dataset_fingerprint(&data, &again, &fault));
        assert_int_equal(hashes[i], again);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(hashes[i], hashes[k]);
        dataset_close(&data);
        files_clean();
    }
}

/* ---- documents ---- */

/* In an epoch each token is the target of one sequence, but for those that begin a document. */
static void documents_are_seen_once_an_epoch(void **state)
{
    (void)state;
    enum { A = 900, B = 700, C = 33, ALL = A + B + C, VOCAB = 23, END = 7, T = 8 };
    static const size_t counts[] = {A, B, C};
    static int tokens[ALL], inputs[T], targets[T];
    char path[256];
    fault_t fault;
    make_shards(path, counts, 3, 2, VOCAB);
    dataset_t data = open_shards(path, T, true, VOCAB);
    uint64_t packed, other;
    assert_true(dataset_fingerprint(&data, &packed, &fault));
    assert_true(dataset_find_documents(&data, END, &fault));
    assert_true(dataset_fingerprint(&data, &other, &fault) && other != packed);
    assert_true(dataset_read(&data, 0, ALL, tokens, &fault));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        unsigned short seen[ALL] = {0};
        int most = 0;
        for (uint64_t i = 0; i < data.sequences; i++) {
            const uint64_t q = epoch * data.sequences + i, start = dataset_sequence_start(&data, 3, q);
            const int rows = dataset_sequence_rows(&data, 3, q);
            assert_true(rows >= 1 && rows <= T &&
                        dataset_sequence(&data, start, rows, inputs, targets, &fault));
            for (int t = 0; t < rows; t++) {
                assert_true(inputs[t] != END);
                seen[start + 1 + (uint64_t)t]++;
            }
            most = rows > most ? rows : most;
        }
        assert_int_equal(most, T);
        for (int i = 0; i < ALL; i++)
            assert_int_equal(seen[i], !(i == 0 || i == A || i == A + B || tokens[i - 1] == END));
    }
    dataset_close(&data);
    files_clean();
}

/* ---- read ahead ---- */

/* What batches of B sequences from number q on hold, laid out one by one. */
static void check_batches(const dataset_t *data, uint64_t q, int B, int batches, bool dawdle)
{
    fault_t fault;
    int *expected_inputs = malloc((size_t)data->T * sizeof(int)),
        *expected_targets = malloc((size_t)data->T * sizeof(int));
    ahead_t *ahead = ahead_open(data, 5, q, (uint64_t)B, B, &fault);
    assert_non_null(ahead);
    for (int i = 0; i < batches; i++) {
        const int *inputs, *targets;
        int T, longest = 0;
        if (dawdle)
            usleep(files_draw(2, (uint64_t)i, 3000));
        assert_true(ahead_next(ahead, &inputs, &targets, &T, &fault));
        for (int b = 0; b < B; b++) {
            const int rows = dataset_sequence_rows(data, 5, q);
            uint64_t start = dataset_sequence_start(data, 5, q++);
            assert_true(dataset_sequence(data, start, rows, expected_inputs, expected_targets, &fault));
            assert_memory_equal(inputs + b * T, expected_inputs, (size_t)rows * sizeof(int));
            assert_memory_equal(targets + b * T, expected_targets, (size_t)rows * sizeof(int));
            for (int t = rows; t < T; t++)
                assert_true(inputs[b * T + t] == data->end && targets[b * T + t] == -1);
            longest = rows > longest ? rows : longest;
        }
        assert_int_equal(T, longest % 8 && longest < data->T ? longest + 8 - longest % 8 : longest);
    }
    ahead_close(ahead);
    free(expected_inputs);
    free(expected_targets);
}

static void batches_read_ahead_are_the_same_whatever_the_timing(void **state)
{
    (void)state;
    static const size_t counts[] = {900, 700, 33};
    char path[256];
    make_shards(path, counts, 3, 2, 60000);
    dataset_t data = open_shards(path, 32, false, 60000);
    for (int dawdle = 0; dawdle < 2; dawdle++) {
        check_batches(&data, 0, 3, 60, dawdle);
        check_batches(&data, 61, 1, 100, dawdle); /* from the middle of an epoch */
        check_batches(&data, 1000000007, 7, 13, dawdle);
    }
    fault_t fault;
    assert_true(dataset_find_documents(&data, 50, &fault)); /* one shard has it */
    for (int B = 1; B < 4; B++)
        check_batches(&data, 3, B, 40, B == 2);
    dataset_close(&data);
    files_clean();
}

static void reading_ahead_stops_at_any_moment(void **state)
{
    (void)state;
    static const size_t counts[] = {5000};
    char path[256];
    fault_t fault;
    make_shards(path, counts, 1, 2, 60000);
    dataset_t data = open_shards(path, 64, false, 60000);
    for (uint64_t i = 0; i < 200; i++) {
        ahead_t *ahead = ahead_open(&data, 1, 0, 4, 4, &fault);
        const int *inputs, *targets;
        int rows;
        assert_non_null(ahead);
        for (uint32_t k = files_draw(8, i, 12); k > 0; k--)
            assert_true(ahead_next(ahead, &inputs, &targets, &rows, &fault));
        if (i % 3 == 0)
            usleep(files_draw(9, i, 200));
        ahead_close(ahead);
    }
    ahead_close(NULL);
    dataset_close(&data);
    files_clean();
}

/* What was read before comes first; then, as often as asked, why there is no more. */
static void reading_ahead_tells_what_went_wrong(void **state)
{
    (void)state;
    static uint32_t tokens[1000];
    char path[256];
    fault_t fault;
    for (uint32_t i = 0; i < 1000; i++)
        tokens[i] = i;
    files_shard(files_path(path, "one.bin"), tokens, 1000, 2);
    dataset_t data =
        open_shards(path, 50, true, 900); /* so the last sequences have tokens that are too large */
    uint64_t good = 0;
    while (dataset_sequence_start(&data, 5, good) + 50 < 900)
        good++;
    ahead_t *ahead = ahead_open(&data, 5, 0, 1, 1, &fault);
    const int *inputs, *targets;
    int rows;
    for (uint64_t i = 0; i < good; i++)
        assert_true(ahead_next(ahead, &inputs, &targets, &rows, &fault));
    for (int i = 0; i < 2; i++) {
        assert_false(ahead_next(ahead, &inputs, &targets, &rows, &fault));
        assert_non_null(strstr(fault.text, "one.bin: token number 9"));
        assert_non_null(strstr(fault.text, "; the model has 900 classes"));
    }
    ahead_close(ahead);

    assert_int_equal(truncate(path, 1024 + 100), 0);
    int token;
    assert_false(dataset_read(&data, 800, 1, &token, &fault));
    assert_non_null(strstr(fault.text, "cannot be read at byte 2624: it has become shorter"));
    dataset_close(&data);
    files_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_permutation_of_every_size),
        cmocka_unit_test(order_sends_each_number_everywhere),
        cmocka_unit_test(order_of_many_is_quick_and_scattered),
        cmocka_unit_test(shards_are_numbered_through_and_read_across),
        cmocka_unit_test(epochs_take_every_sequence_once),
        cmocka_unit_test(held_out_tokens_of_shards_are_never_trained_on),
        cmocka_unit_test(file_above_2_gib_is_read_to_its_end),
        cmocka_unit_test(fingerprint_tells_data_apart),
        cmocka_unit_test(documents_are_seen_once_an_epoch),
        cmocka_unit_test(batches_read_ahead_are_the_same_whatever_the_timing),
        cmocka_unit_test(reading_ahead_stops_at_any_moment),
        cmocka_unit_test(reading_ahead_tells_what_went_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
