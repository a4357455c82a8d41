/* nvrtc.cuh: what NVRTC's sources find without any header (softgpu-clang++ --nvrtc): CUDA's words, built-in variables, vector types, device and
 * mathematical functions. Nothing of namespace std and no type of <stdint.h>: such sources define those themselves. */
#ifndef SOFTGPU_CLANG_NVRTC_CUH
#define SOFTGPU_CLANG_NVRTC_CUH

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDA_VERSION 13000
#define __CUDA_LIBDEVICE__

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#include <stddef.h>

#include "vector_types.h"

#include <__clang_cuda_builtin_vars.h>
#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_device_functions.h>

#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#include <__clang_cuda_math.h>
#undef INT_MAX
#undef INT_MIN
#undef HUGE_VAL
#undef HUGE_VALF
#include "vector_functions.h"
#undef __CUDACC_RTC__ /* these have functions that are built into NVIDIA's compiler */
#define cuuint32_t unsigned
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include <__clang_cuda_intrinsics.h>
#define __CUDA_RUNTIME_API_H__ /* which the next four include, and do not need */
#include "device_atomic_functions.hpp"
#include "sm_20_atomic_functions.hpp"
#include "sm_32_atomic_functions.hpp"
#include "sm_60_atomic_functions.hpp"
#undef __CUDA_RUNTIME_API_H__
#undef cuuint32_t
#undef __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__

#define __CUDACC_RTC__ 1

/* Overloads for float of the functions above. */
#define OF_FLOAT(name)                                                                                       \
    static __device__ __forceinline__ float name(float a)                                                    \
    {                                                                                                        \
        return name##f(a);                                                                                   \
    }
#define OF_FLOATS(name)                                                                                      \
    static __device__ __forceinline__ float name(float a, float b)                                           \
    {                                                                                                        \
        return name##f(a, b);                                                                                \
    }
OF_FLOAT(acos)
OF_FLOAT(acosh)
OF_FLOAT(asin)
OF_FLOAT(asinh)
OF_FLOAT(atan)
OF_FLOAT(atanh)
OF_FLOAT(cbrt)
OF_FLOAT(ceil)
OF_FLOAT(cos)
OF_FLOAT(cosh)
OF_FLOAT(cospi)
OF_FLOAT(cyl_bessel_i0)
OF_FLOAT(cyl_bessel_i1)
OF_FLOAT(erfc)
OF_FLOAT(erfcinv)
OF_FLOAT(erfcx)
OF_FLOAT(erf)
OF_FLOAT(erfinv)
OF_FLOAT(exp10)
OF_FLOAT(exp2)
OF_FLOAT(exp)
OF_FLOAT(expm1)
OF_FLOAT(fabs)
OF_FLOAT(floor)
OF_FLOAT(j0)
OF_FLOAT(j1)
OF_FLOAT(lgamma)
OF_FLOAT(round)
OF_FLOAT(log10)
OF_FLOAT(log1p)
OF_FLOAT(log2)
OF_FLOAT(logb)
OF_FLOAT(log)
OF_FLOAT(nearbyint)
OF_FLOAT(normcdf)
OF_FLOAT(normcdfinv)
OF_FLOAT(rcbrt)
OF_FLOAT(rint)
OF_FLOAT(rsqrt)
OF_FLOAT(sin)
OF_FLOAT(sinh)
OF_FLOAT(sinpi)
OF_FLOAT(sqrt)
OF_FLOAT(tan)
OF_FLOAT(tanh)
OF_FLOAT(tgamma)
OF_FLOAT(trunc)
OF_FLOAT(y0)
OF_FLOAT(y1)
OF_FLOATS(atan2)
OF_FLOATS(copysign)
OF_FLOATS(fdim)
OF_FLOATS(fmax)
OF_FLOATS(fmin)
OF_FLOATS(fmod)
OF_FLOATS(hypot)
OF_FLOATS(nextafter)
OF_FLOATS(pow)
OF_FLOATS(remainder)
OF_FLOATS(rhypot)
#undef OF_FLOAT
#undef OF_FLOATS

#define OF_ANY(result, name, arguments, value)                                                               \
    static __device__ __forceinline__ result name arguments                                                  \
    {                                                                                                        \
        return value;                                                                                        \
    }
OF_ANY(float, fma, (float a, float b, float c), fmaf(a, b, c))
OF_ANY(float, frexp, (float a, int *exponent), frexpf(a, exponent))
OF_ANY(float, ldexp, (float a, int exponent), ldexpf(a, exponent))
OF_ANY(float, modf, (float a, float *whole), modff(a, whole))
OF_ANY(float, scalbn, (float a, int exponent), scalbnf(a, exponent))
OF_ANY(int, ilogb, (float a), ilogbf(a))
OF_ANY(long, lrint, (float a), lrintf(a))
OF_ANY(long, lround, (float a), lroundf(a))
OF_ANY(long long, llrint, (float a), llrintf(a))
OF_ANY(long long, llround, (float a), llroundf(a))
OF_ANY(double, nan, (const char *), __builtin_nan(""))
OF_ANY(float, nanf, (const char *), __builtin_nanf(""))
OF_ANY(float, abs, (float a), fabsf(a))
OF_ANY(double, abs, (double a), fabs(a))
OF_ANY(long, abs, (long a), a < 0 ? -a : a)
OF_ANY(long long, abs, (long long a), a < 0 ? -a : a)
OF_ANY(bool, isnan, (float a), __builtin_isnan(a))
OF_ANY(bool, isnan, (double a), __builtin_isnan(a))
OF_ANY(bool, isinf, (float a), __builtin_isinf(a))
OF_ANY(bool, isinf, (double a), __builtin_isinf(a))
OF_ANY(bool, isfinite, (float a), __builtin_isfinite(a))
OF_ANY(bool, isfinite, (double a), __builtin_isfinite(a))
OF_ANY(bool, signbit, (float a), __builtin_signbit(a))
OF_ANY(bool, signbit, (double a), __builtin_signbit(a))
#define OF_PAIR(type, greater, less)                                                                         \
    OF_ANY(type, max, (type a, type b), greater)                                                             \
    OF_ANY(type, min, (type a, type b), less)
OF_PAIR(unsigned, a > b ? a : b, a < b ? a : b)
OF_PAIR(long, a > b ? a : b, a < b ? a : b)
OF_PAIR(unsigned long, a > b ? a : b, a < b ? a : b)
OF_PAIR(long long, a > b ? a : b, a < b ? a : b)
OF_PAIR(unsigned long long, a > b ? a : b, a < b ? a : b)
OF_PAIR(float, fmaxf(a, b), fminf(a, b))
OF_PAIR(double, fmax(a, b), fmin(a, b))
#undef OF_PAIR
#undef OF_ANY

#endif
