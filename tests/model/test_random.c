/* Random numbers, the choice of a sampled byte, and the tests' own text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/rng.h"
#include "model/train/sample.h"
#include "text.h"
#include "trainer.h"

static void rng_at_is_splitmix64(void **state)
{
    (void)state;
    /* The published generator's first outputs for the seed 1234567. */
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                        4593380528125082431u, 16408922859458223821u};
    for (uint64_t i = 0; i < 5; i++)
        assert_true(rng_at(1234567, i) == expected[i]);
}

static void rng_unit_is_in_the_half_open_interval(void **state)
{
    (void)state;
    assert_true(rng_unit(0) > 0);
    assert_true(rng_unit(UINT64_MAX) == 1.0);
}

static void rng_normal_has_the_moments_of_a_normal(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    double moment[5] = {0}, product = 0;
    for (uint64_t pair = 0; pair < COUNT / 2; pair++) {
        double normals[2];
        rng_normal_pair(42, pair, normals);
        for (int i = 0; i < 2; i++) {
            double power = 1;
            for (int k = 1; k <= 4; k++)
                moment[k] += (power *= normals[i]) / COUNT;
        }
        product += normals[0] * normals[1] / (COUNT / 2); /* the two of a pair are independent */
    }
    assert_true(fabs(moment[1]) < 0.01 && fabs(moment[2] - 1) < 0.02);
    assert_true(fabs(moment[3]) < 0.04 && fabs(moment[4] - 3) < 0.1);
    assert_true(fabs(product) < 0.02);
}

static void choose_without_temperature_is_the_largest(void **state)
{
    (void)state;
    const float logits[] = {0.5f, 3.0f, -1.0f, 3.0f};
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(sample_choose(logits, 4, 0.0, 0, rng_at(1, i)), 1); /* the first among equals */
}

static void choose_top_k_leaves_only_the_k_largest(void **state)
{
    (void)state;
    const float logits[] = {1.0f, 0.9f, 1.1f, 0.8f, 1.0f};
    int count[5] = {0};
    for (uint64_t i = 0; i < 1000; i++)
        count[sample_choose(logits, 5, 1.0, 3, rng_at(2, i))]++;
    assert_true(count[0] > 200 && count[2] > 200 && count[4] > 200);
    assert_int_equal(count[1] + count[3], 0);
}

static void choose_follows_the_softmax_at_its_temperature(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    const float logits[] = {2.0f, 1.0f, 0.0f, -30.0f};
    for (double temperature = 0.5; temperature <= 2.0; temperature *= 2) {
        double total = 0;
        int count[4] = {0};
        for (int k = 0; k < 4; k++)
            total += exp((double)logits[k] / temperature);
        for (uint64_t i = 0; i < COUNT; i++)
            count[sample_choose(logits, 4, temperature, 0, rng_at(3, i))]++;
        for (int k = 0; k < 4; k++)
            assert_true(fabs((double)count[k] / COUNT - exp((double)logits[k] / temperature) / total) < 0.01);
    }
}

static void text_is_the_one_of_the_reference(void **state)
{
    (void)state;
    char text[60000], line[1024], expected[32] = "", hash_text[32];
    text_make(text, sizeof text, 1);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof text; i++)
        hash = rng_hash(hash, (unsigned char)text[i]);
    snprintf(hash_text, sizeof hash_text, "%016llx", (unsigned long long)hash);

    FILE *file = fopen(REFERENCE_FILE, "r");
    assert_non_null(file);
    while (expected[0] == '\0' && fgets(line, sizeof line, file) != NULL)
        json_text(line, "text_hash", expected, sizeof expected);
    fclose(file);
    assert_string_equal(hash_text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_at_is_splitmix64),
        cmocka_unit_test(rng_unit_is_in_the_half_open_interval),
        cmocka_unit_test(rng_normal_has_the_moments_of_a_normal),
        cmocka_unit_test(choose_without_temperature_is_the_largest),
        cmocka_unit_test(choose_top_k_leaves_only_the_k_largest),
        cmocka_unit_test(choose_follows_the_softmax_at_its_temperature),
        cmocka_unit_test(text_is_the_one_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
