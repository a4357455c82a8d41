/* softgpu/functions.h: device functions that concern one thread (CUDA C++ Programming Guide; CUDA Math API, "Integer
 * Intrinsics", "Type Casting Intrinsics", "Single Precision Intrinsics"). Those of floats that loops need fast are in
 * fast_math.h.
 */
#ifndef SOFTGPU_FUNCTIONS_H
#define SOFTGPU_FUNCTIONS_H

#define SOFTGPU_MIN_MAX(type)                                                                                \
    static inline type min(type a, type b)                                                                   \
    {                                                                                                        \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    static inline type max(type a, type b)                                                                   \
    {                                                                                                        \
        return a < b ? b : a;                                                                                \
    }
SOFTGPU_MIN_MAX(int)
SOFTGPU_MIN_MAX(unsigned)
SOFTGPU_MIN_MAX(long)
SOFTGPU_MIN_MAX(unsigned long)
SOFTGPU_MIN_MAX(long long)
SOFTGPU_MIN_MAX(unsigned long long)
#undef SOFTGPU_MIN_MAX
static inline float min(float a, float b)
{
    return softgpu::fmin_(a, b);
}
static inline float max(float a, float b)
{
    return softgpu::fmax_(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

/* ---- loads and stores with a hint to the caches ---- */

#define SOFTGPU_LOAD(name)                                                                                   \
    template <typename T> static inline T name(const T *p)                                                   \
    {                                                                                                        \
        return *p;                                                                                           \
    }
SOFTGPU_LOAD(__ldg)
SOFTGPU_LOAD(__ldcg)
SOFTGPU_LOAD(__ldca)
SOFTGPU_LOAD(__ldcs)
SOFTGPU_LOAD(__ldlu)
SOFTGPU_LOAD(__ldcv)
#undef SOFTGPU_LOAD
#define SOFTGPU_STORE(name)                                                                                  \
    template <typename T> static inline void name(T *p, T v)                                                 \
    {                                                                                                        \
        *p = v;                                                                                              \
    }
SOFTGPU_STORE(__stwb)
SOFTGPU_STORE(__stcg)
SOFTGPU_STORE(__stcs)
SOFTGPU_STORE(__stwt)
#undef SOFTGPU_STORE

/* ---- bits ---- */

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
/* Each of the low 3 bits of a nibble of the selector picks a byte of y:x, the fourth replicates its sign. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned s = selector >> 4 * i & 0xf;
        unsigned b = (unsigned)(bytes >> 8 * (s & 7)) & 0xff;
        if (s & 8)
            b = b & 0x80 ? 0xff : 0;
        result |= b << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift)
{
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

/* ---- integer arithmetic (__umulhi is in fast_math.h) ---- */

static inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
static inline long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __mul24(int a, int b)
{
    return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8));
}
static inline unsigned __umul24(unsigned a, unsigned b)
{
    return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c)
{
    return (a > b ? a - b : b - a) + c;
}
static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; i++)
        c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}

/* ---- bits of floats (__int_as_float and __float_as_int are in fast_math.h) ---- */

static inline float __uint_as_float(unsigned x)
{
    return softgpu::bits_float((int32_t)x);
}
static inline unsigned __float_as_uint(float x)
{
    return (unsigned)softgpu::float_bits(x);
}
static inline double __longlong_as_double(long long x)
{
    double d;
    __builtin_memcpy(&d, &x, sizeof d);
    return d;
}
static inline long long __double_as_longlong(double d)
{
    long long x;
    __builtin_memcpy(&x, &d, sizeof x);
    return x;
}
static inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
static inline int __double2hiint(double d)
{
    return (int)(__double_as_longlong(d) >> 32);
}
static inline int __double2loint(double d)
{
    return (int)__double_as_longlong(d);
}

/* ---- conversions: to the nearest, down, up, towards zero; out of range they saturate, NaN is 0 ---- */

namespace softgpu
{
template <typename To, typename From> static inline To saturate(From x, double low, double high)
{
    return x != x              ? 0
           : (double)x <= low  ? (To)low
           : (double)x >= high ? std::numeric_limits<To>::max()
                               : (To)x;
}
} // namespace softgpu

