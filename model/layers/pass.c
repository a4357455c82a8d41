#include "model/layers/pass.h"

static uint64_t counters_of(uint64_t elements)
{
    return (elements + 3) / 4;
}

/* Counters that one block uses before `site`; all of them for SITE_MLP + 1. */
static uint64_t block_counters(uint64_t rows, uint64_t T, uint64_t C, uint64_t H, int site)
{
    uint64_t scores = counters_of(rows * H * T), sums = counters_of(rows * C);
    return site == SITE_ATTENTION ? 0 : scores + (uint64_t)(site - SITE_PROJECTION) * sums;
}

uint64_t pass_counters(int B, int T, shape_t s)
{
    uint64_t rows = (uint64_t)B * (uint64_t)T, C = (uint64_t)s.width;
    return counters_of(rows * C) +
           (uint64_t)s.layers * block_counters(rows, (uint64_t)T, C, (uint64_t)s.heads, SITE_MLP + 1);
}

dropout_t pass_dropout_embedding(const pass_t *pass)
{
    return (dropout_t){pass->dropout, pass->seed, pass->first, pass->base};
}

dropout_t pass_dropout(const pass_t *pass, int layer, site_t site)
{
    uint64_t rows = (uint64_t)pass->N, T = (uint64_t)pass->T, C = (uint64_t)pass->C, H = (uint64_t)pass->H;
    uint64_t offset = pass->first + counters_of(rows * C) +
                      (uint64_t)layer * block_counters(rows, T, C, H, SITE_MLP + 1) +
                      block_counters(rows, T, C, H, (int)site);
    return (dropout_t){pass->dropout, pass->seed, offset, pass->base};
}

tensor_t pass_tensor(const pass_t *pass, int channels)
{
    return tensor_new(pass->gpu, pass->dtype, (size_t)pass->N * (size_t)channels);
}

tensor_t pass_statistics(const pass_t *pass, int columns)
{
    return tensor_new(pass->gpu, DTYPE_FP32, (size_t)pass->N * (size_t)columns);
}

tensor_t pass_scratch(const pass_t *pass, size_t bytes)
{
    return bytes > 0 ? tensor_new_of(pass->gpu, MEMORY_WORKSPACE, DTYPE_FP32,
                                     (bytes + sizeof(float) - 1) / sizeof(float))
                     : (tensor_t){0};
}

static void *array_at(const layout_t *layout, const tensor_t *group, array_t array)
{
    size_t offset = layout->offset[array];
    return offset != LAYOUT_NONE && group->data != NULL
               ? (char *)group->data + offset * dtype_bytes(group->dtype)
               : NULL;
}

outer_t outer_at(const layout_t *layout, const tensor_t *group)
{
    outer_t outer = {.wte = array_at(layout, group, ARRAY_WTE),
                     .wpe = array_at(layout, group, ARRAY_WPE),
                     .head = array_at(layout, group, ARRAY_HEAD),
                     .norm_w = array_at(layout, group, ARRAY_NORM_W),
                     .norm_b = array_at(layout, group, ARRAY_NORM_B)};
    if (outer.head == NULL)
        outer.head = outer.wte;
    return outer;
}

block_t block_at(const layout_t *layout, const tensor_t *group, const tensor_t *adapters)
{
    block_t block = {.qkv_w = array_at(layout, group, ARRAY_QKV_W),
                     .proj_w = array_at(layout, group, ARRAY_PROJ_W),
                     .up_w = array_at(layout, group, ARRAY_UP_W),
                     .down_w = array_at(layout, group, ARRAY_DOWN_W),
                     .norm1_w = array_at(layout, group, ARRAY_NORM1_W),
                     .norm1_b = array_at(layout, group, ARRAY_NORM1_B),
                     .qkv_b = array_at(layout, group, ARRAY_QKV_B),
                     .proj_b = array_at(layout, group, ARRAY_PROJ_B),
                     .norm2_w = array_at(layout, group, ARRAY_NORM2_W),
                     .norm2_b = array_at(layout, group, ARRAY_NORM2_B),
                     .up_b = array_at(layout, group, ARRAY_UP_B),
                     .down_b = array_at(layout, group, ARRAY_DOWN_B)};
    for (int m = 0; m < MATRIX_COUNT && adapters != NULL; m++) {
        block.lora_a[m] = array_at(layout, adapters, ARRAY_LORA + (array_t)(2 * m));
        block.lora_b[m] = array_at(layout, adapters, ARRAY_LORA + (array_t)(2 * m + 1));
    }
    return block;
}
