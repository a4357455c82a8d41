#include "model/train/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/base/bytes.h"
#include "model/base/check.h"

/* In pixels. */
enum { WIDTH = 960, HEIGHT = 620, LEFT = 76, RIGHT = 24 };
enum {
    MOST_POINTS = 1500 /* of a curve in the picture */,
    MEAN_SHARE = 50 /* the mean is over one in so many steps */
};

typedef struct look {
    const char *name, *colour;
    double width; /* of the line */
    bool dots;
} look_t;

static const look_t loss_look = {"training loss", "#9ecae1", 1, false};
static const look_t mean_look = {"its moving mean", "#1f5fa8", 2, false};
static const look_t held_out_look = {"held-out loss", "#d62728", 2, true};
static const look_t peak_look = {"at most in a step", "#e6862b", 2, false};
static const look_t kept_look = {"after a step", "#2c8a4b", 2, false};

/* ---- points ---- */

void plot_open(plot_t *plot, const char *path)
{
    *plot = (plot_t){.path = path};
}

void plot_close(plot_t *plot)
{
    for (int i = 0; i < CURVE_COUNT; i++)
        free(plot->curves[i].points);
    *plot = (plot_t){0};
}

static void append(struct series *series, point_t point)
{
    if (series->count == series->room) {
        series->room = series->room > 0 ? 2 * series->room : 256;
        series->points = realloc(series->points, series->room * sizeof *series->points);
        if (series->points == NULL)
            fatal("no host memory for %zu points of the plot", series->room);
    }
    series->points[series->count++] = point;
}

void plot_add(plot_t *plot, curve_t curve, int step, double value)
{
    if (plot->path != NULL)
        append(&plot->curves[curve], (point_t){step, value});
}

/* A curve of at most MOST_POINTS: of neighbours the mean, of which a value that is not finite makes none. */
static struct series thinned(const struct series *all)
{
    struct series few = {0};
    size_t each = (all->count + MOST_POINTS - 1) / MOST_POINTS;
    for (size_t i = 0; i < all->count; i += each) {
        size_t n = all->count - i < each ? all->count - i : each;
        point_t mean = {0, 0};
        for (size_t k = i; k < i + n; k++) {
            mean.step += all->points[k].step / (double)n;
            mean.value += all->points[k].value / (double)n;
        }
        append(&few, mean);
    }
    return few;
}

/* The mean of the finite ones among the last `over` points, at each point; free the points. */
static struct series moving_mean(const struct series *all, size_t over)
{
    struct series means = {0};
    for (size_t i = 0; i < all->count; i++) {
        double sum = 0, count = 0;
        for (size_t k = i + 1 > over ? i + 1 - over : 0; k <= i; k++)
            if (isfinite(all->points[k].value)) {
                sum += all->points[k].value;
                count++;
            }
        append(&means, (point_t){all->points[i].step, count > 0 ? sum / count : (double)NAN});
    }
    return means;
}

/* ---- axes ---- */

typedef struct axis {
    double low, high, tick; /* of the values, in `unit` */
    int from, to;           /* pixels at low and high */
    double unit;            /* what a value is divided by */
} axis_t;

double plot_tick(double range, int wanted)
{
    double raw = range / wanted, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/* From the first tick below all values to the first one above them. */
static axis_t axis_over(double low, double high, int wanted)
{
    if (!(low < high)) { /* one value, or none */
        low = isfinite(low) ? low : 0;
        high = low + (low != 0 ? fabs(low) : 1);
    }
    double tick = plot_tick(high - low, wanted);
    return (axis_t){
        .low = tick * floor(low / tick), .high = tick * ceil(high / tick), .tick = tick, .unit = 1};
}

static double at(const axis_t *axis, double value)
{
    return axis->from + (value / axis->unit - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

static void widen(const struct series *series, double *low, double *high)
{
    for (size_t i = 0; i < series->count; i++) {
        double value = series->points[i].value;
        if (isfinite(value)) {
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    }
}

static axis_t step_axis(const plot_t *plot)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < CURVE_COUNT; i++)
        for (size_t k = 0; k < plot->curves[i].count; k++) {
            low = fmin(low, plot->curves[i].points[k].step);
            high = fmax(high, plot->curves[i].points[k].step);
        }
    axis_t axis = axis_over(low > 1 ? low : 0, high, 8);
    axis.tick = fmax(axis.tick, 1); /* there are no halves of steps */
    axis.high = axis.tick * ceil(axis.high / axis.tick);
    axis.from = LEFT;
    axis.to = WIDTH - RIGHT;
    return axis;
}

static axis_t loss_axis(const struct series *loss, const struct series *held_out)
{
    double low = INFINITY, high = -INFINITY;
    widen(loss, &low, &high);
    widen(held_out, &low, &high);
    return axis_over(low, high, 6);
}

/* Bytes, from 0, in the unit that keeps the numbers short. */
static axis_t memory_axis(const struct series *peak, const char **unit_name)
{
    double low = 0, high = 0;
    widen(peak, &low, &high);
    byte_unit_t unit = byte_unit(high);
    axis_t axis = axis_over(0, high / unit.bytes, 4);
    axis.unit = unit.bytes;
    *unit_name = unit.name;
    return axis;
}

/* ---- SVG (W3C, Scalable Vector Graphics 1.1) ---- */

static void put_text(FILE *svg, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", svg);
            break;
        case '>':
            fputs("&gt;", svg);
            break;
        case '&':
            fputs("&amp;", svg);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, svg);
        }
}

