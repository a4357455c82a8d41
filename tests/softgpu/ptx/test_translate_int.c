/* test_translate_int.c: integer instructions as they are translated, against C: those that test_translate_choices.c does not compute. */
#include "ptx_test.h"

#include "rows.h"

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}
static uint64_t bits(uint32_t n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}
/* By the bit, as the ISA's pseudo-code. */
static uint64_t bfe(uint64_t a, uint32_t pos, uint32_t len, uint32_t size, bool is_signed)
{
    uint64_t d = 0;
    pos &= 255;
    len &= 255;
    const uint32_t last = pos + len - 1 < size - 1 ? pos + len - 1 : size - 1;
    const uint64_t sign = is_signed && len ? a >> last & 1 : 0;
    for (uint32_t i = 0; i < size; i++)
        d |= (i < len && pos + i < size ? a >> (pos + i) & 1 : sign) << i;
    return d;
}
static uint64_t bfi(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, uint32_t size)
{
    pos &= 255;
    len &= 255;
    for (uint32_t i = 0; i < len && pos + i < size; i++)
        b = (b & ~(UINT64_C(1) << (pos + i))) | (a >> i & 1) << (pos + i);
    return b & bits(size);
}
static uint64_t brev(uint64_t a, uint32_t size)
{
    uint64_t d = 0;
    for (uint32_t i = 0; i < size; i++)
        d |= (a >> i & 1) << (size - 1 - i);
    return d;
}
static uint32_t clz(uint64_t a, uint32_t size)
{
    uint32_t n = 0;
    while (n < size && !(a >> (size - 1 - n) & 1))
        n++;
    return n;
}
static uint32_t bfind(uint64_t a, uint32_t size, bool is_signed, bool amount)
{
    if (is_signed && a >> (size - 1) & 1)
        a = ~a & bits(size);
    for (uint32_t i = size; i-- > 0;)
        if (a >> i & 1)
            return amount ? size - 1 - i : i;
    return UINT32_MAX;
}
static uint32_t prmt(uint32_t a, uint32_t b, uint32_t c)
{
    uint8_t from[8], to[4];
    memcpy(from, &a, 4);
    memcpy(from + 4, &b, 4);
    for (int i = 0; i < 4; i++) {
        const uint8_t s = c >> 4 * i & 15;
        to[i] = s & 8 ? (uint8_t)((int8_t)from[s & 7] >> 7) : from[s & 7];
    }
    uint32_t d;
    memcpy(&d, to, 4);
    return d;
}
static uint32_t dot(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (int i = 0; i < 4; i++) {
        const int x = sa ? (int8_t)(a >> 8 * i) : (int)(a >> 8 * i & 255),
                  y = sb ? (int8_t)(b >> 8 * i) : (int)(b >> 8 * i & 255);
        c += (uint32_t)(x * y);
    }
    return c;
}
static uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb, int high)
{
    for (int i = 0; i < 2; i++) {
        const int64_t x = sa ? (int16_t)(a >> 16 * i) : (int64_t)(a >> 16 * i & 0xffff);
        const int64_t y = sb ? (int8_t)(b >> 8 * (i + high)) : (int64_t)(b >> 8 * (i + high) & 255);
        c += (uint32_t)(x * y);
    }
    return c;
}
static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t d = 0;
    for (int i = 0; i < 32; i++)
        d |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return d;
}
static uint32_t fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    int32_t pos = (int32_t)base;
    int64_t count = offset > 0 ? offset : -(int64_t)offset;
    for (; pos >= 0 && pos<32; pos += offset> 0 ? 1 : -1)
        if (mask >> pos & 1 && --count == 0)
            return (uint32_t)pos;
    return UINT32_MAX;
}
#define PAIR(x, y) (W(H(x)) | W(H(y)) << 16)
#define MIN(x, y)  ((x) < (y) ? (x) : (y))
#define MAX(x, y)  ((x) > (y) ? (x) : (y))

