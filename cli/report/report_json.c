/* report_json.c: a report as one JSON object. Times are nanoseconds since the step's beginning, or lengths; null: unknown.
 *
 *   ebb_report       the version of the format: 1. Readers ignore keys that they do not know
 *   title, policy, command, refusal    texts or null; command: that runs it again; refusal: why there can be no plan
 *   planned          false: there was no plan, everything is kept
 *   budget_bytes, chunk_bytes
 *   link             {out_bytes_per_s, in_bytes_per_s, assumed}
 *   predicted        {step_ns, operations_ns, peak_bytes, everything_peak_bytes, small_bytes, bytes_out, bytes_in, out_ns, in_ns,
 *                    hidden_ns, above_best}: everything_peak: had nothing left the device; hidden: of out_ns + in_ns; above_best: so much longer than the
 *                    best possible at most, 0.01 is 1%
 *   overhead         [{cause, ns, count}]: where there is one stream their sum is step_ns - operations_ns; count: of launches, copies or waits; the words are
 *                    ebb_cause_word's
 *   launches         {kernels, copies, sets, other, replays, copies_out, copies_in, without, with}
 *   fates            {kept, offloaded, clean, dropped: {buffers, bytes}}: of large buffers, each by its decisive gap
 *   curve            {sensible_percent, sensible, state, points: [[budget, percent, least percent, state bytes, bytes copied, replays]]}, or null: what a
 *                    step costs at other budgets; sensible: the first point from which on it takes at most sensible_percent longer;
 *                    state: the last at which buffers move that outlive the step; null: there is none
 *   measured         the numbers of EBB_STATS, or null
 *   names, nvtx      texts that others refer to by number
 *   operations       [[begin, end, name, nvtx, stream]]
 *   replays          [[begin, end, operation]]
 *   out, in          [[begin, end, buffer]]: a copy may end after the step
 *   waits            [[begin, end, copy_begin, "out"|"in", buffer]]: compute waits; up to copy_begin the copy is queued
 *   memory           {classes: [..], levels: [[from, bytes of each class..]], everything: [bytes as each operation begins]}
 *   buffers          [{buffer, bytes, nvtx, maker, persistent, fate, why, gaps}]: maker: the operation that touches it first, or null;
 *                    gaps: [{from, to, fate, ns, cost_ns, out_ns, in_ns, replay_ns, replays, why, no_replay}], the decisive one
 *                    first; from, to: operations; replay_ns: null if it cannot be rebuilt, no_replay then says why
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/report/report.h"
#include "cli/report/report_text.h"

typedef struct writer {
    const ebb_report_t *report;
    FILE *out;
    ebb_text_list_t names, nvtx;
    uint32_t *name_of, *nvtx_of; /* per operation */
} writer_t;

/* `format` with one number. */
static void put(const writer_t *w, const char *key, double number)
{
    fprintf(w->out, "\"%s\":", key);
    ebb_text_write_number(w->out, number);
}

static void put_text(const writer_t *w, const char *key, const char *text)
{
    fprintf(w->out, "\"%s\":", key);
    if (text)
        ebb_text_write(w->out, text);
    else
        fputs("null", w->out);
}

static void next(const writer_t *w)
{
    fputc(',', w->out);
}

/* A list's element: [numbers. */
static void begin_tuple(const writer_t *w, uint32_t *count)
{
    fputs((*count)++ ? ",\n[" : "[", w->out);
}

static void put_span(const writer_t *w, double begin, double end, uint32_t index)
{
    ebb_text_write_number(w->out, begin);
    next(w);
    ebb_text_write_number(w->out, end);
    fprintf(w->out, ",%" PRIu32, index);
}

/* ---- what it comes to ---- */

static void write_head(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    const ebb_hardware_t *h = &r->in.hardware;
    fputs("{\"ebb_report\":1,", w->out);
    put_text(w, "title", r->in.title);
    next(w);
    put_text(w, "policy", r->in.policy);
    next(w);
    put_text(w, "command", r->in.command);
    next(w);
    put_text(w, "refusal", r->refusal[0] ? r->refusal : NULL);
    fprintf(w->out, ",\"planned\":%s,\"budget_bytes\":", r->all_kept ? "false" : "true");
    fprintf(w->out, r->in.budget_bytes ? "%" PRIu64 : "null", r->in.budget_bytes);
    fprintf(w->out, ",\"chunk_bytes\":%" PRIu64 ",\n\"link\":{", r->in.trace->chunk_bytes);
    put(w, "out_bytes_per_s", (double)(uint64_t)(h->out_bytes_per_ns * 1e9));
    next(w);
    put(w, "in_bytes_per_s", (double)(uint64_t)(h->in_bytes_per_ns * 1e9));
    fprintf(w->out, ",\"assumed\":%s},", r->in.hardware_assumed ? "true" : "false");
    put(w, "compared_share", h->checked);
    fputs(",\n", w->out);
}

