/* test_translate_int.c: integer instructions as they are translated, against C. */
#include "ptx_test.h"

#include "rows.h"

static uint64_t mul_hi(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
static uint64_t mul_hi_signed(uint64_t a, uint64_t b)
{
    return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64);
}
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
    int32_t pos = (int32_t)base, count = offset > 0 ? offset : -offset;
    for (; pos >= 0 && pos<32; pos += offset> 0 ? 1 : -1)
        if (mask >> pos & 1 && --count == 0)
            return (uint32_t)pos;
    return UINT32_MAX;
}
static uint64_t divide(int64_t a, int64_t b, uint64_t none)
{
    return b == 0 ? none : b == -1 ? (uint64_t) - (unsigned long)a : (uint64_t)(a / b);
}
static uint64_t remain(int64_t a, int64_t b)
{
    return b == 0 ? (uint64_t)a : b == -1 ? 0 : (uint64_t)(a % b);
}
#define PAIR(x, y) (W(H(x)) | W(H(y)) << 16)
#define MIN(x, y)  ((x) < (y) ? (x) : (y))
#define MAX(x, y)  ((x) > (y) ? (x) : (y))

// clang-format off
#define ARITHMETIC(ROW) \
    ROW("add.u16 D, A, B", "hhh", 0, H(a + b)) ROW("add.s32 D, A, B", "www", 0, W(a + b)) ROW("add.u64 D, A, B", "lll", 0, a + b) \
    ROW("add.sat.s32 D, A, B", "www", 0, W(clamp((int64_t)SW(a) + SW(b), INT32_MIN, INT32_MAX))) ROW("sub.sat.s32 D, A, B", "www", 0, W(clamp((int64_t)SW(a) - SW(b), INT32_MIN, INT32_MAX))) \
    ROW("add.u16x2 D, A, B", "www", 0, PAIR(a + b, (W(a) >> 16) + (W(b) >> 16))) ROW("sub.s16 D, A, B", "hhh", 0, H(a - b)) ROW("sub.u32 D, A, B", "www", 0, W(a - b)) ROW("sub.s64 D, A, B", "lll", 0, a - b) \
    ROW("add.s32 D, A, 77", "ww", 0, W(a + 77)) ROW("add.s64 D, A, -5", "ll", 0, a - 5) \
    ROW("mul.lo.u16 D, A, B", "hhh", 0, H((uint32_t)H(a) * H(b))) ROW("mul.lo.s32 D, A, B", "www", 0, W(a) * W(b)) ROW("mul.lo.u64 D, A, B", "lll", 0, a * b) \
    ROW("mul.hi.u16 D, A, B", "hhh", 0, (uint32_t)H(a) * H(b) >> 16) ROW("mul.hi.s16 D, A, B", "hhh", 0, H((int32_t)SH(a) * SH(b) >> 16)) \
    ROW("mul.hi.u32 D, A, B", "www", 0, (uint64_t)W(a) * W(b) >> 32) ROW("mul.hi.s32 D, A, B", "www", 0, W((int64_t)SW(a) * SW(b) >> 32)) \
    ROW("mul.hi.u64 D, A, B", "lll", 0, mul_hi(a, b)) ROW("mul.hi.s64 D, A, B", "lll", 0, mul_hi_signed(a, b)) \
    ROW("mul.wide.u16 D, A, B", "whh", 0, W(H(a)) * H(b)) ROW("mul.wide.s16 D, A, B", "whh", 0, W((int32_t)SH(a) * SH(b))) \
    ROW("mul.wide.u32 D, A, B", "lww", 0, (uint64_t)W(a) * W(b)) ROW("mul.wide.s32 D, A, B", "lww", 0, (int64_t)SW(a) * SW(b)) \
    ROW("mul24.lo.u32 D, A, B", "www", 0, W((a & 0xffffff) * (b & 0xffffff))) ROW("mul24.hi.s32 D, A, B", "www", 0, W((int64_t)(SW(a << 8) >> 8) * (SW(b << 8) >> 8) >> 16)) \
    ROW("mul24.lo.s32 D, A, B", "www", 0, W((int64_t)(SW(a << 8) >> 8) * (SW(b << 8) >> 8))) ROW("mul24.hi.u32 D, A, B", "www", 0, W((a & 0xffffff) * (b & 0xffffff) >> 16)) \
    ROW("mad.lo.u16 D, A, B, C", "hhhh", 0, H((uint32_t)H(a) * H(b) + c)) ROW("mad.lo.s32 D, A, B, C", "wwww", 0, W(a * b + c)) ROW("mad.lo.u64 D, A, B, C", "llll", 0, a * b + c) \
    ROW("mad.hi.u32 D, A, B, C", "wwww", 0, W(((uint64_t)W(a) * W(b) >> 32) + c)) ROW("mad.hi.sat.s32 D, A, B, C", "wwww", 0, W(clamp(((int64_t)SW(a) * SW(b) >> 32) + SW(c), INT32_MIN, INT32_MAX))) \
    ROW("mad.hi.s64 D, A, B, C", "llll", 0, mul_hi_signed(a, b) + c) ROW("mad.wide.u32 D, A, B, C", "lwwl", 0, (uint64_t)W(a) * W(b) + c) ROW("mad.wide.s16 D, A, B, C", "whhw", 0, W((int32_t)SH(a) * SH(b) + SW(c) * 1L)) \
    ROW("mad24.lo.u32 D, A, B, C", "wwww", 0, W((a & 0xffffff) * (b & 0xffffff) + c)) ROW("mad24.hi.sat.s32 D, A, B, C", "wwww", 0, W(clamp(((int64_t)(SW(a << 8) >> 8) * (SW(b << 8) >> 8) >> 16) + SW(c), INT32_MIN, INT32_MAX))) \
    ROW("sad.u32 D, A, B, C", "wwww", 0, W((W(a) < W(b) ? b - a : a - b) + c)) ROW("sad.s16 D, A, B, C", "hhhh", 0, H((SH(a) < SH(b) ? b - a : a - b) + c)) ROW("sad.s64 D, A, B, C", "llll", 0, (SL(a) < SL(b) ? b - a : a - b) + c) \
    ROW("div.u16 D, A, B", "hhh", 0, H(b) ? H(a) / H(b) : 0xffff) ROW("div.s16 D, A, B", "hhh", 0, H(divide(SH(a), SH(b), 0xffff))) ROW("div.u32 D, A, B", "www", 0, W(b) ? W(a) / W(b) : UINT32_MAX) \
    ROW("div.s32 D, A, B", "www", 0, W(divide(SW(a), SW(b), UINT32_MAX))) ROW("div.u64 D, A, B", "lll", 0, b ? a / b : UINT64_MAX) ROW("div.s64 D, A, B", "lll", 0, divide(SL(a), SL(b), UINT64_MAX)) \
    ROW("rem.u32 D, A, B", "www", 0, W(b) ? W(a) % W(b) : W(a)) ROW("rem.s32 D, A, B", "www", 0, W(remain(SW(a), SW(b)))) ROW("rem.u64 D, A, B", "lll", 0, b ? a % b : a) ROW("rem.s64 D, A, B", "lll", 0, remain(SL(a), SL(b))) ROW("rem.s16 D, A, B", "hhh", 0, H(remain(SH(a), SH(b)))) \
    ROW("abs.s16 D, A", "hh", 0, H(SH(a) < 0 ? -a : a)) ROW("abs.s32 D, A", "ww", 0, W(SW(a) < 0 ? -a : a)) ROW("abs.s64 D, A", "ll", 0, SL(a) < 0 ? -a : a) ROW("neg.s32 D, A", "ww", 0, W(-a)) ROW("neg.s64 D, A", "ll", 0, -a) ROW("neg.s16 D, A", "hh", 0, H(-a)) \
    ROW("min.u16 D, A, B", "hhh", 0, MIN(H(a), H(b))) ROW("min.s32 D, A, B", "www", 0, W(MIN(SW(a), SW(b)))) ROW("max.s64 D, A, B", "lll", 0, MAX(SL(a), SL(b))) ROW("max.u32 D, A, B", "www", 0, MAX(W(a), W(b))) ROW("min.u64 D, A, B", "lll", 0, MIN(a, b)) ROW("max.s16 D, A, B", "hhh", 0, H(MAX(SH(a), SH(b)))) \
    ROW("max.relu.s32 D, A, B", "www", 0, W(MAX(MAX(SW(a), SW(b)), 0))) ROW("min.relu.s16x2 D, A, B", "www", 0, PAIR(MAX(MIN(SH(a), SH(b)), 0), MAX(MIN(SH(a >> 16), SH(b >> 16)), 0))) ROW("max.u16x2 D, A, B", "www", 0, PAIR(MAX(H(a), H(b)), MAX(H(a >> 16), H(b >> 16)))) \
    ROW("{ .reg .u32 t; add.cc.u32 t, A, B; addc.u32 D, C, 0; }", "wwww", 0, W(c + (((a & UINT32_MAX) + (b & UINT32_MAX)) >> 32))) ROW("{ .reg .u32 t; sub.cc.u32 t, A, B; subc.u32 D, C, 1; }", "wwww", 0, W(c - 1 - (W(a) < W(b)))) \
    ROW("{ .reg .u64 t; add.cc.u64 t, A, B; addc.u64 D, C, A; }", "llll", 0, c + a + (a + b < a)) ROW("{ .reg .u32 t; mad.lo.cc.u32 t, A, B, C; madc.hi.u32 D, A, B, 0; }", "wwww", 0, ((uint64_t)W(a) * W(b) + W(c)) >> 32) \
    ROW("{ .reg .u32 t; add.cc.u32 t, A, B; addc.cc.u32 t, C, B; addc.u32 D, 0, 0; }", "wwww", 0, ((uint64_t)W(c) + W(b) + (((uint64_t)W(a) + W(b)) >> 32)) >> 32)

