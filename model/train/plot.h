/* plot.h: --plot: the curves of a run as one picture, an SVG that needs nothing else: the loss of each step, its moving
 * mean and the held-out loss above, device memory below, over the same steps.
 *
 * Points are kept on the host, 16 bytes each. With more of them than a picture can show, neighbours are averaged. A loss
 * that is not finite leaves a gap.
 */
#ifndef EBB_MODEL_PLOT_H
#define EBB_MODEL_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/base/fault.h"

typedef enum curve {
    CURVE_LOSS,
    CURVE_HELD_OUT,
    CURVE_PEAK, /* bytes: at most during the step, allocated by the trainer */
    CURVE_KEPT, /* bytes: after the step */
    CURVE_COUNT
} curve_t;

typedef struct point {
    double step, value;
} point_t;

typedef struct plot {
    const char *path; /* NULL: nothing is kept, nothing written */
    struct series {
        point_t *points; /* owns [count], room for `room`; steps ascend */
        size_t count, room;
    } curves[CURVE_COUNT];
} plot_t;

void plot_open(plot_t *plot, const char *path);
void plot_add(plot_t *plot, curve_t curve, int step, double value);
/* Writes the picture, in place of an older one at once: a browser never sees half of it. */
bool plot_write(const plot_t *plot, const char *title, fault_t *fault);
void plot_close(plot_t *plot);

/* ---- for tests ---- */

/* The distance between ticks: 1, 2 or 5 times a power of ten, so that `range` has about `wanted` of them. */
double plot_tick(double range, int wanted);

#endif
