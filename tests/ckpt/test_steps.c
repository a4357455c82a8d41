/* The step of ebb-train in its modes, found by the library: within three steps of the first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char data[256];

/* Under `ebb run`; what it logs of steps found: the last period, and after how many operations. */
static void train(const char *mode, unsigned *period, unsigned *after)
{
    char command[1024], line[512];
    snprintf(command, sizeof command,
             "%s run --log debug -- %s --data %s --sample 0 --eval-batches 2 --layers 2 --width 64 --heads 2 "
             "--context 32 --batch 4 %s 2>&1 >/dev/null",
             getenv("TEST_EBB"), getenv("TEST_TRAINER"), data, mode);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    *period = *after = 0;
    while (fgets(line, sizeof line, f)) {
        const char *found = strstr(line, "a step of ");
        if (found)
            sscanf(found, "a step of %u operations (kind %*d), after %u", period, after);
    }
    assert_int_equal(pclose(f), 0);
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
        unsigned period, after;
        train(modes[i], &period, &after);
        print_message("%s: %u operations, known after %u\n", modes[i], period, after);
        assert_true(period >= 70 && after <= 3 * period + SETTING_UP);
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
