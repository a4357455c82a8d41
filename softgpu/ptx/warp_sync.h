/* softgpu/ptx/warp_sync.h: what lanes do together, barriers, and functions that are not in the module; see warp.h.
 *
 * The lanes of `mask` have met (sg_meet): for each of them, all that live of its member mask are among the lanes of `met`, which has
 * those of other activations, too. Operands are of `met`, results of `mask`. */
#ifndef SG_PTX_WARP_SYNC_H
#define SG_PTX_WARP_SYNC_H

// clang-format off
/* ---- shfl.sync: the lane that is read; *in_range: where it is in its segment ---- */
#define SG_SHUFFLE(name, from, inside) \
    SG_INLINE sg_v32 sg_shfl_##name(sg_v32 x, sg_v32 y, sg_v32 z, uint32_t *in_range) \
    { \
        sg_l32 a = {x}, b = {y}, c = {z}, d; \
        uint32_t p = 0; \
        for (int i = 0; i < SG_WARP; i++) { \
            const int segment = c.u[i] >> 8 & 31, by = b.u[i] & 31, low = i & segment, most = low | (int)(c.u[i] & 31 & (uint32_t)~segment), j = from; \
            (void)low; \
            const bool ok = inside; \
            p |= (uint32_t)ok << i; \
            d.u[i] = a.u[ok ? j & 31 : i]; \
        } \
        *in_range = p; \
        return d.v; \
    }
SG_SHUFFLE(up, i - by, j >= most) SG_SHUFFLE(down, i + by, j <= most) SG_SHUFFLE(bfly, i ^ by, j <= most) SG_SHUFFLE(idx, low | (by & ~segment), j <= most)
/* The same by a constant distance in the whole warp, as reductions do. */
#define SG_SHUFFLE_ALL(name, from, inside) \
    SG_INLINE sg_v32 sg_shfl_##name##_all(sg_v32 x, int by, uint32_t *in_range) \
    { sg_l32 a = {x}, d; uint32_t p = 0; for (int i = 0; i < SG_WARP; i++) { const int j = from; p |= (uint32_t)(inside) << i; d.u[i] = a.u[(inside) ? j : i]; } *in_range = p; return d.v; }
SG_SHUFFLE_ALL(up, i - by, j >= 0) SG_SHUFFLE_ALL(down, i + by, j <= 31) SG_SHUFFLE_ALL(bfly, i ^ by, j <= 31) SG_SHUFFLE_ALL(idx, by, j <= 31)

/* ---- lanes that are not there, or that the mask does not name: what is read of them is undefined ---- */
SG_SLOW sg_v32 sg_absent(const sg_warp_t *w, uint32_t mask, uint32_t met, sg_v32 members, sg_v32 from, sg_v32 x)
{
    const sg_l32 source = {from}, named = {members};
    uint32_t absent = 0;
    SG_FOR_LANES (i, mask) absent |= (uint32_t)!((met & named.u[i]) >> source.u[i] & 1) << i;
#ifdef SG_CHECKED
    if (absent) {
        const uint32_t i = sg_first(absent);
        char why[160];
        if (named.u[i] >> source.u[i] & 1)
            snprintf(why, sizeof why, "rule warp-mask: shfl.sync: lane %u reads from lane %u, which has not come to it (there are 0x%08x)", i, source.u[i], met);
        else
            snprintf(why, sizeof why, "rule warp-mask: shfl.sync: lane %u reads from lane %u, which its mask 0x%08x does not name", i, source.u[i], named.u[i]);
        w->services->lane(i, w->place);
        w->services->fail(SG_ERROR_LAUNCH, why, w->place);
    }
#else
    (void)w;
#endif
    return sg_set32(absent, sg_all32(0xdbdbdbdb), x);
}

/* ---- votes: a group is a lane's members that are here ---- */
#define SG_VOTE(name, expression) \
    SG_INLINE uint32_t sg_vote_##name(uint32_t met, uint32_t p, sg_v32 members) \
    { sg_l32 m = {members}; uint32_t d = 0; for (int i = 0; i < SG_WARP; i++) { const uint32_t group = m.u[i] & met, yes = p & group; d |= (uint32_t)(expression) << i; } return d; }