static void write_prediction(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"step_ns", r->simulation.step_ns},
                   {"operations_ns", r->operations_ns},
                   {"peak_bytes", (double)r->sum.peak_bytes},
                   {"everything_peak_bytes", (double)r->everything_peak_bytes},
                   {"small_bytes", (double)r->in.plan->small_bytes},
                   {"bytes_out", (double)r->sum.bytes_out},
                   {"bytes_in", (double)r->sum.bytes_in},
                   {"out_ns", r->simulation.track_ns[EBB_TRACK_OUT]},
                   {"in_ns", r->simulation.track_ns[EBB_TRACK_IN]},
                   {"hidden_ns", r->simulation.hidden_ns}};
    fputs("\"predicted\":{", w->out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fputs(i ? "," : "", w->out);
        put(w, numbers[i].key, numbers[i].value);
    }
    next(w);
    if (r->above_best < 0)
        put_text(w, "above_best", NULL);
    else
        put(w, "above_best", r->above_best);
    fputs("},\n", w->out);
}

static void write_overhead(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    uint32_t out = 0;
    for (uint32_t i = 0; i < r->wait_count; i++)
        out += r->in.plan->action[r->wait[i].action].kind == EBB_EVICT;
    const uint32_t in = r->wait_count - out;
    const uint32_t count[EBB_CAUSES] = {
        r->sum.replays, r->host_waits, out, in, out, in, r->copies_out + r->copies_in, r->checks};
    fputs("\"overhead\":[", w->out);
    for (int i = 0; i < EBB_CAUSES; i++) {
        fputs(i ? ",{" : "{", w->out);
        put_text(w, "cause", ebb_cause_word[i]);
        next(w);
        put(w, "ns", r->overhead_ns[i]);
        fprintf(w->out, ",\"count\":%" PRIu32 "}", count[i]);
    }
    fputs("],\n", w->out);
}

static void write_launches(const writer_t *w)
{
    static const char *const word[] = {"kernels", "copies", "sets", "other"};
    const ebb_report_t *r = w->report;
    uint32_t count[EBB_TRACE_OTHER + 1] = {0};
    for (uint32_t i = 0; i < r->in.trace->operation_count; i++)
        count[r->in.trace->operation[i].kind]++;
    fputs("\"launches\":{", w->out);
    for (int i = 0; i <= EBB_TRACE_OTHER; i++)
        fprintf(w->out, "\"%s\":%" PRIu32 ",", word[i], count[i]);
    fprintf(w->out,
            "\"replays\":%" PRIu32 ",\"copies_out\":%" PRIu32 ",\"copies_in\":%" PRIu32
            ",\"without\":%" PRIu32 ",\"with\":%" PRIu32 "},\n",
            r->sum.replays, r->copies_out, r->copies_in, r->in.trace->operation_count,
            r->in.trace->operation_count + r->sum.replays + r->copies_out + r->copies_in);
}

static void write_fates(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    uint64_t buffers[EBB_CLASSES] = {0}, bytes[EBB_CLASSES] = {0};
    for (uint32_t i = 0; i < r->in.trace->buffer_count; i++) {
        if (r->in.trace->buffer[i].bytes <= r->in.trace->chunk_bytes / 2)
            continue;
        buffers[r->buffer[i].fate]++;
        bytes[r->buffer[i].fate] += r->in.trace->buffer[i].bytes;
    }
    fputs("\"fates\":{", w->out);
    for (int i = 0; i <= EBB_CLASS_DROPPED; i++)
        fprintf(w->out, "%s\"%s\":{\"buffers\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", i ? "," : "",
                ebb_class_word[i], buffers[i], bytes[i]);
    fputs("},\n", w->out);
}

static void put_index(const writer_t *w, const char *key, int index)
{
    fprintf(w->out, index < 0 ? "\"%s\":null," : "\"%s\":%d,", key, index);
}

