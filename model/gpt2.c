#include "gpt2.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "linear.h"
#include "pass.h"
#include "ranges.h"
#include "rng.h"

typedef struct activations {
    norm_t *norms;               /* [2L+1] */
    attention_kept_t *attention; /* [L] */
    mlp_kept_t *mlp;             /* [L] */
} activations_t;

/* Pointers into group 0, of values or of gradients. */
typedef struct embedding {
    float *wte;    /* [V,C] */
    float *wpe;    /* [context,C] */
    float *norm_w; /* [C] */
    float *norm_b; /* [C] */
} embedding_t;

static embedding_t embedding_at(float *base, shape_t s)
{
    size_t C = (size_t)s.width;
    embedding_t e = {.wte = base};
    e.wpe = e.wte + (size_t)s.vocab * C;
    e.norm_w = e.wpe + (size_t)s.context * C;
    e.norm_b = e.norm_w + C;
    return e;
}

static block_t block_at(float *base, shape_t s)
{
    size_t C = (size_t)s.width;
    block_t b = {.qkv_w = base};
    b.proj_w = b.qkv_w + 3 * C * C;
    b.up_w = b.proj_w + C * C;
    b.down_w = b.up_w + 4 * C * C;
    b.norm1_w = b.down_w + 4 * C * C;
    b.norm1_b = b.norm1_w + C;
    b.qkv_b = b.norm1_b + C;
    b.proj_b = b.qkv_b + 3 * C;
    b.norm2_w = b.proj_b + C;
    b.norm2_b = b.norm2_w + C;
    b.up_b = b.norm2_b + C;
    b.down_b = b.up_b + 4 * C;
    return b;
}

static embedding_t values_of_embedding(const gpt2_t *model)
{
    return embedding_at(model->parameters.groups[0].value.data, model->shape);
}

static embedding_t gradients_of_embedding(const gpt2_t *model)
{
    return embedding_at(model->parameters.groups[0].gradient.data, model->shape);
}

static block_t values_of_block(const gpt2_t *model, int layer)
{
    return block_at(model->parameters.groups[1 + layer].value.data, model->shape);
}

static block_t gradients_of_block(const gpt2_t *model, int layer)
{
    return block_at(model->parameters.groups[1 + layer].gradient.data, model->shape);
}

/* ---- initial values ---- */

static void fill_normal(float *values, size_t count, uint64_t seed, uint64_t tensor, double deviation)
{
    uint64_t key = rng_at(seed, RNG_INIT + tensor);
    for (size_t i = 0; i < count; i += 2) { /* counts are even: the width is */
        double normals[2];
        rng_normal_pair(key, i / 2, normals);
        values[i] = (float)(deviation * normals[0]);
        values[i + 1] = (float)(deviation * normals[1]);
    }
}

static void fill_one(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = 1.0f;
}

static void init_embedding(float *host, shape_t s, uint64_t seed)
{
    embedding_t e = embedding_at(host, s);
    size_t C = (size_t)s.width;
    fill_normal(e.wte, (size_t)s.vocab * C, seed, 0, 0.02);
    fill_normal(e.wpe, (size_t)s.context * C, seed, 1, 0.02);
    fill_one(e.norm_w, C);
}

static void init_block(float *host, shape_t s, uint64_t seed, int layer)
{
    block_t b = block_at(host, s);
    size_t C = (size_t)s.width;
    uint64_t first = 2 + 4 * (uint64_t)layer;
    double residual = 0.02 / sqrt(2.0 * s.layers);
    fill_normal(b.qkv_w, 3 * C * C, seed, first, 0.02);
    fill_normal(b.proj_w, C * C, seed, first + 1, residual);
    fill_normal(b.up_w, 4 * C * C, seed, first + 2, 0.02);
    fill_normal(b.down_w, 4 * C * C, seed, first + 3, residual);
    fill_one(b.norm1_w, C);
    fill_one(b.norm2_w, C);
}

static void init_parameters(gpt2_t *model, uint64_t seed)
{
    for (int g = 0; g < model->parameters.group_count; g++) {
        float *host = calloc(model->parameters.groups[g].count, sizeof *host);
        if (host == NULL)
            fatal("no host memory for the initial values of %zu parameters",
                  model->parameters.groups[g].count);
        if (g == 0)
            init_embedding(host, model->shape, seed);
        else
            init_block(host, model->shape, seed, g - 1);
        parameters_upload(&model->parameters, g, host);
        free(host);
    }
}

group_t gpt2_group(shape_t s, int group)
{
    const size_t C = (size_t)s.width,
                 matrices = group == 0 ? ((size_t)s.vocab + (size_t)s.context) * C : 12 * C * C,
                 vectors = group == 0 ? 2 * C : 13 * C;
    return (group_t){.count = matrices + vectors, .decayed = matrices};
}

