/* gelu.cpp: GELU and its derivative over arrays. C++ only because softgpu/fast_math.h is: its tanhf is inlined and
 * vectorises. The constants are those of Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2. */
#include "softgpu/blas/element.h"
#include "softgpu/fast_math.h"

static const float ROOT = 0.797884561f /* sqrt(2 / pi) */, CUBE = 0.044715f;

void element_gelu(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float v = x[i], t = tanhf(ROOT * (v + CUBE * v * v * v));
        x[i] = 0.5f * v * (1.0f + t);
    }
}

void element_gelu_gradient(float *__restrict__ y, const float *__restrict__ x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float v = x[i], t = tanhf(ROOT * (v + CUBE * v * v * v));
        const float slope = ROOT * (1.0f + 3.0f * CUBE * v * v);
        y[i] *= 0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * slope;
    }
}
