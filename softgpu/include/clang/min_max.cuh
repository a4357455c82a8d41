/* min and max for the host, as the toolkit's crt/math_functions.hpp has them for nvcc: Clang's headers have them for the device alone. */
#ifndef SOFTGPU_CLANG_MIN_MAX_CUH
#define SOFTGPU_CLANG_MIN_MAX_CUH

#define SOFTGPU_MIN_MAX(type, a, b)                                                                          \
    static inline type min(const a x, const b y)                                                             \
    {                                                                                                        \
        return (type)x < (type)y ? (type)x : (type)y;                                                        \
    }                                                                                                        \
    static inline type max(const a x, const b y)                                                             \
    {                                                                                                        \
        return (type)x > (type)y ? (type)x : (type)y;                                                        \
    }
#define SOFTGPU_MIN_MAX_INTEGERS(type)                                                                       \
    SOFTGPU_MIN_MAX(type, type, type)                                                                        \
    SOFTGPU_MIN_MAX(unsigned type, unsigned type, unsigned type)                                             \
    SOFTGPU_MIN_MAX(unsigned type, unsigned type, type)                                                      \
    SOFTGPU_MIN_MAX(unsigned type, type, unsigned type)
SOFTGPU_MIN_MAX_INTEGERS(int)
SOFTGPU_MIN_MAX_INTEGERS(long)
SOFTGPU_MIN_MAX_INTEGERS(long long)

/* NaN loses. */
#define SOFTGPU_MIN_MAX_FLOATS(type, a, b, suffix)                                                           \
    static inline type min(const a x, const b y)                                                             \
    {                                                                                                        \
        return __builtin_fmin##suffix(x, y);                                                                 \
    }                                                                                                        \
    static inline type max(const a x, const b y)                                                             \
    {                                                                                                        \
        return __builtin_fmax##suffix(x, y);                                                                 \
    }
SOFTGPU_MIN_MAX_FLOATS(float, float, float, f)
SOFTGPU_MIN_MAX_FLOATS(double, double, double, )
SOFTGPU_MIN_MAX_FLOATS(double, float, double, )
SOFTGPU_MIN_MAX_FLOATS(double, double, float, )

#undef SOFTGPU_MIN_MAX
#undef SOFTGPU_MIN_MAX_INTEGERS
#undef SOFTGPU_MIN_MAX_FLOATS
#endif
