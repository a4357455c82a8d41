/* traces.c: made-up steps; see traces.h. */
#include "traces.h"

#include <stdarg.h>
#include <stdlib.h>

#define CHUNK (UINT64_C(2) << 20)
#define END   UINT32_MAX

typedef struct maker {
    ebb_trace_t *t;
    double kernel_ns;
} maker_t;

static uint32_t add_buffer(maker_t *m, uint64_t bytes, bool born)
{
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(m->t);
    b->bytes = bytes;
    b->born = born ? m->t->operation_count : EBB_NONE;
    return m->t->buffer_count - 1;
}

static uint32_t born(maker_t *m, uint32_t chunks)
{
    return add_buffer(m, chunks * CHUNK, true);
}

static void dies(maker_t *m, uint32_t buffer)
{
    m->t->buffer[buffer].dies = m->t->operation_count;
}

/* An operation; then pairs of mode and buffer, up to END. `weight`: how much longer it takes than a pass over
 * its memory. */
static void op(maker_t *m, const char *name, double weight, ...)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(m->t);
    uint64_t chunks = 0;
    snprintf(o->name, sizeof o->name, "%s", name);
    o->proofs = 3;
    va_list list;
    va_start(list, weight);
    for (uint32_t mode; (mode = va_arg(list, uint32_t)) != END;) {
        ebb_trace_access_t *a = ebb_trace_add_access(m->t);
        a->mode = (ebb_mode_t)mode;
        a->buffer = va_arg(list, uint32_t);
        a->param_offset = 8 * o->access_count;
        chunks += (m->t->buffer[a->buffer].bytes + CHUNK - 1) / CHUNK;
    }
    va_end(list);
    o->duration_ns = (uint64_t)(weight * m->kernel_ns * (double)chunks);
}

#define R(buffer) (uint32_t) EBB_READS, (uint32_t)(buffer)
#define W(buffer) (uint32_t) EBB_REPLACES, (uint32_t)(buffer)
#define U(buffer) (uint32_t) EBB_UPDATES, (uint32_t)(buffer)

typedef struct layer {
    uint32_t weights, gradients, adam_m, adam_v;
    uint32_t norm1, stats1, qkv, scores, attention, lse, middle, norm2, stats2, up, gelu;
} layer_t;

/* x: the residual stream before the layer; returns the one after it. */
static uint32_t forward(maker_t *m, const trace_shape_t *s, layer_t *l, uint32_t x)
{
    uint32_t c = s->width_chunks;
    l->norm1 = born(m, c);
    l->stats1 = add_buffer(m, 4096, true);
    op(m, "layernorm", 1, R(x), W(l->norm1), W(l->stats1), END);
    l->qkv = born(m, 3 * c);
    op(m, "gemm_qkv", 6, R(l->norm1), R(l->weights), W(l->qkv), END);
    op(m, "bias", 1, U(l->qkv), R(l->weights), END);
    l->attention = born(m, c);
    l->lse = add_buffer(m, 8192, true);
    if (s->stored_scores) {
        l->scores = born(m, 6 * c);
        op(m, "scores", 3, R(l->qkv), W(l->scores), END);
        op(m, "softmax", 1, U(l->scores), W(l->lse), END);
        op(m, "attend", 3, R(l->scores), R(l->qkv), W(l->attention), END);
    } else {
        op(m, "attention", 8, R(l->qkv), W(l->attention), W(l->lse), END);
    }
    l->middle = born(m, c);
    op(m, "gemm_projection", 4, R(l->attention), R(l->weights), W(l->middle), END);
    l->norm2 = born(m, c);
    l->stats2 = add_buffer(m, 4096, true);
    op(m, "residual_layernorm", 1, U(l->middle), R(x), W(l->norm2), W(l->stats2), END);
    l->up = born(m, 4 * c);
    op(m, "gemm_up", 8, R(l->norm2), R(l->weights), W(l->up), END);
    l->gelu = born(m, 4 * c);
    op(m, "bias_gelu", 1, U(l->up), R(l->weights), W(l->gelu), END);
    uint32_t out = born(m, c);
    op(m, "gemm_down", 8, R(l->gelu), R(l->weights), W(out), END);
    op(m, "residual", 1, U(out), R(l->middle), END);
    return out;
}

