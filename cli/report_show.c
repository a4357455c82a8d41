/* report_show.c: `ebb report STATS_OR_TRACE`: what becomes of a step's memory and time, as a page, as JSON, as a Perfetto trace. */
#include "cli/report_show.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "cli/cli.h"
#include "cli/gpus.h"

static const double usual_link = 25; /* bytes/ns: PCIe 4.0 x16 */

/* ---- writing ---- */

typedef bool (*write_fn)(const ebb_report_t *report, FILE *out);

static bool ends(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && !strcmp(path + n - m, suffix);
}

static write_fn writer_for(const char *path, ebb_report_form_t form)
{
    if (form != EBB_FORM_BY_NAME)
        return form == EBB_FORM_JSON ? ebb_report_write_json : ebb_report_write_perfetto;
    if (ends(path, ".perfetto") || ends(path, ".perfetto.json") || ends(path, ".trace.json"))
        return ebb_report_write_perfetto;
    return ends(path, ".json") ? ebb_report_write_json : ebb_report_write_html;
}

int ebb_cli_write_report(const ebb_report_t *r, const char *path, ebb_report_form_t form)
{
    const write_fn write = writer_for(path ? path : "", form);
    char *fresh = NULL;
    if (!path)
        return write(r, stdout) ? 0 : ebb_cli_fail("stdout", strerror(errno));
    if (asprintf(&fresh, "%s.new", path) < 0)
        return ebb_cli_fail("out of memory", NULL);
    FILE *f = fopen(fresh, "w");
    bool good = f && write(r, f);
    if (f)
        good = !fclose(f) && good;
    good = good && !rename(fresh, path);
    const int error = errno;
    if (f && !good)
        unlink(fresh);
    free(fresh);
    return good ? 0 : ebb_cli_fail(path, strerror(error));
}

/* ---- reading ---- */

/* NULL after a complaint; *measured stays NULL if it is no statistics. */
static FILE *open_source(const ebb_report_files_t *a, ebb_measured_t **measured)
{
    char error[256] = "";
    const char *path = a->source;
    FILE *f = fopen(path, "r");
    if (!f) {
        ebb_cli_fail(path, strerror(errno));
        return NULL;
    }
    if (ebb_measured_is(f) && !(*measured = ebb_measured_read(f, a->kind, error, sizeof error))) {
        ebb_cli_fail(path, error);
        fclose(f);
        return NULL;
    }
    return f;
}

/* The trace that was given or is named; NULL after a complaint. */
static ebb_trace_t *find_trace(const ebb_report_files_t *a, const ebb_measured_t *m)
{
    if (a->trace || !m || m->trace)
        return ebb_cli_read_trace(a->trace ? a->trace : m ? m->trace : a->source);
    ebb_cli_fail(a->source,
                 m->statistics.step_operations
                     ? "these statistics name no trace: EBB_TRACE was not set, or the program ended before "
                       "its step was learned"
                     : "these statistics name no trace, and no step was found: nothing repeated itself");
    return NULL;
}

static int write_all(const ebb_report_files_t *a, const ebb_report_input_t *input)
{
    ebb_report_t *r = ebb_report_make(input);
    int result = r ? 0 : ebb_cli_fail("out of memory", NULL);
    if (r && !a->output_count)
        result = ebb_cli_write_report(r, NULL, a->form);
    for (unsigned i = 0; !result && i < a->output_count; i++)
        result = ebb_cli_write_report(r, a->output[i], a->form);
    ebb_report_delete(r);
    return result;
}

/* What was asked for, else measured, else as the trace says; else assumed. */
static ebb_hardware_t hardware_of(const ebb_report_files_t *a, const ebb_measured_t *m, const ebb_trace_t *t,
                                  bool *assumed)
{
    ebb_hardware_t h = t->hardware;
    const bool asked = a->link_bytes_per_ns > 0, known = !asked && m && m->has_request;
    *assumed = !asked && !known && h.out_bytes_per_ns <= 0;
    if (asked || *assumed)
        h.out_bytes_per_ns = h.in_bytes_per_ns = asked ? a->link_bytes_per_ns : usual_link;
    if (known) {
        h.out_bytes_per_ns = m->out_bytes_per_ns;
        h.in_bytes_per_ns = m->in_bytes_per_ns;
    }
    return h;
}

