/* softgpu/atomics.h: atomic functions, on global and shared memory (CUDA C++ Programming Guide, "Atomic Functions"). All are
 * seen by the whole system, whatever their suffix. */
#ifndef SOFTGPU_ATOMICS_H
#define SOFTGPU_ATOMICS_H

namespace softgpu
{
template <typename T> struct given { /* no deduction from it: atomicAdd(&unsigned_, 1) */
    typedef T type;
};

template <size_t> struct word_of;
template <> struct word_of<1> {
    typedef uint8_t type;
};
template <> struct word_of<2> {
    typedef uint16_t type;
};
template <> struct word_of<4> {
    typedef uint32_t type;
};
template <> struct word_of<8> {
    typedef uint64_t type;
};

/* *at = change(*at); what was there. */
template <typename T, typename Change> static inline T atomically(T *at, Change change)
{
    typedef typename word_of<sizeof(T)>::type word __attribute__((may_alias));
    word old = __atomic_load_n((word *)at, __ATOMIC_RELAXED), desired;
    T before;
    do {
        __builtin_memcpy(&before, &old, sizeof before);
        const T after = change(before);
        __builtin_memcpy(&desired, &after, sizeof desired);
    } while (
        !__atomic_compare_exchange_n((word *)at, &old, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return before;
}

template <typename T> static inline T exchange(T *at, T v)
{
    typedef typename word_of<sizeof(T)>::type word __attribute__((may_alias));
    word w;
    __builtin_memcpy(&w, &v, sizeof w);
    w = __atomic_exchange_n((word *)at, w, __ATOMIC_SEQ_CST);
    __builtin_memcpy(&v, &w, sizeof v);
    return v;
}

template <typename T> static inline T compare_and_swap(T *at, T compare, T v)
{
    typedef typename word_of<sizeof(T)>::type word __attribute__((may_alias));
    word expected, desired;
    __builtin_memcpy(&expected, &compare, sizeof expected);
    __builtin_memcpy(&desired, &v, sizeof desired);
    __atomic_compare_exchange_n((word *)at, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    __builtin_memcpy(&v, &expected, sizeof v);
    return v;
}

template <typename T> static inline T fetch_add(T *at, T v)
{
    if constexpr (std::is_integral<T>::value) {
        v = __atomic_fetch_add(at, v, __ATOMIC_SEQ_CST);
        return v;
    } else {
        return atomically(at, [v](T old) { return (T)(old + v); });
    }
}
} // namespace softgpu

/* For each scope: any of them is the system's. */
#define SOFTGPU_SCOPES(define) define() define(_block) define(_system)

#define SOFTGPU_ATOMIC(suffix)                                                                               \
    template <typename T> static inline T atomicAdd##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::fetch_add(at, (T)v);                                                                 \
    }                                                                                                        \
    template <typename T> static inline T atomicSub##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return (T)(old - v); });                                 \
    }                                                                                                        \
    template <typename T> static inline T atomicExch##suffix(T *at, typename softgpu::given<T>::type v)      \
    {                                                                                                        \
        return softgpu::exchange(at, (T)v);                                                                  \
    }                                                                                                        \
    template <typename T>                                                                                    \
    static inline T atomicCAS##suffix(T *at, typename softgpu::given<T>::type compare,                       \
                                      typename softgpu::given<T>::type v)                                    \
    {                                                                                                        \
        return softgpu::compare_and_swap(at, (T)compare, (T)v);                                              \
    }                                                                                                        \
    template <typename T> static inline T atomicMin##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return v < old ? v : old; });                            \
    }                                                                                                        \
    template <typename T> static inline T atomicMax##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return old < v ? v : old; });                            \
    }                                                                                                        \
    template <typename T> static inline T atomicAnd##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return (T)(old & v); });                                 \
    }                                                                                                        \
    template <typename T> static inline T atomicOr##suffix(T *at, typename softgpu::given<T>::type v)        \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return (T)(old | v); });                                 \
    }                                                                                                        \
    template <typename T> static inline T atomicXor##suffix(T *at, typename softgpu::given<T>::type v)       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](T old) { return (T)(old ^ v); });                                 \
    }                                                                                                        \
    static inline unsigned atomicInc##suffix(unsigned *at, unsigned v)                                       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](unsigned old) { return old >= v ? 0u : old + 1; });               \
    }                                                                                                        \
    static inline unsigned atomicDec##suffix(unsigned *at, unsigned v)                                       \
    {                                                                                                        \
        return softgpu::atomically(at, [v](unsigned old) { return old == 0 || old > v ? v : old - 1; });     \
    }
SOFTGPU_SCOPES(SOFTGPU_ATOMIC)
#undef SOFTGPU_ATOMIC

static inline void __threadfence(void)
{
    __sync_synchronize();
}
static inline void __threadfence_block(void)
{
    __sync_synchronize();
}
static inline void __threadfence_system(void)
{
    __sync_synchronize();
}

#endif
