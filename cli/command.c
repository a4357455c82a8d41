/* command.c: see command.h. */
#include "cli/command.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ebb_command_t *const ebb_commands[] = {
    &ebb_run_command,      &ebb_top_command,  &ebb_doctor_command,  &ebb_options_command,
    &ebb_trace_command,    &ebb_plan_command, &ebb_check_command,   &ebb_report_command,
    &ebb_estimate_command, &ebb_help_command, &ebb_version_command, &ebb_completion_command,
};
const unsigned ebb_command_count = sizeof ebb_commands / sizeof ebb_commands[0];

const ebb_flag_t *ebb_command_flags(const ebb_command_t *c)
{
    static const ebb_flag_t none[] = {{0}};
    return c->make_flags ? c->make_flags() : c->flags ? c->flags : none;
}

/* ---- mistakes ---- */

void ebb_command_refuse(const ebb_command_t *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, c ? "ebb %s: " : "ebb: ", c ? c->name : "");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

void ebb_command_refuse_name(const ebb_command_t *c, const char *what, const char *name, const char *nearest)
{
    /* A third of the letters, and one exchange of two of them, which counts twice. */
    const size_t far = strlen(name) / 3 > 2 ? strlen(name) / 3 : 2;
    if (nearest && ebb_word_distance(name, nearest) <= far)
        ebb_command_refuse(c, "there is no %s %s; did you mean %s?", what, name, nearest);
    ebb_command_refuse(c, "there is no %s %s; 'ebb help%s%s' lists them", what, name, c ? " " : "",
                       c ? c->name : "");
}

const ebb_command_t *ebb_command_find(const char *name)
{
    const char *nearest = NULL;
    unsigned least = 99;
    for (unsigned i = 0; i < ebb_command_count; i++) {
        const unsigned distance = ebb_word_distance(name, ebb_commands[i]->name);
        if (!distance)
            return ebb_commands[i];
        if (distance < least) {
            least = distance;
            nearest = ebb_commands[i]->name;
        }
    }
    ebb_command_refuse_name(NULL, "command", name, nearest);
}

ebb_size_t ebb_command_size(const ebb_command_t *c, const char *flag, const char *value)
{
    ebb_size_t size;
    if (ebb_size_lacks_unit(value) && strcmp(value, "0"))
        ebb_command_refuse(c, "--%s %s: %s bytes? %sGiB", flag, value, value, value);
    if (!ebb_parse_size(value, &size))
        ebb_command_refuse(c, "--%s %s: not a size such as 24GiB", flag, value);
    return size;
}

int64_t ebb_command_bytes(const ebb_command_t *c, const char *flag, const char *value)
{
    ebb_size_t size;
    if (!ebb_parse_size(value, &size) || size.of != EBB_SIZE_BYTES)
        ebb_command_refuse(c, "--%s %s: not a number of bytes such as 24GiB", flag, value);
    return size.amount;
}

ebb_link_rates_t ebb_command_rates(const ebb_command_t *c, const char *flag, const char *value)
{
    ebb_link_rates_t rates;
    if (!ebb_parse_rates(value, &rates) || !rates.out)
        ebb_command_refuse(c, "--%s %s: not a rate such as 20G, or two such as 20G,25G (out, in)", flag,
                           value);
    return rates;
}

/* ---- parsing ---- */

enum { MOST_FLAGS = 80, HELP = 900, VERSION };

static bool may_be_left_out(const ebb_flag_t *f)
{
    return f->value && *f->value == '[';
}

typedef struct grammar {
    struct option flag[MOST_FLAGS + 3];
    char letters[3 * MOST_FLAGS + 8];
} grammar_t;

static void add(grammar_t *g, unsigned n, const ebb_flag_t *f)
{
    char letter[4] = {0};
    g->flag[n] = (struct option){f->name,
                                 may_be_left_out(f) ? optional_argument
                                 : f->value         ? required_argument
                                                    : no_argument,
                                 NULL, f->key};
    if (f->key < 128)
        snprintf(letter, sizeof letter, "%c%s", f->key, f->value ? ":" : "");
    strcat(g->letters, letter);
}

static const grammar_t *make_grammar(const ebb_command_t *c)
{
    static const ebb_flag_t help = {NULL, "help", HELP, NULL, NULL},
                            version = {NULL, "version", VERSION, NULL, NULL};
    static grammar_t g;
    unsigned n = 0;
    g = (grammar_t){.letters = ""};
    strcpy(g.letters, c->words == EBB_TAKES_PROGRAM ? "+:hV" : ":hV");
    for (const ebb_flag_t *f = ebb_command_flags(c); f->name && n < MOST_FLAGS; f++)
        add(&g, n++, f);
    add(&g, n++, &help);
    add(&g, n, &version);
    return &g;
}

static const char *flag_name(const grammar_t *g, int key)
{
    const struct option *o = g->flag;
    while (o->name && o->val != key)
        o++;
    return o->name ? o->name : "?";
}

/* getopt's answer was '?': `word` is what it did not like, `key` of which flag or letter, 0: it knows none. */
static _Noreturn void refuse_flag(const ebb_command_t *c, const grammar_t *g, const char *word, int key)
{
    char name[64];
    const char *nearest = NULL, *alike[2] = {NULL, NULL};
    unsigned least = 99, alikes = 0;
    if (strncmp(word, "--", 2)) {
        snprintf(name, sizeof name, "-%c", key);
        ebb_command_refuse_name(c, "flag", name, NULL);
    }
    if (key)
        ebb_command_refuse(c, "--%s takes no value", flag_name(g, key));
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (const struct option *o = g->flag; o->name; o++) {
        const unsigned distance = ebb_word_distance(name + 2, o->name);
        if (strstr(o->name, name + 2) == o->name && alikes < 2)
            alike[alikes++] = o->name;
        if (distance < least) {
            least = distance;
            nearest = o->name;
        }
    }
    if (alikes == 2)
        ebb_command_refuse(c, "%s may be --%s or --%s", name, alike[0], alike[1]);
    char whole[64];
    snprintf(whole, sizeof whole, "--%s", nearest ? nearest : "");
    ebb_command_refuse_name(c, "flag", name, nearest ? whole : NULL);
}

static void check_words(const ebb_command_t *c, char **word)
{
    unsigned n = 0;
    while (word[n])
        n++;
    if (n < c->least && c->words == EBB_TAKES_PROGRAM)
        ebb_command_refuse(c, "a program is missing");
    if (n < c->least)
        ebb_command_refuse(c, "too few words; usage: ebb %s [FLAG...] %s", c->name, c->usage);
    if (c->words != EBB_TAKES_PROGRAM && n > c->most)
        ebb_command_refuse(c, "one word too many: %s", word[c->most]);
}

char **ebb_command_parse(const ebb_command_t *c, int argc, char **argv, ebb_take_flag_t *take, void *request)
{
    const grammar_t *g = make_grammar(c);
    int key;
    optind = 0; /* of the GNU library: begin anew */
    opterr = 0;
    while ((key = getopt_long(argc, argv, g->letters, g->flag, NULL)) != -1) {
        switch (key) {
        case '?':
            refuse_flag(c, g, argv[optind - 1], optopt);
        case ':':
            ebb_command_refuse(c, "--%s wants a value", flag_name(g, optopt));
        case 'h':
        case HELP:
            ebb_help_print(c);
            exit(0);
        case 'V':
        case VERSION:
            puts("ebb " EBB_VERSION);
            exit(0);
        default:
            take(c, key, optarg, request);
        }
    }
    check_words(c, argv + optind);
    return argv + optind;
}
