/* attention.cu: scaled dot-product attention, forward and backward, behind the parameters of two families of kernels that no header of the wheel
 * holds whole: "memory-efficient" (fmha_cutlass*) and flash. make.py knows their many instances by pattern (`attention`).
 *
 * A warp has a row: of queries (output, dQ) or of keys (dK, dV); sums have one order. The backward passes compute the probabilities again from the
 * log of the row's sum. Dropout takes a number of Philox by the element's place, so that both passes drop the same.
 */
#include "block.h"

#include <climits>
#include <tuple>

#include <ATen/cuda/PhiloxCudaState.h>
#include <ATen/cuda/detail/UnpackRaw.cuh> /* wants <tuple> */
#include <curand_kernel.h>

namespace compute {

constexpr int widest = 128; /* a row's elements */
constexpr float infinity = std::numeric_limits<float>::infinity();

/* One head of one batch. Rows are [query or key, element]. */
template <typename T> struct attention {
    const T *q, *k, *v, *bias; /* bias [query, key] or NULL */
    int64_t q_stride, k_stride, v_stride, bias_stride;
    int queries, keys, width, v_width;
    int64_t from, to; /* query i looks at keys i + from to i + to */
    float scale, kept;
    uint64_t seed, offset, place; /* `place`: of the element [0, 0] */

    __device__ int64_t first_key(int64_t i) const { return i + from > 0 ? i + from : 0; }
    __device__ int64_t end_key(int64_t i) const { return i + to + 1 < keys ? i + to + 1 : keys; }
    __device__ int64_t first_query(int64_t j) const { return j - to > 0 ? j - to : 0; }
    __device__ int64_t end_query(int64_t j) const { return j - from + 1 < queries ? j - from + 1 : queries; }

    __device__ __noinline__ float score(int64_t i, int64_t j) const
    {
        float s = 0;
        for (int d = 0; d < width; d++)
            s += float(q[i * q_stride + d]) * float(k[j * k_stride + d]);
        return s * scale + (bias ? float(bias[i * bias_stride + j]) : 0);
    }

    __device__ __noinline__ float dropout(int64_t i, int64_t j) const
    {
        if (kept == 1)
            return 1;
        const uint64_t at = place + i * keys + j;
        const uint4 counter = {unsigned(offset), unsigned(offset >> 32), unsigned(at), unsigned(at >> 32)};
        const uint4 number = curand_Philox4x32_10(counter, {unsigned(seed), unsigned(seed >> 32)});
        return _curand_uniform(number.x) <= kept ? 1 / kept : 0;
    }
};

/* Beside it, of the output [query, element of v] and its gradient; lse by query. */
template <typename T> struct gradients {
    const T *o, *d_o;
    int64_t o_stride, d_o_stride;
    const float *lse;

    __device__ float delta(int64_t i, int v_width) const
    {
        float s = 0;
        for (int d = 0; d < v_width; d++)
            s += float(d_o[i * d_o_stride + d]) * float(o[i * o_stride + d]);
        return s;
    }
};

/* A row that lies across the lanes: element d in lane d % 32. */
struct row {
    float part[widest / 32];

    __device__ row()
    {
        for (float &p : part)
            p = 0;
    }

    __device__ void scale(float by)
    {
        for (float &p : part)
            p *= by;
    }

    template <typename T> __device__ void add(float by, const T *other, int width)
    {
#pragma unroll
        for (int e = 0; e < widest / 32; e++)
            if (rank() % 32 + 32 * e < width)
                part[e] += by * float(other[rank() % 32 + 32 * e]);
    }

