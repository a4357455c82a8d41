/* plan_curve.c: `ebb plan --curve`. */
#include "cli/plan_curve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/report/curve.h"

enum { BAR = 30, WIDTH = 720, HEIGHT = 400, MARGIN = 60 };

/* Narrow terminals have no room for what is moved. */
void ebb_plan_curve_print(const ebb_curve_t *c, uint64_t keep_bytes)
{
    const unsigned columns = ebb_cli_columns(), narrow = 48, left = columns < 100 ? narrow : narrow + 33;
    const unsigned room = columns - left < BAR ? columns - left : BAR;
    const bool wide = left > narrow;
    printf("%10s %5s %10s %8s %9s", "budget MiB", "", "peak MiB", "time", "at least");
    puts(wide ? "    out MiB     in MiB  replays" : "");
    for (unsigned i = 0; i < c->count; i++) {
        const ebb_curve_point_t *x = &c->point[i];
        const int bar = c->most_percent > 0 ? (int)(x->percent / c->most_percent * room + 0.5) : 0;
        printf("%10.1f %4.0f%% %10.1f %+7.1f%% %+8.1f%%", ebb_cli_mib(x->budget_bytes),
               100 * (double)x->budget_bytes / (double)keep_bytes, ebb_cli_mib(x->sum.peak_bytes), x->percent,
               x->least_percent);
        if (wide)
            printf(" %10.1f %10.1f %8" PRIu32, ebb_cli_mib(x->sum.bytes_out), ebb_cli_mib(x->sum.bytes_in),
                   x->sum.replays);
        printf("%s%.*s\n", bar > 0 ? "  " : "", bar, "##############################");
    }
    char size[EBB_SIZE_ROOM];
    if (c->sensible >= 0)
        printf("sensible   from %s on a step takes at most %d%% longer\n",
               ebb_cli_size(c->point[c->sensible].budget_bytes, size), EBB_CURVE_SENSIBLE_PERCENT);
    if (c->state >= 0)
        printf("state      weights or moments move at budgets up to %s\n",
               ebb_cli_size(c->point[c->state].budget_bytes, size));
}

/* ---- the picture ---- */

static double x_of(const ebb_curve_t *c, uint64_t budget)
{
    const double low = (double)c->point[0].budget_bytes, high = (double)c->point[c->count - 1].budget_bytes;
    return MARGIN + (high > low ? ((double)budget - low) / (high - low) : 0) * (WIDTH - 2 * MARGIN);
}

static double y_of(const ebb_curve_t *c, double percent)
{
    return HEIGHT - MARGIN - (c->most_percent > 0 ? percent / c->most_percent : 0) * (HEIGHT - 2 * MARGIN);
}

static bool draw(const ebb_curve_t *c, const char *policy, const char *path)
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
            c->point[0].budget_bytes +
            (c->point[c->count - 1].budget_bytes - c->point[0].budget_bytes) * (uint64_t)i / 4;
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f%%</text>\n", MARGIN - 8,
                y_of(c, percent) + 4, percent);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x_of(c, budget),
                HEIGHT - MARGIN + 20, ebb_cli_mib(budget));
    }
    fprintf(f,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">budget, MiB</text>\n<text x=\"%d\" "
            "y=\"20\">longer step "
            "(%s)</text></g>\n<polyline fill=\"none\" stroke=\"#2a7ae2\" stroke-width=\"2\" points=\"",
            WIDTH / 2, HEIGHT - 15, MARGIN, policy ? policy : "auto");
    for (unsigned i = 0; i < c->count; i++) /* from a point's budget on, its plan does */
        fprintf(f, "%s%.1f,%.1f", i ? " " : "", x_of(c, c->point[i].budget_bytes),
                y_of(c, c->point[i].percent));
    fputs("\"/>\n", f);
    for (unsigned i = 0; i < c->count; i++)
        fprintf(f,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#2a7ae2\"><title>%.1f MiB: "
                "%+.1f%%, at least %+.1f%%</title></circle>\n",
                x_of(c, c->point[i].budget_bytes), y_of(c, c->point[i].percent),
                ebb_cli_mib(c->point[i].budget_bytes), c->point[i].percent, c->point[i].least_percent);
    if (c->sensible >= 0) {
        const double x = x_of(c, c->point[c->sensible].budget_bytes);
        fprintf(
            f,
            "<path d=\"M%.1f %dV%d\" stroke=\"#2a7ae2\" stroke-dasharray=\"5 4\"/><text x=\"%.1f\" y=\"%d\" "
            "fill=\"currentColor\">at most %d%% longer from here on</text>\n",
            x, MARGIN / 2, HEIGHT - MARGIN, x + 5, MARGIN / 2 + 12, EBB_CURVE_SENSIBLE_PERCENT);
    }
    fputs("</svg>\n", f);
    return !fclose(f);
}

int ebb_plan_curve(const ebb_trace_t *t, const ebb_plan_request_t *request, uint64_t keep_bytes,
                   const char *svg)
{
    ebb_curve_t c;
    char why[400];
    if (!ebb_curve_make(&c, t, request, keep_bytes, EBB_CURVE_POINTS, why, sizeof why)) {
        ebb_cli_fail("no curve", why);
        return 1;
    }
    ebb_plan_curve_print(&c, keep_bytes);
    return !svg || draw(&c, request->policy, svg) ? 0 : ebb_cli_fail(svg, strerror(errno));
}