/* g: the gradient of the layer's output, turned into that of its input in place. Frees what forward has made.
 */
static void backward(maker_t *m, const trace_shape_t *s, layer_t *l, uint32_t x, uint32_t g)
{
    uint32_t c = s->width_chunks, d_gelu = born(m, 4 * c);
    op(m, "gemm_down_back_data", 8, R(g), R(l->weights), W(d_gelu), END);
    op(m, "gemm_down_back_weight", 8, R(g), R(l->gelu), U(l->gradients), END);
    dies(m, l->gelu);
    op(m, "gelu_back", 1, R(l->up), U(d_gelu), END);
    dies(m, l->up);
    uint32_t d_norm = born(m, c);
    op(m, "gemm_up_back_data", 8, R(d_gelu), R(l->weights), W(d_norm), END);
    op(m, "gemm_up_back_weight", 8, R(d_gelu), R(l->norm2), U(l->gradients), END);
    dies(m, d_gelu);
    dies(m, l->norm2);
    op(m, "layernorm_back", 1, R(d_norm), R(l->middle), R(l->stats2), U(g), U(l->gradients), END);
    dies(m, d_norm);
    dies(m, l->stats2);
    dies(m, l->middle);
    uint32_t d_attention = born(m, c);
    op(m, "gemm_projection_back_data", 4, R(g), R(l->weights), W(d_attention), END);
    op(m, "gemm_projection_back_weight", 4, R(g), R(l->attention), U(l->gradients), END);
    uint32_t d_qkv = born(m, 3 * c);
    if (s->stored_scores) {
        op(m, "attend_back", 8, R(d_attention), R(l->qkv), R(l->scores), R(l->lse), W(d_qkv), END);
        dies(m, l->scores);
    } else {
        op(m, "attention_back", 16, R(d_attention), R(l->qkv), R(l->attention), R(l->lse), W(d_qkv), END);
    }
    dies(m, l->attention);
    dies(m, l->qkv);
    dies(m, l->lse);
    dies(m, d_attention);
    d_norm = born(m, c);
    op(m, "gemm_qkv_back_data", 6, R(d_qkv), R(l->weights), W(d_norm), END);
    op(m, "gemm_qkv_back_weight", 6, R(d_qkv), R(l->norm1), U(l->gradients), END);
    dies(m, d_qkv);
    dies(m, l->norm1);
    op(m, "layernorm_back", 1, R(d_norm), R(x), R(l->stats1), U(g), U(l->gradients), END);
    dies(m, d_norm);
    dies(m, l->stats1);
}

static void micro_batch(maker_t *m, const trace_shape_t *s, layer_t *l, uint32_t embedding, uint32_t tokens)
{
    uint32_t x[512] = {0}, c = s->width_chunks;
    x[0] = born(m, c);
    op(m, "embed", 1, R(tokens), R(embedding), W(x[0]), END);
    for (uint32_t i = 0; i < s->layers; i++)
        x[i + 1] = forward(m, s, &l[i], x[i]);
    uint32_t logits = born(m, 2 * c), loss = add_buffer(m, 4, true), g = born(m, c);
    op(m, "gemm_logits", 8, R(x[s->layers]), R(embedding), W(logits), END);
    op(m, "loss", 1, U(logits), W(loss), R(tokens), END);
    op(m, "gemm_logits_back", 8, R(logits), R(embedding), W(g), END);
    dies(m, logits);
    dies(m, loss);
    dies(m, x[s->layers]);
    for (uint32_t i = s->layers; i-- > 0;) {
        backward(m, s, &l[i], x[i], g);
        dies(m, x[i]);
    }
    dies(m, g);
}

