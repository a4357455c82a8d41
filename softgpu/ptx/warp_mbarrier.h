/* softgpu/ptx/warp_mbarrier.h: barriers in shared memory, and copies of blocks of bytes that complete on them; see warp.h.
 *
 * What is in a barrier's 64 bits is not documented; here, from bit 0 (sg_mbarrier_t):
 *   pending    arrivals that the current phase waits for
 *   expected   those of the next one
 *   bytes      that copies have still to bring, as a signed number
 *   there      initialised, and not invalidated
 *   phase      parity of the current phase
 * A phase is over when pending and bytes are 0. The state that an arrival gives is the word as it was before.
 *
 * A copy (cp.async.bulk) to shared memory is put off until its barrier is asked whether a phase is over, so that a wait that is
 * missing shows. All warps of a block are fibers of one thread: nothing here is atomic. */
#ifndef SG_PTX_WARP_MBARRIER_H
#define SG_PTX_WARP_MBARRIER_H

typedef union sg_mbarrier {
    uint64_t word;
    struct {
        uint64_t pending : 20, expected : 20;
        int64_t bytes : 22;
        uint64_t there : 1, phase : 1;
    };
} sg_mbarrier_t;

#define SG_MBARRIER_MOST ((1u << 20) - 1)

SG_SLOW void sg_mbarrier_fail(const sg_warp_t *w, uint64_t at, const char *what)
{
    char why[128];
    snprintf(why, sizeof why, "the mbarrier at 0x%llx %s", (unsigned long long)at, what);
    sg_fail(w, SG_ERROR_LAUNCH, why);
}

SG_SLOW sg_mbarrier_t *sg_mbarrier_at(const sg_warp_t *w, uint32_t lane, uint64_t at)
{
    sg_mbarrier_t *b = (sg_mbarrier_t *)(uintptr_t)at;
    sg_aligned_one(w, at, 8);
    (void)lane;
    sg_announce(w, lane, at, 8, SOFTGPU_ATOMIC);
    if (!b->there)
        sg_mbarrier_fail(w, at, "is not initialised");
    return b;
}

SG_INLINE void sg_mbarrier_complete(sg_mbarrier_t *b)
{
    if (b->pending || b->bytes)
        return;
    b->pending = b->expected;
    b->phase ^= 1;
}

SG_SLOW void sg_mbarrier_add_bytes(const sg_warp_t *w, sg_mbarrier_t *b, int64_t bytes)
{
    const int64_t sum = b->bytes + bytes;
    if (sum > (int64_t)SG_MBARRIER_MOST || sum < -(int64_t)SG_MBARRIER_MOST)
        sg_mbarrier_fail(w, sg_address(b), "counts more bytes than it can");
    b->bytes = sum;
}

SG_SLOW void sg_mbarrier_init(const sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v32 count)
{
    const sg_l64 at = {address};
    const sg_l32 n = {count};
    SG_FOR_LANES(i, mask)
    {
        sg_aligned_one(w, at.u[i], 8);
        if (n.u[i] == 0 || n.u[i] > SG_MBARRIER_MOST)
            sg_mbarrier_fail(w, at.u[i], "is initialised for no arrivals, or too many");
        sg_announce(w, i, at.u[i], 8, SOFTGPU_WRITE);
        ((sg_mbarrier_t *)(uintptr_t)at.u[i])->word = 0;
        *(sg_mbarrier_t *)(uintptr_t)at.u[i] =
            (sg_mbarrier_t){.pending = n.u[i], .expected = n.u[i], .there = 1};
    }
}

SG_SLOW void sg_mbarrier_inval(const sg_warp_t *w, uint32_t mask, sg_v64 address)
{
    const sg_l64 at = {address};
    SG_FOR_LANES(i, mask)
    sg_mbarrier_at(w, i, at.u[i])->word = 0;
}

/* expect_tx: bytes to come; complete_tx: that have come. */
SG_SLOW void sg_mbarrier_bytes(const sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v32 bytes, bool come)
{
    const sg_l64 at = {address};
    const sg_l32 n = {bytes};
    SG_FOR_LANES(i, mask)
    {
        sg_mbarrier_t *b = sg_mbarrier_at(w, i, at.u[i]);
        sg_mbarrier_add_bytes(w, b, come ? -(int64_t)n.u[i] : n.u[i]);
        if (come)
            sg_mbarrier_complete(b);
    }
}