    template <typename Of_element> __device__ void each(int width, Of_element of_element)
    {
#pragma unroll
        for (int e = 0; e < widest / 32; e++)
            if (rank() % 32 + 32 * e < width)
                of_element(rank() % 32 + 32 * e, part[e]);
    }
};

/* Each warp of the blocks along x takes rows in turn. */
template <typename Of_row> __device__ void for_rows(int64_t count, Of_row of_row)
{
    if (threads() % 32)
        __trap();
    const unsigned warps = threads() / 32;
    for (int64_t i = blockIdx.x * warps + rank() / 32; i < count; i += gridDim.x * warps)
        of_row(i);
}

template <typename T> __device__ void check(const attention<T> &a)
{
    if (a.width > widest || a.v_width > widest)
        __trap();
}

/* Output row i, and the log of its sum: infinite where there is nothing to look at, so that probabilities of it are 0. */
template <typename T> __device__ __noinline__ float output_row(const attention<T> &a, int64_t i, T *out)
{
    const unsigned lane = rank() % 32;
    const int64_t end = a.end_key(i);
    float largest = -infinity, all = 0;
    row acc;
    for (int64_t first = a.first_key(i); first < end; first += 32) {
        const int64_t j = first + lane;
        const float s = j < end ? a.score(i, j) : -infinity;
        const float now = maximum::of(largest, over_lanes<maximum>(s, 32));
        if (now == -infinity)
            continue;
        float p = expf(s - now);
        const float before = expf(largest - now);
        all = all * before + over_lanes<sum>(p, 32);
        if (j < end)
            p *= a.dropout(i, j);
        acc.scale(before);
        for (int t = 0; t < 32 && first + t < end; t++)
            acc.add(__shfl_sync(~0u, p, t), a.v + (first + t) * a.v_stride, a.v_width);
        largest = now;
    }
    acc.each(a.v_width, [&](int d, float value) { out[d] = T(all == 0 ? 0 : value / all); });
    return all == 0 ? infinity : largest + logf(all);
}

/* What is known of the pair of query i and key j. */
struct pair {
    float dropped; /* probability after dropout */
    float d_score;
};

template <typename T> __device__ __noinline__ pair pair_of(const attention<T> &a, const gradients<T> &g, int64_t i, int64_t j, float delta)
{
    float dp = 0;
    for (int d = 0; d < a.v_width; d++)
        dp += float(g.d_o[i * g.d_o_stride + d]) * float(a.v[j * a.v_stride + d]);
    const float p = expf(a.score(i, j) - g.lse[i]), dropout = a.dropout(i, j);
    return {p * dropout, p * (dp * dropout - delta)};
}

/* dQ of query i, before the scale. */
template <typename T> __device__ __noinline__ row d_query(const attention<T> &a, const gradients<T> &g, int64_t i, float delta)
{
    const int64_t end = a.end_key(i);
    row acc;
    for (int64_t first = a.first_key(i); first < end; first += 32) {
        const int64_t j = first + rank() % 32;
        const float ds = j < end ? pair_of(a, g, i, j, delta).d_score : 0;
        for (int t = 0; t < 32 && first + t < end; t++)
            acc.add(__shfl_sync(~0u, ds, t), a.k + (first + t) * a.k_stride, a.width);
    }
    return acc;
}

/* dK and dV of key j. `deltas` NULL: computed again. */
template <typename T>
__device__ __noinline__ void d_key(const attention<T> &a, const gradients<T> &g, int64_t j, const float *deltas, T *dk, T *dv)
{
    const int64_t end = a.end_query(j);
    row of_k, of_v;
    for (int64_t first = a.first_query(j); first < end; first += 32) {
        const int64_t i = first + rank() % 32;
        pair p = {0, 0};
        if (i < end)
            p = pair_of(a, g, i, j, deltas ? deltas[i] : g.delta(i, a.v_width));
        for (int t = 0; t < 32 && first + t < end; t++) {
            of_k.add(__shfl_sync(~0u, p.d_score, t), a.q + (first + t) * a.q_stride, a.width);
            of_v.add(__shfl_sync(~0u, p.dropped, t), g.d_o + (first + t) * g.d_o_stride, a.v_width);
        }
    }
    of_k.each(a.width, [&](int d, float value) { dk[d] = T(value * a.scale); });
    of_v.each(a.v_width, [&](int d, float value) { dv[d] = T(value); });
}

template <typename T> __device__ void set_random(attention<T> &a, float kept, at::PhiloxCudaState random)
{
    const auto [seed, offset] = at::cuda::philox::unpack(random);
    a.kept = kept, a.seed = seed, a.offset = offset;
}

// ---- memory-efficient ----

constexpr uint8_t causal_top_left = 1, causal_bottom_right = 2;

template <typename T> struct efficient_parameters {
    const T *query, *key, *value, *bias;
    const int32_t *first_query, *first_key, *key_count;
    uint32_t diagonal;
    T *output;
    float *output_accumulated, *lse;
    int32_t window;
    float scale;
    int32_t width, v_width, queries, keys, keys_all;
    uint8_t mask;
    int32_t q_stride, k_stride, v_stride, bias_stride, o_stride;
    int32_t q_head, k_head, v_head;
    int64_t bias_head, q_batch, k_batch, v_batch, bias_batch;
    int32_t batches, heads;
    bool use_dropout;
    unsigned long long place;
    float dropout;
    at::PhiloxCudaState random;
    int64_t *offset_used, *seed_used;
};

template <typename T> struct efficient_backward_parameters {
    const T *query, *key, *value, *bias;
    const float *lse;
    const T *output, *d_output;
    float *delta;
    const int32_t *first_query, *first_key;
    T *d_query, *d_key, *d_value, *d_bias;
    float *workspace, *workspace_v;
    void *workspace_q;
    int32_t window;
    float scale;
    int32_t width, v_width, queries, keys, heads;
    uint8_t mask;
    int64_t q_stride, k_stride, v_stride, bias_stride, d_o_stride, d_bias_stride;
    int8_t packed; /* rows of dQ, dK and dV: 3 where they lie together, else 1 */
    at::PhiloxCudaState random;
    unsigned long long place;
    float dropout;
    int64_t o_head;
    int32_t q_head, k_head, v_head;
    int64_t bias_head, o_batch, q_batch, k_batch, v_batch, bias_batch, lse_batch, lse_head, delta_batch, delta_head;
    int32_t batches;
    int16_t splits;
    int64_t d_o_batch, d_q_batch, d_k_batch, d_v_batch, d_bias_batch, d_o_head, d_q_head, d_k_head, d_v_head, d_bias_head;
};

/* What both directions say of the head (blockIdx.y) and batch (blockIdx.z). */
template <typename T, typename Parameters> __device__ attention<T> efficient(const Parameters &p)
{
    if (p.first_query || p.first_key || p.window > 0)
        __trap();
    const int64_t head = blockIdx.y, batch = blockIdx.z;
    attention<T> a = {};
    a.q = p.query + batch * p.q_batch + head * p.q_head;
    a.k = p.key + batch * p.k_batch + head * p.k_head;
    a.v = p.value + batch * p.v_batch + head * p.v_head;
    a.bias = p.bias ? p.bias + batch * p.bias_batch + head * p.bias_head : nullptr;
    a.q_stride = p.q_stride, a.k_stride = p.k_stride, a.v_stride = p.v_stride, a.bias_stride = p.bias_stride;
    a.queries = p.queries, a.keys = p.keys, a.width = p.width, a.v_width = p.v_width;
    a.from = -int64_t(INT_MAX);
    a.to = p.mask == causal_top_left ? 0 : p.mask == causal_bottom_right ? p.keys - p.queries : INT_MAX;
    a.scale = p.scale;
    a.place = (batch * p.heads + head) * p.queries * p.keys;
    check(a);
    return a;
}

template <typename T> __global__ void efficient_forward(efficient_parameters<T> p)
{
    attention<T> a = efficient<T>(p);
    const int64_t head = blockIdx.y, batch = blockIdx.z, lse_rows = (p.queries + 31) / 32 * 32;
    set_random(a, p.use_dropout ? 1 - p.dropout : 1, p.random);
    if (p.use_dropout && p.random.captured_ && !blockIdx.x && !head && !batch && !rank())
        *p.seed_used = a.seed, *p.offset_used = a.offset;
    for_rows(lse_rows, [&](int64_t i) {
        float lse = infinity;
        if (i < p.queries)
            lse = output_row(a, i, p.output + (batch * p.queries + i) * p.o_stride + head * p.v_width);
        if (p.lse && rank() % 32 == 0)
            p.lse[(batch * p.heads + head) * lse_rows + i] = lse;
    });
}

template <typename T> __global__ void efficient_backward(efficient_backward_parameters<T> p)
{
    attention<T> a = efficient<T>(p);
    if (p.d_bias)
        __trap();
    const int64_t head = blockIdx.y, batch = blockIdx.z, of_heads = int64_t(p.packed) * p.heads;
    set_random(a, 1 - p.dropout, p.random);
    const gradients<T> g = {p.output + batch * p.o_batch + head * p.o_head, p.d_output + batch * p.d_o_batch + head * p.d_o_head,
                            int64_t(p.v_width) * p.heads, p.d_o_stride, p.lse + batch * p.lse_batch + head * p.lse_head};
    T *dq = p.d_query + batch * p.d_q_batch + head * p.d_q_head;
    T *dk = p.d_key + batch * p.d_k_batch + head * p.d_k_head;
    T *dv = p.d_value + batch * p.d_v_batch + head * p.d_v_head;
    for_rows(p.queries, [&](int64_t i) {
        d_query(a, g, i, g.delta(i, p.v_width)).each(p.width, [&](int d, float value) { dq[i * of_heads * p.width + d] = T(value * p.scale); });
    });
    for_rows(p.keys, [&](int64_t j) { d_key<T>(a, g, j, nullptr, dk + j * of_heads * p.width, dv + j * of_heads * p.v_width); });
}

// ---- flash ----

struct flash_parameters {
    void *q, *k, *v;
    int64_t q_batch, k_batch, v_batch, q_stride, k_stride, v_stride, q_head, k_head, v_head;
    int heads, kv_heads, heads_of_kv;
    void *o, *o_accumulated;
    int64_t o_batch, o_stride, o_head;
    void *p, *lse, *lse_accumulated;
    int batches, queries, keys, keys_new, width, queries_rounded, keys_rounded, width_rounded, rotary_width, queries_all;
    float scale, scale_log2;
    int *first_query, *first_key, *left_pad, *used, *block_mask;
    void *k_new, *v_new;
    int64_t of_new[6];
    void *rotary[2];
    int *cache_index, *block_table;
    int64_t block_table_batch;
    int page_size;
    float kept;
    uint8_t kept_byte;
    float inverse_kept, scale_inverse_kept;
    int left, right;
    float softcap;
    at::PhiloxCudaState random;
    uint64_t *random_used; /* seed and offset, for the backward pass */
    bool is_bfloat16, causal, cumulative, interleaved;
    int splits;
    void *alibi;
    int64_t alibi_batch;
    bool unpadded_lse, swapped;
};

struct flash_backward_parameters : flash_parameters {
    void *d_o, *d_q, *d_k, *d_v, *d_q_accumulated, *d_k_accumulated, *d_v_accumulated;
    int64_t d_o_batch, d_o_stride, d_o_head, d_q_batch, d_k_batch, d_v_batch, d_q_stride, d_k_stride, d_v_stride, d_q_head, d_k_head, d_v_head;
    float *delta; /* [batch, head, query, rounded up] */
    bool deterministic;
    int64_t split_stride;

