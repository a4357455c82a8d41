/* attention_next: the last row of the reference's attention, from keys and values that lie in a cache. */
#include <string.h>

#include "fixture.h"
#include "model/kernels/kernels.h"
#include "reference.h"

/* Tokens on both sides of the 512 whose scores a block holds; shared keys; every kind of head size. */
static const attention_shape_t shapes[] = {{1, 1, 2, 2, 8},   {1, 2, 4, 1, 32},    {1, 33, 3, 3, 5},
                                           {1, 65, 6, 2, 24}, {1, 512, 4, 2, 64},  {1, 513, 2, 2, 128},
                                           {1, 70, 1, 1, 1},  {1, 1100, 2, 1, 100}};

static void next_body(const void *argument)
{
    const attention_shape_t s = *(const attention_shape_t *)argument, one = {1, 1, s.H, s.KV, s.D};
    const size_t C = (size_t)s.H * (size_t)s.D, kept = 2 * (size_t)s.KV * (size_t)s.D, T = (size_t)s.T;
    double *qkv;
    (void)fixture_elements(&qkv, T * (C + kept), 2);
    double *const out = fixture_doubles(T * C), *const lse = fixture_doubles(T * (size_t)s.H),
                  *const cache = fixture_doubles(T * kept), *const q = fixture_doubles(C);
    for (size_t t = 0; t < T; t++)
        memcpy(cache + t * kept, qkv + t * (C + kept) + C, kept * sizeof *cache);
    memcpy(q, qkv + (T - 1) * (C + kept), C * sizeof *q);
    const void *const q_device = fixture_given_elements(q, C), *const cache_device =
                                                                   fixture_given_elements(cache, T * kept);
    void *const out_device = fixture_output_elements(C);
    fixture_ok(attention_next(fixture_type(), out_device, q_device, cache_device, s.T, one, NULL));
    reference_attention_forward(out, lse, qkv, 1, s.T, s.H, s.KV, s.D, (reference_dropout_t){0, 0, 0});
    fixture_match_elements("next", out_device, out + (T - 1) * C, C);
}

static void next_is_the_last_row_of_attention(void **state)
{
    (void)state;
    for (int type = DTYPE_FP32; type <= DTYPE_BF16; type++) {
        fixture_use((dtype_t)type);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            fixture_run(next_body, &shapes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_is_the_last_row_of_attention),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
