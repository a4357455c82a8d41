/* race.c: shared memory of a block in checked mode: which bytes have been written, and whether accesses of two threads to
 * one byte, of which one writes, are ordered.
 *
 * Order (Lamport 1978; the per-cell bookkeeping is that of Flanagan and Freund, "FastTrack", PLDI 2009, simplified). All
 * threads of a block start an epoch together at each barrier, so an access of an earlier epoch is ordered before
 * everything. Within an epoch each thread has a clock, which goes on when others may learn of it, and a vector of the clocks
 * that it knows of other threads: of its own warp's, which is where __syncwarp and shuffles order, and, from the
 * block's first atomic or volatile access on, of all threads'. These are taken to acquire and to release, though CUDA's
 * atomics are relaxed: a fence that is missing between them is not reported, and nothing is reported wrongly.
 *
 * A cell remembers its last writer and two readers; with more readers a race may be missed. Two threads that write the
 * same value do not race: whether they do is known after the write, so it is looked at before the next thing happens.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"

#include <stdlib.h>
#include <string.h>

typedef struct mark {
    uint32_t epoch, clock;
    uint16_t thread;
    uint8_t mask; /* bytes of the cell */
    bool sync;    /* atomic or volatile */
} mark_t;

typedef struct cell {
    uint32_t serial; /* of the block whose marks these are */
    uint8_t valid;   /* bytes that were written */
    mark_t write, read[2];
} cell_t;

/* What an address that threads synchronise by hands on: a row of clocks. */
typedef struct sync_slot {
    uintptr_t key; /* 0: free */
    uint32_t *clocks;
} sync_slot_t;

struct sg_check_block {
    uint32_t serial, threads, epoch;
    uint32_t *clock;            /* [threads] */
    uint32_t (*lanes)[SG_WARP]; /* [threads]: what each knows of its warp */
    uint32_t *all;              /* [threads][threads]; unused while `everybody` is false */
    bool everybody;
    sync_slot_t *slots; /* [slot_count], at most half full */
    uint32_t slot_count, slots_used;
    cell_t *cells;
    size_t cell_count;
};

/* A write over another thread's, unordered: harmless if it changes nothing. */
typedef struct pending {
    const void *at; /* NULL: none */
    size_t bytes;
    unsigned char before[16];
    const char *name;
    uint32_t other;
    softgpu_place_t place;
} pending_t;
static _Thread_local pending_t *pending SG_FAST_TLS; /* kept for ever */

static _Thread_local uint32_t serials;

/* ---- life ---- */

static void forget_slots(struct sg_check_block *c)
{
    for (uint32_t i = 0; i < c->slot_count && c->slots_used; i++) {
        free(c->slots[i].clocks);
        c->slots[i] = (sync_slot_t){0};
    }
    c->slots_used = 0;
}

static void free_all(struct sg_check_block *c)
{
    if (!c)
        return;
    forget_slots(c);
    free(c->slots);
    free(c->clock);
    free(c->lanes);
    free(c->all);
    free(c->cells);
    free(c);
}

static struct sg_check_block *make(size_t area_bytes)
{
    struct sg_check_block *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->cell_count = area_bytes / 4 + 1;
    c->cells = calloc(c->cell_count, sizeof *c->cells);
    c->clock = calloc(SG_MAX_WARPS * SG_WARP, sizeof *c->clock);
    c->lanes = calloc(SG_MAX_WARPS * SG_WARP, sizeof *c->lanes);
    if (!c->cells || !c->clock || !c->lanes) {
        free_all(c);
        return NULL;
    }
    return c;
}

void sg_check_block_begin(sg_block_t *b)
{
    static _Thread_local struct sg_check_block *kept; /* of blocks that run one after the other */
    if (!sg_run.checked)
        return;
    char *area;
    size_t bytes;
    sg_run_shared_area(&area, &bytes);
    if (!pending)
        pending = calloc(1, sizeof *pending);
    struct sg_check_block *c = sg_run.all ? NULL : kept;
    if (c && c->cell_count < bytes / 4 + 1) {
        free_all(c);
        c = NULL;
    }
    if (!c)
        c = make(bytes);
    if (!sg_run.all)
        kept = c;
    b->check = c;
    if (!c || !pending)
        return;
    c->serial = ++serials;
    c->threads = sg_run_threads();
    c->epoch = 1;
    c->everybody = false;
    memset(c->lanes, 0, c->threads * sizeof *c->lanes);
    for (uint32_t i = 0; i < c->threads; i++)
        c->clock[i] = 1;
    forget_slots(c);
    pending->at = NULL;
}

void sg_check_block_end(sg_block_t *b)
{
    if (sg_run.all)
        free_all(b->check);
    b->check = NULL;
}

/* ---- order ---- */

