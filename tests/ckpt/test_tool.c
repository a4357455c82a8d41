/* The command `ebb`, and what people see of the library: as a user types it and reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc/base/options.h"
#include "cli/gpus.h"
#include "cli/pytorch.h"

static char text[1 << 17]; /* both outputs of the last command */

/* $EBB is the command. The exit code. */
static int sh(const char *command)
{
    char all[2048];
    snprintf(all, sizeof all, "{ %s; } 2>&1", command);
    FILE *f = popen(all, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define SAYS(part)                                                                                           \
    do {                                                                                                     \
        if (!strstr(text, part))                                                                             \
            fail_msg("'%s' is not in: %s", part, text);                                                      \
    } while (0)

static void every_command_has_help_and_refuses_nonsense(void **state)
{
    static const char *const commands[] = {"run",  "top",   "doctor",  "options", "trace",
                                           "plan", "check", "version", "report",  "estimate"};
    (void)state;
    assert_int_equal(sh("$EBB --help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[64], usage[32];
        SAYS("Commands:");
        assert_non_null(strstr(text, commands[i]));
        snprintf(command, sizeof command, "$EBB %s --help", commands[i]);
        snprintf(usage, sizeof usage, "Usage: ebb %s", commands[i]);
        assert_int_equal(sh(command), 0);
        SAYS(usage);
        snprintf(command, sizeof command, "$EBB %s --no-such-flag", commands[i]);
        assert_int_equal(sh(command), 2);
        assert_int_equal(sh("$EBB --help"), 0);
    }
    assert_int_equal(sh("$EBB"), 2);
    assert_int_equal(sh("$EBB fly"), 2);
    assert_int_equal(sh("$EBB trace /nonexistent"), 2);
    SAYS("/nonexistent: No such file");
    assert_int_equal(sh("$EBB plan /nonexistent"), 2);
    SAYS("--budget is missing");
    assert_int_equal(sh("$EBB check /nonexistent --budget 1M"), 2);
    SAYS("usage: ebb check [FLAG...] TRACE PLAN\n");
    assert_int_equal(sh("$EBB --version"), 0);
    SAYS("ebb 0.");
}

static void report_refuses_what_is_damaged(void **state)
{
    (void)state;
    assert_int_equal(sh("$EBB report"), 2);
    SAYS("usage: ebb report [FLAG...] STATS|TRACE\n");
    assert_int_equal(sh("$EBB report /nonexistent"), 2);
    SAYS("-o is missing");
    assert_int_equal(sh("$EBB report /nonexistent -o /tmp/never.html"), 2);
    SAYS("/nonexistent: No such file");
    assert_int_equal(sh("$EBB report " README " --json"), 2);
    SAYS("line 1: not a JSON object");
    assert_int_equal(
        sh("echo '{\"budget_bytes\": 1, \"over' >/tmp/ebb-tool-half; $EBB report /tmp/ebb-tool-half --json"),
        2);
    SAYS("not a JSON object");
    assert_int_equal(
        sh("echo '{\"budget_bytes\": 1}' >/tmp/ebb-tool-half; $EBB report /tmp/ebb-tool-half --json"), 2);
    SAYS("another version of ebb: \"overhead_bytes\" is missing");
    assert_int_equal(sh("rm /tmp/ebb-tool-half; $EBB report " README " -o /tmp/never.html --gpu none"), 2);
    SAYS("no such GPU");
    assert_int_equal(sh("test -e /tmp/never.html"), 1);
}

static void run_sets_what_it_is_told(void **state)
{
    (void)state;
    assert_int_equal(sh("LD_PRELOAD=libm.so.6 $EBB run -b 60% --min-buffer=4MiB --set=verify=3 env"), 0);
    SAYS("EBB_BUDGET=60%\n");
    SAYS("EBB_MIN_BUFFER=4MiB\n");
    SAYS("EBB_VERIFY=3\n");
    SAYS("/libebb.so:libm.so.6\n");
    assert_non_null(
        strstr(strstr(text, "NVTX_INJECTION64_PATH=") ? strstr(text, "NVTX_INJECTION64_PATH=") : "",
               "/libebb.so\n"));
    SAYS("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync\n");
    SAYS("PYTORCH_ALLOC_CONF=backend:cudaMallocAsync\n");
    assert_int_equal(sh("NVTX_INJECTION64_PATH=another $EBB run env"), 0);
    SAYS("NVTX_INJECTION64_PATH=another\n");
    assert_int_equal(sh("$EBB run -- sh -c 'exit 7'"), 7);
    assert_int_equal(sh("$EBB run --budget=much -- true"), 2);
    SAYS("EBB_BUDGET=much is not valid");
    assert_int_equal(sh("$EBB run"), 2);
    assert_int_equal(sh("$EBB run -- /nonexistent"), 127);
    assert_int_equal(sh("$EBB run --keep-allocator env | grep PYTORCH"), 1);
}

static void pytorch_keeps_what_else_was_set(void **state)
{
    static const struct {
        const char *settings, *merged, *dropped;
    } cases[] = {
        {"", "backend:cudaMallocAsync", ""},
        {"backend:cudaMallocAsync", "backend:cudaMallocAsync", ""},
        {"backend:native", "backend:cudaMallocAsync", "backend:native"},
        {"max_split_size_mb:64", "backend:cudaMallocAsync,max_split_size_mb:64", ""},
        {"a:[1:2,3:4],expandable_segments:True,b:1", "backend:cudaMallocAsync,a:[1:2,3:4],b:1",
         "expandable_segments:True"},
        {" backend : native, x:1,", "backend:cudaMallocAsync, x:1", " backend : native"},
        {"expandable_segments_too:1", "backend:cudaMallocAsync,expandable_segments_too:1", ""},
    };
    char merged[256], dropped[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(ebb_pytorch_merge(cases[i].settings, merged, sizeof merged, dropped, sizeof dropped));
        assert_string_equal(merged, cases[i].merged);
        assert_string_equal(dropped, cases[i].dropped);
    }
    assert_false(ebb_pytorch_merge("long:1", merged, 26, dropped, sizeof dropped));
    /* Each variable keeps its own; one alone is meant for every version. */
    assert_int_equal(
        sh("PYTORCH_ALLOC_CONF=x:1 PYTORCH_CUDA_ALLOC_CONF=y:2 $EBB run env | grep PYTORCH | sort"), 0);
    assert_string_equal(text, "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync,x:1\n"
                              "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync,y:2\n");
    assert_int_equal(
        sh("PYTORCH_ALLOC_CONF=x:1,expandable_segments:True $EBB run env | grep -c 'Async,x:1$\\|goes'"), 0);
    SAYS("PYTORCH_ALLOC_CONF: expandable_segments:True goes");
    SAYS("2\n");
}

static void documents_have_the_tables(void **state)
{
    static const struct {
        const char *page, *command;
    } tables[] = {{DOCS "/options.md", "options --markdown"}, {DOCS "/statistics.md", "top --keys"}};
    static char page[1 << 15];
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        FILE *f = fopen(tables[i].page, "r");
        assert_non_null(f);
        page[fread(page, 1, sizeof page - 1, f)] = 0;
        fclose(f);
        char command[64];
        snprintf(command, sizeof command, "$EBB %s", tables[i].command);
        assert_int_equal(sh(command), 0);
        assert_true(strlen(text) > 500);
        if (!strstr(page, text))
            fail_msg("%s has not what `ebb %s` prints", tables[i].page, tables[i].command);
    }
}

static void every_policy_is_in_the_man_page_and_in_help(void **state)
{
    static const struct {
        const char *name;
        bool plans;
    } policies[] = {
#define ebb_auto_make                        true
#define ebb_strategy_make                    true
#define X(code, name, argument, make, tries) {#name, (bool)(make)},
        EBB_POLICIES(X)
#undef X
    };
    (void)state;
    for (size_t i = 0; i < EBB_POLICY_COUNT; i++) {
        char command[256];
        snprintf(command, sizeof command, "set -e; $EBB plan --help | grep -w %s; grep -w %s " MAN_PAGE,
                 policies[i].name, policies[i].name);
        if ((policies[i].plans && sh(command)) || (!policies[i].plans && !sh(command)))
            fail_msg("%s: %s", policies[i].name, text);
    }
}

static void man_page_is_clean(void **state)
{
    (void)state;
    if (sh("command -v man"))
        skip();
    assert_int_equal(sh("LC_ALL=C MANWIDTH=80 man -l --warnings=w " MAN_PAGE " >/dev/null"), 0);
    assert_string_equal(text, "");
    assert_int_equal(sh("LC_ALL=C man -l " MAN_PAGE " | col -b"), 0);
    SAYS("EXIT STATUS");
}

static void versions_are_those_of_command_and_library(void **state)
{
    (void)state;
    assert_int_equal(sh("env -u LD_PRELOAD $EBB version"), 0);
    SAYS("ebb " EBB_VERSION "\nlibebb.so is not preloaded\n");
    assert_int_equal(sh("$EBB run -- $EBB version"), 0);
    SAYS("ebb " EBB_VERSION "\nlibebb.so " EBB_VERSION "\n");
    assert_int_equal(sh("$EBB version 2"), 2);
}

static void doctor_sees_device_and_program(void **state)
{
    (void)state;
    assert_int_equal(sh("EBB_BUDGET=50% $EBB doctor -- $TEST_PAIR"), 0);
    SAYS("device    softgpu");
    SAYS("driver    ");
    SAYS("link      ");
    SAYS("measured now");
    SAYS("pinning   ");
    SAYS("libebb.so\n");
    SAYS("          version " EBB_VERSION "\n");
    SAYS("calls the driver itself");
    assert_null(strstr(text, "more than the device has"));
    assert_int_equal(sh("EBB_BUDGET=4TiB $EBB doctor -n $TEST_LOOP"), 0);
    SAYS("WARNING: EBB_BUDGET is more than the device has\n");
    assert_int_equal(sh("$EBB doctor -n $TEST_LOOP"), 0);
    SAYS("shared CUDA runtime");
    assert_null(strstr(text, "measured now"));
    assert_int_equal(sh("$EBB doctor -n sh"), 0);
    SAYS("is not linked with CUDA");
    assert_int_equal(sh("$EBB doctor -n /nonexistent"), 1);
    SAYS("not found");
    assert_int_equal(sh("$EBB doctor -n " README), 1);
    SAYS("not a dynamically linked program");
    assert_int_equal(sh("$EBB doctor -n " SCRIPT), 0);
    SAYS("run by bash");
}

/* By the computed clock, whose link becomes another one: lopsided while both ways are in use. */
static void doctor_replaces_a_link_that_is_no_longer_so(void **state)
{
    (void)state;
    char cache[] = "/tmp/ebb-doctor-XXXXXX", command[256];
    assert_non_null(mkdtemp(cache));
    static const char *const links[] = {"25,25,25,25", "25,25,25,18", "25,25,25,11", "25,25,25,11"};
    static const char *const said[] = {"          kept from now on",
                                       "11.0 (measured again)\n          kept from now on",
                                       "in; both at once 25.0 and 11.0 (measured before, and kept"};
    for (int i = 0; i < 4; i++) {
        snprintf(command, sizeof command,
                 "XDG_CACHE_HOME=%s SOFTGPU_SCHEDULER=deterministic SOFTGPU_LINK=%s $EBB doctor", cache,
                 links[i]);
        assert_int_equal(sh(command), 0);
        assert_int_equal(strstr(text, "WARNING") != NULL, i == 2); /* a factor of 1.4 is none */
        if (i != 1)
            SAYS(said[i ? i - 1 : 0]);
        else
            assert_null(strstr(text, "from now on"));
    }
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(sh(command), 0);
}

static void doctor_knows_a_static_runtime(void **state)
{
    (void)state;
    if (!*STATIC_RUNTIME)
        skip(); /* no compiler for it at build time */
    assert_int_equal(sh("$EBB doctor -n " STATIC_RUNTIME), 0);
    SAYS("has the CUDA runtime linked in (static)");
}

/* A page while the program runs, and none after it. */
static void top_shows_a_running_program(void **state)
{
    (void)state;
    assert_int_equal(
        sh("exec 3>&1; XDG_RUNTIME_DIR=/nonexistent; export XDG_RUNTIME_DIR\n"
           "$EBB run -b 52MiB --log quiet $TEST_LOOP layers=8 steps=100000 >/dev/null & p=$!\n"
           "for i in $(seq 200); do $EBB top --once --json $p 2>/dev/null | grep '\"operations\": [1-9]' "
           "&& break; sleep 0.1; done\n"
           "$EBB top --once $p; kill -TERM $p; wait $p 2>/dev/null; $EBB top --once $p; "
           "ls /dev/shm | grep \"ebb-.*-$p$\""),
        1);
    SAYS("\"budget_bytes\": 54525952, ");
    SAYS("program   loop layers=8 steps=100000\n");
    SAYS(" of 52.0 MiB\n");
    SAYS("waiting for planned copies");
    SAYS("no such process"); /* and the page that it left is gone */
    assert_int_equal(
        sh("$EBB run $TEST_LOOP layers=2 steps=2 >/dev/null & p=$!; wait $p; ls /dev/shm | grep ebb-.*-$p$"),
        1);
    assert_int_equal(sh("$EBB top --once $$"), 2);
    SAYS("does not run under ebb");
}

/* While two programs run; then until one of them ends. */
static void top_lists_programs_and_says_when_one_has_ended(void **state)
{
    (void)state;
    assert_int_equal(
        sh("d=$(mktemp -d); export XDG_RUNTIME_DIR=$d; : >$d/ebb-999999999; $EBB top; ls $d\n"
           "for i in 1 2; do [ $i = 1 ] || export RANK=1 WORLD_SIZE=2; $EBB run -b 52MiB --log quiet "
           "$TEST_LOOP layers=8 steps=100000 >/dev/null & "
           "eval p$i=$!; done\n"
           "for i in $(seq 200); do $EBB top | grep -c loop | grep -q 2 && break; sleep 0.1; done\n"
           "COLUMNS=100 $EBB top | sed \"s/$p1/P/; s/$p2/P/\"; kill $p1\n"
           "(sleep 1; kill $p2) & $EBB top --delay 0.1 $p2 | tail -n 1 | sed \"s/$p2/P/\"\n"
           "wait; $EBB top >/dev/null; ls $d; rm -r $d"),
        0);
    SAYS("nothing runs under ebb now\n process "); /* and the page that was left behind is gone */
    SAYS(" process      MiB of its budget    step ms  program\n");
    assert_non_null(strstr(text, "  loop layers=8 steps=100000\n"));
    assert_non_null(strstr(text, "  rank 1 of 2: loop layers=8 steps=100000\n"));
    SAYS("ended     process P is no longer there\n");
    assert_null(strstr(text, "ebb-"));
}

static void run_names_what_it_cannot_preload(void **state)
{
    (void)state;
    assert_int_equal(sh("$EBB run $TEST_STATIC"), 3);
    SAYS("static_program is statically linked: nothing can be preloaded, it runs without ebb and its "
         "budget\n");
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(sh("$EBB run true"), 0);
    assert_string_equal(text, "");
}

static void device_sizes_follow_from_names(void **state)
{
    (void)state;
    assert_int_equal(ebb_gpu_device_bytes("NVIDIA H100 80GB HBM3"), UINT64_C(80) << 30);
    assert_int_equal(ebb_gpu_device_bytes("NVIDIA A100-SXM4-40GB"), UINT64_C(40) << 30);
    assert_int_equal(ebb_gpu_device_bytes("NVIDIA GeForce RTX 4090"), UINT64_C(24) << 30);
    assert_int_equal(ebb_gpu_device_bytes("softgpu"), 0);
}

static void the_end_is_one_line_unless_quiet(void **state)
{
    (void)state;
    assert_int_equal(sh("SOFTGPU_MEMORY=52MiB $EBB run $TEST_LOOP layers=8 steps=3 >/dev/null"), 0);
    SAYS("ebb: peak ");
    SAYS("evicted ");
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(sh("SOFTGPU_MEMORY=512MiB $EBB run $TEST_LOOP layers=8 steps=9 >/dev/null"), 0);
    SAYS("ebb: everything fitted: peak ");
    assert_null(strstr(text, "drove"));
    assert_int_equal(sh("SOFTGPU_MEMORY=52MiB $EBB run --log quiet $TEST_LOOP layers=8 steps=3 >/dev/null"),
                     0);
    assert_string_equal(text, "");
    assert_int_equal(sh("$EBB run true"), 0);
    assert_string_equal(text, ""); /* nothing of CUDA */
}

/* By itself the library can refuse nothing: it says in one line, and at the level that is on without asking, what it does instead. */
static void bad_options_are_one_line_each_under_plain_preload(void **state)
{
    static const struct {
        const char *settings, *said; /* NULL: nothing */
    } cases[] = {
        {"EBB_BUDGET=30MiB", NULL},
        {"EBB_BUDGET=40", "ebb: EBB_BUDGET=40: 40 bytes? 40GiB: the program runs without a budget\n"},
        {"EBB_BUDGET=101%", ": the program runs without a budget\n"},
        {"EBB_BUGDET=30MiB", "ebb: EBB_BUGDET is not an option of ebb; did you mean EBB_BUDGET?\n"},
        {"EBB_VERIFY=often", ": using 10\n"},
        {"EBB_BUDGET=2GiB", "ebb: the budget of 2048 MiB is more than the 64 MiB of device 0\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[512];
        snprintf(
            command, sizeof command,
            "SOFTGPU_MEMORY=64MiB %s LD_PRELOAD=\"$(dirname $EBB)\"/../lib/libebb.so $TEST_LOOP layers=2 "
            "steps=2 mib=2 >/dev/null",
            cases[i].settings);
        assert_int_equal(sh(command), 0);
        char *const end = strstr(text, "ebb: everything fitted: ");
        assert_non_null(end); /* with the budget, the device's, that it went on with */
        assert_non_null(strstr(end, cases[i].said ? " of 64.0 MiB\n" : " of 30.0 MiB\n"));
        *end = 0;
        if (!cases[i].said)
            assert_string_equal(text, "");
        else {
            SAYS(cases[i].said);
            assert_ptr_equal(strchr(text, '\n'), end - 1);
        }
    }
}

/* Behind `what` in what was said last. */
static unsigned said_mib(const char *what)
{
    SAYS(what);
    return (unsigned)strtoul(strstr(text, what) + strlen(what), NULL, 10);
}

static int loop_within(unsigned mib, const char *arguments)
{
    char command[256];
    snprintf(command, sizeof command,
             "SOFTGPU_SCHEDULER=deterministic $EBB run -b %uMiB $TEST_LOOP layers=8 %s", mib, arguments);
    return sh(command);
}

/* Where a step is known, advice is what the planner can plan for, not what gets past one shortage. */
static void the_smallest_budget_with_a_plan_is_named(void **state)
{
    (void)state;
    assert_int_equal(loop_within(26, "steps=20"), 0);
    const unsigned floor = said_mib("; the smallest budget with a plan is ");
    assert_int_equal(said_mib("there is no plan for a budget of 26 MiB, only from "), floor);
    assert_int_equal(loop_within(floor, "steps=20"), 0);
    SAYS("drove 1");
    assert_null(strstr(text, "smallest budget"));
    assert_int_equal(loop_within(floor - 2, "steps=20"), 0);
    assert_int_equal(said_mib("; the smallest budget with a plan is "), floor);
    /* It runs out of memory when the driver serves 6 MiB, which count against the budget. */
    assert_int_equal(loop_within(20, "steps=20 grow=15"), 3);
    const unsigned advised = said_mib("  the smallest budget with a plan for the program's step is ");
    assert_in_range(advised, floor + 6, floor + 8);
    /* What another run has measured may take a chunk more. */
    assert_int_equal(loop_within(advised + 2, "steps=20 grow=15"), 0);
    SAYS("drove 1");
}

static void statistics_have_all_keys(void **state)
{
    (void)state;
    assert_int_equal(
        sh("cd /tmp && rm -f ebb-tool-*.json; $EBB run --stats 'ebb-tool-%p.json' --log quiet $TEST_LOOP "
           "layers=2 steps=12 >/dev/null; cat ebb-tool-*.json; rm -f ebb-tool-*.json"),
        0);
    assert_int_equal(text[0], '{');
    static char json[sizeof text];
    memcpy(json, text, sizeof json);
    assert_int_equal(sh("$EBB top --keys | tail -n +3 | cut -d'`' -f2"), 0);
    unsigned keys = 0;
    for (char *save, *key = strtok_r(text, "\n", &save); key; key = strtok_r(NULL, "\n", &save), keys++) {
        char quoted[64];
        key = strstr(key, "[].") ? strstr(key, "[].") + 3 : key;
        snprintf(quoted, sizeof quoted, "\"%s\": ", key);
        if (!strstr(json, quoted))
            fail_msg("%s is not in %s", key, json);
    }
    assert_true(keys > 30);
}

/* One command: a page of a step that was driven, and the program's own exit code. */
static void run_ends_with_a_report(void **state)
{
    (void)state;
    assert_int_equal(
        sh("cd /tmp && rm -f ebb-tool-report.*; $EBB run -b 52MiB --log quiet --stats ebb-tool-report.stats "
           "--trace "
           "ebb-tool-report.trace --report ebb-tool-report.html $TEST_LOOP layers=8 steps=24 >/dev/null"),
        0);
    SAYS("ebb: the report is in ebb-tool-report.html\n");
    assert_int_equal(sh("cd /tmp && $EBB report ebb-tool-report.stats --json | head -c 100000"), 0);
    SAYS("\"planned\":true");
    SAYS("\"policy\":\"auto\"");
    SAYS("\"assumed\":false");
    SAYS("\"compared_share\":0.1,");
    assert_null(strstr(text, "\"steps_driven\":0,"));
    assert_int_equal(sh("cd /tmp && grep -c '</html>' ebb-tool-report.html"), 0);
    /* Named after the program, and what runs it again is what was typed. */
    assert_int_equal(
        sh("cd /tmp && grep -o '\"title\":\"[^\"]*\"' ebb-tool-report.html; env -u EBB_PLAN_WAIT "
           "EBB_VERIFY=7 $EBB run -b 52MiB "
           "--log quiet --report=ebb-tool-report.html -- $TEST_LOOP layers=8 steps=48 'more=3 <' >/dev/null; "
           "grep -o '\"command\":\"[^\"]*\"' ebb-tool-report.html | sed \"s|$TEST_LOOP|LOOP|\""),
        0);
    assert_string_equal(
        text, "\"title\":\"loop layers=8 steps=24\"\n"
              "ebb: the report is in ebb-tool-report.html\n"
              "\"command\":\"EBB_VERIFY=7 ebb run -b 52MiB --log quiet --report=ebb-tool-report.html -- LOOP "
              "layers=8 steps=48 'more=3 \\u003c'\"\n");
    assert_int_equal(sh("cd /tmp && mv ebb-tool-report.trace ebb-tool-report.moved; $EBB report "
                        "ebb-tool-report.stats --json"),
                     2);
    SAYS("ebb-tool-report.trace: No such file");
    assert_int_equal(sh("cd /tmp && $EBB report ebb-tool-report.stats --trace ebb-tool-report.moved -o "
                        "ebb-tool-report.json && "
                        "head -c 14 ebb-tool-report.json"),
                     0);
    assert_string_equal(text, "{\"ebb_report\":");
    assert_int_equal(sh("cd /tmp && $EBB report ebb-tool-report.stats --kind 7 --json"), 2);
    SAYS("kind 7");
    assert_int_equal(
        sh("cd /tmp && rm ebb-tool-report.*; $EBB run --report ebb-tool-report.html sh -c 'exit 7'"), 7);
    SAYS("there is nothing to report");
    assert_int_equal(sh("cd /tmp && $EBB run -b 200MiB --log quiet --report ebb-tool-report.html $TEST_LOOP "
                        "layers=8 steps=24 >/dev/null"),
                     0);
    /* How much depends on how many launches a step is slow enough to prove: each proof's memory is another. At
     * least 8 layers' weights and gradients of 2 MiB, 11 buffers of 4, and some small ones. */
    unsigned long long peak_mib = 0;
    char rest[80] = "";
    assert_int_equal(
        sscanf(text, "ebb: everything fitted (%llu of 200 MiB): nothing to do\n%79[^\n]", &peak_mib, rest),
        2);
    assert_string_equal(rest, "ebb: the report is in ebb-tool-report.html");
    assert_in_range(peak_mib, 78, 199);
    assert_int_equal(sh("rm /tmp/ebb-tool-report.html"), 0);
    assert_int_equal(sh("$EBB run --report /tmp/ebb-tool-report.html /nonexistent"), 127);
    assert_int_equal(sh("$EBB run --report /tmp/ebb-tool-report.html sh -c 'kill -9 $$'"), 128 + 9);
    assert_int_equal(sh("ls /tmp/ebb-tool-report.*"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_help_and_refuses_nonsense),
        cmocka_unit_test(report_refuses_what_is_damaged),
        cmocka_unit_test(run_sets_what_it_is_told),
        cmocka_unit_test(pytorch_keeps_what_else_was_set),
        cmocka_unit_test(documents_have_the_tables),
        cmocka_unit_test(every_policy_is_in_the_man_page_and_in_help),
        cmocka_unit_test(man_page_is_clean),
        cmocka_unit_test(versions_are_those_of_command_and_library),
        cmocka_unit_test(doctor_sees_device_and_program),
        cmocka_unit_test(doctor_replaces_a_link_that_is_no_longer_so),
        cmocka_unit_test(doctor_knows_a_static_runtime),
        cmocka_unit_test(top_shows_a_running_program),
        cmocka_unit_test(top_lists_programs_and_says_when_one_has_ended),
        cmocka_unit_test(run_names_what_it_cannot_preload),
        cmocka_unit_test(device_sizes_follow_from_names),
        cmocka_unit_test(the_end_is_one_line_unless_quiet),
        cmocka_unit_test(bad_options_are_one_line_each_under_plain_preload),
        cmocka_unit_test(the_smallest_budget_with_a_plan_is_named),
        cmocka_unit_test(statistics_have_all_keys),
        cmocka_unit_test(run_ends_with_a_report),
    };
    return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
