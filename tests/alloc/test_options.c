/* The EBB_* variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc/base/options.h"

static bool read_one(char *variable)
{
    char *environment[] = {"PATH=/bin", variable, NULL};
    return ebb_options_read(environment);
}

static void sizes_with_every_suffix_are_understood(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t want;
    } good[] = {{"1", 1},           {"24GiB", 24ll << 30}, {"24g", 24ll << 30}, {"512M", 512 << 20},
                {"1.5GB", 3 << 29}, {"2T", 2ll << 40},     {"60%", -60},        {"100%", -100}};
    const char *const bad[] = {"",   "x",    "-1",   "12Q",  "1GiBs",
                               "0%", "101%", "1.5%", "1e30", "9223372036854775807T"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t n = 0;
        assert_true(ebb_parse_bytes(good[i].text, &n));
        assert_int_equal(n, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t n;
        if (ebb_parse_bytes(bad[i], &n))
            fail_msg("'%s' was taken for a size", bad[i]);
    }
}

static void rank_is_what_the_starter_says(void **state)
{
    (void)state;
    const struct {
        char *variables[4];
        int number, count;
    } cases[] = {{{"RANK=3", "WORLD_SIZE=8"}, 3, 8},
                 {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, 1, 2},
                 {{"PMI_RANK=0", "PMI_SIZE=2", "RANK=x"}, 0, 2},
                 {{"SLURM_PROCID=7", "SLURM_NTASKS=8"}, 7, 8},
                 {{"SLURM_PROCID=8", "SLURM_NTASKS=8"}, 0, 1},
                 {{"RANK=1", "SLURM_NTASKS=8"}, 0, 1},
                 {{"RANKED=1", "WORLD_SIZE=8"}, 0, 1},
                 {{NULL}, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ebb_process_rank_t rank = ebb_process_rank(cases[i].variables);
        if (rank.number != cases[i].number || rank.count != cases[i].count)
            fail_msg("case %zu: %d of %d", i, rank.number, rank.count);
        assert_true(ebb_options_read(cases[i].variables));
        assert_int_equal(ebb_options.rank.count, cases[i].count);
    }
    assert_int_equal(ebb_process_rank(NULL).count, 1);
}

static void names_of_files_have_process_and_rank(void **state)
{
    (void)state;
    char *rank[] = {"RANK=3", "WORLD_SIZE=8", NULL}, out[EBB_FILE_NAME_ROOM], expected[64], longest[1200];
    assert_true(ebb_options_read(rank));
    assert_true(ebb_file_name("a-%r.%p%%r%", getpid(), out));
    snprintf(expected, sizeof expected, "a-3.%d%%3%%", (int)getpid());
    assert_string_equal(out, expected);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_false(ebb_file_name(longest, 1, out));
    assert_true(ebb_options_read(NULL));
    assert_true(ebb_file_name("%r", 1, out));
    assert_string_equal(out, "0");
}

static void shares_are_of_the_device_or_of_the_peak(void **state)
{
    (void)state;
    ebb_size_t size;
    int64_t n;
    assert_true(ebb_parse_size("60%", &size));
    assert_int_equal(size.of, EBB_SIZE_OF_DEVICE);
    assert_true(ebb_parse_size("60%peak", &size));
    assert_int_equal(size.of, EBB_SIZE_OF_PEAK);
    assert_int_equal(size.amount, 60);
    assert_false(ebb_parse_bytes("60%peak", &n)); /* no step is known where options are read */
    static const char *const bad[] = {"60%of", "60%Peak", "0%peak", "101%peak", "1.5%peak", "60 %peak"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ebb_parse_size(bad[i], &size))
            fail_msg("'%s' was taken for a share", bad[i]);
}

static void assert_budget(ebb_size_of_t of, int64_t amount)
{
    assert_int_equal(ebb_options.budget.of, of);
    assert_int_equal(ebb_options.budget.amount, amount);
}

static void values_arrive_and_absent_ones_have_their_default(void **state)
{
    (void)state;
    assert_true(read_one("EBB_BUDGET=3GiB"));
    assert_budget(EBB_SIZE_BYTES, 3ll << 30);
    assert_true(read_one("EBB_BUDGET=60%peak"));
    assert_budget(EBB_SIZE_OF_PEAK, 60);
    assert_int_equal(ebb_options.offload, 1);
    assert_true(read_one("EBB_OFFLOAD=off"));
    assert_budget(EBB_SIZE_OF_DEVICE, 100);
    assert_int_equal(ebb_options.offload, 0);
    assert_true(read_one("EBB_STATS=/tmp/x.json"));
    assert_string_equal(ebb_options.stats, "/tmp/x.json");
    assert_true(read_one("EBB_OFFLOAD=")); /* empty: as if not set */
    assert_int_equal(ebb_options.offload, 1);
}

