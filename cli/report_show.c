/* report_show.c: `ebb report STATS_OR_TRACE`: what becomes of a step's memory and time, as a page, as JSON, as a Perfetto trace. */
#include "cli/report_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/plan_show.h"

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
    const bool asked = a->out_bytes_per_ns > 0, known = !asked && m && m->has_request;
    *assumed = !asked && !known && h.out_bytes_per_ns <= 0;
    if (*assumed)
        h.out_bytes_per_ns = h.in_bytes_per_ns = usual_link;
    if (asked) {
        h.out_bytes_per_ns = a->out_bytes_per_ns;
        h.in_bytes_per_ns = a->in_bytes_per_ns;
    }
    if (known) {
        h.out_bytes_per_ns = m->out_bytes_per_ns;
        h.in_bytes_per_ns = m->in_bytes_per_ns;
    }
    return h;
}

/* What the step would cost at other budgets, for what the run's plan was for. False: it cannot be planned. */
static bool find_curve(ebb_curve_t *out, const ebb_measured_t *m, const ebb_trace_t *t,
                       const ebb_hardware_t *hardware)
{
    enum { POINTS = 9 };
    char why[400];
    const bool known = m && m->has_request;
    const uint64_t host_bytes = m ? m->statistics.host_budget_bytes : 0;
    const ebb_plan_request_t r = {.policy = known ? m->policy : NULL,
                                  .host_bytes = host_bytes ? host_bytes : UINT64_C(1) << 60,
                                  .behind_bytes = m ? m->statistics.disk_reserved_bytes : 0,
                                  .min_buffer = known ? m->min_buffer : 1 << 20,
                                  .offload = true,
                                  .recompute = true,
                                  .hardware = *hardware};
    const uint64_t all = ebb_keep_bytes(t, &r, why, sizeof why);
    return all && ebb_curve_make(out, t, &r, all, POINTS, why, sizeof why);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
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
        ebb_curve_t curve;
        const ebb_hardware_t hardware = hardware_of(a, m, t, &assumed);
        const ebb_report_input_t input = {.trace = t,
                                          .plan = p,
                                          .hardware = hardware,
                                          .hardware_assumed = assumed,
                                          .budget_bytes = m && !given ? m->device_bytes : 0,
                                          .min_buffer = m ? m->min_buffer : 0,
                                          .title = a->title ? a->title : base_name(a->source),
                                          .command = a->command,
                                          .curve = find_curve(&curve, m, t, &hardware) ? &curve : NULL,
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

static void take_gpu(const ebb_command_t *c, ebb_report_files_t *a, const char *value)
{
    const ebb_gpu_t *gpu = ebb_plan_gpu(c, "gpu", value);
    a->out_bytes_per_ns = gpu->out_gbs;
    a->in_bytes_per_ns = gpu->in_gbs;
}

static void take_link(const ebb_command_t *c, ebb_report_files_t *a, const char *value)
{
    const ebb_link_rates_t link = ebb_command_rates(c, "link", value);
    a->out_bytes_per_ns = (double)link.out * 1e-9;
    a->in_bytes_per_ns = (double)link.in * 1e-9;
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    enum { MOST = sizeof((ebb_report_files_t *)0)->output / sizeof(char *) };
    ebb_report_files_t *a = request;
    switch (key) {
    case 'o':
        if (a->output_count == MOST)
            ebb_command_refuse(c, "more than %d outputs", MOST);
        a->output[a->output_count++] = value;
        break;
    case JSON:
    case PERFETTO:
        a->form = key == JSON ? EBB_FORM_JSON : EBB_FORM_PERFETTO;
        break;
    case PLAN:
        a->plan = value;
        break;
    case TRACE:
        a->trace = value;
        break;
    case KIND:
        a->kind = atoi(value);
        if (a->kind < 0 || !*value || strspn(value, "0123456789") != strlen(value))
            ebb_command_refuse(c, "--kind %s: not the number of a kind of step", value);
        break;
    case GPU:
        take_gpu(c, a, value);
        break;
    default:
        take_link(c, a, value);
    }
}

static int run(int argc, char **argv)
{
    ebb_report_files_t a = {.kind = -1};
    char **word = ebb_command_parse(&ebb_report_command, argc, argv, take, &a);
    a.source = word[0];
    if (!a.output_count && a.form == EBB_FORM_BY_NAME)
        ebb_command_refuse(&ebb_report_command, "-o is missing, such as -o report.html");
    return ebb_cli_report(&a);
}

static const ebb_flag_t flags[] = {
    {"Output", "output", 'o', "FILE",
     ".html: a page; .json: JSON; .perfetto.json: a trace for ui.perfetto.dev; may be given several times"},
    {NULL, "json", JSON, NULL, "as JSON, whatever the name; to stdout without -o"},
    {NULL, "perfetto", PERFETTO, NULL, "as a Chrome/Perfetto trace, in the same way"},
    {"Input", "plan", PLAN, "FILE", "this plan, not the one in the statistics"},
    {NULL, "trace", TRACE, "FILE", "the trace that the statistics belong to, if it has been moved"},
    {NULL, "kind", KIND, "NUMBER",
     "of the step variants in the statistics this one (the one that takes the most time)"},
    {NULL, "link", LINK, "RATES",
     "bytes a second each way, or to the host and from it (as measured, else the trace's, else 25000000000)"},
    {NULL, "gpu", GPU, "NAME", "the link of this GPU"},
    {0}};
const ebb_command_t ebb_report_command = {.name = "report",
                                          .summary = "show what became of a step's memory and time, and why",
                                          .usage = "STATS|TRACE",
                                          .about = "Shows memory by fate, what runs when, where the overhead "
                                                   "comes from, and every buffer's fate. Statistics "
                                                   "(EBB_STATS) name the trace (EBB_TRACE) and hold the plan "
                                                   "of the run; 'ebb run --report FILE' does all of "
                                                   "it. Of a trace alone, with no plan, everything is kept.",
                                          .example = {"-o report.html stats.json",
                                                      "--plan step.plan -o report.html step.trace",
                                                      "--json stats.json"},
                                          .flags = flags,
                                          .words = EBB_TAKES_FILES,
                                          .least = 1,
                                          .most = 1,
                                          .run = run};