ebb_trace_t *trace_of_transformer(const trace_shape_t *s)
{
    maker_t m = {ebb_trace_new(CHUNK), s->kernel_ns};
    layer_t layer[512] = {0};
    uint32_t tokens = add_buffer(&m, 4096, false),
             embedding = add_buffer(&m, s->weight_chunks * CHUNK, false);
    for (uint32_t i = 0; i < s->layers; i++) {
        layer[i].weights = add_buffer(&m, s->weight_chunks * CHUNK, false);
        layer[i].gradients = add_buffer(&m, s->weight_chunks * CHUNK, false);
        layer[i].adam_m = add_buffer(&m, s->weight_chunks * CHUNK, false);
        layer[i].adam_v = add_buffer(&m, s->weight_chunks * CHUNK, false);
    }
    for (uint32_t i = 0; i < s->layers; i++)
        op(&m, "zero", 1, W(layer[i].gradients), END);
    for (uint32_t i = 0; i < s->micro_batches; i++) {
        op(&m, "tokens", 1, W(tokens), END);
        m.t->operation[m.t->operation_count - 1].proofs = 0;
        micro_batch(&m, s, layer, embedding, tokens);
    }
    for (uint32_t i = 0; i < s->layers; i++)
        op(&m, "adam", 1, U(layer[i].weights), R(layer[i].gradients), U(layer[i].adam_m), U(layer[i].adam_v),
           END);
    return m.t;
}

/* ---- by chance ---- */

uint32_t trace_draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 4) * below >> 28);
}

static void random_access(maker_t *m, uint32_t *seed, uint32_t *alive, uint32_t count, uint32_t accesses)
{
    ebb_trace_operation_t *o = ebb_trace_add_operation(m->t);
    snprintf(o->name, sizeof o->name, "op");
    o->proofs = trace_draw(seed, 8) ? 3 : 0;
    o->verdict = o->proofs ? EBB_PROVEN : m->t->operation_count % 2 ? EBB_COMMUNICATES : EBB_UNTRIED;
    o->duration_ns = 1000 + trace_draw(seed, 100000);
    for (uint32_t i = 0; i < accesses; i++) {
        uint32_t pick = alive[trace_draw(seed, 3) ? count - 1 - trace_draw(seed, count < 6 ? count : 6)
                                                  : trace_draw(seed, count)];
        bool known = false;
        for (uint32_t k = o->first_access; k < m->t->access_count; k++)
            known |= m->t->access[k].buffer == pick;
        if (known)
            continue;
        uint32_t mode = trace_draw(seed, 10);
        ebb_trace_access_t *a = ebb_trace_add_access(m->t);
        a->buffer = pick;
        a->param_offset = 8 * i;
        a->mode = mode < 5 ? EBB_READS : mode < 8 ? EBB_REPLACES : EBB_UPDATES;
    }
}

ebb_trace_t *trace_of_chain(uint32_t stages, uint32_t chunks)
{
    maker_t m = {ebb_trace_new(CHUNK), 1};
    uint32_t *state = malloc((stages + (size_t)1) * sizeof *state);
    if (!m.t || !state)
        abort();
    state[0] = add_buffer(&m, chunks * CHUNK, false);
    for (uint32_t i = 0; i < stages; i++) {
        state[i + 1] = born(&m, chunks);
        op(&m, "forward", 1, R(state[i]), W(state[i + 1]), END);
    }
    uint32_t gradient = born(&m, chunks);
    op(&m, "loss", 1, R(state[stages]), W(gradient), END);
    dies(&m, state[stages]);
    for (uint32_t i = stages; i-- > 0;) {
        op(&m, "backward", 1, R(state[i]), U(gradient), END);
        if (i)
            dies(&m, state[i]);
    }
    dies(&m, gradient);
    for (uint32_t i = 0; i < m.t->operation_count; i++)
        m.t->operation[i].duration_ns = CHAIN_NS;
    free(state);
    return m.t;
}