    /* [batch, head, query, rounded up, element, rounded up], of one split */
    __device__ float *accumulated(int64_t i) const
    {
        return static_cast<float *>(d_q_accumulated) +
               ((int64_t(blockIdx.y) * heads + blockIdx.z) * queries_rounded + i) * width_rounded;
    }
};

template <typename T> __device__ T *at_head(void *p, int64_t batch_stride, int64_t head_stride, int64_t head)
{
    return static_cast<T *>(p) + blockIdx.y * batch_stride + head * head_stride;
}

/* Of the batch (blockIdx.y) and head (blockIdx.z). */
template <typename T> __device__ attention<T> flash(const flash_parameters &p)
{
    if (p.first_query || p.first_key || p.left_pad || p.used || p.block_table || p.k_new || p.rotary_width || p.alibi || p.softcap || p.p)
        __trap();
    const int64_t head = blockIdx.z, kv_head = head / p.heads_of_kv;
    attention<T> a = {};
    a.q = at_head<T>(p.q, p.q_batch, p.q_head, head);
    a.k = at_head<T>(p.k, p.k_batch, p.k_head, kv_head);
    a.v = at_head<T>(p.v, p.v_batch, p.v_head, kv_head);
    a.q_stride = p.q_stride, a.k_stride = p.k_stride, a.v_stride = p.v_stride;
    a.queries = p.queries, a.keys = p.keys, a.width = a.v_width = p.width;
    a.from = p.left < 0 ? -int64_t(INT_MAX) : int64_t(p.keys) - p.queries - p.left;
    a.to = p.right < 0 ? INT_MAX : int64_t(p.keys) - p.queries + p.right;
    a.scale = p.scale;
    a.place = (int64_t(blockIdx.y) * p.heads + head) * p.queries * p.keys;
    check(a);
    return a;
}

template <typename T> __device__ gradients<T> flash_gradients(const flash_backward_parameters &p)
{
    const int64_t head = blockIdx.z;
    return {at_head<T>(p.o, p.o_batch, p.o_head, head), at_head<T>(p.d_o, p.d_o_batch, p.d_o_head, head), p.o_stride, p.d_o_stride,
            static_cast<float *>(p.lse) + (int64_t(blockIdx.y) * p.heads + head) * p.queries};
}

template <typename T> __global__ void flash_forward(flash_parameters p)
{
    attention<T> a = flash<T>(p);
    set_random(a, p.kept, p.random);
    if (p.kept != 1 && p.random_used && !blockIdx.x && !blockIdx.y && !blockIdx.z && !rank())
        p.random_used[0] = a.seed, p.random_used[1] = a.offset;
    T *out = at_head<T>(p.o, p.o_batch, p.o_head, blockIdx.z);
    float *lse = static_cast<float *>(p.lse) + (int64_t(blockIdx.y) * p.heads + blockIdx.z) * p.queries;
    for_rows(p.queries, [&](int64_t i) {
        const float of_row = output_row(a, i, out + i * p.o_stride);
        if (rank() % 32 == 0)
            lse[i] = of_row;
    });
}

template <typename T, bool clear> __global__ void flash_delta(flash_backward_parameters p)
{
    const gradients<T> g = flash_gradients<T>(p);
    for_rows(p.queries, [&](int64_t i) {
        float part = 0;
        for (int d = rank() % 32; d < p.width; d += 32)
            part += float(g.d_o[i * g.d_o_stride + d]) * float(g.o[i * g.o_stride + d]);
        part = over_lanes<sum>(part, 32);
        if (rank() % 32 == 0)
            p.delta[(int64_t(blockIdx.y) * p.heads + blockIdx.z) * p.queries_rounded + i] = part;
        for (int d = rank() % 32; clear && d < p.width_rounded; d += 32)
            p.accumulated(i)[d] = 0;
    });
}

template <typename T> __global__ void flash_backward(flash_backward_parameters p)
{
    attention<T> a = flash<T>(p);
    a.kept = p.kept;
    if (p.kept != 1)
        a.seed = p.random_used[0], a.offset = p.random_used[1];
    const gradients<T> g = flash_gradients<T>(p);
    const float *deltas = p.delta + (int64_t(blockIdx.y) * p.heads + blockIdx.z) * p.queries_rounded;
    T *dk = at_head<T>(p.d_k, p.d_k_batch, p.d_k_head, blockIdx.z), *dv = at_head<T>(p.d_v, p.d_v_batch, p.d_v_head, blockIdx.z);
    for_rows(p.queries, [&](int64_t i) {
        d_query(a, g, i, deltas[i]).each(p.width, [&](int d, float value) { p.accumulated(i)[d] += value; });
    });
    for_rows(p.keys, [&](int64_t j) { d_key(a, g, j, deltas, dk + j * p.d_k_stride, dv + j * p.d_v_stride); });
}

/* Of all splits the first alone has anything: a row of queries is one warp's. */
template <typename T> __global__ void flash_convert(flash_backward_parameters p, int splits)
{
    T *dq = at_head<T>(p.d_q, p.d_q_batch, p.d_q_head, blockIdx.z);
    for_rows(p.queries, [&](int64_t i) {
        for (int d = rank() % 32; d < p.width; d += 32)
            dq[i * p.d_q_stride + d] = T(p.accumulated(i)[d] * p.scale);
    });
}

#define OF_TYPE(T)                                                                                                                           \
    template __global__ void efficient_forward<T>(efficient_parameters<T>);                                                                 \
    template __global__ void efficient_backward<T>(efficient_backward_parameters<T>);
#define OF_HALF(T)                                                                                                                           \
    OF_TYPE(T)                                                                                                                              \
    template __global__ void flash_forward<T>(flash_parameters);                                                                            \
    template __global__ void flash_delta<T, false>(flash_backward_parameters);                                                              \
    template __global__ void flash_delta<T, true>(flash_backward_parameters);                                                               \
    template __global__ void flash_backward<T>(flash_backward_parameters);                                                                  \
    template __global__ void flash_convert<T>(flash_backward_parameters, int);

OF_TYPE(float)
OF_HALF(c10::Half)
OF_HALF(c10::BFloat16)

} // namespace compute
