/* report_why.c: reasons in words. They follow from the facts alone, not from what a planner thought: a plan may come from anywhere. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/report/report_parts.h"

/* ---- quantities ---- */

typedef struct quantity {
    char text[24];
} quantity_t;

static quantity_t time_of(double ns)
{
    static const char *const unit[] = {"ns", "\u00b5s", "ms", "s"};
    quantity_t q;
    int u = 0;
    while (u < 3 && ns >= 999.5) {
        ns /= 1000;
        u++;
    }
    snprintf(q.text, sizeof q.text,
             u && ns < 9.995   ? "%.2f %s"
             : u && ns < 99.95 ? "%.1f %s"
                               : "%.0f %s",
             ns, unit[u]);
    return q;
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
    char *out = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&out, format, list) < 0)
        out = NULL;
    va_end(list);
    return out;
}

/* ---- obstacles ---- */

static const char *obstacle_of(ebb_verdict_t verdict)
{
    static const char *const word[EBB_VERDICTS] = {
        [EBB_UNTRIED] = "the launch that makes it was not tried",
        [EBB_PROVEN] = NULL,
        [EBB_DIFFERS] = "the launch that makes it gave other bits when it was repeated",
        [EBB_NO_ROOM] = "there was no room to try the launch that makes it",
        [EBB_FOREIGN] = "the launch that makes it reads memory that ebb does not serve",
        [EBB_TABLE] = "the launch that makes it goes through a table of pointers",
        [EBB_ATTRIBUTES] = "the launch that makes it is cooperative or has attributes that name other work",
        [EBB_OPAQUE] = "the arguments of the launch that makes it cannot be read",
        [EBB_HOST] = "it comes from host memory",
        [EBB_GLOBALS] = "the module that makes it has variables",
        [EBB_COMMUNICATES] = "a communication kernel makes it",
        [EBB_REFUSED] = "the driver refused to repeat the launch that makes it",
        [EBB_OTHERWISE] = "what makes it is no launch"};
    return word[verdict];
}

/* Back through what updated it in place, to the first that cannot be repeated. */
const char *ebb_report_obstacle(const ebb_model_t *m, uint32_t content)
{
    const uint32_t first = m->buffer[m->content[content].buffer].first_content;
    for (uint32_t c = content; m->content[c].producer != EBB_NONE; c--) {
        const uint32_t producer = m->content[c].producer;
        const ebb_trace_operation_t *o = &m->trace->operation[producer];
        if (!o->proofs)
            return o->verdict == EBB_PROVEN ? obstacle_of(EBB_UNTRIED) : obstacle_of(o->verdict);
        if (c == first || ebb_trace_mode(m->trace, producer, m->content[c].buffer) == EBB_REPLACES)
            return "what it is made from is gone by then";
    }
    return "it was made before this step";
}

/* ---- reasons ---- */

/* Whether all that is alive while a gap lasts fits, had nothing left the device. */
static bool has_room(const ebb_report_t *r, const ebb_report_gap_t *g)
{
    const uint64_t room = r->in.budget_bytes ? r->in.budget_bytes : r->sum.peak_bytes;
    const uint32_t n = r->in.trace->operation_count;
    for (uint32_t i = (g->from + 1) % n; i != g->to; i = (i + 1) % n)
        if (r->everything_bytes[i] > room)
            return false;
    return true;
}

static char *why_kept(const ebb_report_t *r, uint32_t buffer, const ebb_report_gap_t *g)
{
    const quantity_t idle = time_of(g->ns), copies = time_of(g->out_ns + g->in_ns),
                     again = time_of(g->replay_ns);
    const bool can_copy = g->out_ns + g->in_ns <= g->ns;
    if (has_room(r, g))
        return text("there is room: all that is alive while it lies idle fits");
    if (ebb_trace_mode(r->in.trace, g->to, buffer) == EBB_REPLACES)
        return text("what it holds is not needed: it is written anew before it is read");
    if (!can_copy && g->no_replay)
        return text("idle for %s, too short for both copies (%s), and it cannot be recomputed: %s", idle.text,
                    copies.text, g->no_replay);
    if (!can_copy && g->replay_ns >= 0)
        return text("idle for %s, too short for both copies (%s); recomputing it would cost %s", idle.text,
                    copies.text, again.text);
    if (!can_copy)
        return text("idle for %s, too short for both copies (%s)", idle.text, copies.text);
    if (g->no_replay)
        return text(
            "others leave instead: both copies of it would take %s of the link; it cannot be recomputed: %s",
            copies.text, g->no_replay);
    return text("others leave instead: both copies of it would take %s of the link, recomputing it %s",
                copies.text, again.text);
}

