/* warp.c: what lanes of a warp do together; see simt.h and softgpu_warp_op_t. */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/simt/simt.h"

#include <string.h>

/* The lanes of a warp that wait in this operation with this mask. */
static uint32_t waiting(const sg_block_t *b, uint32_t warp, const softgpu_warp_op_t *op, uint32_t mask)
{
    uint32_t lanes = 0;
    for (uint32_t rest = mask & b->lives[warp]; rest; rest &= rest - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(rest);
        const sg_fiber_t *f = &b->fibers[warp * SG_WARP + lane];
        if (f->wait == SG_GROUP && f->op == op && f->mask == mask)
            lanes |= 1u << lane;
    }
    return lanes;
}

static void complete(sg_block_t *b, uint32_t warp, const softgpu_warp_op_t *op, uint32_t lanes)
{
    void *data[SG_WARP] = {NULL};
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(rest);
        sg_fiber_t *f = sg_fiber_of(b, warp, lane);
        data[lane] = f->data;
        sg_fiber_ready(b, f);
    }
    if (op->combine)
        op->combine(lanes, data);
    sg_check_group(b, warp, lanes);
}

void sg_warp_collect(const softgpu_warp_op_t *op, uint32_t mask, void *data, softgpu_place_t place)
{
    sg_block_t *b = sg_run.block;
    sg_fiber_t *self = sg_run.fiber;
    const uint32_t warp = self->index / SG_WARP;
    if (!(mask >> self->thread.lane & 1) && !sg_rule_on(SG_RULE_WARP_MASK))
        mask |= 1u << self->thread.lane;
    if (!(mask >> self->thread.lane & 1))
        sg_run_fail(CUDA_ERROR_LAUNCH_FAILED, place,
                    "rule warp-mask: lane %u calls %s with mask 0x%08x, which does not name it",
                    self->thread.lane, op->name, mask);
    if (op->whole && b->lives[warp] != 0xffffffffu)
        sg_run_fail(CUDA_ERROR_LAUNCH_FAILED, place,
                    "%s wants all 32 lanes of its warp, and there are 0x%08x", op->name, b->lives[warp]);
    if (sg_run.checked)
        sg_check_settle();
    self->op = op;
    self->mask = mask;
    self->data = data;
    self->wait = SG_GROUP;
    const uint32_t wanted = mask & b->lives[warp];
    const uint32_t here = waiting(b, warp, op, mask);
    if (here == wanted) {
        b->pauses = 0;
        complete(b, warp, op, wanted);
    } else {
        sg_fiber_wait(SG_GROUP, place);
    }
}

void sg_warp_exited(sg_block_t *b, uint32_t warp)
{
    for (uint32_t rest = b->lives[warp]; rest; rest &= rest - 1) {
        const sg_fiber_t *f = sg_fiber_of(b, warp, (uint32_t)__builtin_ctz(rest));
        if (f->wait != SG_GROUP || f->op->whole)
            continue;
        const uint32_t wanted = f->mask & b->lives[warp];
        if (waiting(b, warp, f->op, f->mask) == wanted)
            complete(b, warp, f->op, wanted);
    }
}

uint32_t sg_warp_active(softgpu_place_t place)
{
    sg_fiber_t *self = sg_run.fiber;
    self->active = 0;
    sg_fiber_wait(SG_ACTIVE, place);
    return self->active;
}

/* Lanes that wait at one place of the source are taken for converged. One place of each warp at a time. */
static bool let_go_of_warp(sg_block_t *b, uint32_t warp)
{
    const sg_fiber_t *first = NULL;
    uint32_t together = 0;
    for (uint32_t lane = 0; lane < SG_WARP; lane++) {
        if (!(b->lives[warp] >> lane & 1))
            continue;
        const sg_fiber_t *f = sg_fiber_of(b, warp, lane);
        if (f->wait != SG_ACTIVE)
            continue;
        if (!first)
            first = f;
        if (f->place.line == first->place.line && !strcmp(f->place.file, first->place.file))
            together |= 1u << lane;
    }
    for (uint32_t rest = together; rest; rest &= rest - 1) {
        sg_fiber_t *f = sg_fiber_of(b, warp, (uint32_t)__builtin_ctz(rest));
        f->active = together;
        sg_fiber_ready(b, f);
    }
    return together != 0;
}

bool sg_warp_let_go(sg_block_t *b)
{
    for (uint32_t warp = 0; warp < b->warps; warp++)
        if (let_go_of_warp(b, warp))
            return true;
    return false;
}
