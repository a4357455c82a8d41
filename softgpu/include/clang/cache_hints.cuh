/* Loads and stores with cache hints, which Clang's headers lack (the toolkit's sm_32_intrinsics.h): here a hint means nothing. */
#ifndef SOFTGPU_CLANG_CACHE_HINTS_CUH
#define SOFTGPU_CLANG_CACHE_HINTS_CUH

#define SOFTGPU_LOAD(name)                                                                                   \
    template <typename T> static inline __attribute__((device)) T name(const T *from)                       \
    {                                                                                                        \
        return *from;                                                                                        \
    }
#define SOFTGPU_STORE(name)                                                                                  \
    template <typename T> static inline __attribute__((device)) void name(T *to, T value)                    \
    {                                                                                                        \
        *to = value;                                                                                         \
    }
SOFTGPU_LOAD(__ldca)
SOFTGPU_LOAD(__ldcg)
SOFTGPU_LOAD(__ldcs)
SOFTGPU_LOAD(__ldlu)
SOFTGPU_STORE(__stcg)
SOFTGPU_STORE(__stcs)
SOFTGPU_STORE(__stwb)

#endif