void gpt2_open(gpt2_t *model, gpu_t *gpu, const options_t *options)
{
    shape_t s = options_shape(options);
    *model = (gpt2_t){.gpu = gpu, .shape = s, .attention = (attention_kind_t)options->attention};
    size_t L = (size_t)s.layers;

    activations_t *kept = calloc(1, sizeof *kept);
    group_t *sizes = calloc(1 + L, sizeof *sizes);
    if (kept == NULL || sizes == NULL)
        fatal("no host memory for a model of %d layers", s.layers);
    for (int g = 0; g <= s.layers; g++)
        sizes[g] = gpt2_group(s, g);
    parameters_open(&model->parameters, gpu, sizes, 1 + s.layers);
    free(sizes);

    kept->norms = calloc(2 * L + 1, sizeof *kept->norms);
    kept->attention = calloc(L, sizeof *kept->attention);
    kept->mlp = calloc(L, sizeof *kept->mlp);
    if (kept->norms == NULL || kept->attention == NULL || kept->mlp == NULL)
        fatal("no host memory for a model of %d layers", s.layers);
    model->kept = kept;
    init_parameters(model, options->seed);
}

void gpt2_close(gpt2_t *model)
{
    parameters_close(&model->parameters);
    free(model->kept->norms);
    free(model->kept->attention);
    free(model->kept->mlp);
    free(model->kept);
    *model = (gpt2_t){0};
}

/* ---- the chain of norms (pass.h) ---- */

static float *norm_mean(const norm_t *norm)
{
    return norm->stats.data;
}

static float *norm_rstd(const pass_t *pass, const norm_t *norm)
{
    return norm->stats.data + ((size_t)pass->N + 3) / 4 * 4;
}

static void norm_allocate(const pass_t *pass, norm_t *norm)
{
    norm->out = pass_tensor(pass, pass->C);
    norm->stats = tensor_new(pass->gpu, ((size_t)pass->N + 3) / 4 * 4 + (size_t)pass->N);
}

/* What a sublayer adds to the stream, and the norm that follows it. */
typedef struct join {
    const float *bias;            /* [C] of the sublayer */
    const float *weight, *norm_b; /* [C] of the norm */
    dropout_t drop;
} join_t;

/* to->x = from->x + dropout(y + bias), in y's memory; then the norm of it. */
static void join_forward(const pass_t *pass, norm_t *from, norm_t *to, tensor_t *y, join_t join)
{
    to->x = tensor_take(y);
    norm_allocate(pass, to);
    CUDA(residual_layernorm_forward(to->x.data, to->out.data, norm_mean(to), norm_rstd(pass, to),
                                    from->x.data, to->x.data, join.bias, join.weight, join.norm_b, pass->N,
                                    pass->C, join.drop, pass->gpu->stream));
    if (!pass->keep) {
        tensor_free(pass->gpu, &from->x);
        tensor_free(pass->gpu, &from->stats);
    }
}

/* Gradient of y in join_forward, and of its bias, from dx, the gradient of the stream after it. Without
 * dropout it is dx itself: returned empty, nothing allocated. */
static tensor_t join_backward(const pass_t *pass, float *dbias, const tensor_t *dx, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    tensor_t dy = {0};
    tensor_t scratch = pass_scratch(pass, column_sum_scratch(pass->N, pass->C));
    if (drop.rate > 0) {
        dy = pass_tensor(pass, pass->C); /* [N,C] */
        CUDA(residual_backward(dy.data, dbias, dx->data, pass->N, pass->C, drop, pass->accumulate,
                               scratch.data, gpu->stream));
    } else {
        CUDA(column_sum(dbias, dx->data, pass->N, pass->C, pass->accumulate, scratch.data, gpu->stream));
    }
    tensor_free(gpu, &scratch);
    return dy;
}

/* dx, the gradient of the stream past the norm (may be empty: none), becomes that of the stream before it.
 * Frees dout and what the norm kept. */
static void norm_backward(const pass_t *pass, norm_t *norm, tensor_t *dx, tensor_t *dout, const float *weight,
                          float *dweight, float *dbias)
{
    const float *past = dx->data;
    if (past == NULL)
        *dx = pass_tensor(pass, pass->C); /* [N,C] */
    tensor_t scratch = pass_scratch(pass, layernorm_backward_scratch(pass->N, pass->C));
    CUDA(layernorm_backward(dx->data, dweight, dbias, past, dout->data, norm->x.data, norm_mean(norm),
                            norm_rstd(pass, norm), weight, pass->N, pass->C, pass->accumulate, scratch.data,
                            pass->gpu->stream));
    tensor_free(pass->gpu, &scratch);
    tensor_free(pass->gpu, dout);
    tensor_free(pass->gpu, &norm->x);
    tensor_free(pass->gpu, &norm->stats);
}

