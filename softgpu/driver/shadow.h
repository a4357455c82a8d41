/* shadow.h: checked mode: what the driver knows of each byte that kernels touch. */
#ifndef SG_SHADOW_H
#define SG_SHADOW_H

#include "simt.h"

static inline void sg_check_barrier(sg_block_t *b)
{
    (void)b;
}
static inline void sg_check_group(sg_block_t *b, uint32_t warp, uint32_t lanes)
{
    (void)b, (void)warp, (void)lanes;
}
static inline void sg_check_block_begin(sg_block_t *b)
{
    (void)b;
}
static inline void sg_check_block_end(sg_block_t *b)
{
    (void)b;
}
static inline void sg_check_access(const void *at, size_t bytes, softgpu_access_t how, const void *pc)
{
    (void)at, (void)bytes, (void)how, (void)pc;
}
#endif
