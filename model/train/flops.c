#include "model/train/flops.h"

flops_t flops_of(const layout_t *layout)
{
    const shape_t *s = &layout->shape;
    flops_t flops = {.weights = (uint64_t)s->vocab * (uint64_t)s->width};
    for (int group = 1; group < layout_end(layout, false); group++)
        flops.weights += layout->groups[group].decayed;
    for (int group = layout_first(layout, true); group < layout->group_count; group++)
        flops.adapters += layout->groups[group].decayed;
    flops.products = (flops.adapters > 0 ? 4 : 6) * flops.weights + 6 * flops.adapters;
    flops.attention = 12 * (uint64_t)s->layers * (uint64_t)s->width * (uint64_t)s->context;
    return flops;
}

uint64_t flops_per_token(const layout_t *layout)
{
    flops_t flops = flops_of(layout);
    return flops.products + flops.attention;
}
