/* options.h: every EBB_* variable, in one table, and every policy, in another. They generate the parsers, `ebb options`, the list of
 * policies in `ebb plan --help` and the table of docs/options.md.
 *
 * EBB_OPTION(name, type, field, default, low, high, help)
 *   types: BYTES   a size, "24GiB"
 *          SHARE   the same, or "60%" of the memory that it is of, the device's or the host's (stored negative: -60 for 60%)
 *          SIZE    either, or "60%peak" of what keeping everything takes: an ebb_size_t
 *          RATES   bytes per second, "20G", or of each way behind a comma, to the host and from it: "20G,25G"; an ebb_link_rates_t
 *          NUMBER  an integer
 *          SWITCH  0 or 1, off or on
 *          WORD    one of the words listed in `help` before a colon and a space
 *          POLICY  one of EBB_POLICIES
 *          TEXT    a file name (ebb_file_name) or the like
 * `low` and `high` bound BYTES, SHARE, SIZE, RATES and NUMBER (inclusive).
 *
 * EBB_POLICY(code, name, argument, make, tries)
 *   argument: NONE; INTEGER, from 1, behind a colon; NAMES, which may follow there, separated by commas
 *   make      the function that makes the plan (planner.h), expanded there; NULL: none does. What a strategy does is in fates.c
 *   tries     the numbers that `auto` tries a strategy with, in this order: a strategy that comes later must be faster
 */
#ifndef EBB_OPTIONS_H
#define EBB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "alloc/base/status.h"

#define EBB_POLICIES(X)                                                                                      \
    X(AUTO, auto, NONE, ebb_auto_make, "")                                                                   \
    X(KEEP, keep, NONE, ebb_strategy_make, "")                                                               \
    X(OFFLOAD, offload, NONE, ebb_strategy_make, "")                                                         \
    X(SELECTIVE, selective, NAMES, ebb_strategy_make, "")                                                    \
    X(SQRT, sqrt, NONE, ebb_strategy_make, "")                                                               \
    X(RECURSIVE, recursive, NONE, ebb_strategy_make, "")                                                     \
    X(UNIFORM, uniform, INTEGER, ebb_strategy_make, "1 2 3 4 6 8 12 16 24 32")                               \
    X(REVOLVE, revolve, INTEGER, ebb_strategy_make, "2 3 4 6 8")                                             \
    X(LEARN, learn, NONE, NULL, "")                                                                          \
    X(REACTIVE, reactive, NONE, NULL, "")

typedef enum ebb_policy_code {
#define X(code, name, argument, make, tries) EBB_POLICY_##code,
    EBB_POLICIES(X)
#undef X
        EBB_POLICY_COUNT
} ebb_policy_code_t;

typedef struct ebb_policy {
    ebb_policy_code_t code;
    uint32_t number;   /* its argument; 1: none */
    const char *names; /* its argument, in `text`; NULL: none */
    char text[256];    /* as it was given */
} ebb_policy_t;

/* ", name, name:N, name[:names]": as literals, in the order of the table. */
#define EBB_POLICY_WORD_NONE
#define EBB_POLICY_WORD_INTEGER                            ":N"
#define EBB_POLICY_WORD_NAMES                              "[:names]"
#define EBB_POLICY_LIST(code, name, argument, make, tries) ", " #name EBB_POLICY_WORD_##argument