#define LOGIC(ROW) \
    ROW("popc.b32 D, A", "ww", 0, __builtin_popcount(W(a))) ROW("popc.b64 D, A", "wl", 0, __builtin_popcountll(a)) ROW("clz.b32 D, A", "ww", 0, clz(W(a), 32)) ROW("clz.b64 D, A", "wl", 0, clz(a, 64)) \
    ROW("bfind.u32 D, A", "ww", 0, bfind(W(a), 32, false, false)) ROW("bfind.s32 D, A", "ww", 0, bfind(W(a), 32, true, false)) ROW("bfind.shiftamt.u64 D, A", "wl", 0, bfind(a, 64, false, true)) ROW("bfind.shiftamt.s64 D, A", "wl", 0, bfind(a, 64, true, true)) \
    ROW("fns.b32 D, A, B, C", "wwww", 0, W(b) > 31 ? UINT32_MAX : fns(W(a), W(b), SW(c))) ROW("brev.b32 D, A", "ww", 0, brev(W(a), 32)) ROW("brev.b64 D, A", "ll", 0, brev(a, 64)) \
    ROW("bfe.u32 D, A, B, C", "wwww", 0, bfe(W(a), W(b), W(c), 32, false)) ROW("bfe.s32 D, A, B, C", "wwww", 0, bfe(W(a), W(b), W(c), 32, true)) ROW("bfe.u64 D, A, B, C", "llww", 0, bfe(a, W(b), W(c), 64, false)) ROW("bfe.s64 D, A, B, C", "llww", 0, bfe(a, W(b), W(c), 64, true)) \
    ROW("bfi.b32 D, A, B, C, 7", "wwww", 0, bfi(W(a), W(b), W(c), 7, 32)) ROW("bfi.b64 D, A, B, 9, C", "lllw", 0, bfi(a, b, 9, W(c), 64)) \
    ROW("bmsk.clamp.b32 D, A, B", "www", 0, W(a) > 31 ? 0 : W(bits(W(b) > 32 ? 32 : W(b)) << W(a))) ROW("bmsk.wrap.b32 D, A, B", "www", 0, W(bits(b & 31) << (a & 31))) \
    ROW("szext.clamp.u32 D, A, B", "www", 0, W(b) >= 32 ? W(a) : W(a) & bits(W(b))) ROW("szext.wrap.s32 D, A, B", "www", 0, (b & 31) == 0 ? 0 : W(SW(W(a) << (32 - (b & 31))) >> (32 - (b & 31)))) \
    ROW("dp4a.u32.u32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), false, false)) ROW("dp4a.s32.u32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), true, false)) ROW("dp4a.s32.s32 D, A, B, C", "wwww", 0, dot(W(a), W(b), W(c), true, true)) \
    ROW("dp2a.lo.u32.s32 D, A, B, C", "wwww", 0, dot2(W(a), W(b), W(c), false, true, 0)) ROW("dp2a.hi.s32.s32 D, A, B, C", "wwww", 0, dot2(W(a), W(b), W(c), true, true, 2)) \
    ROW("and.b32 D, A, B", "www", 0, W(a & b)) ROW("or.b64 D, A, B", "lll", 0, a | b) ROW("xor.b16 D, A, B", "hhh", 0, H(a ^ b)) ROW("not.b32 D, A", "ww", 0, W(~a)) ROW("not.b16 D, A", "hh", 0, H(~a)) ROW("cnot.b32 D, A", "ww", 0, W(a) == 0) ROW("cnot.b64 D, A", "ll", 0, a == 0) \
    ROW("and.pred D, A, B", "ppp", 0, a & b & 1) ROW("or.pred D, A, B", "ppp", 0, (a | b) & 1) ROW("xor.pred D, A, B", "ppp", 0, (a ^ b) & 1) ROW("not.pred D, A", "pp", 0, ~a & 1) ROW("mov.pred D, A", "pp", 0, a & 1) \
    ROW("lop3.b32 D, A, B, C, 0x1b", "wwww", 0, lop3(W(a), W(b), W(c), 0x1b)) ROW("lop3.b32 D, A, B, C, 0xe8", "wwww", 0, lop3(W(a), W(b), W(c), 0xe8)) ROW("lop3.or.b32 %y0|D, A, B, B, 0x80, C", "pwwp", 0, (lop3(W(a), W(b), W(b), 0x80) != 0) | (c & 1)) \
    ROW("shl.b16 D, A, B", "hhw", 0, W(b) > 15 ? 0 : H(a << W(b))) ROW("shl.b32 D, A, B", "www", 0, W(b) > 31 ? 0 : W(a) << W(b)) ROW("shl.b64 D, A, B", "llw", 0, W(b) > 63 ? 0 : a << W(b)) \
    ROW("shr.u16 D, A, B", "hhw", 0, W(b) > 15 ? 0 : H(a) >> W(b)) ROW("shr.s16 D, A, B", "hhw", 0, H(SH(a) >> MIN(W(b), 15))) ROW("shr.u32 D, A, B", "www", 0, W(b) > 31 ? 0 : W(a) >> W(b)) ROW("shr.s32 D, A, B", "www", 0, W(SW(a) >> MIN(W(b), 31))) \
    ROW("shr.b64 D, A, B", "llw", 0, W(b) > 63 ? 0 : a >> W(b)) ROW("shr.s64 D, A, B", "llw", 0, SL(a) >> MIN(W(b), 63)) ROW("shl.b32 D, A, 5", "ww", 0, W(a << 5)) \
    ROW("shf.l.wrap.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) << (c & 31) >> 32)) ROW("shf.r.wrap.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) >> (c & 31))) \
    ROW("shf.l.clamp.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) << MIN(W(c), 32) >> 32)) ROW("shf.r.clamp.b32 D, A, B, C", "wwww", 0, W(((uint64_t)W(b) << 32 | W(a)) >> MIN(W(c), 32))) \
    ROW("prmt.b32 D, A, B, C", "wwww", 0, prmt(W(a), W(b), W(c))) ROW("prmt.b32.f4e D, A, B, 1", "www", 0, prmt(W(a), W(b), 0x4321)) ROW("prmt.b32.b4e D, A, B, 3", "www", 0, prmt(W(a), W(b), 0x0123)) ROW("prmt.b32.rc16 D, A, B, C", "wwww", 0, prmt(W(a), W(b), c & 1 ? 0x3232 : 0x1010)) \
    ROW("prmt.b32.ecl D, A, B, 2", "www", 0, prmt(W(a), W(b), 0x3222)) ROW("prmt.b32.ecr D, A, B, 1", "www", 0, prmt(W(a), W(b), 0x1110)) ROW("prmt.b32.rc8 D, A, B, 3", "www", 0, prmt(W(a), W(b), 0x3333)) \
    ROW("mov.b32 D, {A, B}", "whh", 0, PAIR(a, b)) ROW("mov.b64 D, {A, B}", "lww", 0, W(a) | (uint64_t)W(b) << 32) ROW("mov.b64 D, {A, B, A, C}", "lhhh", 0, PAIR(a, b) | (uint64_t)PAIR(a, c) << 32) \
    ROW("mov.b32 {%x0, D}, A", "hw", 0, H(a >> 16)) ROW("mov.b32 {D, _}, A", "hw", 0, H(a)) ROW("mov.b64 {%y0, D}, A", "wl", 0, a >> 32) ROW("mov.b64 {%x0, %x1, D, %x3}, A", "hl", 0, H(a >> 32)) \
    ROW("mov.u32 D, %laneid; sub.u32 D, D, %r2; add.u32 D, D, A; and.b32 D, D, 31", "ww", 0, a & 31)

#define COMPARISONS(ROW) \
    ROW("setp.eq.b32 D, A, B", "pww", 0, W(a) == W(b)) ROW("setp.ne.b64 D, A, B", "pll", 0, a != b) ROW("setp.lt.s16 D, A, B", "phh", 0, SH(a) < SH(b)) ROW("setp.le.s32 D, A, B", "pww", 0, SW(a) <= SW(b)) ROW("setp.gt.s64 D, A, B", "pll", 0, SL(a) > SL(b)) \
    ROW("setp.ge.u16 D, A, B", "phh", 0, H(a) >= H(b)) ROW("setp.lo.u32 D, A, B", "pww", 0, W(a) < W(b)) ROW("setp.ls.u64 D, A, B", "pll", 0, a <= b) ROW("setp.hi.u32 D, A, B", "pww", 0, W(a) > W(b)) ROW("setp.hs.u32 D, A, B", "pww", 0, W(a) >= W(b)) ROW("setp.lt.u64 D, A, 100", "pl", 0, a < 100) \
    ROW("setp.lt.and.s32 D, A, B, C", "pwwp", 0, SW(a) < SW(b) && (c & 1)) ROW("setp.eq.or.u32 D, A, B, !C", "pwwp", 0, W(a) == W(b) || !(c & 1)) ROW("setp.gt.xor.s32 D|%p8, A, B, C", "pwwp", 0, (SW(a) > SW(b)) ^ (c & 1)) ROW("setp.gt.and.s32 %p8|D, A, B, C", "pwwp", 0, !(SW(a) > SW(b)) && (c & 1)) \
    ROW("set.lt.u32.s32 D, A, B", "www", 0, SW(a) < SW(b) ? UINT32_MAX : 0) ROW("set.ge.f32.u64 D, A, B", "wll", 0, a >= b ? 0x3f800000 : 0) ROW("set.ne.and.s32.b16 D, A, B, C", "whhp", 0, H(a) != H(b) && (c & 1) ? UINT32_MAX : 0) \
    ROW("selp.b32 D, A, B, C", "wwwp", 0, c & 1 ? W(a) : W(b)) ROW("selp.s64 D, A, B, C", "lllp", 0, c & 1 ? a : b) ROW("selp.u16 D, A, 9, C", "hhhp", 0, c & 1 ? H(a) : 9) ROW("slct.u32.s32 D, A, B, C", "wwww", 0, SW(c) >= 0 ? W(a) : W(b)) ROW("slct.b64.f32 D, A, B, C", "lllf", 0, F(c) >= 0 ? a : b) \
    ROW("cvt.u8.u32 D, A", "ww", 0, (uint8_t)a) ROW("cvt.s8.s32 D, A", "ww", 0, W((int8_t)a)) ROW("cvt.u16.u32 D, A", "hw", 0, H(a)) ROW("cvt.s32.s16 D, A", "wh", 0, W(SH(a))) ROW("cvt.s64.s32 D, A", "lw", 0, SW(a)) ROW("cvt.u64.u32 D, A", "lw", 0, W(a)) ROW("cvt.u32.u64 D, A", "wl", 0, W(a)) \
    ROW("cvt.s32.s8 D, A", "ww", 0, W((int8_t)a)) ROW("cvt.u64.u8 D, A", "lh", 0, (uint8_t)a) ROW("cvt.s16.s8 D, A", "hh", 0, H((int8_t)a)) ROW("cvt.s64.s16 D, A", "lh", 0, SH(a)) ROW("cvt.u16.u64 D, A", "hl", 0, H(a)) \
    ROW("cvt.sat.s8.s32 D, A", "ww", 0, W(clamp(SW(a), -128, 127))) ROW("cvt.sat.u8.s32 D, A", "ww", 0, clamp(SW(a), 0, 255)) ROW("cvt.sat.u16.u64 D, A", "hl", 0, a > 65535 ? 65535 : a) ROW("cvt.sat.s32.u32 D, A", "ww", 0, W(a) > INT32_MAX ? INT32_MAX : W(a)) ROW("cvt.sat.u32.s64 D, A", "wl", 0, clamp(SL(a), 0, UINT32_MAX)) ROW("cvt.sat.s64.u64 D, A", "ll", 0, a > INT64_MAX ? INT64_MAX : a) ROW("cvt.sat.u64.s16 D, A", "lh", 0, SH(a) < 0 ? 0 : SH(a)) \
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
