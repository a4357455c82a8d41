/* plan_curve.c: `ebb plan --curve`. */
#include "cli/plan_curve.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "cli/cli.h"
#include "cli/command.h"

enum { POINTS = 16, BAR = 30, WIDTH = 720, HEIGHT = 400, MARGIN = 60 };

typedef struct point {
    uint64_t budget;
    double percent; /* that the step takes longer than its operations */
    ebb_plan_sum_t sum;
} point_t;

typedef struct curve {
    const ebb_trace_t *trace;
    const ebb_plan_request_t *request;
    double operations_ns, most_percent;
    point_t point[POINTS + 1];
    int count;
} curve_t;

/* False: a plan did not pass. */
static bool add_point(curve_t *c, uint64_t budget)
{
    char why[400];
    ebb_plan_request_t r = *c->request;
    r.device_bytes = budget;
    ebb_plan_t *p = ebb_plan_make(c->trace, &r, why, sizeof why);
    if (!p)
        return true;
    const ebb_check_limits_t limits = {budget, r.host_bytes};
    const bool good = ebb_check_plan(c->trace, p, &limits, why, sizeof why);
    if (!good)
        ebb_cli_fail("a plan is not good", why);
    point_t *x = &c->point[c->count++];
    *x = (point_t){budget, 100 * ((double)p->predicted_ns / c->operations_ns - 1), ebb_plan_sum(p, c->trace)};
    c->most_percent = x->percent > c->most_percent ? x->percent : c->most_percent;
    ebb_plan_delete(p);
    return good;
}

/* Narrow terminals have no room for what is moved. */
static void print(const curve_t *c, uint64_t keep_bytes)
{
    const unsigned columns = ebb_cli_columns(), left = columns < 90 ? 38 : 71;
    const unsigned room = columns - left < BAR ? columns - left : BAR;
    const bool wide = left > 38;
    printf("%10s %5s %10s %8s", "budget MiB", "", "peak MiB", "time");
    puts(wide ? "    out MiB     in MiB  replays" : "");
    for (int i = 0; i < c->count; i++) {
        const point_t *x = &c->point[i];
        const int bar = c->most_percent > 0 ? (int)(x->percent / c->most_percent * room + 0.5) : 0;
        printf("%10.1f %4.0f%% %10.1f %+7.1f%%", ebb_cli_mib(x->budget),
               100 * (double)x->budget / (double)keep_bytes, ebb_cli_mib(x->sum.peak_bytes), x->percent);
        if (wide)
            printf(" %10.1f %10.1f %8" PRIu32, ebb_cli_mib(x->sum.bytes_out), ebb_cli_mib(x->sum.bytes_in),
                   x->sum.replays);
        printf("%s%.*s\n", bar > 0 ? "  " : "", bar, "##############################");
    }
}

/* ---- the picture ---- */

static double x_of(const curve_t *c, uint64_t budget)
{
    const double low = (double)c->point[0].budget, high = (double)c->point[c->count - 1].budget;
    return MARGIN + (high > low ? ((double)budget - low) / (high - low) : 0) * (WIDTH - 2 * MARGIN);
}

static double y_of(const curve_t *c, double percent)
{
    return HEIGHT - MARGIN - (c->most_percent > 0 ? percent / c->most_percent : 0) * (HEIGHT - 2 * MARGIN);
}

static bool draw(const curve_t *c, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n"
            "<style>svg{color:#222;background:#fff}@media(prefers-color-scheme:dark){svg{color:#ddd;"
            "background:#181818}}"
            "</style>\n<g stroke=\"currentColor\" fill=\"none\"><path d=\"M%d %dV%dH%d\"/></g>\n<g "
            "fill=\"currentColor\">\n",
            WIDTH, HEIGHT, MARGIN, MARGIN / 2, HEIGHT - MARGIN, WIDTH - MARGIN / 2);
    for (int i = 0; i <= 4; i++) {
        const double percent = c->most_percent * i / 4;
        const uint64_t budget =
            c->point[0].budget + (c->point[c->count - 1].budget - c->point[0].budget) * (uint64_t)i / 4;
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f%%</text>\n", MARGIN - 8,
                y_of(c, percent) + 4, percent);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x_of(c, budget),
                HEIGHT - MARGIN + 20, ebb_cli_mib(budget));
    }
    fprintf(f,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">budget, MiB</text>\n<text x=\"%d\" "
            "y=\"20\">longer step "
            "(%s)</text></g>\n<polyline fill=\"none\" stroke=\"#2a7ae2\" stroke-width=\"2\" points=\"",
            WIDTH / 2, HEIGHT - 15, MARGIN, c->request->policy ? c->request->policy : "auto");
    for (int i = 0; i < c->count; i++) /* from a point's budget on, its plan does */
        fprintf(f, "%s%.1f,%.1f", i ? " " : "", x_of(c, c->point[i].budget), y_of(c, c->point[i].percent));
    fputs("\"/>\n", f);
    for (int i = 0; i < c->count; i++)
        fprintf(f,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#2a7ae2\"><title>%.1f MiB: "
                "%+.1f%%</title></circle>\n",
                x_of(c, c->point[i].budget), y_of(c, c->point[i].percent), ebb_cli_mib(c->point[i].budget),
                c->point[i].percent);
    fputs("</svg>\n", f);
    return !fclose(f);
}

int ebb_plan_curve(const ebb_trace_t *t, const ebb_plan_request_t *request, uint64_t keep_bytes,
                   const char *svg)
{
    curve_t c = {.trace = t, .request = request};
    uint64_t low = ebb_plan_floor(t, request);
    c.operations_ns = ebb_simulate_alone_ns(t);
    if (!low || c.operations_ns <= 0) {
        ebb_cli_fail("there is no plan for any budget, or the step takes no time", NULL);
        return 1;
    }
    low = low < keep_bytes ? low : keep_bytes;
    for (int i = 0; i <= POINTS; i++) {
        const uint64_t budget = low + (keep_bytes - low) / POINTS * (uint64_t)i;
        if (i && budget == low)
            break;
        if (!add_point(&c, i == POINTS ? keep_bytes : budget))
            return 1;
    }
    print(&c, keep_bytes);
    return !svg || !c.count || draw(&c, svg) ? 0 : ebb_cli_fail(svg, strerror(errno));
}