/* Grid, ticks and their numbers: y's at the left, and x's below where there is room for them. */
static void put_axes(FILE *svg, const axis_t *x, const axis_t *y, bool numbers)
{
    for (int i = 0; y->low + i * y->tick <= y->high + y->tick / 2; i++) {
        double value = y->low + i * y->tick, row = at(y, value * y->unit);
        fprintf(svg, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", x->from,
                x->to, row, row);
        fprintf(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n", x->from - 8, row + 4,
                value);
    }
    for (int i = 0; x->low + i * x->tick <= x->high + x->tick / 2; i++) {
        double value = x->low + i * x->tick, column = at(x, value);
        fprintf(svg, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#eeeeee\"/>\n", column,
                column, y->to, y->from + 5);
        if (numbers)
            fprintf(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.10g</text>\n", column,
                    y->from + 19, value);
    }
    fprintf(svg, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444444\"/>\n", x->from, y->to, y->from,
            x->to);
}

/* A line through the finite points, interrupted at others. */
static void put_curve(FILE *svg, const struct series *series, const axis_t *x, const axis_t *y,
                      const look_t *look)
{
    bool pen = false;
    fprintf(svg, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-linejoin=\"round\" d=\"",
            look->colour, look->width);
    for (size_t i = 0; i < series->count; i++) {
        const point_t *p = &series->points[i];
        if (isfinite(p->value))
            fprintf(svg, "%c%.1f %.1f", pen ? 'L' : 'M', at(x, p->step), at(y, p->value));
        pen = isfinite(p->value);
    }
    fputs("\"/>\n", svg);
    if (!look->dots && series->count > 1)
        return;
    for (size_t i = 0; i < series->count; i++)
        if (isfinite(series->points[i].value))
            fprintf(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    at(x, series->points[i].step), at(y, series->points[i].value), look->colour);
}

/* One entry, `place` of them from the right end. */
static void put_legend(FILE *svg, const look_t *look, int place, int row)
{
    int left = WIDTH - RIGHT - 150 * (place + 1);
    fprintf(svg, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"3\"/>\n", left,
            left + 22, row - 4, row - 4, look->colour);
    fprintf(svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", left + 28, row, look->name);
}

static void put_losses(FILE *svg, const plot_t *plot, const axis_t *x)
{
    const struct series *loss = &plot->curves[CURVE_LOSS], *held_out = &plot->curves[CURVE_HELD_OUT];
    struct series few = thinned(loss), mean = moving_mean(&few, few.count / MEAN_SHARE + 1);
    axis_t y = loss_axis(&few, held_out);
    y.from = 366;
    y.to = 66;
    fputs("<text x=\"16\" y=\"54\">loss, nats</text>\n", svg);
    put_axes(svg, x, &y, false);
    put_curve(svg, &few, x, &y, &loss_look);
    put_curve(svg, &mean, x, &y, &mean_look);
    put_curve(svg, held_out, x, &y, &held_out_look);
    put_legend(svg, &loss_look, 2, 54);
    put_legend(svg, &mean_look, 1, 54);
    put_legend(svg, &held_out_look, 0, 54);
    free(few.points);
    free(mean.points);
}

static void put_memory(FILE *svg, const plot_t *plot, const axis_t *x)
{
    struct series peak = thinned(&plot->curves[CURVE_PEAK]), kept = thinned(&plot->curves[CURVE_KEPT]);
    const char *unit;
    axis_t y = memory_axis(&plot->curves[CURVE_PEAK], &unit);
    y.from = 560;
    y.to = 420;
    fprintf(svg, "<text x=\"16\" y=\"408\">device memory, %s</text>\n", unit);
    put_axes(svg, x, &y, true);
    put_curve(svg, &peak, x, &y, &peak_look);
    put_curve(svg, &kept, x, &y, &kept_look);
    put_legend(svg, &peak_look, 1, 408);
    put_legend(svg, &kept_look, 0, 408);
    fprintf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 16);
    free(peak.points);
    free(kept.points);
}

static void put_picture(FILE *svg, const plot_t *plot, const char *title)
{
    axis_t x = step_axis(plot);
    fprintf(svg,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(svg, title);
    fprintf(svg,
            "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n<text x=\"16\" y=\"26\" "
            "font-size=\"15\">",
            WIDTH, HEIGHT);
    put_text(svg, title);
    fputs("</text>\n", svg);
    put_losses(svg, plot, &x);
    put_memory(svg, plot, &x);
    fputs("</svg>\n", svg);
}

bool plot_write(const plot_t *plot, const char *title, fault_t *fault)
{
    char temporary[4096];
    if (plot->path == NULL)
        return true;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", plot->path) >= sizeof temporary)
        return fault_set(fault, "--plot: the path is too long");
    FILE *svg = fopen(temporary, "w");
    if (svg == NULL)
        return fault_set(fault, "--plot %s: %s", temporary, strerror(errno));
    put_picture(svg, plot, title);
    if ((ferror(svg) | fclose(svg)) == 0 && rename(temporary, plot->path) == 0)
        return true;
    unlink(temporary);
    return fault_set(fault, "--plot %s: not written: %s", plot->path, strerror(errno));
}