SG_VOTE(all, yes == group) SG_VOTE(any, yes != 0) SG_VOTE(uni, yes == group || yes == 0)
SG_INLINE sg_v32 sg_vote_ballot(uint32_t met, uint32_t p, sg_v32 members) { return sg_and_b32(members, sg_all32(p & met)); }

#define SG_MATCH(bits) \
    SG_INLINE sg_v32 sg_match_any_b##bits(uint32_t mask, uint32_t met, sg_v##bits a, sg_v32 members) \
    { sg_l32 m = {members}, d = {sg_all32(0)}; SG_FOR_LANES (i, mask) d.u[i] = sg_eq_u##bits(a, sg_all##bits(sg_lane##bits(a, i))) & m.u[i] & met; return d.v; } \
    SG_INLINE sg_v32 sg_match_all_b##bits(uint32_t mask, uint32_t met, sg_v##bits a, sg_v32 members, uint32_t *all) \
    { \
        sg_l32 m = {members}, d = {sg_all32(0)}; uint32_t p = 0; \
        SG_FOR_LANES (i, mask) { \
            const uint32_t group = m.u[i] & met, same = sg_eq_u##bits(a, sg_all##bits(sg_lane##bits(a, i))) & group; \
            p |= (uint32_t)(same == group) << i; d.u[i] = same == group ? m.u[i] : 0; \
        } \
        *all = p; return d.v; \
    }
SG_MATCH(32) SG_MATCH(64)

#define SG_REDUX(name, first, expression) \
    SG_INLINE sg_v32 sg_redux_##name(uint32_t mask, uint32_t met, sg_v32 x, sg_v32 members) \
    { \
        sg_l32 a = {x}, m = {members}, d = {sg_all32(0)}; \
        for (uint32_t todo = mask; todo;) { \
            const uint32_t group = m.u[sg_first(todo)] & met; \
            uint32_t s = a.u[sg_first(group)]; \
            SG_FOR_LANES (i, group & (group - 1)) { const uint32_t y = a.u[i]; s = expression; } \
            SG_FOR_LANES (i, group) d.u[i] = s; \
            todo &= ~group; \
        } \
        return d.v; \
    }
SG_REDUX(add_u32, 0, s + y) SG_REDUX(add_s32, 0, s + y) SG_REDUX(and_b32, 0, s & y) SG_REDUX(or_b32, 0, s | y) SG_REDUX(xor_b32, 0, s ^ y)
SG_REDUX(min_u32, 0, s < y ? s : y) SG_REDUX(max_u32, 0, s > y ? s : y) SG_REDUX(min_s32, 0, (int32_t)s < (int32_t)y ? s : y) SG_REDUX(max_s32, 0, (int32_t)s > (int32_t)y ? s : y)
#define SG_REDUX_F32(name) SG_REDUX(name##_f32, 0, sg_lane32(sg_##name##_f32(sg_all32(s), sg_all32(y)), 0))
SG_REDUX_F32(min) SG_REDUX_F32(max) SG_REDUX_F32(min_nan) SG_REDUX_F32(max_nan)

SG_INLINE sg_v32 sg_elect(uint32_t mask, uint32_t met, sg_v32 members, uint32_t *leader)
{
    sg_l32 m = {members}, d = {sg_all32(0)};
    uint32_t p = 0;
    SG_FOR_LANES (i, mask) { d.u[i] = sg_first(m.u[i] & met); p |= (uint32_t)(d.u[i] == i) << i; }
    *leader = p;
    return d.v;
}
// clang-format on

/* ---- barriers of the block ---- */
#define SG_COPIES_MOST 20
typedef struct sg_bulk {
    uint64_t to, from, barrier;
    uint32_t bytes;
} sg_bulk_t;

/* Of a block; in the window of shared memory, in 1024 bytes. All 0 when no warp waits. */
typedef struct sg_barriers {
    struct {
        uint32_t arrived, generation; /* threads, whole warps */
        uint32_t yes, lanes;          /* bar.red: of warps that have not read the result */
    } of[16];
    uint32_t copy_count;
    sg_bulk_t copies[SG_COPIES_MOST]; /* to shared memory, put off (warp_mbarrier.h) */
} sg_barriers_t;
_Static_assert(sizeof(sg_barriers_t) <= 1024, "translate.c has room for so many");

/* count 0: all warps. */
SG_SLOW void sg_barrier_arrive(sg_warp_t *w, uint32_t id, uint32_t count)
{
    sg_barriers_t *b = w->barriers;
    if (id > 15)
        sg_fail(w, SG_ERROR_LAUNCH, "a barrier has a number from 0 to 15");
    sg_order(w, w->alive, &b->of[id]);
    b->of[id].arrived += SG_WARP;
    if (b->of[id].arrived >= (count ? count : w->warps * SG_WARP)) {
        b->of[id].arrived = 0;
        b->of[id].generation++;
    }
}

SG_SLOW void sg_barrier_sync(sg_warp_t *w, uint32_t id, uint32_t count, softgpu_place_t place)
{
    w->waits = 0;
    if (id == 0 && (count == 0 || count >= w->warps * SG_WARP)) {
        w->services->barrier(place);
        return;
    }
    sg_barriers_t *b = w->barriers;
    const uint32_t generation = id > 15 ? 0 : b->of[id].generation;
    sg_barrier_arrive(w, id, count);
    for (uint64_t rounds = 0; b->of[id].generation == generation; rounds++) {
        if (rounds == 20000000)
            sg_fail(w, SG_ERROR_LAUNCH, "a barrier of some warps is never complete");
        w->services->pause();
    }
    sg_order(w, w->alive, &b->of[id]);
}

/* How many lanes have the predicate; *lanes: of how many. */
SG_SLOW uint32_t sg_barrier_red(sg_flow_t *flow, uint32_t id, uint32_t count, uint32_t p, uint32_t *lanes,
                                softgpu_place_t place)
{
    sg_warp_t *w = flow->warp;
    sg_meeting_t *meeting = flow->meeting;
    const uint32_t mask = flow->met;
    if (sg_was_led(flow)) {
        *lanes = meeting->lanes;
        return meeting->result;
    }
    sg_barriers_t *b = w->barriers;
    const uint32_t yes = (uint32_t)__builtin_popcount(p & mask), here = (uint32_t)__builtin_popcount(mask);
    if (id > 15)
        sg_fail(w, SG_ERROR_LAUNCH, "a barrier has a number from 0 to 15");
    b->of[id].yes += yes;
    b->of[id].lanes += here;
    sg_barrier_sync(w, id, count, place);
    const uint32_t result = b->of[id].yes;
    *lanes = b->of[id].lanes;
    sg_barrier_sync(w, id, count, place);
    b->of[id].yes -= yes;
    b->of[id].lanes -= here;
    if (meeting) {
        meeting->result = result;
        meeting->lanes = *lanes;
    }
    return result;
}

/* ---- cp.async ---- */
SG_SLOW void sg_copy_async(sg_warp_t *w, uint32_t mask, sg_v64 to, sg_v64 from, uint32_t bytes,
                           sg_v32 from_bytes, softgpu_place_t place)
{
    sg_l64 t = {to}, f = {from};
    sg_l32 n = {from_bytes};
    sg_aligned(w, mask, to, bytes);
    sg_aligned(w, mask, from, bytes);
    SG_FOR_LANES(i, mask)
    {
        SG_LANE(w, i, place);
        w->services->copy_async((void *)(uintptr_t)t.u[i], (const void *)(uintptr_t)f.u[i], bytes,
                                n.u[i] < bytes ? n.u[i] : bytes, place);
    }
}

/* ---- matrices ---- */
SG_SLOW void sg_whole(const sg_warp_t *w, uint32_t mask, const char *name, softgpu_place_t place)
{
    char why[96];
    if (mask == SG_ALL)
        return;
    snprintf(why, sizeof why, "%s wants all 32 lanes of its warp, and there are 0x%08x", name, mask);
    w->services->fail(SG_ERROR_LAUNCH, why, place);
    __builtin_trap();
}

SG_SLOW void sg_ldmatrix(const sg_warp_t *w, sg_v64 address, uint32_t count, bool transposed, sg_v32 *out)
{
    sg_l64 at = {address};
    sg_aligned(w, count == 4 ? SG_ALL : (1u << 8 * count) - 1, address, 16);
    for (uint32_t i = 0; i < 16 * count; i++)
        sg_announce(w, i / 2, at.u[i / 2] + i % 2 * 8, 8, SOFTGPU_READ);
    for (uint32_t m = 0; m < count; m++) {
        sg_l32 d;
        for (uint32_t i = 0; i < SG_WARP; i++) {
            uint32_t x = 0;
            for (uint32_t e = 0; e < 2; e++) {
                const uint32_t row = transposed ? i % 4 * 2 + e : i / 4,
                               column = transposed ? i / 4 : i % 4 * 2 + e;
                x |= (uint32_t)((const uint16_t *)(uintptr_t)at.u[8 * m + row])[column] << 16 * e;
            }
            d.u[i] = x;
        }
        out[m] = d.v;
    }
}

SG_SLOW void sg_stmatrix(const sg_warp_t *w, sg_v64 address, uint32_t count, bool transposed,
                         const sg_v32 *in)
{
    sg_l64 at = {address};
    sg_aligned(w, count == 4 ? SG_ALL : (1u << 8 * count) - 1, address, 16);
    for (uint32_t i = 0; i < 16 * count; i++)
        sg_announce(w, i / 2, at.u[i / 2] + i % 2 * 8, 8, SOFTGPU_WRITE);
    for (uint32_t m = 0; m < count; m++) {
        sg_l32 a = {in[m]};
        for (uint32_t i = 0; i < SG_WARP; i++)
            for (uint32_t e = 0; e < 2; e++) {
                const uint32_t row = transposed ? i % 4 * 2 + e : i / 4,
                               column = transposed ? i / 4 : i % 4 * 2 + e;
                ((uint16_t *)(uintptr_t)at.u[8 * m + row])[column] = (uint16_t)(a.u[i] >> 16 * e);
            }
    }
}

SG_SLOW sg_v32 sg_movmatrix(sg_v32 x)
{
    sg_l32 a = {x}, d;
    for (uint32_t i = 0; i < SG_WARP; i++) {
        uint32_t y = 0;
        for (uint32_t e = 0; e < 2; e++) {
            const uint32_t row = i % 4 * 2 + e, column = i / 4;
            y |= (a.u[row * 4 + column / 2] >> 16 * (column % 2) & 0xffff) << 16 * e;
        }
        d.u[i] = y;
    }
    return d.v;
}

typedef enum sg_element { SG_F16, SG_BF16, SG_TF32, SG_E4M3, SG_E5M2, SG_U8, SG_S8, SG_F64 } sg_element_t;

/* d = a * b + c for one warp. Fragments as in chapter 9.7.15 of the PTX ISA: of a register r with `per` elements, lane i has of a
 * row i / 4 + 8 * (r % 2) and the columns from i % 4 * per + 4 * per * (r / 2), of b the column i / 4 and the rows from i % 4 * per +
 * 4 * per * r, of c and d the columns i % 4 * 2 and the next one. Sums of floats run over k in f32, one rounding a product. */
#define SG_MMA_PARTS(type, zero, decode_a, decode_b)                                                         \
    type a[16][32], b[32][8];                                                                                \
    for (uint32_t r = 0; r < (m == 16 ? 2 * k / (4 * per) : k / (4 * per)); r++)                             \
        for (uint32_t i = 0; i < SG_WARP; i++)                                                               \
            for (uint32_t e = 0; e < per; e++) {                                                             \
                const uint32_t up = m == 16 ? r % 2 : 0, along = m == 16 ? r / 2 : r;                        \
                a[i / 4 + 8 * up][i % 4 * per + e + 4 * per * along] = decode_a;                             \
            }                                                                                                \
    for (uint32_t r = 0; r < k / (4 * per); r++)                                                             \
        for (uint32_t i = 0; i < SG_WARP; i++)                                                               \
            for (uint32_t e = 0; e < per; e++)                                                               \
    b[i % 4 * per + e + 4 * per * r][i / 4] = decode_b

SG_INLINE float sg_element_of(sg_element_t type, uint32_t x, uint32_t e)
{
    switch (type) {
    case SG_F16:
        return (float)sg_unpack_float(&sg_format_f16, x >> 16 * e & 0xffff);
    case SG_BF16:
        return sg_float((x >> 16 * e & 0xffff) << 16);
    case SG_TF32:
        return sg_float(x & 0xffffe000u);
    case SG_E4M3:
        return (float)sg_unpack_float(&sg_format_e4m3, x >> 8 * e & 0xff);
    default:
        return (float)sg_unpack_float(&sg_format_e5m2, x >> 8 * e & 0xff);
    }
}

SG_SLOW void sg_mma_float(uint32_t k, sg_element_t type_a, sg_element_t type_b, bool half, const sg_v32 *x,
                          const sg_v32 *y, const sg_v32 *z, sg_v32 *out)
{
    const uint32_t m = 16, per = type_a == SG_TF32 ? 1 : type_a == SG_F16 || type_a == SG_BF16 ? 2 : 4;
    const sg_l32 *ra = (const sg_l32 *)(const void *)x, *rb = (const sg_l32 *)(const void *)y,
                 *rc = (const sg_l32 *)(const void *)z;
    sg_l32 *rd = (sg_l32 *)(void *)out;
    float d[16][8];
    SG_MMA_PARTS(float, 0, sg_element_of(type_a, ra[r].u[i], e), sg_element_of(type_b, rb[r].u[i], e));
    for (uint32_t i = 0; i < SG_WARP; i++)
        for (uint32_t n = 0; n < 4; n++)
            d[i / 4 + 8 * (n / 2)][i % 4 * 2 + n % 2] =
                half ? sg_element_of(SG_F16, rc[n / 2].u[i], n % 2) : rc[n].f[i];
    for (uint32_t row = 0; row < m; row++)
        for (uint32_t j = 0; j < k; j++)
            for (uint32_t column = 0; column < 8; column++)
                d[row][column] = fmaf(a[row][j], b[j][column], d[row][column]);
    for (uint32_t i = 0; i < SG_WARP; i++)
        for (uint32_t n = 0; n < 4; n++) {
            const float s = d[i / 4 + 8 * (n / 2)][i % 4 * 2 + n % 2];
            if (half)
                rd[n / 2].u[i] = n % 2 ? rd[n / 2].u[i] | sg_pack_float(&sg_format_f16, s, SG_RN) << 16
                                       : sg_pack_float(&sg_format_f16, s, SG_RN);
            else
                rd[n].f[i] = s;
        }
}

SG_SLOW void sg_mma_int(uint32_t m, uint32_t k, bool signed_a, bool signed_b, bool saturate, const sg_v32 *x,
                        const sg_v32 *y, const sg_v32 *z, sg_v32 *out)
{
    const uint32_t per = 4;
    const sg_l32 *ra = (const sg_l32 *)(const void *)x, *rb = (const sg_l32 *)(const void *)y,
                 *rc = (const sg_l32 *)(const void *)z;
    sg_l32 *rd = (sg_l32 *)(void *)out;
    SG_MMA_PARTS(int32_t, 0,
                 (signed_a ? (int8_t)(ra[r].u[i] >> 8 * e) : (int32_t)(ra[r].u[i] >> 8 * e & 255)),
                 (signed_b ? (int8_t)(rb[r].u[i] >> 8 * e) : (int32_t)(rb[r].u[i] >> 8 * e & 255)));
    for (uint32_t i = 0; i < SG_WARP; i++)
        for (uint32_t n = 0; n < m / 4; n++) {
            int64_t s = rc[n].s[i];
            for (uint32_t j = 0; j < k; j++)
                s += (int64_t)a[i / 4 + 8 * (n / 2)][j] * b[j][i % 4 * 2 + n % 2];
            rd[n].s[i] = saturate ? SG_CLAMP_S32(s) : (int32_t)(uint32_t)(uint64_t)s;
        }
}

SG_SLOW void sg_mma_f64(uint32_t m, uint32_t k, const sg_v64 *x, const sg_v64 *y, const sg_v64 *z,
                        sg_v64 *out)
{
    const uint32_t per = 1;
    const sg_l64 *ra = (const sg_l64 *)(const void *)x, *rb = (const sg_l64 *)(const void *)y,
                 *rc = (const sg_l64 *)(const void *)z;
    sg_l64 *rd = (sg_l64 *)(void *)out;
    SG_MMA_PARTS(double, 0, ra[r].f[i], rb[r].f[i]);
    for (uint32_t i = 0; i < SG_WARP; i++)
        for (uint32_t n = 0; n < m / 4; n++) {
            double s = rc[n].f[i];
            for (uint32_t j = 0; j < k; j++)
                s = fma(a[i / 4 + 8 * (n / 2)][j], b[j][i % 4 * 2 + n % 2], s);
            rd[n].f[i] = s;
        }
}

/* ---- functions that a program calls and the driver has ---- */
/* printf with the arguments in memory, each aligned to its size. */
SG_SLOW int sg_print(const char *format, const char *at)
{
    int count = 0;
    size_t offset = 0;
    while (*format) {
        if (*format != '%' || format[1] == '%') {
            format += *format == '%';
            putchar(*format++);
            continue;
        }
        char piece[64];
        size_t n = 0;
        int longs = 0;
        piece[n++] = *format++;
        while (*format && !strchr("diouxXcsfFeEgGaAp", *format) && n < sizeof piece - 4) {
            longs += *format == 'l' || *format == 'j' || *format == 'z' || *format == 't';
            piece[n++] = *format++;
        }
        const char kind = *format ? *format++ : 'd';
        const size_t bytes = strchr("fFeEgGaAsp", kind) || longs ? 8 : 4;
        piece[n++] = kind;
        piece[n] = '\0';
        offset = (offset + bytes - 1) & ~(bytes - 1);
        uint64_t x = 0;
        memcpy(&x, at + offset, bytes);
        offset += bytes;
        if (strchr("fFeEgGaA", kind))
            printf(piece, sg_double(x));
        else if (kind == 's')
            printf(piece, (const char *)(uintptr_t)x);
        else if (kind == 'p')
            printf(piece, (void *)(uintptr_t)x);
        else if (bytes == 8)
            printf(piece, (unsigned long)x);
        else
            printf(piece, (unsigned)x);
        count++;
    }
    return count;
}

SG_SLOW void sg_vprintf(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments)
{
    (void)w;
    SG_FOR_LANES(i, mask)
    {
        uint64_t format, values;
        memcpy(&format, arguments[1] + 8 * i, 8);
        memcpy(&values, arguments[2] + 8 * i, 8);
        const int32_t count = sg_print((const char *)(uintptr_t)format, (const char *)(uintptr_t)values);
        memcpy(arguments[0] + 4 * i, &count, 4);
    }
    fflush(stdout);
}

/* The device's heap is the host's. */
SG_SLOW void sg_malloc(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments)
{
    (void)w;
    SG_FOR_LANES(i, mask)
    {
        uint64_t bytes;
        memcpy(&bytes, arguments[1] + 8 * i, 8);
        void *const at = malloc(bytes);
        memcpy(arguments[0] + 8 * i, &at, 8);
    }
}

SG_SLOW void sg_free(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments)
{
    (void)w;
    SG_FOR_LANES(i, mask)
    {
        void *at;
        memcpy(&at, arguments[0] + 8 * i, 8);
        free(at);
    }
}

/* __assertfail(message, file, line, function, bytes of a character) */
SG_SLOW void sg_assertfail(sg_warp_t *w, uint32_t mask, uint8_t *const *arguments)
{
    const uint32_t i = sg_first(mask);
    uint64_t message, file, function;
    uint32_t line;
    char why[400];
    memcpy(&message, arguments[0] + 8 * i, 8);
    memcpy(&file, arguments[1] + 8 * i, 8);
    memcpy(&line, arguments[2] + 4 * i, 4);
    memcpy(&function, arguments[3] + 8 * i, 8);
    snprintf(why, sizeof why, "%s: Assertion `%s` failed", (const char *)(uintptr_t)function,
             (const char *)(uintptr_t)message);
    sg_fail_at(w, i, SG_ERROR_ASSERT, why, (softgpu_place_t){(const char *)(uintptr_t)file, line});
}

#endif