/* ---- forward ---- */

static void embed(gpt2_t *model, const pass_t *pass, const batch_t *batch)
{
    range_begin("embedding");
    embedding_t e = values_of_embedding(model);
    norm_t *first = &model->kept->norms[0];
    block_t block = values_of_block(model, 0);
    first->x = pass_tensor(pass, pass->C); /* [N,C] */
    CUDA(embedding_forward(first->x.data, batch->tokens, e.wte, e.wpe, pass->B, pass->T, pass->C,
                           pass_dropout_embedding(pass), pass->gpu->stream));
    norm_allocate(pass, first);
    CUDA(layernorm_forward(first->out.data, norm_mean(first), norm_rstd(pass, first), first->x.data,
                           block.norm1_w, block.norm1_b, pass->N, pass->C, pass->gpu->stream));
    range_end();
}

static void block_forward(gpt2_t *model, const pass_t *pass, int layer)
{
    range_begin_layer(layer);
    activations_t *kept = model->kept;
    norm_t *norm1 = &kept->norms[2 * layer], *norm2 = norm1 + 1, *next = norm1 + 2;
    block_t w = values_of_block(model, layer);

    range_begin("attention");
    tensor_t y =
        attention_sublayer_forward(pass, layer, &kept->attention[layer], &norm1->out, &w); /* [N,C] */
    if (!pass->keep)
        tensor_free(pass->gpu, &norm1->out);
    join_forward(pass, norm1, norm2, &y,
                 (join_t){w.proj_b, w.norm2_w, w.norm2_b, pass_dropout(pass, layer, SITE_PROJECTION)});
    range_end();

    range_begin("mlp");
    y = mlp_sublayer_forward(pass, &kept->mlp[layer], &norm2->out, &w); /* [N,C] */
    if (!pass->keep)
        tensor_free(pass->gpu, &norm2->out);
    join_t join = {.bias = w.down_b, .drop = pass_dropout(pass, layer, SITE_MLP)};
    if (layer + 1 < model->shape.layers) {
        block_t after = values_of_block(model, layer + 1);
        join.weight = after.norm1_w;
        join.norm_b = after.norm1_b;
    } else {
        embedding_t e = values_of_embedding(model);
        join.weight = e.norm_w;
        join.norm_b = e.norm_b;
    }
    join_forward(pass, norm2, next, &y, join);
    range_end();
    range_end();
}

/* Leaves the last norm's output in kept->norms[2L].out. */
static void forward(gpt2_t *model, const pass_t *pass, const batch_t *batch)
{
    embed(model, pass, batch);
    for (int layer = 0; layer < model->shape.layers; layer++)
        block_forward(model, pass, layer);
}

static norm_t *last_norm(const gpt2_t *model)
{
    return &model->kept->norms[2 * model->shape.layers];
}

static void free_norm(const pass_t *pass, norm_t *norm)
{
    tensor_free(pass->gpu, &norm->x);
    tensor_free(pass->gpu, &norm->out);
    tensor_free(pass->gpu, &norm->stats);
}

static linear_t head_shape(const gpt2_t *model, int rows)
{
    return (linear_t){rows, model->shape.width, model->shape.vocab};
}

/* Logits of all rows, and *loss += scale * their losses. With pass->keep the logits' place holds their
 * gradient. */
static tensor_t head_loss(gpt2_t *model, const pass_t *pass, const batch_t *batch, float *loss, float scale)
{
    int N = pass->N, V = model->shape.vocab;
    tensor_t logits = pass_tensor(pass, V); /* [N,V] */
    linear_forward(pass->gpu, head_shape(model, N), logits.data, last_norm(model)->out.data,
                   values_of_embedding(model).wte);
    tensor_t losses = pass_tensor(pass, 1); /* [N] */
    CUDA(cross_entropy(logits.data, losses.data, batch->targets, N, V, scale, pass->keep, pass->gpu->stream));
    CUDA(sum(loss, losses.data, (size_t)N, scale, pass->accumulate, pass->gpu->stream));
    tensor_free(pass->gpu, &losses);
    return logits;
}

/* ---- backward ---- */