#define SOFTGPU_CONVERT(from_name, from, to_name, to, low, high, suffix, rounded)                            \
    static inline to __##from_name##2##to_name##_##suffix(from x)                                            \
    {                                                                                                        \
        return softgpu::saturate<to>(rounded(x), low, high);                                                 \
    }
#define SOFTGPU_CONVERT_ALL(from_name, from, to_name, to, low, high)                                         \
    SOFTGPU_CONVERT(from_name, from, to_name, to, low, high, rn, std::rint)                                  \
    SOFTGPU_CONVERT(from_name, from, to_name, to, low, high, rd, std::floor)                                 \
    SOFTGPU_CONVERT(from_name, from, to_name, to, low, high, ru, std::ceil)                                  \
    SOFTGPU_CONVERT(from_name, from, to_name, to, low, high, rz, std::trunc)
SOFTGPU_CONVERT_ALL(float, float, int, int, -2147483648.0, 2147483647.0)
SOFTGPU_CONVERT_ALL(float, float, uint, unsigned, 0.0, 4294967295.0)
SOFTGPU_CONVERT_ALL(float, float, ll, long long, -9223372036854775808.0, 9223372036854775807.0)
SOFTGPU_CONVERT_ALL(float, float, ull, unsigned long long, 0.0, 18446744073709551615.0)
SOFTGPU_CONVERT_ALL(double, double, int, int, -2147483648.0, 2147483647.0)
SOFTGPU_CONVERT_ALL(double, double, uint, unsigned, 0.0, 4294967295.0)
SOFTGPU_CONVERT_ALL(double, double, ll, long long, -9223372036854775808.0, 9223372036854775807.0)
SOFTGPU_CONVERT_ALL(double, double, ull, unsigned long long, 0.0, 18446744073709551615.0)
#undef SOFTGPU_CONVERT_ALL
#undef SOFTGPU_CONVERT
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline double __int2double_rn(int x)
{
    return (double)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}

/* ---- floating point ---- */

static inline float __saturatef(float x)
{
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; /* NaN: 0 */
}
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline float rcbrtf(float x)
{
    return 1.0f / cbrtf(x);
}
/* By macro: libm declares these names. */
#define __sinf(x)          sinf(x)
#define __cosf(x)          cosf(x)
#define __tanf(x)          tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __exp10f(x)        expf((x)*2.30258509f)
#define __log10f(x)        log10f(x)
#define __powf(x, y)       powf(x, y)
static inline float sinpif(float x)
{
    return (float)sin((double)x * 3.14159265358979323846);
}
static inline float cospif(float x)
{
    return (float)cos((double)x * 3.14159265358979323846);
}
/* Arithmetic that the compiler shall not contract or reassociate. */
#define SOFTGPU_ROUNDED(name, type, expression)                                                              \
    static __attribute__((noinline, unused, optimize("no-associative-math", "fp-contract=off"))) type name(  \
        type a, type b)                                                                                      \
    {                                                                                                        \
        return expression;                                                                                   \
    }
SOFTGPU_ROUNDED(__fadd_rn, float, a + b)
SOFTGPU_ROUNDED(__fsub_rn, float, a - b)
SOFTGPU_ROUNDED(__fmul_rn, float, a *b)
SOFTGPU_ROUNDED(__fdiv_rn, float, a / b)
SOFTGPU_ROUNDED(__dadd_rn, double, a + b)
SOFTGPU_ROUNDED(__dmul_rn, double, a *b)
#undef SOFTGPU_ROUNDED
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

/* ---- time, and the end of everything ---- */

static inline long long clock64(void)
{
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    return (long long)__builtin_readcyclecounter();
#endif
}
static inline void __nanosleep(unsigned)
{
}
static inline void __trap(softgpu_place_t place = softgpu::here())
{
    softgpu::services->fail(719 /* CUDA_ERROR_LAUNCH_FAILED */, "__trap()", place);
}
static inline unsigned __isGlobal(const void *p)
{
    return p != nullptr;
}
static inline size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)p;
}

#endif