static int report(const ebb_report_files_t *a, const ebb_measured_t *m)
{
    ebb_trace_t *t = find_trace(a, m);
    ebb_plan_t *given = t && a->plan ? ebb_cli_read_plan(a->plan) : NULL;
    const ebb_plan_t *p = given ? given : m ? m->plan : NULL;
    int result = 2;
    if (t && p && (p->operation_count != t->operation_count || p->buffer_count != t->buffer_count)) {
        ebb_cli_fail(a->plan ? a->plan : a->source, "is a plan for another trace");
    } else if (t && (given || !a->plan)) {
        bool assumed;
        const ebb_hardware_t hardware = hardware_of(a, m, t, &assumed);
        const ebb_report_input_t input = {.trace = t,
                                          .plan = p,
                                          .hardware = hardware,
                                          .hardware_assumed = assumed,
                                          .budget_bytes = m && !given ? m->device_bytes : 0,
                                          .min_buffer = m ? m->min_buffer : 0,
                                          .title = a->source,
                                          .policy = m && !given ? m->policy : NULL,
                                          .measured = m};
        result = write_all(a, &input);
    }
    ebb_plan_delete(given);
    ebb_trace_delete(t);
    return result;
}

int ebb_cli_report(const ebb_report_files_t *a)
{
    ebb_measured_t *m = NULL;
    FILE *f = open_source(a, &m);
    if (!f)
        return 2;
    fclose(f);
    const int result = report(a, m);
    ebb_measured_delete(m);
    return result;
}

/* ---- the command ---- */

enum { JSON = 1000, PERFETTO, PLAN, TRACE, KIND, LINK, GPU };

static void take_link(ebb_report_files_t *a, struct argp_state *state, int key, const char *word)
{
    int64_t rate = 0;
    const ebb_gpu_t *gpu = key == GPU ? ebb_gpu_find(word) : NULL;
    if (key == GPU && !gpu)
        argp_error(state, "no such GPU: %s (there are %s)", word, ebb_gpu_names());
    if (key == LINK && (!ebb_parse_bytes(word, &rate) || rate <= 0))
        argp_error(state, "not a rate: %s", word);
    a->link_bytes_per_ns = gpu ? gpu->link_gbs : (double)rate * 1e-9;
}

static error_t parse(int key, char *word, struct argp_state *state)
{
    enum { MOST = sizeof((ebb_report_files_t *)0)->output / sizeof(char *) };
    ebb_report_files_t *a = state->input;
    switch (key) {
    case 'o':
        if (a->output_count == MOST)
            argp_error(state, "more than %d outputs", MOST);
        a->output[a->output_count++] = word;
        return 0;
    case JSON:
    case PERFETTO:
        a->form = key == JSON ? EBB_FORM_JSON : EBB_FORM_PERFETTO;
        return 0;
    case PLAN:
        a->plan = word;
        return 0;
    case TRACE:
        a->trace = word;
        return 0;
    case KIND:
        a->kind = atoi(word);
        if (a->kind < 0 || !*word || strspn(word, "0123456789") != strlen(word))
            argp_error(state, "not the number of a kind of step: %s", word);
        return 0;
    case LINK:
    case GPU:
        take_link(a, state, key, word);
        return 0;
    case ARGP_KEY_ARG:
        if (a->source)
            argp_error(state, "one file");
        a->source = word;
        return 0;
    case ARGP_KEY_END:
        if (!a->source)
            argp_error(state, "a file is missing: statistics (EBB_STATS) or a trace (EBB_TRACE)");
        if (!a->output_count && a->form == EBB_FORM_BY_NAME)
            argp_error(state, "-o is missing, such as -o report.html");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int ebb_report_command(int argc, char **argv)
{
    static const struct argp_option flags[] = {
        {"output", 'o', "FILE", 0,
         "Where to: .html a page, .json JSON, .perfetto.json a trace for ui.perfetto.dev; may be given "
         "several times",
         0},
        {"json", JSON, NULL, 0, "As JSON, whatever the name; to stdout without -o", 0},
        {"perfetto", PERFETTO, NULL, 0, "As a Chrome/Perfetto trace, in the same way", 0},
        {"plan", PLAN, "FILE", 0, "This plan, not the one in the statistics", 0},
        {"trace", TRACE, "FILE", 0, "The trace that the statistics belong to, if it has been moved", 0},
        {"kind", KIND, "NUMBER", 0,
         "Of the kinds of step in the statistics this one (the one with most steps)", 0},
        {"link", LINK, "RATE", 0, "Bytes a second each way (as measured, else the trace's, else 25000000000)",
         0},
        {"gpu", GPU, "NAME", 0, "The link of this GPU", 0},
        {0}};
    static const struct argp parser = {
        flags,
        parse,
        "STATS_OR_TRACE",
        "Show what becomes of a step's memory and time, and why: memory by fate, what runs when, where the "
        "overhead comes "
        "from, every buffer's fate.\vStatistics (EBB_STATS) name the trace (EBB_TRACE) and hold the plan of "
        "the run; 'ebb "
        "run --report=FILE' does all of it. Of a trace alone, with no plan, everything is kept.",
        NULL,
        NULL,
        NULL};
    ebb_report_files_t a = {.kind = -1};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    return ebb_cli_report(&a);
}