/* `bytes`: expected before; drop: fewer arrivals from the next phase on; may_complete false: the program says that it does not. */
SG_SLOW sg_v64 sg_mbarrier_arrive(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v32 count, sg_v32 bytes,
                                  bool drop, bool may_complete)
{
    const sg_l64 at = {address};
    const sg_l32 n = {count}, more = {bytes};
    sg_l64 d = {sg_all64(0)};
    SG_FOR_LANES(i, mask)
    {
        sg_mbarrier_t *b = sg_mbarrier_at(w, i, at.u[i]);
        sg_mbarrier_add_bytes(w, b, more.u[i]);
        d.u[i] = b->word;
        if (n.u[i] == 0 || n.u[i] > b->pending || (drop && n.u[i] > b->expected) ||
            (!may_complete && n.u[i] == b->pending && !b->bytes))
            sg_mbarrier_fail(w, at.u[i],
                             may_complete ? "has more arrivals than it expects"
                                          : "would complete by an arrival that says it does not");
        b->pending -= n.u[i];
        if (drop)
            b->expected -= n.u[i];
        sg_mbarrier_complete(b);
    }
    return d.v;
}

/* ---- copies ---- */
SG_SLOW void sg_bulk_check(const sg_warp_t *w, uint64_t to, uint64_t from, uint32_t bytes)
{
    char why[128];
    if (!((to | from | bytes) & 15))
        return;
    snprintf(why, sizeof why, "a copy of %u bytes from 0x%llx to 0x%llx: multiples of 16 are wanted", bytes,
             (unsigned long long)from, (unsigned long long)to);
    sg_fail(w, SG_ERROR_MISALIGNED, why);
}

SG_SLOW void sg_bulk_move(const sg_warp_t *w, uint32_t lane, const sg_bulk_t *copy)
{
    (void)w, (void)lane;
    for (uint32_t k = 0; k < copy->bytes; k += 8) {
        sg_announce(w, lane, copy->from + k, 8, SOFTGPU_READ);
        sg_announce(w, lane, copy->to + k, 8, SOFTGPU_WRITE);
        *(uint64_t *)(uintptr_t)(copy->to + k) = *(const uint64_t *)(uintptr_t)(copy->from + k);
    }
}

/* The oldest ones, to the last that is the barrier's; 0: of all. */
SG_SLOW void sg_bulk_run(const sg_warp_t *w, uint32_t lane, uint64_t barrier)
{
    sg_barriers_t *b = w->barriers;
    uint32_t last = 0;
    for (uint32_t i = 0; i < b->copy_count; i++)
        if (!barrier || b->copies[i].barrier == barrier)
            last = i + 1;
    for (uint32_t i = 0; i < last; i++) {
        const sg_bulk_t *copy = &b->copies[i];
        sg_bulk_move(w, lane, copy);
        sg_mbarrier_t *of = sg_mbarrier_at(w, lane, copy->barrier);
        sg_mbarrier_add_bytes(w, of, -(int64_t)copy->bytes);
        sg_mbarrier_complete(of);
    }
    b->copy_count -= last;
    memmove(b->copies, b->copies + last, b->copy_count * sizeof *b->copies);
}

SG_SLOW void sg_bulk_to_shared(const sg_warp_t *w, uint32_t mask, sg_v64 to, sg_v64 from, sg_v32 bytes,
                               sg_v64 barrier)
{
    const sg_l64 t = {to}, f = {from}, at = {barrier};
    const sg_l32 n = {bytes};
    sg_barriers_t *b = w->barriers;
    SG_FOR_LANES(i, mask)
    {
        sg_bulk_check(w, t.u[i], f.u[i], n.u[i]);
        sg_mbarrier_at(w, i, at.u[i]);
        if (b->copy_count == SG_COPIES_MOST)
            sg_bulk_run(w, i, 0);
        b->copies[b->copy_count++] = (sg_bulk_t){t.u[i], f.u[i], at.u[i], n.u[i]};
    }
}

/* At once: what it reads may be written again after cp.async.bulk.wait_group. */
SG_SLOW void sg_bulk_to_global(const sg_warp_t *w, uint32_t mask, sg_v64 to, sg_v64 from, sg_v32 bytes)
{
    const sg_l64 t = {to}, f = {from};
    const sg_l32 n = {bytes};
    SG_FOR_LANES(i, mask)
    {
        const sg_bulk_t copy = {t.u[i], f.u[i], 0, n.u[i]};
        sg_bulk_check(w, t.u[i], f.u[i], n.u[i]);
        sg_bulk_move(w, i, &copy);
    }
}

