#include "alloc/base/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"

typedef enum option_type { BYTES, SHARE, SIZE, RATES, NUMBER, SWITCH, WORD, POLICY, TEXT } option_type_t;

typedef struct option {
    const char *name;
    option_type_t type;
    void *field;
    size_t room; /* of a text field */
    const char *fallback;
    int64_t low, high;
    const char *help;
} option_t;

ebb_options_t ebb_options = {.log_level = EBB_WARN};

static const option_t options[] = {
#define X(name, type, field, fallback, low, high, help)                                                      \
    {#name, type, &ebb_options.field, sizeof ebb_options.field, fallback, low, high, help},
    EBB_OPTIONS(X)
#undef X
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const char *const type_name[] = {"size", "size", "size", "rates", "number",
                                        "0|1",  "word", "word", "text"};

bool ebb_parse_size(const char *text, ebb_size_t *out)
{
    char *end;
    errno = 0;
    double n = strtod(text, &end);
    if (end == text || errno || !(n >= 0))
        return false;
    if (*end == '%') {
        *out = (ebb_size_t){end[1] ? EBB_SIZE_OF_PEAK : EBB_SIZE_OF_DEVICE, (int64_t)n};
        return n > 0 && n <= 100 && n == (double)(int64_t)n && (!end[1] || !strcmp(end + 1, "peak"));
    }
    unsigned shift = 0;
    if (*end) {
        const char *units = "KMGT", *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit || (end[1] && strcasecmp(end + 1, "ib") && strcasecmp(end + 1, "b")))
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
    }
    n *= (double)((int64_t)1 << shift);
    if (n >= 9.2e18)
        return false;
    *out = (ebb_size_t){EBB_SIZE_BYTES, (int64_t)n};
    return true;
}

bool ebb_parse_bytes(const char *text, int64_t *out)
{
    ebb_size_t size;
    if (!ebb_parse_size(text, &size) || size.of == EBB_SIZE_OF_PEAK)
        return false;
    *out = size.of == EBB_SIZE_OF_DEVICE ? -size.amount : size.amount;
    return true;
}

bool ebb_parse_rates(const char *text, ebb_link_rates_t *out)
{
    char first[32];
    ebb_size_t size[2];
    const size_t length = strcspn(text, ",");
    if (length >= sizeof first)
        return false;
    memcpy(first, text, length);
    first[length] = 0;
    if (!ebb_parse_size(first, &size[0]) ||
        !ebb_parse_size(text[length] ? text + length + 1 : first, &size[1]))
        return false;
    *out = (ebb_link_rates_t){size[0].amount, size[1].amount};
    return size[0].of == EBB_SIZE_BYTES && size[1].of == EBB_SIZE_BYTES && !out->out == !out->in;
}

bool ebb_size_lacks_unit(const char *text)
{
    return *text && strlen(text) < 5 && strspn(text, "0123456789") == strlen(text);
}

static bool parse_switch(const char *text, int64_t *out)
{
    static const char *const off[] = {"0", "off", "no", "false"}, *const on[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; i < 4; i++) {
        if (!strcasecmp(text, off[i]) || !strcasecmp(text, on[i])) {
            *out = !strcasecmp(text, on[i]);
            return true;
        }
    }
    return false;
}

static bool is_count(const char *text)
{
    return *text >= '1' && *text <= '9' && strlen(text) < 9 && strspn(text, "0123456789") == strlen(text);
}

bool ebb_policy_parse(ebb_policy_t *out, const char *text)
{
    enum argument { NONE, INTEGER, NAMES };
    static const struct {
        const char *name;
        enum argument argument;
    } policies[] = {
#define X(code, name, argument, make, tries) {#name, argument},
        EBB_POLICIES(X)
#undef X
    };
    const size_t length = strcspn(text, ":");
    unsigned i = 0;
    while (i < EBB_POLICY_COUNT && (strncmp(text, policies[i].name, length) || policies[i].name[length]))
        i++;
    if (i == EBB_POLICY_COUNT || strlen(text) >= sizeof out->text)
        return false;
    *out = (ebb_policy_t){.code = (ebb_policy_code_t)i, .number = 1};
    memcpy(out->text, text, strlen(text) + 1);
    const char *given = text[length] ? out->text + length + 1 : NULL;
    if (policies[i].argument == INTEGER) {
        out->number = given ? (uint32_t)strtoul(given, NULL, 10) : 0;
        return given && is_count(given);
    }
    out->names = given;
    return !given || (policies[i].argument == NAMES && *given);
}

/* `words` is "a, b, c: explanation". */
static bool is_listed(const char *word, const char *words)
{
    for (const char *at = words; *at;) {
        size_t n = strcspn(at, ", ");
        const bool last = n && at[n - 1] == ':';
        if (strlen(word) == n - last && !strncmp(word, at, n - last))
            return true;
        at += n;
        at += strspn(at, ", ");
        if (last)
            return false;
    }
    return false;
}

static bool set_option(const option_t *o, const char *text)
{
    int64_t n;
    char *end;
    switch (o->type) {
    case BYTES:
    case SHARE:
        if (!ebb_parse_bytes(text, &n) || (n < 0 ? o->type == BYTES : n < o->low || n > o->high))
            return false;
        break;
    case SIZE: {
        ebb_size_t size;
        if (!ebb_parse_size(text, &size) ||
            (size.of == EBB_SIZE_BYTES && (size.amount < o->low || size.amount > o->high)))
            return false;
        *(ebb_size_t *)o->field = size;
        return true;
    }
    case RATES: {
        ebb_link_rates_t rates;
        if (!ebb_parse_rates(text, &rates) || rates.out < o->low || rates.in < o->low ||
            rates.out > o->high || rates.in > o->high)
            return false;
        *(ebb_link_rates_t *)o->field = rates;
        return true;
    }
    case NUMBER:
        errno = 0;
        n = strtoll(text, &end, 10);
        if (end == text || *end || errno || n < o->low || n > o->high)
            return false;
        break;
    case SWITCH:
        if (!parse_switch(text, &n))
            return false;
        break;
    case POLICY: {
        ebb_policy_t policy;
        return ebb_policy_parse(&policy, text) && ebb_policy_parse(o->field, text);
    }
    case WORD:
        if (!is_listed(text, o->help))
            return false; /* fall through */
    default:
        if (strlen(text) >= o->room)
            return false;
        memcpy(o->field, text, strlen(text) + 1);
        return true;
    }
    *(int64_t *)o->field = n;
    return true;
}

/* Edit distance of Levenshtein, by one row of the table. */
unsigned ebb_word_distance(const char *a, const char *b)
{
    unsigned row[64];
    size_t n = strlen(b);
    if (n >= sizeof row / sizeof row[0])
        return 99;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

static const char *nearest(const char *name)
{
    const char *best = options[0].name;
    unsigned least = 99;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        unsigned d = ebb_word_distance(name, options[i].name);
        if (d < least) {
            least = d;
            best = options[i].name;
        }
    }
    return best;
}

/* What an option was called before. */
static const char *present_name(const char *name)
{
    static const char *const names[][2] = {
#define X(before, now) {#before, #now},
        EBB_OLD_OPTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], name))
            return names[i][1];
    return name;
}

