/* The step of ebb-train in its modes, found by the library: within three steps of the first; also where all its tensors lie in two
 * allocations (programs/arenas.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char data[256];

/* The longest step that was found: as the training's end evaluates all there is, its batches are a step as well. */
typedef struct found {
    unsigned count, period, after; /* operations until it was */
} found_t;

/* Under `ebb run`, and `preload` before it; what it logs of steps found. */
static found_t train(const char *mode, const char *preload)
{
    char command[1024], line[512];
    found_t longest = {.count = 0};
    snprintf(command, sizeof command,
             "ARENAS=64,all LD_PRELOAD=%s %s run --log debug -- %s --data %s --sample 0 --eval-batches 2 "
             "--layers 2 --width 64 "
             "--heads 2 --context 32 --batch 4 %s 2>&1 >/dev/null",
             preload, getenv("TEST_EBB"), getenv("TEST_TRAINER"), data, mode);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *text = strstr(line, "a step of ");
        unsigned period, after;
        if (!text || sscanf(text, "a step of %u operations (kind %*d), after %u", &period, &after) != 2)
            continue;
        longest = (found_t){longest.count + 1, period > longest.period ? period : longest.period,
                            period > longest.period ? after : longest.after};
    }
    assert_int_equal(pclose(f), 0);
    return longest;
}

static void step_of_the_trainer_is_found_within_three_steps(void **state)
{
    (void)state;
    static const char *const modes[] = {"--steps 4",
                                        "--steps 4 --attention naive",
                                        "--steps 4 --layers 5 --clip 0",
                                        "--steps 16 --eval-every 7",
                                        "--steps 4 --accumulate 4 --dropout 0.1",
                                        "--steps 4 --accumulate 2 --dropout 0.1 --attention naive"};
    enum { SETTING_UP = 64 };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const found_t apart = train(modes[i], ""), together = train(modes[i], getenv("TEST_ARENAS"));
        print_message("%s: %u operations, known after %u, one of %u; in arenas %u, %u, %u\n", modes[i],
                      apart.period, apart.after, apart.count, together.period, together.after,
                      together.count);
        assert_true(apart.period >= 70 && apart.after <= 3 * apart.period + SETTING_UP);
        assert_true(together.period == apart.period && together.after <= 3 * apart.period + SETTING_UP);
        assert_true(together.count <= apart.count);
    }
}

static int make_data(void **state)
{
    (void)state;
    snprintf(data, sizeof data, "/tmp/ebb-steps-XXXXXX");
    const int fd = mkstemp(data);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return -1;
    for (unsigned i = 0; i < 3000; i++)
        fprintf(f, "In the beginning was line %u, and it was without form.\n", i);
    return fclose(f);
}

static int remove_data(void **state)
{
    (void)state;
    return remove(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(step_of_the_trainer_is_found_within_three_steps)};
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