/* ---- copies of tensors: of a box of two dimensions, at once; what of it lies outside the tensor is 0, and is not stored ---- */
SG_SLOW void sg_box_row(const sg_warp_t *w, uint32_t lane, uint64_t to, uint64_t from, uint64_t bytes)
{
    (void)w, (void)lane;
#ifdef SG_CHECKED
    w->services->lane(lane, w->place);
    w->services->access((const void *)(uintptr_t)to, bytes, SOFTGPU_WRITE_STRUCT);
    if (from)
        w->services->access((const void *)(uintptr_t)from, bytes, SOFTGPU_READ_STRUCT);
#endif
    if (from)
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    else
        memset((void *)(uintptr_t)to, 0, bytes);
}

/* The box's bytes. */
SG_SLOW int64_t sg_tensor_move(const sg_warp_t *w, uint32_t lane, uint64_t map, int64_t x, int64_t y,
                               uint64_t box, bool store, softgpu_place_t place)
{
    softgpu_tensor_t t;
    if (!w->services->read_tensor_map((const void *)(uintptr_t)map, &t) || t.rank != 2)
        sg_fail_at(w, lane, SG_ERROR_INSTRUCTION,
                   "a tensor copy by something that is no tensor map of two dimensions", place);
    if (box % 128)
        sg_fail_at(w, lane, SG_ERROR_MISALIGNED, "a tensor copy's box is not aligned to 128 bytes", place);
    const int64_t row_bytes = (int64_t)t.box[0] * t.element_bytes, width = (int64_t)t.size[0];
    const int64_t first = x < 0 ? -x : 0, end = x + t.box[0] > width ? width - x : t.box[0];
    for (uint32_t row = 0; row < t.box[1]; row++, box += (uint64_t)row_bytes) {
        if (!store)
            sg_box_row(w, lane, box, 0, (uint64_t)row_bytes);
        if (y + row < 0 || y + row >= (int64_t)t.size[1] || first >= end)
            continue;
        const uint64_t at = sg_address(t.at) + (uint64_t)(y + row) * t.stride[1] +
                            (uint64_t)(x + first) * t.element_bytes,
                       inside = box + (uint64_t)first * t.element_bytes;
        sg_box_row(w, lane, store ? at : inside, store ? inside : at,
                   (uint64_t)(end - first) * t.element_bytes);
    }
    return row_bytes * t.box[1];
}

SG_SLOW void sg_tensor_to_shared(const sg_warp_t *w, uint32_t mask, sg_v64 map, sg_v32 x, sg_v32 y,
                                 sg_v64 box, sg_v64 barrier, softgpu_place_t place)
{
    const sg_l64 m = {map}, b = {box}, at = {barrier};
    const sg_l32 px = {x}, py = {y};
    SG_FOR_LANES(i, mask)
    {
        sg_mbarrier_t *of = sg_mbarrier_at(w, i, at.u[i]);
        const int64_t bytes =
            sg_tensor_move(w, i, m.u[i], (int32_t)px.u[i], (int32_t)py.u[i], b.u[i], false, place);
        sg_mbarrier_add_bytes(w, of, -bytes);
        sg_mbarrier_complete(of);
    }
}

SG_SLOW void sg_tensor_to_global(const sg_warp_t *w, uint32_t mask, sg_v64 map, sg_v32 x, sg_v32 y,
                                 sg_v64 box, softgpu_place_t place)
{
    const sg_l64 m = {map}, b = {box};
    const sg_l32 px = {x}, py = {y};
    SG_FOR_LANES(i, mask)
    sg_tensor_move(w, i, m.u[i], (int32_t)px.u[i], (int32_t)py.u[i], b.u[i], true, place);
}

/* ---- whether a phase is over ---- */
/* The lanes for which it is: that of the state, or the one of that parity. */
SG_SLOW uint32_t sg_mbarrier_test(sg_warp_t *w, uint32_t mask, sg_v64 address, sg_v64 state)
{
    const sg_l64 at = {address};
    sg_l64 s = {state};
    uint32_t d = 0;
    w->waits++;
    SG_FOR_LANES(i, mask)
    {
        const sg_mbarrier_t *b = sg_mbarrier_at(w, i, at.u[i]);
        const sg_mbarrier_t then = {s.u[i]};
        sg_bulk_run(w, i, at.u[i]);
        d |= (uint32_t)(b->phase != then.phase) << i;
    }
    return d;
}
SG_INLINE sg_v64 sg_mbarrier_parity(sg_v32 parity)
{
    const sg_l32 p = {parity};
    sg_l64 d;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d.u[i] = (sg_mbarrier_t){.phase = p.u[i] & 1}.word;
    return d.v;
}
SG_INLINE sg_v32 sg_mbarrier_pending(sg_v64 state)
{
    const sg_l64 s = {state};
    sg_l32 d;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d.u[i] = (sg_mbarrier_t){s.u[i]}.pending;
    return d.v;
}

#endif