static const option_t *find_option(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!strcmp(options[i].name, present_name(name)))
            return &options[i];
    return NULL;
}

static void explain_value(const option_t *o, const char *value, char *why, size_t why_bytes)
{
    if (o->type <= SIZE && ebb_size_lacks_unit(value))
        snprintf(why, why_bytes, "%s=%s: %s bytes? %sGiB", o->name, value, value, value);
    else
        snprintf(why, why_bytes, "%s=%s is not valid (%s; %s)", o->name, value, type_name[o->type], o->help);
}

enum { NAME_ROOM = 64 };

/* What is assigned to; "": it is none of ebb's. */
static const char *name_of(const char *variable, char name[NAME_ROOM])
{
    const size_t length = strcspn(variable, "=");
    const bool ours = variable[length] && !strncmp(variable, "EBB_", 4) && length < NAME_ROOM;
    snprintf(name, NAME_ROOM, "%.*s", ours ? (int)length : 0, variable);
    return name;
}

bool ebb_option_set(const char *variable, char *why, size_t why_bytes)
{
    char name[NAME_ROOM];
    const option_t *o = find_option(name_of(variable, name));
    const char *equals = strchr(variable, '=');
    *why = 0;
    if (!*name)
        return true;
    if (!o)
        snprintf(why, why_bytes, "%s is not an option of ebb; did you mean %s?", name, nearest(name));
    else if (equals[1] && !set_option(o, equals + 1))
        explain_value(o, equals + 1, why, why_bytes);
    return !*why;
}