void sg_check_barrier(sg_block_t *b)
{
    if (!b->check)
        return;
    b->check->epoch++;
    forget_slots(b->check);
}

static uint32_t *row_of(struct sg_check_block *c, uint32_t thread)
{
    return c->all + (size_t)thread * c->threads;
}

static void learn(uint32_t *known, const uint32_t *more, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (known[i] < more[i])
            known[i] = more[i];
}

void sg_check_group(sg_block_t *b, uint32_t warp, uint32_t lanes)
{
    struct sg_check_block *c = b->check;
    if (!c || !(lanes & (lanes - 1)))
        return;
    const uint32_t first = warp * SG_WARP, leader = first + (uint32_t)__builtin_ctz(lanes);
    const uint32_t width = c->everybody ? c->threads : SG_WARP;
    uint32_t *joined = c->everybody ? row_of(c, leader) : c->lanes[leader];
    uint32_t *own = c->everybody ? joined + first : joined;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(rest), t = first + lane;
        if (t != leader)
            learn(joined, c->everybody ? row_of(c, t) : c->lanes[t], width);
        if (own[lane] < c->clock[t])
            own[lane] = c->clock[t];
        c->clock[t]++;
    }
    for (uint32_t rest = lanes & (lanes - 1); rest; rest &= rest - 1) {
        const uint32_t t = first + (uint32_t)__builtin_ctz(rest);
        memcpy(c->everybody ? row_of(c, t) : c->lanes[t], joined, width * sizeof *joined);
    }
}

/* From now on vectors are of all threads. */
static bool know_everybody(struct sg_check_block *c)
{
    if (c->everybody)
        return true;
    free(c->all);
    c->all = calloc((size_t)c->threads * c->threads, sizeof *c->all);
    if (!c->all)
        return false;
    for (uint32_t t = 0; t < c->threads; t++) {
        const uint32_t first = t / SG_WARP * SG_WARP, rest = c->threads - first;
        memcpy(row_of(c, t) + first, c->lanes[t], (rest < SG_WARP ? rest : SG_WARP) * sizeof(uint32_t));
    }
    c->everybody = true;
    return true;
}

static sync_slot_t *slot_in(sync_slot_t *slots, uint32_t count, uintptr_t key)
{
    uint32_t i = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (count - 1);
    while (slots[i].key && slots[i].key != key)
        i = (i + 1) & (count - 1);
    return &slots[i];
}

static sync_slot_t *slot_of(struct sg_check_block *c, uintptr_t key)
{
    if (2 * c->slots_used >= c->slot_count) {
        const uint32_t count = c->slot_count ? 2 * c->slot_count : 64;
        sync_slot_t *grown = calloc(count, sizeof *grown);
        if (!grown)
            return NULL;
        for (uint32_t i = 0; i < c->slot_count; i++)
            if (c->slots[i].key)
                *slot_in(grown, count, c->slots[i].key) = c->slots[i];
        free(c->slots);
        c->slots = grown;
        c->slot_count = count;
    }
    sync_slot_t *slot = slot_in(c->slots, c->slot_count, key);
    if (!slot->key) {
        slot->clocks = calloc(c->threads, sizeof *slot->clocks);
        if (!slot->clocks)
            return NULL;
        slot->key = key;
        c->slots_used++;
    }
    return slot;
}

void sg_check_sync(const void *at, bool acquire, bool release)
{
    struct sg_check_block *c = sg_run.block->check;
    sync_slot_t *slot = c && know_everybody(c) ? slot_of(c, (uintptr_t)at) : NULL;
    if (!slot)
        return;
    const uint32_t t = sg_run_thread();
    if (acquire)
        learn(row_of(c, t), slot->clocks, c->threads);
    if (release) {
        row_of(c, t)[t] = c->clock[t];
        learn(slot->clocks, row_of(c, t), c->threads);
        c->clock[t]++;
    }
}

static inline bool ordered(struct sg_check_block *c, const mark_t *before, uint32_t thread)
{
    if (before->epoch < c->epoch || before->thread == thread)
        return true;
    if (c->everybody)
        return before->clock <= row_of(c, thread)[before->thread];
    return before->thread / SG_WARP == thread / SG_WARP &&
           before->clock <= c->lanes[thread][before->thread % SG_WARP];
}

/* ---- cells ---- */

typedef struct touch {
    struct sg_check_block *check;
    const void *at;
    const char *name;
    size_t bytes;
    uint32_t thread;
    bool reads, writes, sync;
} touch_t;

static bool clash(const touch_t *t, const mark_t *m, uint8_t mask)
{
    return m->mask & mask && !(t->sync && m->sync) && !ordered(t->check, m, t->thread);
}

