/* options.h: every EBB_* variable, in one table. The table generates the parser, `ebb options` and the
 * README's list.
 *
 * EBB_OPTION(name, type, field, default, low, high, help)
 *   types: BYTES   a size, "24GiB"; or a share, "60%", of the device (stored negative: -60 for 60%)
 *          NUMBER  an integer
 *          SWITCH  0 or 1, off or on
 *          WORD    one of the words listed in `help` before the colon
 *          TEXT    a file name or the like
 * `low` and `high` bound BYTES and NUMBER (inclusive).
 */
#ifndef EBB_OPTIONS_H
#define EBB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EBB_OPTIONS(X)                                                                                       \
    X(EBB_BUDGET, BYTES, budget, "100%", 4 << 20, INT64_MAX, "device bytes for this process")                \
    X(EBB_RESERVE, BYTES, reserve, "0", 0, INT64_MAX, "bytes kept back for what ebb does not own")           \
    X(EBB_MIN_BUFFER, BYTES, min_buffer, "1MiB", 1, INT64_MAX, "smallest buffer that is evicted")            \
    X(EBB_HOST_BUDGET, BYTES, host_budget, "0", 0, INT64_MAX, "pinned host bytes; 0: half of the machine's") \
    X(EBB_OFFLOAD, SWITCH, offload, "1", 0, 1, "may buffers be copied to the host")                          \
    X(EBB_STRICT, SWITCH, strict, "0", 0, 1, "a bad or unknown EBB_ variable is an error")                   \
    X(EBB_TRACE, TEXT, trace, "", 0, 0, "file for the trace of one step (ebb trace shows it)")               \
    X(EBB_STATS, TEXT, stats, "", 0, 0, "file for statistics (JSON), written at exit")                       \
    X(EBB_LOG, WORD, log, "warn", 0, 0, "quiet, warn, info, debug: how much is said on stderr")

typedef struct ebb_options {
    int64_t budget, reserve, min_buffer, host_budget;
    int64_t offload, strict;
    char trace[1024], stats[1024], log[16];
} ebb_options_t;

extern ebb_options_t ebb_options;

/* Reads the environment into ebb_options. Bad values and unknown EBB_ names are warnings with the nearest
 * valid name; true if there were none. Called once, before anything else. */
bool ebb_options_read(char *const *environment);

/* Parses "24GiB", "512M", "60%" (-> -60) as BYTES does. */
bool ebb_parse_bytes(const char *text, int64_t *out);

/* The table for people: name, type, default, help. */
void ebb_options_print(FILE *out);

#endif