// clang-format off
/* Carries and borrows of every type, through one instruction and two. */
#define ARITHMETIC(ROW) \
    ROW("add.s32 D, A, 77", "ww", 0, W(a + 77)) ROW("add.s64 D, A, -5", "ll", 0, a - 5) \
    ROW("{ .reg .u32 t; add.cc.u32 t, A, B; addc.u32 D, C, 0; }", "wwww", 0, W(c + (((a & UINT32_MAX) + (b & UINT32_MAX)) >> 32))) ROW("{ .reg .u32 t; sub.cc.u32 t, A, B; subc.u32 D, C, 1; }", "wwww", 0, W(c - 1 - (W(a) < W(b)))) \
    ROW("{ .reg .u64 t; add.cc.u64 t, A, B; addc.u64 D, C, A; }", "llll", 0, c + a + (a + b < a)) ROW("{ .reg .u32 t; mad.lo.cc.u32 t, A, B, C; madc.hi.u32 D, A, B, 0; }", "wwww", 0, ((uint64_t)W(a) * W(b) + W(c)) >> 32) \
    ROW("{ .reg .u32 t; add.cc.u32 t, A, B; addc.cc.u32 t, C, B; addc.u32 D, 0, 0; }", "wwww", 0, ((uint64_t)W(c) + W(b) + (((uint64_t)W(a) + W(b)) >> 32)) >> 32) \
    ROW("{ .reg .s32 t; add.cc.s32 t, A, B; addc.s32 D, C, 0; }", "wwww", 0, W(c + (((uint64_t)W(a) + W(b)) >> 32))) ROW("{ .reg .s64 t; add.cc.s64 t, A, B; addc.s64 D, C, A; }", "llll", 0, c + a + (a + b < a)) \
    ROW("{ .reg .s64 t; sub.cc.s64 t, A, B; subc.s64 D, C, A; }", "llll", 0, c - a - (a < b)) ROW("{ .reg .u64 t; sub.cc.u64 t, A, B; subc.u64 D, C, A; }", "llll", 0, c - a - (a < b)) \
    ROW("{ .reg .s32 t; sub.cc.s32 t, A, B; subc.cc.s32 t, C, B; subc.s32 D, C, 1; }", "wwww", 0, W(c - 1 - ((uint64_t)W(c) < (uint64_t)W(b) + (W(a) < W(b))))) \
    ROW("{ .reg .s32 t; mad.hi.cc.s32 t, A, B, C; madc.lo.s32 D, A, B, 0; }", "wwww", 0, W(a * b + (((uint64_t)W((int64_t)SW(a) * SW(b) >> 32) + W(c)) >> 32))) \
    ROW("{ .reg .s32 t; mad.lo.cc.s32 t, A, B, C; madc.lo.cc.s32 t, A, C, B; madc.hi.s32 D, A, B, 0; }", "wwww", 0, W(((int64_t)SW(a) * SW(b) >> 32) + (int64_t)(((uint64_t)W(a * c) + W(b) + (((uint64_t)W(a * b) + W(c)) >> 32)) >> 32))) \
    ROW("{ .reg .s64 t; mad.lo.cc.s64 t, A, B, C; madc.lo.s64 D, A, C, B; }", "llll", 0, a * c + b + (a * b + c < c)) ROW("{ .reg .u64 t; mad.lo.cc.u64 t, A, B, C; madc.lo.u64 D, A, C, B; }", "llll", 0, a * c + b + (a * b + c < c))