/* Frees dlogits. Returns the gradient of the stream before the last norm [N,C]. */
static tensor_t head_backward(gpt2_t *model, const pass_t *pass, tensor_t *dlogits)
{
    range_begin("head");
    embedding_t e = values_of_embedding(model), de = gradients_of_embedding(model);
    norm_t *last = last_norm(model);
    linear_t head = head_shape(model, pass->N);
    linear_backward_weight(pass->gpu, head, de.wte, dlogits->data, last->out.data, pass->accumulate);
    tensor_free(pass->gpu, &last->out);
    tensor_t dout = pass_tensor(pass, pass->C); /* [N,C] */
    linear_backward_input(pass->gpu, head, dout.data, dlogits->data, e.wte);
    tensor_free(pass->gpu, dlogits);
    tensor_t dx = {0};
    norm_backward(pass, last, &dx, &dout, e.norm_w, de.norm_w, de.norm_b);
    range_end();
    return dx;
}

/* dx[N,C], the gradient of the stream after the block, becomes that of the stream before it. */
static void block_backward(gpt2_t *model, const pass_t *pass, int layer, tensor_t *dx)
{
    range_begin_layer(layer);
    activations_t *kept = model->kept;
    norm_t *norm1 = &kept->norms[2 * layer], *norm2 = norm1 + 1;
    block_t w = values_of_block(model, layer), dw = gradients_of_block(model, layer);

    range_begin("mlp");
    tensor_t dy = join_backward(pass, dw.down_b, dx, pass_dropout(pass, layer, SITE_MLP)); /* [N,C] */
    tensor_t dout =
        mlp_sublayer_backward(pass, &kept->mlp[layer], &norm2->out, dy.data ? &dy : dx, &w, &dw); /* [N,C] */
    tensor_free(pass->gpu, &dy);
    norm_backward(pass, norm2, dx, &dout, w.norm2_w, dw.norm2_w, dw.norm2_b);
    range_end();

    range_begin("attention");
    dy = join_backward(pass, dw.proj_b, dx, pass_dropout(pass, layer, SITE_PROJECTION));
    dout = attention_sublayer_backward(pass, layer, &kept->attention[layer], &norm1->out, dy.data ? &dy : dx,
                                       &w, &dw);
    tensor_free(pass->gpu, &dy);
    norm_backward(pass, norm1, dx, &dout, w.norm1_w, dw.norm1_w, dw.norm1_b);
    range_end();
    range_end();
}

static void backward(gpt2_t *model, const pass_t *pass, const batch_t *batch, tensor_t *dlogits)
{
    tensor_t dx = head_backward(model, pass, dlogits);
    for (int layer = model->shape.layers - 1; layer >= 0; layer--)
        block_backward(model, pass, layer, &dx);

    range_begin("embedding");
    embedding_t de = gradients_of_embedding(model);
    CUDA(embedding_backward(de.wte, de.wpe, dx.data, batch->index, pass->B, pass->T, pass->C,
                            pass_dropout_embedding(pass), pass->accumulate, pass->gpu->stream));
    tensor_free(pass->gpu, &dx);
    range_end();
}

/* ---- the three kinds of pass ---- */

static pass_t pass_of(const gpt2_t *model, const batch_t *batch)
{
    return (pass_t){.gpu = model->gpu,
                    .B = batch->B,
                    .T = batch->T,
                    .N = batch->B * batch->T,
                    .C = model->shape.width,
                    .H = model->shape.heads,
                    .attention = model->attention};
}

void gpt2_train(gpt2_t *model, const batch_t *batch, micro_batch_t micro)
{
    pass_t pass = pass_of(model, batch);
    pass.keep = 1;
    pass.accumulate = micro.accumulate;
    pass.dropout = micro.dropout;
    pass.seed = micro.seed;
    pass.first = micro.number * pass_counters(pass.B, pass.T, model->shape);

    range_begin("forward");
    forward(model, &pass, batch);
    range_begin("head");
    tensor_t dlogits = head_loss(model, &pass, batch, micro.loss, micro.scale); /* [N,V] */
    range_end();
    range_end();
    range_begin("backward");
    backward(model, &pass, batch, &dlogits);
    range_end();
}

void gpt2_loss(gpt2_t *model, const batch_t *batch, float *loss)
{
    pass_t pass = pass_of(model, batch);
    forward(model, &pass, batch);
    tensor_t logits = head_loss(model, &pass, batch, loss, 1.0f); /* [N,V] */
    tensor_free(model->gpu, &logits);
    free_norm(&pass, last_norm(model));
}

tensor_t gpt2_next(gpt2_t *model, const batch_t *batch)
{
    pass_t pass = pass_of(model, batch);
    forward(model, &pass, batch);
    const float *last_row = last_norm(model)->out.data + (size_t)(pass.N - 1) * (size_t)pass.C; /* [C] */
    tensor_t logits = tensor_new(model->gpu, (size_t)model->shape.vocab);                       /* [V] */
    linear_forward(model->gpu, head_shape(model, 1), logits.data, last_row, values_of_embedding(model).wte);
    free_norm(&pass, last_norm(model));
    return logits;
}