#define EBB_OPTIONS(X)                                                                                       \
    X(EBB_BUDGET, SIZE, budget, "100%", 4 << 20, INT64_MAX,                                                  \
      "device bytes on each device for this process: `24GiB`, `60%` of that device, or `60%peak`, a share "  \
      "of what a step takes when everything is kept")                                                        \
    X(EBB_RESERVE, BYTES, reserve, "0", 0, INT64_MAX, "bytes kept back for what ebb does not own")           \
    X(EBB_PREALLOC, SWITCH, prealloc, "1", 0, 1,                                                             \
      "create some device memory, and pin some host memory, ahead of need, by threads")                      \
    X(EBB_MIN_BUFFER, BYTES, min_buffer, "1MiB", 1, INT64_MAX,                                               \
      "smallest buffer that is evicted; buffers up to 1 MiB share chunks and never are")                     \
    X(EBB_HOST_BUDGET, SHARE, host_budget, "0", 0, INT64_MAX, "pinned host bytes; 0: half of the machine's") \
    X(EBB_HUGE_PAGES, SWITCH, huge_pages, "1", 0, 1,                                                         \
      "ask for huge pages for host memory; 0 where memory is so fragmented that finding them takes long")    \
    X(EBB_PAGEABLE, SWITCH, pageable, "1", 0, 1,                                                             \
      "evict to pageable memory, slowly, when no more may be pinned")                                        \
    X(EBB_DISK, TEXT, disk, "", 0, 0,                                                                        \
      "folder, or `folder:BYTES`, for what leaves the device when host memory is short: in a file without "  \
      "a name, on a local file system")                                                                      \
    X(EBB_CLEAN, SWITCH, clean, "1", 0, 1,                                                                   \
      "do not copy out again what the host still has the same bytes of (by hashes)")                         \
    X(EBB_POLICY, POLICY, policy, "auto", 0, 0,                                                              \
      &(EBB_POLICIES(EBB_POLICY_LIST) ": auto takes the fastest plan, when one is needed; keep never "       \
                                      "evicts; learn learns and never plans; reactive never learns; the "    \
                                      "others are fixed strategies, which plan in any case")[2])             \
    X(EBB_OFFLOAD, SWITCH, offload, "1", 0, 1,                                                               \
      "may plans copy buffers to the host (before there is a plan, ebb does)")                               \
    X(EBB_RECOMPUTE, SWITCH, recompute, "1", 0, 1, "may plans drop buffers and recompute them")              \
    X(EBB_OFFLOAD_MIN_GAP, NUMBER, offload_min_gap, "0", 0, INT64_MAX,                                       \
      "microseconds: nothing is offloaded that lies idle for less, as far as it is known")                   \
    X(EBB_RECOMPUTE_MAX_COST, NUMBER, recompute_max_cost, "0", 0, 1000000,                                   \
      "percent of its transfer both ways that recomputing a buffer may take; 0: no limit")                   \
    X(EBB_LINK, RATES, link, "0", 0, INT64_MAX,                                                              \
      "bytes per second between device and host, or to the host and from it (20G,25G); 0: measure")          \
    X(EBB_PLAN_WAIT, NUMBER, plan_wait, "20", 0, 1000000000,                                                 \
      "milliseconds for which the program waits for a plan that a thread makes; then it goes on, and a "     \
      "later step is the first one driven")                                                                  \
    X(EBB_STALE_WORDS, SWITCH, stale_words, "1", 0, 1,                                                       \
      "take words of arguments that are seen to hold junk for what the host has not filled in, and not for " \
      "operands")                                                                                            \
    X(EBB_HARMLESS, TEXT, harmless, "", 0, 0,                                                                \
      "parts of kernels' names, separated by commas: those that touch no device memory although ebb cannot " \
      "tell (the log names them)")                                                                           \
    X(EBB_VERIFY, NUMBER, verify, "10", 0, INT64_MAX,                                                        \
      "compare one of so many parts of each recomputed content in every step, another one in the next; 1: "  \
      "all of it; 0: only in the first two steps")                                                           \
    X(EBB_ON_MISMATCH, WORD, on_mismatch, "fail", 0, 0,                                                      \
      "fail, warn: when a recomputed buffer has other bits and no copy of it is left")                       \
    X(EBB_IPC, SWITCH, ipc, "0", 0, 1,                                                                       \
      "leave cuMemAlloc to the driver, so that its memory has IPC handles; it never leaves the device then") \
    X(EBB_STRICT, SWITCH, strict, "0", 0, 1, "a bad or unknown EBB_ variable is an error")                   \
    X(EBB_GUARD, SWITCH, guard, "0", 0, 1,                                                                   \
      "a driven plan's large buffers have memory only while something uses them: what ebb did not see "      \
      "faults (slow)")                                                                                       \
    X(EBB_TRACE, TEXT, trace, "", 0, 0,                                                                      \
      "file for the trace of one step; `ebb trace` shows it, `ebb plan` plans it. In all names of files "    \
      "`%p` "                                                                                                \
      "becomes the number of the process, `%r` that of the rank")                                            \
    X(EBB_PLAN, TEXT, plan, "", 0, 0,                                                                        \
      "file with a plan that is driven, even if everything fits, if it suits the learned step and can be "   \
      "proven")                                                                                              \
    X(EBB_SAVE_PLAN, TEXT, save_plan, "", 0, 0,                                                              \
      "file for the plan that is driven, made even if everything fits; `ebb check` proves it")               \
    X(EBB_STATS, TEXT, stats, "", 0, 0, "file for statistics (JSON), written at exit")                       \
    X(EBB_LIVE, SWITCH, live, "1", 0, 1, "keep a page of statistics for `ebb top`, in memory")               \
    X(EBB_LOG, WORD, log, "warn", 0, 0, "quiet, warn, info, debug: how much is said on stderr")

