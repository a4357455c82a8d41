/* The checker where the host has no memory: each of its allocations fails once, and that is the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/checker/checker.h"
#include "plan_scenes.h"

void *__real_calloc(size_t count, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

static unsigned until_none; /* allocations until one fails; 0: none will */

static bool is_the_one(void)
{
    return until_none && !--until_none;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_the_one() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_malloc(size_t bytes)
{
    return is_the_one() ? NULL : __real_malloc(bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return is_the_one() ? NULL : __real_realloc(block, bytes);
}

static void no_memory_is_a_reason(void **state)
{
    (void)state;
    scene_t (*const scenes[])(void) = {scene_keep, scene_offload, scene_wrap, scene_drop, scene_streams_drop};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        scene_t s = scenes[i]();
        char why[300];
        unsigned nth = 1;
        for (until_none = nth; !ebb_check_plan(s.trace, s.plan, &s.limits, why, sizeof why);
             until_none = ++nth) {
            assert_int_equal(until_none, 0);
            assert_int_equal(strncmp(why, "memory: ", 8), 0);
        }
        assert_true(until_none > 0);
        until_none = 0;
        assert_true(nth > 20);
        scene_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_is_a_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
