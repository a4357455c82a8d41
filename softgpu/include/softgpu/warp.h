/* softgpu/warp.h: what lanes of a warp do together: shuffles, votes, matches, reductions (CUDA C++ Programming Guide,
 * "Warp Vote Functions" and those that follow).
 *
 * In fast mode a warp is one lane: votes are its own, and a shuffle that would need another
 * lane ends the launch with an error, since the loops around shuffles must run zero rounds there.
 */
#ifndef SOFTGPU_WARP_H
#define SOFTGPU_WARP_H

namespace softgpu
{
/* `v` of lane `source`. */
template <typename T> static inline T shuffle(T v, uint32_t source, softgpu_place_t place)
{
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable<T>::value,
                  "shuffles move values of up to 16 bytes");
    if (source)
        needs_threads("a shuffle from another lane in fast mode", place);
    return v;
}
} // namespace softgpu

/* Lanes are grouped by `width`, and what falls out of the group is the own. */
template <typename T>
static inline T __shfl_sync(unsigned, T v, int source, int width = 32,
                            softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(v, (uint32_t)source & ((uint32_t)width - 1), place);
}
template <typename T> static inline T __shfl_up_sync(unsigned, T v, unsigned, int = 32)
{
    return v;
}
template <typename T>
static inline T __shfl_down_sync(unsigned, T v, unsigned delta, int width = 32,
                                 softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(v, delta < (uint32_t)width ? delta : 0, place);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned, T v, int with, int width = 32,
                                softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(v, (uint32_t)with < (uint32_t)width ? (uint32_t)with : 0, place);
}

/* ---- votes ---- */

static inline unsigned __ballot_sync(unsigned, int predicate)
{
    return predicate != 0;
}
static inline int __any_sync(unsigned, int predicate)
{
    return predicate != 0;
}
static inline int __all_sync(unsigned, int predicate)
{
    return predicate != 0;
}
static inline unsigned __activemask(void)
{
    return 1;
}

/* ---- matches ---- */

template <typename T> static inline unsigned __match_any_sync(unsigned, T)
{
    return 1;
}
template <typename T> static inline unsigned __match_all_sync(unsigned, T, int *predicate)
{
    *predicate = 1;
    return 1;
}

/* ---- reductions ---- */

#define SOFTGPU_REDUCE(what, type)                                                                           \
    static inline type __reduce_##what##_sync(unsigned, type v)                                              \
    {                                                                                                        \
        return v;                                                                                            \
    }
SOFTGPU_REDUCE(add, unsigned)
SOFTGPU_REDUCE(add, int)
SOFTGPU_REDUCE(min, unsigned)
SOFTGPU_REDUCE(min, int)
SOFTGPU_REDUCE(max, unsigned)
SOFTGPU_REDUCE(max, int)
SOFTGPU_REDUCE(and, unsigned)
SOFTGPU_REDUCE(or, unsigned)
SOFTGPU_REDUCE(xor, unsigned)
#undef SOFTGPU_REDUCE

#endif
