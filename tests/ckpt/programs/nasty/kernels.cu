/* kernels.cu: what nasty programs launch, but for module variables. Sums are taken in a fixed order. */
#include "slices.cuh"

#include "softgpu/intrinsics.cuh"

#include <math.h>

/* ---- the frame ---- */

NASTY_KERNEL fill(float *x, unsigned seed, unsigned n)
{
    EACH(i, n) x[i] = (float)((i * 2654435761u ^ seed * 40503u) >> 8 & 0xffff) / 65536.0f - 0.5f;
}
BLOCK_SIZE_INDEPENDENT(fill);

NASTY_KERNEL forward(float *out, const float *in, const float *w, unsigned n, unsigned m)
{
    EACH_RUN(first, end, n, m)
    {
        const float *of = w + first % m;
        for (unsigned i = threadIdx.x; i < end - first; i += blockDim.x) {
            const float t = in[first + i] * of[i] + 0.1f;
            out[first + i] = t / (1.0f + fabsf(t));
        }
    }
}
BLOCK_SIZE_INDEPENDENT(forward);

NASTY_KERNEL input_gradient(float *din, const float *dout, const float *out, const float *w, unsigned n,
                            unsigned m)
{
    EACH_RUN(first, end, n, m)
    {
        const float *of = w + first % m;
        for (unsigned i = threadIdx.x; i < end - first; i += blockDim.x) {
            const float s = 1.0f - fabsf(out[first + i]);
            din[first + i] = dout[first + i] * s * s * of[i];
        }
    }
}
BLOCK_SIZE_INDEPENDENT(input_gradient);

NASTY_KERNEL weight_gradient(float *dw, const float *dout, const float *in, const float *out, unsigned n,
                             unsigned m)
{
    EACH(j, m) dw[j] = 0;
    for (unsigned row = 0; row < n; row += m)
        EACH(j, n - row < m ? n - row : m)
        {
            const float s = 1.0f - fabsf(out[row + j]);
            dw[j] += dout[row + j] * s * s * in[row + j];
        }
}
BLOCK_SIZE_INDEPENDENT(weight_gradient);

NASTY_KERNEL update(float *w, const float *dw, float rate, unsigned m)
{
    EACH(j, m) w[j] -= rate * dw[j];
}
BLOCK_SIZE_INDEPENDENT(update);

static __device__ float sum_of_slice(const float *x, unsigned n)
{
    float sum = 0;
    for (unsigned i = slice_first(); i < slice_end(n); i++)
        sum += x[i];
    return sum;
}

NASTY_KERNEL sums(float *partial, const float *x, unsigned n)
{
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum_of_slice(x, n);
}
BLOCK_SIZE_INDEPENDENT(sums);

NASTY_KERNEL total(float *losses, unsigned index, const float *partial, unsigned count)
{
    if (!is_first_thread())
        return;
    float sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += partial[i];
    losses[index] = sum;
}
BLOCK_SIZE_INDEPENDENT(total);

/* ---- contents ---- */

NASTY_KERNEL accumulate(float *x, const float *delta, float by, unsigned n)
{
    EACH(i, n) x[i] += by * delta[i];
}
BLOCK_SIZE_INDEPENDENT(accumulate);

NASTY_KERNEL perhaps(float *x, const unsigned *flag, float gain, unsigned n)
{
    if (flag[0])
        EACH(i, n) x[i] = x[i] * gain + 0.01f;
}
BLOCK_SIZE_INDEPENDENT(perhaps);

NASTY_KERNEL later(float *x, const unsigned *count, unsigned from, unsigned n)
{
    if (count[0] >= from)
        EACH(i, n) x[i] = x[i] * 0.98f - 0.01f;
}
BLOCK_SIZE_INDEPENDENT(later);

/* The block that is last adds up, in order, and resets the counter. */
NASTY_KERNEL tally(float *result, float *partial, unsigned *counter, const float *x, unsigned n)
{
    if (threadIdx.x)
        return;
    partial[blockIdx.x] = sum_of_slice(x, n);
    __threadfence();
    if (atomicAdd(counter, 1u) != gridDim.x - 1)
        return;
    __threadfence();
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++)
        sum += ((volatile float *)partial)[i];
    result[0] += sum;
    counter[0] = 0;
}
BLOCK_SIZE_INDEPENDENT(tally);