static char *why_offloaded(const ebb_report_t *r, uint32_t buffer, const ebb_report_gap_t *g)
{
    const quantity_t idle = time_of(g->ns), copies = time_of(g->out_ns + g->in_ns),
                     cost = time_of(g->cost_ns), again = time_of(g->replay_ns);
    char waits[64] = "nothing waits for them";
    if (g->cost_ns > 0)
        snprintf(waits, sizeof waits, "compute waits %s for them", cost.text);
    if (ebb_trace_mode(r->in.trace, g->to, buffer) == EBB_REPLACES)
        return text("copied out in case it is read after all; it is written anew before that, and is not "
                    "copied back");
    if (g->no_replay)
        return text("idle for %s, both copies take %s and %s; it cannot be recomputed: %s", idle.text,
                    copies.text, waits, g->no_replay);
    if (g->replay_ns >= 0)
        return text("idle for %s, both copies take %s and %s; recomputing it would cost %s", idle.text,
                    copies.text, waits, again.text);
    return text("idle for %s, both copies take %s and %s", idle.text, copies.text, waits);
}

static char *why_clean(const ebb_report_gap_t *g)
{
    const quantity_t idle = time_of(g->ns), copy = time_of(g->in_ns), cost = time_of(g->cost_ns);
    if (g->cost_ns > 0)
        return text("idle for %s; the host has it already, so it is not copied out; the copy back takes %s, "
                    "and compute waits %s "
                    "for it",
                    idle.text, copy.text, cost.text);
    return text("idle for %s; the host has it already, so it is not copied out; the copy back takes %s, and "
                "nothing waits for it",
                idle.text, copy.text);
}

static char *why_dropped(const ebb_report_gap_t *g)
{
    const quantity_t idle = time_of(g->ns), copies = time_of(g->out_ns + g->in_ns),
                     cost = time_of(g->cost_ns);
    if (g->out_ns + g->in_ns > g->ns)
        return text(
            "recomputing it costs %s (%u launch%s); both copies (%s) take longer than it lies idle (%s)",
            cost.text, g->replays, g->replays == 1 ? "" : "es", copies.text, idle.text);
    return text("recomputing it costs %s (%u launch%s) and none of the link; both copies would take %s of it",
                cost.text, g->replays, g->replays == 1 ? "" : "es", copies.text);
}

/* Small ones and such that are never moved; NULL: this is none. */
static const char *why_never(const ebb_report_t *r, uint32_t buffer)
{
    const ebb_trace_buffer_t *b = &r->in.trace->buffer[buffer];
    if (b->pinned)
        return "something besides launches uses it: it stays where it is";
    if (b->bytes <= r->in.trace->chunk_bytes / 2)
        return "small: it shares a chunk with others and never leaves";
    if (b->bytes < r->in.min_buffer)
        return "smaller than the smallest buffer that may leave (EBB_MIN_BUFFER)";
    return NULL;
}

char *ebb_report_why(const ebb_report_t *r, uint32_t buffer, const ebb_report_gap_t *g)
{
    const char *never = g->fate == EBB_CLASS_KEPT ? why_never(r, buffer) : NULL;
    if (never)
        return text("%s", never);
    if (g->fate == EBB_CLASS_KEPT && r->refusal[0])
        return text("there is no plan: %s", r->refusal);
    return g->fate == EBB_CLASS_OFFLOADED ? why_offloaded(r, buffer, g)
           : g->fate == EBB_CLASS_CLEAN   ? why_clean(g)
           : g->fate == EBB_CLASS_DROPPED ? why_dropped(g)
                                          : why_kept(r, buffer, g);
}

const char *ebb_report_why_alone(const ebb_report_t *r, uint32_t buffer)
{
    const char *never = why_never(r, buffer);
    if (r->in.plan->place[buffer].at_start == EBB_ON_HOST)
        return "no operation of the step uses it: it stays on the host";
    return never ? never : "used once, or throughout: there is no time in which it could leave";
}