#define LOGIC(ROW) \
    ROW("popc.b32 D, A", "ww", 0, __builtin_popcount(W(a))) ROW("popc.b64 D, A", "wl", 0, __builtin_popcountll(a)) ROW("clz.b32 D, A", "ww", 0, clz(W(a), 32)) ROW("clz.b64 D, A", "wl", 0, clz(a, 64)) \
    ROW("bfind.u32 D, A", "ww", 0, bfind(W(a), 32, false, false)) ROW("bfind.s32 D, A", "ww", 0, bfind(W(a), 32, true, false)) ROW("bfind.shiftamt.u64 D, A", "wl", 0, bfind(a, 64, false, true)) ROW("bfind.shiftamt.s64 D, A", "wl", 0, bfind(a, 64, true, true)) \
    ROW("fns.b32 D, A, B, C", "wwww", 0, W(b) > 31 ? UINT32_MAX : fns(W(a), W(b), SW(c))) ROW("brev.b32 D, A", "ww", 0, brev(W(a), 32)) ROW("brev.b64 D, A", "ll", 0, brev(a, 64)) \
    ROW("bfe.u32 D, A, B, C", "wwww", 0, bfe(W(a), W(b), W(c), 32, false)) ROW("bfe.s32 D, A, B, C", "wwww", 0, bfe(W(a), W(b), W(c), 32, true)) ROW("bfe.u64 D, A, B, C", "llww", 0, bfe(a, W(b), W(c), 64, false)) ROW("bfe.s64 D, A, B, C", "llww", 0, bfe(a, W(b), W(c), 64, true)) \
    ROW("bfi.b32 D, A, B, C, 7", "wwww", 0, bfi(W(a), W(b), W(c), 7, 32)) ROW("bfi.b64 D, A, B, 9, C", "lllw", 0, bfi(a, b, 9, W(c), 64)) \
    ROW("bmsk.clamp.b32 D, A, B", "www", 0, W(a) > 31 ? 0 : W(bits(W(b) > 32 ? 32 : W(b)) << W(a))) ROW("bmsk.wrap.b32 D, A, B", "www", 0, W(bits(b & 31) << (a & 31))) \
    ROW("szext.clamp.u32 D, A, B", "www", 0, W(b) >= 32 ? W(a) : W(a) & bits(W(b))) ROW("szext.wrap.s32 D, A, B", "www", 0, (b & 31) == 0 ? 0 : W(SW(W(a) << (32 - (b & 31))) >> (32 - (b & 31)))) \
    ROW("dp4a.u32.u32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), false, false)) ROW("dp4a.s32.u32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), true, false)) ROW("dp4a.s32.s32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), true, true)) \
    ROW("dp2a.lo.u32.s32 D, A, B, C", "wwww", 0, dot2(W(a), W(b), W(c), false, true, 0)) ROW("dp2a.hi.s32.s32 D, A, B, C", "wwww", 0, dot2(W(a), W(b), W(c), true, true, 2)) ROW("dp2a.lo.s32.u32 D, A, B, C", "wwww", 0, dot2(W(a), W(b), W(c), true, false, 0)) \
    ROW("lop3.b32 D, A, B, C, 0x1b", "wwww", 0, lop3(W(a), W(b), W(c), 0x1b)) ROW("lop3.b32 D, A, B, C, 0xe8", "wwww", 0, lop3(W(a), W(b), W(c), 0xe8)) ROW("lop3.or.b32 %y0|D, A, B, B, 0x80, C", "pwwp", 0, (lop3(W(a), W(b), W(b), 0x80) != 0) | (c & 1)) ROW("lop3.and.b32 %y0|D, A, B, B, 0x80, C", "pwwp", 0, (lop3(W(a), W(b), W(b), 0x80) != 0) & c & 1) \
    ROW("shl.b32 D, A, 5", "ww", 0, W(a << 5)) \
    ROW("shf.l.wrap.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) << (c & 31) >> 32)) ROW("shf.r.wrap.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) >> (c & 31))) \
    ROW("shf.l.clamp.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) << MIN(W(c), 32) >> 32)) ROW("shf.r.clamp.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) >> MIN(W(c), 32))) \
    ROW("prmt.b32 D, A, B, C", "wwww", 0, prmt(W(a), W(b), W(c))) ROW("prmt.b32.f4e D, A, B, 1", "www", 0, prmt(W(a), W(b), 0x4321)) ROW("prmt.b32.b4e D, A, B, 3", "www", 0, prmt(W(a), W(b), 0x0123)) ROW("prmt.b32.rc16 D, A, B, C", "wwww", 0, prmt(W(a), W(b), c & 1 ? 0x3232 : 0x1010)) \
    ROW("prmt.b32.ecl D, A, B, 2", "www", 0, prmt(W(a), W(b), 0x3222)) ROW("prmt.b32.ecr D, A, B, 1", "www", 0, prmt(W(a), W(b), 0x1110)) ROW("prmt.b32.rc8 D, A, B, 3", "www", 0, prmt(W(a), W(b), 0x3333)) \
    ROW("mov.b32 D, {A, B}", "whh", 0, PAIR(a, b)) ROW("mov.b64 D, {A, B}", "lww", 0, W(a) | (uint64_t)W(b) << 32) ROW("mov.b64 D, {A, B, A, C}", "lhhh", 0, PAIR(a, b) | (uint64_t)PAIR(a, c) << 32) \
    ROW("mov.b32 {%x0, D}, A", "hw", 0, H(a >> 16)) ROW("mov.b32 {D, _}, A", "hw", 0, H(a)) ROW("mov.b64 {%y0, D}, A", "wl", 0, a >> 32) ROW("mov.b64 {%x0, %x1, D, %x3}, A", "hl", 0, H(a >> 32)) \
    ROW("mov.u32 D, %laneid; sub.u32 D, D, %r2; add.u32 D, D, A; and.b32 D, D, 31", "ww", 0, a & 31)

#define COMPARISONS(ROW) \
    ROW("setp.lt.u64 D, A, 100", "pl", 0, a < 100) \
    ROW("setp.eq.or.u32 D, A, B, !C", "pwwp", 0, W(a) == W(b) || !(c & 1)) \
    ROW("selp.u16 D, A, 9, C", "hhhp", 0, c & 1 ? H(a) : 9) \
    ROW("cvt.u8.u32 D, A", "ww", 0, (uint8_t)a) ROW("cvt.s8.s32 D, A", "ww", 0, W((int8_t)a)) ROW("cvt.u16.u32 D, A", "hw", 0, H(a)) ROW("cvt.s32.s16 D, A", "wh", 0, W(SH(a))) ROW("cvt.s64.s32 D, A", "lw", 0, SW(a)) ROW("cvt.u64.u32 D, A", "lw", 0, W(a)) ROW("cvt.u32.u64 D, A", "wl", 0, W(a)) \
    ROW("cvt.s32.s8 D, A", "ww", 0, W((int8_t)a)) ROW("cvt.u64.u8 D, A", "lh", 0, (uint8_t)a) ROW("cvt.s16.s8 D, A", "hh", 0, H((int8_t)a)) ROW("cvt.s64.s16 D, A", "lh", 0, SH(a)) ROW("cvt.u16.u64 D, A", "hl", 0, H(a)) \
    ROW("cvt.sat.s8.s32 D, A", "ww", 0, W(clamp(SW(a), -128, 127))) ROW("cvt.sat.u8.s32 D, A", "ww", 0, clamp(SW(a), 0, 255)) ROW("cvt.sat.u16.u64 D, A", "hl", 0, a > 65535 ? 65535 : a) ROW("cvt.sat.s32.u32 D, A", "ww", 0, W(a) > INT32_MAX ? INT32_MAX : W(a)) ROW("cvt.sat.u32.s64 D, A", "wl", 0, clamp(SL(a), 0, UINT32_MAX)) ROW("cvt.sat.s64.u64 D, A", "ll", 0, a > INT64_MAX ? INT64_MAX : a) ROW("cvt.sat.u64.s16 D, A", "lh", 0, SH(a) < 0 ? 0 : SH(a)) \
    ROW("cvt.pack.sat.u16.s32 D, A, B", "www", 0, PAIR(clamp(SW(b), 0, 65535), clamp(SW(a), 0, 65535))) ROW("cvt.pack.sat.s8.s32.b32 D, A, B, C", "wwww", 0, W(c) << 16 | (W(clamp(SW(a), -128, 127)) & 255) << 8 | (W(clamp(SW(b), -128, 127)) & 255)) \
    ROW("cvt.pack.sat.s16.s32 D, A, B", "www", 0, PAIR(clamp(SW(b), -32768, 32767), clamp(SW(a), -32768, 32767))) ROW("cvt.pack.sat.u8.s32.b32 D, A, B, C", "wwww", 0, W(c) << 16 | W(clamp(SW(a), 0, 255)) << 8 | W(clamp(SW(b), 0, 255)))

ROWS(arithmetic_equals_c, ARITHMETIC)
ROWS(logic_equals_c, LOGIC)
ROWS(comparisons_and_conversions_equal_c, COMPARISONS)
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic_equals_c),
                                       cmocka_unit_test(logic_equals_c),
                                       cmocka_unit_test(comparisons_and_conversions_equal_c)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