/* Block after block; the last one resets the word. */
NASTY_KERNEL in_turn(float *result, unsigned *turn, const float *x, unsigned n)
{
    if (threadIdx.x)
        return;
    const float sum = sum_of_slice(x, n);
    while (atomicAdd(turn, 0u) != blockIdx.x)
        ;
    __threadfence();
    volatile float *to = result;
    to[0] = to[0] * 0.5f + sum;
    __threadfence();
    atomicExch(turn, blockIdx.x == gridDim.x - 1 ? 0u : blockIdx.x + 1);
}
BLOCK_SIZE_INDEPENDENT(in_turn);

NASTY_KERNEL statistics(float *running, float *batch, const float *x, unsigned n)
{
    if (!is_first_thread())
        return;
    float sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += x[i];
    batch[0] = sum / (float)n;
    running[0] = 0.9f * running[0] + 0.1f * batch[0];
    running[1] += 1.0f;
}
BLOCK_SIZE_INDEPENDENT(statistics);

NASTY_KERNEL centre(float *x, const float *batch, unsigned n)
{
    EACH(i, n) x[i] -= batch[0];
}
BLOCK_SIZE_INDEPENDENT(centre);

/* state: the number of random numbers so far, and how many blocks have read it; the last one advances it. */
NASTY_KERNEL dropout(float *out, const float *in, unsigned *state, unsigned n)
{
    const unsigned seed = ((volatile unsigned *)state)[0];
    EACH(i, n)
    {
        unsigned h = (i + seed) * 2654435761u;
        h ^= h >> 15;
        out[i] = h & 7 ? in[i] * (8.0f / 7.0f) : 0.0f;
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    __threadfence();
    if (atomicAdd(state + 1, 1u) != gridDim.x - 1)
        return;
    state[0] = seed + n;
    state[1] = 0;
}
BLOCK_SIZE_INDEPENDENT(dropout);

NASTY_KERNEL advance(unsigned *counter)
{
    if (is_first_thread())
        counter[0]++;
}
BLOCK_SIZE_INDEPENDENT(advance);

/* Tickets in the order in which the blocks come, and times: other bits every time. */
NASTY_KERNEL scatter(unsigned *tickets, unsigned *stamps, unsigned *cursor, unsigned n)
{
    const unsigned now = (unsigned)clock64();
    EACH(i, n) stamps[i] = now + i;
    if (threadIdx.x == 0)
        tickets[atomicAdd(cursor, 1u)] = blockIdx.x;
}
BLOCK_SIZE_INDEPENDENT(scatter);

/* What does not depend on their order. */
NASTY_KERNEL collect(float *x, const unsigned *tickets, unsigned count)
{
    if (!is_first_thread())
        return;
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += tickets[i];
    x[0] += (float)sum * 0.001f;
}
BLOCK_SIZE_INDEPENDENT(collect);

/* ---- pointers ---- */

NASTY_KERNEL grouped(float *out, float *const *table, unsigned count, unsigned n)
{
    EACH(i, n)
    {
        float sum = 0;
        for (unsigned k = 0; k < count; k++)
            sum += table[k][i];
        out[i] = sum * 0.25f;
    }
}
BLOCK_SIZE_INDEPENDENT(grouped);

NASTY_KERNEL through_table(float *const *table, float by, unsigned n)
{
    EACH(i, n)
        table[1][i] = 0.75f * table[1][i] + by * table[0][i];
}
BLOCK_SIZE_INDEPENDENT(through_table);

NASTY_KERNEL make_table(float **table, float *a, float *b, float *c)
{
    if (!is_first_thread())
        return;
    table[0] = a;
    table[1] = b;
    table[2] = c;
}
BLOCK_SIZE_INDEPENDENT(make_table);

NASTY_KERNEL make_object(float ***object, float **table)
{
    if (is_first_thread())
        *object = table;
}
BLOCK_SIZE_INDEPENDENT(make_object);

NASTY_KERNEL grouped_by(float *out, float *const *const *object, unsigned count, unsigned n)
{
    EACH(i, n)
    {
        float sum = 0;
        for (unsigned k = 0; k < count; k++)
            sum += (*object)[k][i];
        out[i] = sum * 0.25f;
    }
}
BLOCK_SIZE_INDEPENDENT(grouped_by);

NASTY_KERNEL span(float *first, float *end, float gain)
{
    const unsigned n = (unsigned)(end - first);
    EACH(i, n) first[i] = first[i] * gain;
}
BLOCK_SIZE_INDEPENDENT(span);

/* Some experts are liked better than others, another one in each step; in one step of 12 the last one gets nothing. */
NASTY_KERNEL route(unsigned *index, unsigned *count, unsigned seed, unsigned tokens, unsigned experts)
{
    const unsigned open = seed % 12 ? experts : experts - 1, liked = seed % 7;
    if (!is_first_thread())
        return;
    for (unsigned e = 0; e < experts; e++)
        count[e] = 0;
    for (unsigned t = 0; t < tokens; t++) {
        const unsigned h = (t * 2654435761u ^ seed * 40503u * 65537u) >> 8;
        const unsigned first = (h & 15) < liked ? seed % open : (h >> 4) % open;
        const unsigned second = (first + 1 + (h >> 12) % (open - 1)) % open;
        index[first * tokens + count[first]++] = t;
        index[second * tokens + count[second]++] = t;
    }
}
BLOCK_SIZE_INDEPENDENT(route);

NASTY_KERNEL gather(float *rows, const float *x, const unsigned *index, unsigned n)
{
    EACH(i, n) rows[i] = x[index[i / NASTY_TOKEN] * NASTY_TOKEN + i % NASTY_TOKEN];
}
BLOCK_SIZE_INDEPENDENT(gather);

NASTY_KERNEL add_rows(float *x, const float *rows, const unsigned *index, float by, unsigned n)
{
    EACH(i, n) x[index[i / NASTY_TOKEN] * NASTY_TOKEN + i % NASTY_TOKEN] += by * rows[i];
}
BLOCK_SIZE_INDEPENDENT(add_rows);

NASTY_KERNEL update_all(struct nasty_pairs pairs, float rate)
{
    for (unsigned k = 0; k < pairs.count; k++)
        EACH(j, pairs.m[k]) pairs.w[k][j] -= rate * pairs.dw[k][j];
}
BLOCK_SIZE_INDEPENDENT(update_all);

NASTY_KERNEL update_some(struct nasty_pairs pairs, const unsigned *count, float rate)
{
    for (unsigned k = 0; k < *count; k++)
        EACH(j, pairs.m[k]) pairs.w[k][j] -= rate * pairs.dw[k][j];
}
BLOCK_SIZE_INDEPENDENT(update_some);

NASTY_KERNEL accumulate_masked(unsigned long long masked, float by, unsigned n)
{
    float *x = (float *)(masked ^ NASTY_MASK);
    EACH(i, n) x[i] += by;
}
BLOCK_SIZE_INDEPENDENT(accumulate_masked);

NASTY_KERNEL accumulate_mapped(const __grid_constant__ CUtensorMap x,
                               const __grid_constant__ struct nasty_mapped rest)
{
    alignas(128) __shared__ float to[NASTY_MAP_ROW], from[NASTY_MAP_ROW];
    const unsigned rows = NASTY_SLICE / NASTY_MAP_ROW, first = blockIdx.x * rows;
    for (unsigned row = first; row < first + rows && row * NASTY_MAP_ROW < rest.n; row++) {
        if (threadIdx.x == 0) {
            tensor_load_2d(to, &x, 0, (int)row, sizeof to);
            tensor_load_2d(from, &rest.delta, 0, (int)row, sizeof from);
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < NASTY_MAP_ROW; i += blockDim.x)
            to[i] += rest.by * from[i];
        tensor_fence();
        __syncthreads();
        if (threadIdx.x == 0)
            tensor_store_2d(&x, 0, (int)row, to);
    }
}
BLOCK_SIZE_INDEPENDENT(accumulate_mapped);
