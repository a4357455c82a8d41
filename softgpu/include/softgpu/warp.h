/* softgpu/warp.h: what lanes of a warp do together: shuffles, votes, matches, reductions (CUDA C++ Programming Guide,
 * "Warp Vote Functions" and those that follow).
 *
 * In SIMT mode each is an operation of the driver's (softgpu_warp_op_t): the lanes of a mask wait for each other, the
 * last one computes for all. In fast mode a warp is one lane: votes are its own, and a shuffle that would need another
 * lane ends the launch with an error, since the loops around shuffles must run zero rounds there.
 */
#ifndef SOFTGPU_WARP_H
#define SOFTGPU_WARP_H

namespace softgpu
{
/* What a shuffle gives for a lane that takes no part: undefined on a GPU, never the value hoped for here. */
enum { NOBODY = 0xdb };

struct shuffled {
    alignas(16) unsigned char value[16];
    uint32_t bytes, source;
    softgpu_place_t place;
};

SOFTGPU_UNSEEN void combine_shuffle(uint32_t lanes, void *const lane[32])
{
    unsigned char values[32][16];
    for (uint32_t i = 0; i < 32; i++) {
        if (lanes >> i & 1)
            __builtin_memcpy(values[i], ((shuffled *)lane[i])->value, 16);
        else
            __builtin_memset(values[i], NOBODY, 16);
    }
#ifdef __SOFTGPU_CHECKED__
    for (uint32_t i = 0; i < 32; i++)
        if (lanes >> i & 1 && !(lanes >> ((shuffled *)lane[i])->source & 1))
            services->fail(719, "rule warp-mask: a shuffle reads from a lane that has not come to it",
                           ((shuffled *)lane[i])->place);
#endif
    for (uint32_t i = 0; i < 32; i++)
        if (lanes >> i & 1)
            __builtin_memcpy(((shuffled *)lane[i])->value, values[((shuffled *)lane[i])->source], 16);
}
inline const softgpu_warp_op_t shuffle_op = {"a shuffle", combine_shuffle};

#ifdef __SOFTGPU_FAST__
static inline uint32_t lane(void)
{
    return 0;
}
#endif

/* `v` of lane `source`. */
template <typename T> SOFTGPU_UNSEEN T shuffle(unsigned mask, T v, uint32_t source, softgpu_place_t place)
{
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable<T>::value,
                  "shuffles move values of up to 16 bytes");
#ifdef __SOFTGPU_FAST__
    (void)mask;
    if (source)
        needs_threads("a shuffle from another lane in fast mode", place);
    return v;
#else
    shuffled s = {};
    __builtin_memcpy(s.value, &v, sizeof v);
    s.bytes = sizeof v;
    s.source = source & 31;
    s.place = place;
    services->collect(&shuffle_op, mask, &s, place);
    __builtin_memcpy(&v, s.value, sizeof v);
    return v;
#endif
}

/* Which lane each kind of shuffle reads; lanes are grouped by `width`, and what falls out of the group is the own. */
static inline uint32_t group_of(uint32_t width)
{
    return lane() & ~(width - 1);
}
static inline uint32_t source_up(uint32_t delta, int width)
{
    const uint32_t l = lane();
    return l >= delta && l - delta >= group_of((uint32_t)width) ? l - delta : l;
}
static inline uint32_t source_down(uint32_t delta, int width)
{
    const uint32_t l = lane();
    return delta < 32 && l + delta < group_of((uint32_t)width) + (uint32_t)width ? l + delta : l;
}
static inline uint32_t source_xor(uint32_t with, int width)
{
    const uint32_t l = lane(), from = l ^ with;
    /* A lane of a later group is out of reach, one of an earlier group is not. */
    return from < group_of((uint32_t)width) + (uint32_t)width ? from : l;
}
} // namespace softgpu

template <typename T>
static inline T __shfl_sync(unsigned mask, T v, int source, int width = 32,
                            softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(
        mask, v, softgpu::group_of((uint32_t)width) + ((uint32_t)source & ((uint32_t)width - 1)), place);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32,
                               softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(mask, v, softgpu::source_up(delta, width), place);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32,
                                 softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(mask, v, softgpu::source_down(delta, width), place);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32,
                                softgpu_place_t place = softgpu::here())
{
    return softgpu::shuffle(mask, v, softgpu::source_xor((uint32_t)with, width), place);
}

/* ---- votes ---- */

namespace softgpu
{
struct vote {
    uint32_t value, result;
};

SOFTGPU_UNSEEN void combine_ballot(uint32_t lanes, void *const lane[32])
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < 32; i++)
        if (lanes >> i & 1 && ((vote *)lane[i])->value)
            set |= 1u << i;
    for (uint32_t i = 0; i < 32; i++)
        if (lanes >> i & 1)
            ((vote *)lane[i])->result = set;
}
inline const softgpu_warp_op_t ballot_op = {"a vote", combine_ballot};
inline const softgpu_warp_op_t sync_op = {"__syncwarp", nullptr};