static void write_curve(const writer_t *w)
{
    const ebb_curve_t *c = w->report->in.curve;
    uint32_t count = 0;
    if (!c) {
        fputs("\"curve\":null,\n", w->out);
        return;
    }
    fprintf(w->out, "\"curve\":{\"sensible_percent\":%d,", EBB_CURVE_SENSIBLE_PERCENT);
    put_index(w, "sensible", c->sensible);
    put_index(w, "state", c->state);
    fputs("\"points\":[", w->out);
    for (unsigned i = 0; i < c->count; i++) {
        const ebb_curve_point_t *p = &c->point[i];
        begin_tuple(w, &count);
        fprintf(w->out, "%" PRIu64 ",", p->budget_bytes);
        ebb_text_write_number(w->out, p->percent);
        fputc(',', w->out);
        ebb_text_write_number(w->out, p->least_percent);
        fprintf(w->out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 "]", p->state_bytes,
                p->sum.bytes_out + p->sum.bytes_in, p->sum.replays);
    }
    fputs("]},\n", w->out);
}

static void write_measured(const writer_t *w)
{
    const ebb_measured_t *m = w->report->in.measured;
    fputs("\"measured\":", w->out);
    if (!m) {
        fputs("null,\n", w->out);
        return;
    }
    const char *between = "{";
#define X(key, meaning)                                                                                      \
    fprintf(w->out, "%s\"" #key "\":%" PRIu64, between, m->statistics.key);                                  \
    between = ",";
    EBB_STATISTICS(X)
#undef X
    between = ",\"variant\":{";
#define X(key, meaning)                                                                                      \
    fprintf(w->out, "%s\"" #key "\":%" PRIu64, between, m->variant.key);                                     \
    between = ",";
    EBB_VARIANT_STATISTICS(X)
#undef X
    fputs("}},\n", w->out);
}

/* ---- what happens ---- */

/* False: no memory. */
static bool number_texts(writer_t *w)
{
    const ebb_trace_t *t = w->report->in.trace;
    w->name_of = calloc((size_t)t->operation_count + 1, sizeof *w->name_of);
    w->nvtx_of = calloc((size_t)t->operation_count + 1, sizeof *w->nvtx_of);
    bool good = w->name_of && w->nvtx_of && ebb_text_number(&w->nvtx, "") == 0;
    for (uint32_t i = 0; good && i < t->operation_count; i++) {
        char name[EBB_TEXT_NAME];
        ebb_text_short_name(t->operation[i].name, name);
        w->name_of[i] = ebb_text_number(&w->names, name);
        w->nvtx_of[i] = ebb_text_number(&w->nvtx, ebb_trace_nvtx(t, &t->operation[i]));
        good = w->name_of[i] != UINT32_MAX && w->nvtx_of[i] != UINT32_MAX;
    }
    return good;
}

static void write_operations(const writer_t *w)
{
    uint32_t count = 0;
    fputs("\"operations\":[", w->out);
    for (uint32_t i = 0; i < w->report->in.trace->operation_count; i++) {
        begin_tuple(w, &count);
        put_span(w, w->report->begin_ns[i], w->report->end_ns[i], w->name_of[i]);
        fprintf(w->out, ",%" PRIu32 ",%" PRIu32 "]", w->nvtx_of[i], w->report->in.trace->operation[i].stream);
    }
    fputs("],\n", w->out);
}

static void write_lane(const writer_t *w, const char *key, ebb_track_t lane)
{
    const ebb_report_t *r = w->report;
    uint32_t count = 0;
    fprintf(w->out, "\"%s\":[", key);
    for (uint32_t i = 0; i < r->simulation.span_count; i++) {
        const ebb_span_t *s = &r->simulation.span[i];
        if (s->track != lane)
            continue;
        const ebb_action_t *a = &r->in.plan->action[s->index];
        begin_tuple(w, &count);
        put_span(w, s->begin_ns, s->end_ns, lane == EBB_TRACK_REPLAY ? a->operation : a->place);
        fputc(']', w->out);
    }
    fputs("],\n", w->out);
}

static void write_waits(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    uint32_t count = 0;
    fputs("\"waits\":[", w->out);
    for (uint32_t i = 0; i < r->wait_count; i++) {
        const ebb_report_wait_t *x = &r->wait[i];
        const ebb_action_t *a = &r->in.plan->action[x->action];
        begin_tuple(w, &count);
        ebb_text_write_number(w->out, x->begin_ns);
        next(w);
        ebb_text_write_number(w->out, x->end_ns);
        next(w);
        ebb_text_write_number(w->out, x->copy_begin_ns);
        fprintf(w->out, ",\"%s\",%" PRIu32 "]", a->kind == EBB_EVICT ? "out" : "in", a->place);
    }
    fputs("],\n", w->out);
}

static void write_memory(const writer_t *w)
{
    const ebb_report_t *r = w->report;
    uint32_t count = 0;
    fputs("\"memory\":{\"classes\":[", w->out);
    for (int i = 0; i < EBB_CLASSES; i++)
        fprintf(w->out, "%s\"%s\"", i ? "," : "", ebb_class_word[i]);
    fputs("],\n\"levels\":[", w->out);
    for (uint32_t i = 0; i < r->level_count; i++) {
        begin_tuple(w, &count);
        ebb_text_write_number(w->out, r->level[i].ns);
        for (int k = 0; k < EBB_CLASSES; k++)
            fprintf(w->out, ",%" PRIu64, r->level[i].bytes[k]);
        fputc(']', w->out);
    }
    fputs("],\n\"everything\":[", w->out);
    for (uint32_t i = 0; i < r->in.trace->operation_count; i++)
        fprintf(w->out, "%s%" PRIu64, i ? "," : "", r->everything_bytes[i]);
    fputs("]},\n", w->out);
}

static void write_gap(const writer_t *w, const ebb_report_gap_t *g)
{
    fprintf(w->out, "{\"from\":%" PRIu32 ",\"to\":%" PRIu32 ",\"fate\":\"%s\",", g->from, g->to,
            ebb_class_word[g->fate]);
    put(w, "ns", g->ns);
    next(w);
    put(w, "cost_ns", g->cost_ns);
    next(w);
    put(w, "out_ns", g->out_ns);
    next(w);
    put(w, "in_ns", g->in_ns);
    fputs(",\"replay_ns\":", w->out);
    if (g->replay_ns < 0)
        fputs("null", w->out);
    else
        ebb_text_write_number(w->out, g->replay_ns);
    fprintf(w->out, ",\"replays\":%" PRIu32 ",", g->replays);
    put_text(w, "why", g->why);
    next(w);
    put_text(w, "no_replay", g->no_replay);
    fputc('}', w->out);
}

static void write_buffer(const writer_t *w, uint32_t index)
{
    const ebb_report_t *r = w->report;
    const ebb_report_buffer_t *b = &r->buffer[index];
    const bool made = b->maker != EBB_NONE;
    const char *between = "";
    fprintf(w->out, "{\"buffer\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"nvtx\":%" PRIu32 ",\"maker\":", index,
            r->in.trace->buffer[index].bytes, made ? w->nvtx_of[b->maker] : 0);
    fprintf(w->out, made ? "%" PRIu32 : "null", b->maker);
    fprintf(w->out, ",\"persistent\":%s,\"fate\":\"%s\",",
            r->in.trace->buffer[index].born == EBB_NONE ? "true" : "false", ebb_class_word[b->fate]);
    put_text(w, "why", b->why);
    fputs(",\"gaps\":[", w->out);
    for (uint32_t k = 0; k < b->gap_count; k++) {
        const uint32_t g = b->first_gap + k;
        fputs(between, w->out);
        write_gap(w, &r->gap[!k ? b->decisive : g <= b->decisive ? g - 1 : g]);
        between = ",";
    }
    fputs("]}", w->out);
}

bool ebb_report_write_json(const ebb_report_t *r, FILE *out)
{
    writer_t w = {.report = r, .out = out};
    const bool good = number_texts(&w);
    if (good) {
        write_head(&w);
        write_prediction(&w);
        write_overhead(&w);
        write_launches(&w);
        write_fates(&w);
        write_curve(&w);
        write_measured(&w);
        fputs("\"names\":", out);
        ebb_text_list_write(&w.names, out);
        fputs(",\n\"nvtx\":", out);
        ebb_text_list_write(&w.nvtx, out);
        fputs(",\n", out);
        write_operations(&w);
        write_lane(&w, "replays", EBB_TRACK_REPLAY);
        write_lane(&w, "out", EBB_TRACK_OUT);
        write_lane(&w, "in", EBB_TRACK_IN);
        write_waits(&w);
        write_memory(&w);
        fputs("\"buffers\":[", out);
        for (uint32_t i = 0; i < r->in.trace->buffer_count; i++) {
            fputs(i ? ",\n" : "", out);
            write_buffer(&w, i);
        }
        fputs("]}\n", out);
    }
    free(w.name_of);
    free(w.nvtx_of);
    ebb_text_list_free(&w.names);
    ebb_text_list_free(&w.nvtx);
    return good && !fflush(out) && !ferror(out);
}