ebb_trace_t *trace_of_stages(uint32_t seed, uint32_t stages)
{
    maker_t m = {ebb_trace_new(CHUNK), 0};
    uint32_t *state = malloc(2 * (stages + (size_t)1) * sizeof *state);
    if (!m.t || !state)
        abort();
    uint32_t *saved = state + stages + 1;
    state[0] = add_buffer(&m, CHUNK, false);
    for (uint32_t i = 0; i < stages; i++) {
        state[i + 1] = born(&m, 1 + trace_draw(&seed, 4));
        saved[i] = born(&m, 1 + trace_draw(&seed, 8));
        op(&m, "forward", 1, R(state[i]), W(state[i + 1]), W(saved[i]), END);
    }
    uint32_t gradient = born(&m, (uint32_t)(m.t->buffer[state[stages]].bytes / CHUNK));
    op(&m, "loss", 1, R(state[stages]), W(gradient), END);
    dies(&m, state[stages]);
    for (uint32_t i = stages; i-- > 0;) {
        const uint32_t before = i ? born(&m, (uint32_t)(m.t->buffer[state[i]].bytes / CHUNK)) : state[0];
        if (i)
            op(&m, "backward", 1, R(state[i]), R(saved[i]), R(gradient), W(before), END);
        else
            op(&m, "backward", 1, R(state[0]), R(saved[0]), R(gradient), END);
        dies(&m, saved[i]);
        dies(&m, gradient);
        if (i)
            dies(&m, state[i]);
        gradient = before;
    }
    for (uint32_t i = 0; i < m.t->operation_count; i++)
        m.t->operation[i].duration_ns = CHAIN_NS / 10 * (1 + trace_draw(&seed, 20));
    free(state);
    return m.t;
}

/* The layer's weights. */
static uint32_t gather(maker_t *m, uint32_t into, uint32_t weight)
{
    const uint32_t all = into == END ? born(m, weight) : into;
    op(m, "gather", 0.1, W(all), END);
    ebb_trace_operation_t *o = &m->t->operation[m->t->operation_count - 1];
    o->verdict = EBB_COMMUNICATES;
    o->proofs = 0;
    return all;
}

ebb_trace_t *trace_of_gathered(uint32_t layers, uint32_t weight, uint32_t width, bool reused)
{
    maker_t m = {ebb_trace_new(CHUNK), 10000};
    uint32_t *state = malloc((layers + (size_t)1) * sizeof *state);
    if (!m.t || !state)
        abort();
    const uint32_t into = reused ? add_buffer(&m, weight * CHUNK, false) : END;
    state[0] = born(&m, width);
    op(&m, "batch", 1, W(state[0]), END);
    for (uint32_t i = 0; i < layers; i++) {
        const uint32_t w = gather(&m, into, weight);
        state[i + 1] = born(&m, width);
        op(&m, "forward", 1, R(state[i]), R(w), W(state[i + 1]), END);
        if (!reused)
            dies(&m, w);
    }
    uint32_t gradient = born(&m, width);
    op(&m, "loss", 1, R(state[layers]), W(gradient), END);
    for (uint32_t i = layers; i-- > 0;) {
        const uint32_t w = gather(&m, into, weight);
        op(&m, "backward", 2, R(state[i]), R(state[i + 1]), R(w), U(gradient), END);
        dies(&m, state[i + 1]);
        if (!reused)
            dies(&m, w);
    }
    dies(&m, state[0]);
    dies(&m, gradient);
    free(state);
    return m.t;
}

ebb_trace_t *trace_by_chance(uint32_t seed, uint32_t operations)
{
    enum { ALIVE = 24 };
    maker_t m = {ebb_trace_new(CHUNK), 0};
    uint32_t alive[ALIVE], count = 0, persistent = 1 + trace_draw(&seed, 4);
    while (count < persistent)
        alive[count++] =
            add_buffer(&m, trace_draw(&seed, 4) ? CHUNK * (1 + trace_draw(&seed, 4)) - 256 : 2048, false);
    for (uint32_t i = 0; i < operations; i++) {
        uint32_t wanted = i < operations / 2 ? 2 : 0; /* more and more alive, then fewer and fewer */
        if (trace_draw(&seed, 3) < 1 + wanted / 2 && count < ALIVE)
            alive[count++] = add_buffer(
                &m, trace_draw(&seed, 5) ? CHUNK * (1 + trace_draw(&seed, 5)) : 512 + trace_draw(&seed, 9000),
                true);
        random_access(&m, &seed, alive, count, 1 + trace_draw(&seed, 4));
        if (trace_draw(&seed, 3) >= 1 + wanted / 2 && count > persistent) {
            uint32_t at = persistent + trace_draw(&seed, count - persistent);
            dies(&m, alive[at]);
            alive[at] = alive[--count];
        }
    }
    while (count > persistent)
        if (m.t->buffer[alive[--count]].bytes > CHUNK / 2 ||
            trace_draw(&seed, 2)) /* else it outlives the step */
            dies(&m, alive[count]);
    return m.t;
}