static bool read_variable(const char *variable)
{
    char why[1024], name[NAME_ROOM];
    const bool good = ebb_option_set(variable, why, sizeof why);
    const option_t *o = find_option(name_of(variable, name));
    if (o && strcmp(o->name, name))
        ebb_log(EBB_WARN, "%s is called %s now", name, o->name);
    if (good)
        return true;
    if (!o)
        ebb_log(EBB_WARN, "%s", why);
    else if (o->field == &ebb_options.budget)
        ebb_log(EBB_WARN, "%s: the program runs without a budget", why);
    else
        ebb_log(EBB_WARN, "%s: using %s", why, *o->fallback ? o->fallback : "none");
    return false;
}

bool ebb_file_name(const char *value, pid_t process, char out[EBB_FILE_NAME_ROOM])
{
    size_t at = 0;
    for (const char *c = value; *c && at + 24 < EBB_FILE_NAME_ROOM; c++) {
        if (c[0] == '%' && (c[1] == 'p' || c[1] == 'r'))
            at += (size_t)snprintf(out + at, EBB_FILE_NAME_ROOM - at, "%d",
                                   *++c == 'p' ? (int)process : ebb_options.rank.number);
        else
            out[at++] = *c;
    }
    out[at] = 0;
    return at + 24 < EBB_FILE_NAME_ROOM;
}

/* ---- the rank ---- */

/* The number behind NAME=; -1: there is none. */
static int number_in(char *const *environment, const char *name)
{
    const size_t length = strlen(name);
    char *end;
    for (; environment && *environment; environment++)
        if (!strncmp(*environment, name, length) && (*environment)[length] == '=') {
            const long value = strtol(*environment + length + 1, &end, 10);
            return end == *environment + length + 1 || *end || value < 0 || value > INT_MAX ? -1 : (int)value;
        }
    return -1;
}

ebb_process_rank_t ebb_process_rank(char *const *environment)
{
    static const char *const names[][2] = {{"WORLD_SIZE", "RANK"},
                                           {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"SLURM_NTASKS", "SLURM_PROCID"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const ebb_process_rank_t rank = {number_in(environment, names[i][1]),
                                         number_in(environment, names[i][0])};
        if (rank.number >= 0 && rank.number < rank.count)
            return rank;
    }
    return (ebb_process_rank_t){0, 1};
}

bool ebb_options_read(char *const *environment)
{
    bool good = true;
    ebb_options.rank = ebb_process_rank(environment);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        set_option(&options[i], options[i].fallback);
    for (; environment && *environment; environment++)
        good &= read_variable(*environment);
    static const char *const levels[] = {"quiet", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(ebb_options.log, levels[i]))
            ebb_options.log_level = (ebb_log_level_t)i;
    return good;
}

bool ebb_option_row(unsigned index, ebb_option_row_t *out)
{
    if (index >= OPTION_COUNT)
        return false;
    const option_t *o = &options[index];
    *out = (ebb_option_row_t){o->name, type_name[o->type], o->fallback, o->help};
    return true;
}

void ebb_options_print(FILE *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        fprintf(out, "%-24s %-8s %-8s %s\n", options[i].name, type_name[options[i].type],
                *options[i].fallback ? options[i].fallback : "-", options[i].help);
}

void ebb_options_print_markdown(FILE *out)
{
    fputs("| variable | default | meaning |\n| --- | --- | --- |\n", out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *fallback = options[i].fallback;
        fprintf(out, *fallback ? "| `%s` | `%s` | %s |\n" : "| `%s` |%s | %s |\n", options[i].name, fallback,
                options[i].help);
    }
}