static void report(const touch_t *t, const mark_t *m, const char *what)
{
    sg_check_report(SG_RULE_RACE, CUDA_ERROR_LAUNCH_FAILED,
                    "%s %zu bytes of shared %s at %p, which thread %u has %s, and nothing orders the two",
                    t->writes ? "writes" : "reads", t->bytes, t->name, t->at, m->thread, what);
}

static void note_later(const touch_t *t, const mark_t *m)
{
    if (t->bytes > sizeof pending->before) {
        report(t, m, "written");
        return;
    }
    *pending = (pending_t){
        .at = t->at, .bytes = t->bytes, .name = t->name, .other = m->thread, .place = sg_run.place};
    memcpy(pending->before, t->at, t->bytes);
}

void sg_check_settle(void)
{
    if (!pending || !pending->at)
        return;
    const void *at = pending->at;
    pending->at = NULL;
    if (memcmp(at, pending->before, pending->bytes) == 0)
        return;
    sg_run.place = pending->place;
    sg_check_report(SG_RULE_RACE, CUDA_ERROR_LAUNCH_FAILED,
                    "writes %zu bytes of shared %s at %p, where thread %u has written something else, "
                    "and nothing orders "
                    "the two",
                    pending->bytes, pending->name, at, pending->other);
}

static inline void remember(mark_t *m, const touch_t *t, uint8_t mask)
{
    const mark_t fresh = {t->check->epoch, t->check->clock[t->thread], (uint16_t)t->thread, mask, t->sync};
    const bool same = m->epoch == fresh.epoch && m->clock == fresh.clock && m->thread == fresh.thread &&
                      m->sync == fresh.sync;
    const uint8_t before = m->mask;
    *m = fresh;
    if (same)
        m->mask |= before;
}

static void remember_read(cell_t *cell, const touch_t *t, uint8_t mask)
{
    for (int i = 0; i < 2; i++)
        if (!cell->read[i].mask || cell->read[i].thread == t->thread ||
            ordered(t->check, &cell->read[i], t->thread)) {
            remember(&cell->read[i], t, mask);
            return;
        }
    remember(&cell->read[t->check->clock[t->thread] % 2], t, mask);
}

static inline void touch_cell(const touch_t *t, cell_t *cell, uint8_t mask)
{
    if (cell->serial != t->check->serial)
        *cell = (cell_t){.serial = t->check->serial};
    if (clash(t, &cell->write, mask)) {
        if (t->writes && !t->reads)
            note_later(t, &cell->write);
        else
            report(t, &cell->write, "written");
    }
    for (int i = 0; t->writes && i < 2; i++)
        if (clash(t, &cell->read[i], mask))
            report(t, &cell->read[i], "read");
    if (t->writes) {
        remember(&cell->write, t, mask);
        cell->valid |= mask;
    } else {
        remember_read(cell, t, mask);
    }
}

/* Any byte of it: compilers copy structs by words, with their padding, which nothing writes. */
static bool initialised(const touch_t *t, const cell_t *cells, size_t offset)
{
    bool any = false;
    for (size_t at = offset; at < offset + t->bytes;) {
        const size_t end = at / 4 * 4 + 4 < offset + t->bytes ? at / 4 * 4 + 4 : offset + t->bytes;
        const uint8_t mask = (uint8_t)(((1u << (end - at)) - 1) << at % 4);
        const cell_t *cell = &cells[at / 4];
        any = any || (cell->serial == t->check->serial && cell->valid & mask);
        at = end;
    }
    return any;
}

void sg_check_shared(size_t offset, size_t bytes, softgpu_access_t how, const void *at, const char *name)
{
    struct sg_check_block *c = sg_run.block->check;
    if (!c || !pending)
        return;
    const touch_t t = {.check = c,
                       .at = at,
                       .name = name,
                       .bytes = bytes,
                       .thread = sg_run_thread(),
                       .reads = how != SOFTGPU_WRITE && how != SOFTGPU_VOLATILE_WRITE,
                       .writes = how != SOFTGPU_READ && how != SOFTGPU_VOLATILE_READ,
                       .sync = how != SOFTGPU_READ && how != SOFTGPU_WRITE};
    if (t.reads && !initialised(&t, c->cells, offset))
        sg_check_report(SG_RULE_UNINITIALISED, CUDA_ERROR_LAUNCH_FAILED,
                        "reads %zu bytes of shared %s at %p, which no thread of the block has written", bytes,
                        name, at);
    for (size_t o = offset; o < offset + bytes;) {
        const size_t end = o / 4 * 4 + 4 < offset + bytes ? o / 4 * 4 + 4 : offset + bytes;
        touch_cell(&t, &c->cells[o / 4], (uint8_t)(((1u << (end - o)) - 1) << o % 4));
        o = end;
    }
}
