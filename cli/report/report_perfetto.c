/* report_perfetto.c: a report in the Trace Event Format (JSON object form: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU),
 * which ui.perfetto.dev and chrome://tracing open: lanes as threads of one process, memory as a counter. Times are microseconds
 * there, with three decimals here: to the nanosecond. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/report/report_text.h"

enum { PROCESS = 1, MOST_RANGES = 16, MOST_RANGE = 128 };
enum { NVTX = 1, COMPUTE, REPLAY, WAIT, COPY_OUT, COPY_IN, THREADS };
static const char *const thread_name[THREADS] = {
    "", "NVTX ranges", "compute", "replay", "compute waits", "copy out", "copy in"};

typedef struct writer {
    const ebb_report_t *report;
    FILE *out;
    bool any;
} writer_t;

static void begin_event(writer_t *w, const char *phase, int thread)
{
    fprintf(w->out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", w->any ? ",\n" : "", phase, PROCESS, thread);
    w->any = true;
}

/* Left open: arguments may follow, and then end_slice. */
static void begin_slice(writer_t *w, int thread, const char *name, double begin_ns, double end_ns)
{
    begin_event(w, "X", thread);
    fprintf(w->out, ",\"ts\":%.3f,\"dur\":%.3f,\"name\":", begin_ns * 1e-3, (end_ns - begin_ns) * 1e-3);
    ebb_text_write(w->out, name);
    fputs(",\"args\":{", w->out);
}

static void end_slice(const writer_t *w)
{
    fputs("}}", w->out);
}

static void write_names(writer_t *w)
{
    begin_event(w, "M", 0);
    fputs(",\"name\":\"process_name\",\"args\":{\"name\":", w->out);
    ebb_text_write(w->out, w->report->in.title);
    end_slice(w);
    for (int i = 1; i < THREADS; i++) {
        begin_event(w, "M", i);
        fprintf(w->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", thread_name[i]);
        begin_event(w, "M", i);
        fprintf(w->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", i);
    }
}

static void write_launch(writer_t *w, int thread, uint32_t operation, double begin_ns, double end_ns)
{
    const ebb_trace_t *t = w->report->in.trace;
    char name[EBB_TEXT_NAME];
    ebb_text_short_name(t->operation[operation].name, name);
    begin_slice(w, thread, name, begin_ns, end_ns);
    fprintf(w->out, "\"operation\":%" PRIu32 ",\"nvtx\":", operation);
    ebb_text_write(w->out, ebb_trace_nvtx(t, &t->operation[operation]));
    end_slice(w);
}

static void write_copy(writer_t *w, int thread, const char *verb, uint32_t place, double begin_ns,
                       double end_ns)
{
    char name[64];
    snprintf(name, sizeof name, "%s buffer %" PRIu32, verb, place);
    begin_slice(w, thread, name, begin_ns, end_ns);
    fprintf(w->out, "\"bytes\":%" PRIu64, w->report->in.plan->place[place].bytes);
    end_slice(w);
}

static void write_span(writer_t *w, const ebb_span_t *s)
{
    const bool of_operation = s->track == EBB_TRACK_OPERATION || s->track == EBB_TRACK_WAIT_HOST;
    const ebb_action_t *a = of_operation ? NULL : &w->report->in.plan->action[s->index];
    switch (s->track) {
    case EBB_TRACK_OPERATION:
        write_launch(w, COMPUTE, s->index, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_REPLAY:
        write_launch(w, REPLAY, a->operation, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_OUT:
        write_copy(w, COPY_OUT, "out:", a->place, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_IN:
        write_copy(w, COPY_IN, "in:", a->place, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_WAIT_OUT:
        write_copy(w, WAIT, "memory held by", a->place, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_WAIT_IN:
        write_copy(w, WAIT, "data of", a->place, s->begin_ns, s->end_ns);
        break;
    case EBB_TRACK_CHECK:
        begin_slice(w, REPLAY, "comparing", s->begin_ns, s->end_ns);
        fprintf(w->out, "\"action\":%" PRIu32, s->index);
        end_slice(w);
        break;
    case EBB_TRACK_WAIT_HOST:
        begin_slice(w, WAIT, "host", s->begin_ns, s->end_ns);
        fprintf(w->out, "\"before\":%" PRIu32, s->index);
        end_slice(w);
        break;
    }
}

/* ---- NVTX ---- */

typedef struct range {
    char name[MOST_RANGE];
    double begin_ns;
} range_t;

static void end_ranges(writer_t *w, range_t *open, uint32_t *count, uint32_t left, double ns)
{
    while (*count > left) {
        (*count)--;
        begin_slice(w, NVTX, open[*count].name, open[*count].begin_ns, ns);
        end_slice(w);
    }
}

/* Ranges of neighbouring operations that have the same name and depth are one. */
static void write_ranges(writer_t *w)
{
    const ebb_report_t *r = w->report;
    range_t open[MOST_RANGES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->in.trace->operation_count; i++) {
        const char *at = ebb_trace_nvtx(r->in.trace, &r->in.trace->operation[i]);
        uint32_t depth = 0;
        bool same = true;
        for (; *at && depth < MOST_RANGES; depth++, at += strspn(at, "/")) {
            const size_t length = strcspn(at, "/");
            char name[MOST_RANGE];
            snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
            at += length;
            same = same && depth < count && !strcmp(open[depth].name, name);
            if (same)
                continue;
            end_ranges(w, open, &count, depth, r->begin_ns[i]);
            memcpy(open[count].name, name, sizeof name);
            open[count++].begin_ns = r->begin_ns[i];
        }
        end_ranges(w, open, &count, depth, r->begin_ns[i]);
    }
    end_ranges(w, open, &count, 0, r->simulation.step_ns);
}

/* ---- */

static void write_levels(writer_t *w)
{
    const ebb_report_t *r = w->report;
    for (uint32_t i = 0; i < r->level_count; i++) {
        begin_event(w, "C", 0);
        fprintf(w->out, ",\"ts\":%.3f,\"name\":\"device memory (bytes)\",\"args\":{", r->level[i].ns * 1e-3);
        for (int k = 0; k < EBB_CLASSES; k++)
            fprintf(w->out, "%s\"%s\":%" PRIu64, k ? "," : "", ebb_class_word[k], r->level[i].bytes[k]);
        end_slice(w);
    }
}

bool ebb_report_write_perfetto(const ebb_report_t *r, FILE *out)
{
    writer_t w = {r, out, false};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
    write_names(&w);
    write_ranges(&w);
    for (uint32_t i = 0; i < r->simulation.span_count; i++)
        write_span(&w, &r->simulation.span[i]);
    write_levels(&w);
    fputs("\n]}\n", out);
    return !fflush(out) && !ferror(out);
}