static void words_take_the_arguments_that_are_listed(void **state)
{
    (void)state;
    static const char *const good[] = {"auto",       "uniform:3", "selective", "selective:mlp,attention",
                                       "revolve:12", "reactive"};
    static const char *const bad[] = {"aut",       "autos",      "auto:1", "uniform", "uniform:", "uniform:0",
                                      "uniform:x", "selective:", "the",    "N",       "when"};
    char variable[64];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(variable, sizeof variable, "EBB_POLICY=%s", good[i]);
        assert_true(read_one(variable));
        assert_string_equal(ebb_options.policy.text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(variable, sizeof variable, "EBB_POLICY=%s", bad[i]);
        assert_false(read_one(variable));
        assert_string_equal(ebb_options.policy.text, "auto");
        assert_int_equal(ebb_options.policy.code, EBB_POLICY_AUTO);
    }
}

/* What a call says on stderr. */
static const char *said_by(char *variable, bool good)
{
    static char text[512];
    int pair[2], old = dup(STDERR_FILENO);
    assert_int_equal(pipe(pair), 0);
    dup2(pair[1], STDERR_FILENO);
    assert_int_equal(read_one(variable), good);
    dup2(old, STDERR_FILENO);
    close(pair[1]);
    ssize_t n = read(pair[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(pair[0]);
    close(old);
    return text;
}

static void unknown_name_is_told_with_the_nearest_one(void **state)
{
    (void)state;
    assert_non_null(strstr(said_by("EBB_BUGDET=3GiB", false), "EBB_BUDGET"));
    assert_non_null(strstr(said_by("EBB_OFLOAD=1", false), "EBB_OFFLOAD"));
}

static void former_name_goes_on_working(void **state)
{
    (void)state;
    assert_non_null(strstr(said_by("EBB_LEFTOVERS=0", true), "EBB_STALE_WORDS"));
    assert_int_equal(ebb_options.stale_words, 0);
}

static void rates_are_of_both_ways_or_of_each(void **state)
{
    (void)state;
    assert_true(read_one("EBB_OFFLOAD=1"));
    assert_int_equal(ebb_options.link.out, 0);
    assert_int_equal(ebb_options.link.in, 0);
    assert_true(read_one("EBB_LINK=20G"));
    assert_int_equal(ebb_options.link.out, INT64_C(20) << 30);
    assert_int_equal(ebb_options.link.in, INT64_C(20) << 30);
    assert_true(read_one("EBB_LINK=20G,25000000000"));
    assert_int_equal(ebb_options.link.out, INT64_C(20) << 30);
    assert_int_equal(ebb_options.link.in, INT64_C(25000000000));
    assert_true(read_one("EBB_LINK=0,0"));
    static char *const bad[] = {
        "EBB_LINK=60%",   "EBB_LINK=20G,60%",     "EBB_LINK=20G,",
        "EBB_LINK=,20G",  "EBB_LINK=20G,25G,25G", "EBB_LINK=0,25G",
        "EBB_LINK=20G,0", "EBB_LINK=20G;25G",     "EBB_LINK=000000000000000000000000000000001G"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_non_null(strstr(said_by(bad[i], false), "is not valid (rates;"));
        assert_int_equal(ebb_options.link.out, 0);
        assert_int_equal(ebb_options.link.in, 0);
    }
}

static void bad_value_keeps_the_default(void **state)
{
    (void)state;
    assert_non_null(strstr(said_by("EBB_BUDGET=lots", false), "EBB_BUDGET=lots"));
    assert_budget(EBB_SIZE_OF_DEVICE, 100);
    assert_non_null(strstr(said_by("EBB_BUDGET=40", false),
                           "EBB_BUDGET=40: 40 bytes? 40GiB: the program runs without a budget\n"));
    assert_non_null(
        strstr(said_by("EBB_BUDGET=1MiB", false), "is not valid (size;")); /* too little for anything */
    assert_non_null(strstr(said_by("EBB_HOST_BUDGET=60%peak", false), "is not valid (size;"));
    assert_true(read_one("EBB_HOST_BUDGET=60%"));
    assert_int_equal(ebb_options.host_budget, -60);
    static char *const no_shares[] = {"EBB_RESERVE=60%", "EBB_MIN_BUFFER=60%"};
    for (size_t i = 0; i < sizeof no_shares / sizeof no_shares[0]; i++)
        assert_non_null(strstr(said_by(no_shares[i], false), "is not valid (size;"));
    assert_int_equal(ebb_options.min_buffer, 1 << 20);
    assert_budget(EBB_SIZE_OF_DEVICE, 100);
    assert_non_null(strstr(said_by("EBB_LOG=shout", false), "warn"));
    assert_string_equal(ebb_options.log, "warn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_every_suffix_are_understood),
        cmocka_unit_test(shares_are_of_the_device_or_of_the_peak),
        cmocka_unit_test(values_arrive_and_absent_ones_have_their_default),
        cmocka_unit_test(words_take_the_arguments_that_are_listed),
        cmocka_unit_test(unknown_name_is_told_with_the_nearest_one),
        cmocka_unit_test(former_name_goes_on_working),
        cmocka_unit_test(rank_is_what_the_starter_says),
        cmocka_unit_test(names_of_files_have_process_and_rank),
        cmocka_unit_test(rates_are_of_both_ways_or_of_each),
        cmocka_unit_test(bad_value_keeps_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
