/* The checker on plans made by hand: each kind of plan is accepted, and executed too (plan_oracle.h). What breaks them:
 * test_checker_refusals.c; random plans: test_checker_random.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/checker/checker.h"
#include "plan_oracle.h"
#include "plan_scenes.h"

enum { CHUNK = SCENE_CHUNK, NEVER = SCENE_NEVER };

/* Those that the oracle can execute. */
static scene_t (*const scenes[])(void) = {scene_keep,
                                          scene_offload,
                                          scene_offload_apart,
                                          scene_wrap,
                                          scene_wrap_apart,
                                          scene_drop,
                                          scene_drop_small_input,
                                          scene_drop_freed_input,
                                          scene_drop_rebuilt_input,
                                          scene_drop_late_input,
                                          scene_untouched,
                                          scene_in_parts,
                                          scene_rotate,
                                          scene_rotate_on_host,
                                          scene_change_places,
                                          scene_streams_offload,
                                          scene_streams_share,
                                          scene_streams_drop,
                                          scene_streams_counter,
                                          scene_resident,
                                          scene_streams_resident};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* ---- accepted ---- */

static void correct_plan_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCENES; i++) {
        char text[300] = "";
        scene_t s = scenes[i]();
        if (!ebb_check_plan(s.trace, s.plan, &s.limits, text, sizeof text))
            fail_msg("scene %zu: %s", i, text);
        if (!oracle_executes(s.trace, s.plan, 1, 20, text, sizeof text))
            fail_msg("scene %zu: %s", i, text);
        scene_end(&s);
    }
}

/* The oracle knows no halves of buffers. */
static void halves_of_a_buffer_on_two_streams_are_accepted(void **state)
{
    (void)state;
    char text[300] = "";
    scene_t s = scene_streams_halves();
    if (!ebb_check_plan(s.trace, s.plan, &s.limits, text, sizeof text))
        fail_msg("%s", text);
    scene_end(&s);
}

/* Only by what is left of the plan: accepted after this edit, too. */
static void no_evict_of_what_is_only_read(scene_t *s)
{
    scene_remove_action(s, 1);
    s->plan->wait_count = s->plan->action[0].wait_count = 0;
    s->trace->access[2].mode = EBB_READS;
}

static void clean_copy_serves_every_step(void **state)
{
    (void)state;
    char why[300] = "";
    scene_t s = scene_wrap();
    no_evict_of_what_is_only_read(&s);
    if (!ebb_check_plan(s.trace, s.plan, &s.limits, why, sizeof why))
        fail_msg("%s", why);
    assert_true(oracle_run(s.trace, s.plan, 1, why, sizeof why));
    scene_end(&s);
}

/* Random bits in the indices of a good plan: refused or accepted, never a crash (run under sanitizers). */
static void damaged_plan_does_no_harm(void **state)
{
    (void)state;
    const unsigned seed = 5;
    print_message("seed %u\n", seed);
    srand(seed);
    unsigned refused = 0;
    for (int i = 0; i < 400 * SCENES; i++) {
        char why[300] = "";
        scene_t s = scenes[i % SCENES]();
        ebb_plan_t *p = s.plan;
        uint32_t value = rand() % 2 ? (uint32_t)(rand() % 8) : (uint32_t)rand() * 2654435761u;
        switch (rand() % 5) {
        case 0:
            if (p->action_count)
                (&p->action[(uint32_t)rand() % p->action_count].point)[rand() % 11] = value;
            break;
        case 1:
            p->chunk[(uint32_t)rand() % p->chunk_index_count] = value;
            break;
        case 2:
            (&p->place[(uint32_t)rand() % p->place_count].first_chunk)[rand() % 2] = value;
            break;
        case 3:
            *(uint32_t *[]){&p->chunk_count, &p->place_count, &p->action_count, &p->wait_count}[rand() % 4] %=
                4;
            break;
        default:
            p->place[(uint32_t)rand() % p->place_count].small_offset = value;
        }
        refused += !ebb_check_plan(s.trace, s.plan, &s.limits, why, sizeof why);
        scene_end(&s);
    }
    print_message("%u of %d refused\n", refused, 400 * SCENES);
    assert_true(refused > 200 * SCENES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_plan_is_accepted),
        cmocka_unit_test(halves_of_a_buffer_on_two_streams_are_accepted),
        cmocka_unit_test(clean_copy_serves_every_step),
        cmocka_unit_test(damaged_plan_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