SOFTGPU_UNSEEN uint32_t ballot(unsigned mask, int predicate, softgpu_place_t place)
{
#ifdef __SOFTGPU_FAST__
    (void)mask, (void)place;
    return predicate != 0;
#else
    vote v = {(uint32_t)(predicate != 0), 0};
    services->collect(&ballot_op, mask, &v, place);
    return v.result;
#endif
}
} // namespace softgpu

static inline unsigned __ballot_sync(unsigned mask, int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::ballot(mask, predicate, place);
}
static inline int __any_sync(unsigned mask, int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::ballot(mask, predicate, place) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::ballot(mask, !predicate, place) == 0;
}

#ifdef __SOFTGPU_FAST__
static inline unsigned __activemask(void)
{
    return 1;
}
#else
SOFTGPU_UNSEEN unsigned __activemask(softgpu_place_t place = softgpu::here())
{
    return softgpu::services->active(place);
}
SOFTGPU_UNSEEN void __syncwarp(unsigned mask = 0xffffffffu, softgpu_place_t place = softgpu::here())
{
    softgpu::services->collect(&softgpu::sync_op, mask, nullptr, place);
}
#endif

/* ---- matches ---- */

namespace softgpu
{
struct match {
    uint64_t value;
    uint32_t any, all;
};

SOFTGPU_UNSEEN void combine_match(uint32_t lanes, void *const lane[32])
{
    bool same = true;
    const match *const first = (match *)lane[__builtin_ctz(lanes)];
    for (uint32_t i = 0; i < 32; i++) {
        if (!(lanes >> i & 1))
            continue;
        match *const m = (match *)lane[i];
        same = same && m->value == first->value;
        m->any = 0;
        for (uint32_t j = 0; j < 32; j++)
            if (lanes >> j & 1 && ((match *)lane[j])->value == m->value)
                m->any |= 1u << j;
    }
    for (uint32_t i = 0; i < 32; i++)
        if (lanes >> i & 1)
            ((match *)lane[i])->all = same ? lanes : 0;
}
inline const softgpu_warp_op_t match_op = {"a match", combine_match};

template <typename T> SOFTGPU_UNSEEN match matched(unsigned mask, T value, softgpu_place_t place)
{
    static_assert(sizeof(T) <= 8, "values of up to 8 bytes are matched");
    match m = {0, 1, 1};
    __builtin_memcpy(&m.value, &value, sizeof value);
#ifdef __SOFTGPU_FAST__
    (void)mask, (void)place;
#else
    services->collect(&match_op, mask, &m, place);
#endif
    return m;
}
} // namespace softgpu

template <typename T>
static inline unsigned __match_any_sync(unsigned mask, T value, softgpu_place_t place = softgpu::here())
{
    return softgpu::matched(mask, value, place).any;
}
template <typename T>
static inline unsigned __match_all_sync(unsigned mask, T value, int *predicate,
                                        softgpu_place_t place = softgpu::here())
{
    const unsigned all = softgpu::matched(mask, value, place).all;
    *predicate = all != 0;
    return all;
}

/* ---- reductions ---- */

namespace softgpu
{
template <typename T, typename Of> SOFTGPU_UNSEEN void combine_reduce(uint32_t lanes, void *const lane[32])
{
    const int first = __builtin_ctz(lanes);
    T total = *(const T *)lane[first];
    for (int i = first + 1; i < 32; i++)
        if (lanes >> i & 1)
            total = Of::two(total, *(const T *)lane[i]);
    for (int i = first; i < 32; i++)
        if (lanes >> i & 1)
            *(T *)lane[i] = total;
}
template <typename T, typename Of>
inline const softgpu_warp_op_t reduce_op = {Of::name, combine_reduce<T, Of>};

template <typename Of, typename T> SOFTGPU_UNSEEN T reduce(unsigned mask, T v, softgpu_place_t place)
{
#ifdef __SOFTGPU_FAST__
    (void)mask, (void)place;
#else
    services->collect(&reduce_op<T, Of>, mask, &v, place);
#endif
    return v;
}

#define SOFTGPU_REDUCTION(what, expression)                                                                  \
    struct of_##what {                                                                                       \
        static constexpr const char *name = "__reduce_" #what "_sync";                                       \
        template <typename T> static inline T two(T a, T b)                                                  \
        {                                                                                                    \
            return (T)(expression);                                                                          \
        }                                                                                                    \
    };
SOFTGPU_REDUCTION(add, (unsigned)a + (unsigned)b)
SOFTGPU_REDUCTION(min, b < a ? b : a)
SOFTGPU_REDUCTION(max, a < b ? b : a)
SOFTGPU_REDUCTION(and, a &b)
SOFTGPU_REDUCTION(or, a | b)
SOFTGPU_REDUCTION(xor, a ^ b)
#undef SOFTGPU_REDUCTION
} // namespace softgpu

#define SOFTGPU_REDUCE(what, type)                                                                           \
    static inline type __reduce_##what##_sync(unsigned mask, type v,                                         \
                                              softgpu_place_t place = softgpu::here())                       \
    {                                                                                                        \
        return softgpu::reduce<softgpu::of_##what>(mask, v, place);                                          \
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