/* X(old, new): names that options had before; they go on working, and the log says what they are called now. */
#define EBB_OLD_OPTIONS(X) X(EBB_LEFTOVERS, EBB_STALE_WORDS)

/* What a size is of. Sizes mean the same wherever one is given. */
typedef enum ebb_size_of {
    EBB_SIZE_BYTES,     /* "24GiB", "512M" */
    EBB_SIZE_OF_DEVICE, /* "60%": percent of the device */
    EBB_SIZE_OF_PEAK    /* "60%peak": percent of what keeping everything takes */
} ebb_size_of_t;
typedef struct ebb_size {
    ebb_size_of_t of;
    int64_t amount; /* bytes, or percent */
} ebb_size_t;

/* Bytes per second, to the host and from it; 0, both: not given. */
typedef struct ebb_link_rates {
    int64_t out, in;
} ebb_link_rates_t;

/* Of several processes that work together. */
typedef struct ebb_process_rank {
    int number, count; /* count 1: alone */
} ebb_process_rank_t;

typedef struct ebb_options {
    ebb_process_rank_t rank;
    ebb_size_t budget;
    int64_t reserve, prealloc, min_buffer, host_budget, huge_pages, pageable, clean;
    int64_t offload, recompute, offload_min_gap, recompute_max_cost, plan_wait, stale_words, verify, guard,
        ipc, strict, live;
    ebb_link_rates_t link;
    ebb_policy_t policy;
    char on_mismatch[16];
    char disk[1024], harmless[1024], trace[1024], plan[1024], save_plan[1024], stats[1024], log[16];
    ebb_log_level_t log_level; /* what `log` says */
} ebb_options_t;

extern ebb_options_t ebb_options;

/* Reads the environment into ebb_options, the rank included. Bad values and unknown EBB_ names are warnings with the nearest
 * valid name; true if there were none. Called once, before anything else. */
bool ebb_options_read(char *const *environment);

/* The file that an option's value names, of a process: %p becomes its number, %r its rank, which is ebb_options's. False: too long. */
enum { EBB_FILE_NAME_ROOM = 1200 };
bool ebb_file_name(const char *value, pid_t process, char out[EBB_FILE_NAME_ROOM]);

/* By the variables that torchrun, Open MPI, MPICH and Slurm set, in an environment (environ(7)). */
ebb_process_rank_t ebb_process_rank(char *const *environment);

/* One assignment, "EBB_BUDGET=24GiB", into ebb_options. False: `why` says in one line what is wrong with it, and what was meant. What
 * does not begin with EBB_ is none of ebb's, and good. */
bool ebb_option_set(const char *variable, char *why, size_t why_bytes);

/* A size of any kind. */
bool ebb_parse_size(const char *text, ebb_size_t *out);
/* A size as SHARE takes it: percents of a memory are negative, and there are none of the peak. */
bool ebb_parse_bytes(const char *text, int64_t *out);
/* Rates: one of both ways, or two. */
bool ebb_parse_rates(const char *text, ebb_link_rates_t *out);
/* A number of less than 5 digits and nothing else: as bytes hardly what was meant. */
bool ebb_size_lacks_unit(const char *text);

/* How many letters of one word are other ones in another (Levenshtein). */
unsigned ebb_word_distance(const char *a, const char *b);

/* A policy with its argument. False: it is none, or the argument is not one of its. `out` may not be moved while `names` is used. */
bool ebb_policy_parse(ebb_policy_t *out, const char *text);

/* One row of the table, for tools. */
typedef struct ebb_option_row {
    const char *name, *type, *fallback, *help;
} ebb_option_row_t;
/* False: there are not that many. */
bool ebb_option_row(unsigned index, ebb_option_row_t *out);

/* The table for people: name, type, default, help. */
void ebb_options_print(FILE *out);
/* The same as docs/options.md has it. */
void ebb_options_print_markdown(FILE *out);

#endif
