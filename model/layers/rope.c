#include "model/layers/rope.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925

double rope_frequency(const shape_t *shape, int d)
{
    int D = shape->width / shape->heads;
    double frequency = pow(shape->rope_theta, -2.0 * d / D), turns = 8192.0 * frequency / TWO_PI;
    double stretched = frequency / shape->rope_factor;
    if (shape->rope_factor == 1.0 || turns > 4.0)
        return frequency;
    if (turns < 1.0)
        return stretched;
    double share = (turns - 1.0) / 3.0;
    return (1.0 - share) * stretched + share * frequency;
}

void rope_table(const shape_t *shape, int positions, float *table)
{
    int half = shape->width / shape->heads / 2;
    for (int d = 0; d < half; d++) {
        double frequency = rope_frequency(shape, d);
        for (int t = 0; t < positions; t++) {
            float *row = table + (size_t)t * 2 * (size_t)half;
            row[d] = (float)cos(t * frequency);
            row[half + d] = (float)sin(t * frequency);
        }
    }
}
