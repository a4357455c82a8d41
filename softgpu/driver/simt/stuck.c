/* stuck.c: a block in which nobody can run: who waits where, and for whom. */
#include "softgpu/driver/simt/simt.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const sg_fiber_t *f)
{
    return f->wait == SG_GROUP ? f->op->name : f->wait == SG_GRID ? "a barrier of the grid" : "__syncthreads";
}

static bool alike(const sg_fiber_t *a, const sg_fiber_t *b)
{
    return a->wait == b->wait && a->place.line == b->place.line && !strcmp(a->place.file, b->place.file) &&
           (a->wait != SG_GROUP ||
            (a->mask == b->mask && a->op == b->op && a->index / SG_WARP == b->index / SG_WARP));
}

/* Threads that wait alike are told of once, by the first of them. */
static bool told_before(const sg_block_t *b, const sg_fiber_t *f)
{
    for (const sg_fiber_t *other = b->fibers; other < f; other++)
        if (other->wait != SG_EXITED && alike(other, f))
            return true;
    return false;
}

static uint32_t missing_lanes(const sg_block_t *b, const sg_fiber_t *f)
{
    const uint32_t warp = f->index / SG_WARP;
    uint32_t missing = f->mask & b->lives[warp];
    for (uint32_t lane = 0; lane < SG_WARP; lane++) {
        const uint32_t i = warp * SG_WARP + lane;
        if (i < b->threads && b->fibers[i].wait == SG_GROUP && b->fibers[i].mask == f->mask &&
            b->fibers[i].op == f->op)
            missing &= ~(1u << lane);
    }
    return missing;
}

void sg_block_explain(const sg_block_t *b, char *out, size_t bytes)
{
    size_t at = 0;
    *out = 0;
    for (uint32_t i = 0; i < b->threads && at < bytes; i++) {
        const sg_fiber_t *f = &b->fibers[i];
        if (f->wait == SG_EXITED || told_before(b, f))
            continue;
        uint32_t count = 0;
        for (uint32_t j = 0; j < b->threads; j++)
            count += b->fibers[j].wait != SG_EXITED && alike(&b->fibers[j], f);
        const char *file = f->place.file ? strrchr(f->place.file, '/') : NULL;
        file = file ? file + 1 : f->place.file ? f->place.file : "?";
        at += (size_t)snprintf(out + at, bytes - at, "%s%u from thread %u on wait in %s at %s:%u",
                               at ? "; " : "", count, i, name_of(f), file, f->place.line);
        if (f->wait == SG_GROUP && at < bytes)
            at +=
                (size_t)snprintf(out + at, bytes - at, " with mask 0x%08x, of which lanes 0x%08x do not come",
                                 f->mask, missing_lanes(b, f));
    }
    if (at < bytes && b->alive < b->threads)
        snprintf(out + at, bytes - at, "; %u have exited", b->threads - b->alive);
}
