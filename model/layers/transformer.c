#include "model/layers/transformer.h"

#include <stdlib.h>

#include "model/base/check.h"
#include "model/base/ranges.h"
#include "model/kernels/launches.h"
#include "model/layers/pass.h"
#include "model/layers/rope.h"

typedef struct activations {
    norm_t *norms;               /* [2L+1] */
    attention_kept_t *attention; /* [L] */
    mlp_kept_t *mlp;             /* [L] */
} activations_t;

static outer_t values_of_outer(transformer_t *model)
{
    return outer_at(&model->layout, parameters_use(&model->parameters, 0));
}

static outer_t gradients_of_outer(transformer_t *model)
{
    return outer_at(&model->layout, parameters_gradient(&model->parameters, 0));
}

static block_t values_of_block(transformer_t *model, int layer)
{
    const int adapters = layout_adapters(&model->layout, layer);
    const tensor_t *group = parameters_use(&model->parameters, 1 + layer);
    return block_at(&model->layout, group,
                    adapters >= 0 ? parameters_use(&model->parameters, adapters) : NULL);
}

static block_t gradients_of_block(transformer_t *model, int layer)
{
    const int adapters = layout_adapters(&model->layout, layer);
    const tensor_t *group = parameters_gradient(&model->parameters, 1 + layer);
    return block_at(&model->layout, group,
                    adapters >= 0 ? parameters_gradient(&model->parameters, adapters) : NULL);
}

/* What parameters.h has for a group, for both of a block's. */
typedef void (*group_fn)(parameters_t *parameters, int group);

static void for_block(transformer_t *model, group_fn act, int layer)
{
    const int adapters = layout_adapters(&model->layout, layer);
    act(&model->parameters, 1 + layer);
    if (adapters >= 0)
        act(&model->parameters, adapters);
}

/* ---- opening and closing ---- */

static void initialise(transformer_t *model, uint64_t seed)
{
    for (int g = 0; g < model->parameters.group_count; g++) {
        float *host = calloc(model->parameters.groups[g].count, sizeof *host);
        if (host == NULL)
            fatal("no host memory for the initial values of %zu parameters",
                  model->parameters.groups[g].count);
        layout_initial(&model->layout, g, seed, host);
        parameters_upload(&model->parameters, g, host);
        free(host);
    }
}

/* The angles of rotary positions, for as many positions as there can be. */
static tensor_t upload_rope(gpu_t *gpu, const shape_t *s)
{
    size_t count = (size_t)s->context * (size_t)(s->width / s->heads);
    tensor_t table = tensor_new_permanent(gpu, MEMORY_OTHER, DTYPE_FP32, count); /* [context,2,D/2] */
    if (rehearsing)
        return table;
    float *host = malloc(count * sizeof *host);
    if (host == NULL)
        fatal("no host memory for a table of %d positions", s->context);
    rope_table(s, s->context, host);
    CUDA(cudaMemcpyAsync(table.data, host, table.bytes, cudaMemcpyHostToDevice, gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    free(host);
    return table;
}

static activations_t *activations_new(size_t L)
{
    activations_t *kept = calloc(1, sizeof *kept);
    if (kept != NULL) {
        kept->norms = calloc(2 * L + 1, sizeof *kept->norms);
        kept->attention = calloc(L, sizeof *kept->attention);
        kept->mlp = calloc(L, sizeof *kept->mlp);
    }
    if (kept == NULL || kept->norms == NULL || kept->attention == NULL || kept->mlp == NULL)
        fatal("no host memory for a model of %zu layers", L);
    return kept;
}

void transformer_open(transformer_t *model, gpu_t *gpu, ranks_t *ranks, const options_t *options)
{
    shape_t s = options_shape(options);
    *model = (transformer_t){.gpu = gpu,
                             .shape = s,
                             .dtype = (dtype_t)options->dtype,
                             .lean = options->save == SAVE_LEAN,
                             .attention = attention_choose(gpu, options)};
    const lora_t lora = options_lora(options);
    layout_open(&model->layout, s, &lora);
    bool trained = options->command == COMMAND_TRAIN;
    parameters_open(&model->parameters, gpu, ranks, options->zero, &model->layout, model->dtype, trained);
    if (trained)
        model->parameters.compression =
            compression_open(gpu, ranks, &model->layout, (compress_t)options->compress,
                             options->compress_rank, options->compress_share, options->seed);
    if (s.family == FAMILY_LLAMA)
        model->rope = upload_rope(gpu, &s);
    model->kept = activations_new((size_t)s.layers);
    if (trained && !rehearsing)
        initialise(model, options->seed);
}

const char *transformer_attention(const transformer_t *model)
{
    return model->attention == ATTENTION_FLASH    ? "flash"
           : model->attention == ATTENTION_TENSOR ? "tensor"
                                                  : "naive";
}

void transformer_close(transformer_t *model)
{
    tensor_free_permanent(model->gpu, &model->rope);
    parameters_close(&model->parameters);
    layout_close(&model->layout);
    free(model->kept->norms);
    free(model->kept->attention);
    free(model->kept->mlp);
    free(model->kept);
    *model = (transformer_t){0};
}

/* ---- forward ---- */

static norm_t *last_norm(const transformer_t *model)
{
    return &model->kept->norms[2 * model->shape.layers];
}

static void embed(transformer_t *model, const pass_t *pass, const batch_t *batch)
{
    range_begin("embedding");
    outer_t w = values_of_outer(model);
    norm_t *first = &model->kept->norms[0];
    for_block(model, parameters_expect, 0);
    const char *wpe = w.wpe; /* from the pass's first position on */
    if (wpe != NULL)
        wpe += (size_t)pass_position(pass) * (size_t)pass->C * dtype_bytes(pass->dtype);
    first->x = pass_tensor(pass, pass->C); /* [N,C] */
    CUDA(embedding_forward(pass->dtype, first->x.data, batch->tokens, w.wte, wpe, pass->B, pass->T, pass->C,
                           pass_dropout_embedding(pass), pass->gpu->stream));
    block_t block = values_of_block(model, 0);
    norm_forward(pass, first, block.norm1_w, block.norm1_b);
    range_end();
}

static void block_forward(transformer_t *model, const pass_t *pass, int layer)
{
    range_begin_layer(layer);
    activations_t *kept = model->kept;
    norm_t *norm1 = &kept->norms[2 * layer], *norm2 = norm1 + 1, *next = norm1 + 2;
    block_t w = values_of_block(model, layer);
    const bool last = layer + 1 == model->shape.layers;
    if (!last)
        for_block(model, parameters_expect, layer + 1);

    range_begin("attention");
    tensor_t y =
        attention_sublayer_forward(pass, layer, &kept->attention[layer], &norm1->out, &w); /* [N,C] */
    if (!pass_keeps_all(pass))
        tensor_free(pass->gpu, &norm1->out);
    join_forward(pass, norm1, norm2, &y,
                 (join_t){w.proj_b, w.norm2_w, w.norm2_b, pass_dropout(pass, layer, SITE_PROJECTION)});
    range_end();

    range_begin("mlp");
    y = mlp_sublayer_forward(pass, &kept->mlp[layer], &norm2->out, &w); /* [N,C] */
    if (!pass_keeps_all(pass))
        tensor_free(pass->gpu, &norm2->out);
    join_t join = {.bias = w.down_b, .drop = pass_dropout(pass, layer, SITE_MLP)};
    if (!last) {
        block_t after = values_of_block(model, layer + 1);
        join.weight = after.norm1_w;
        join.norm_b = after.norm1_b;
    } else {
        outer_t outer = values_of_outer(model);
        join.weight = outer.norm_w;
        join.norm_b = outer.norm_b;
    }
    join_forward(pass, norm2, next, &y, join);
    if (!pass->keep || !last) /* the backward pass begins with the last one */
        for_block(model, parameters_done, layer);
    range_end();
    range_end();
}

/* Leaves the last norm's output in kept->norms[2L].out. */
static void forward(transformer_t *model, const pass_t *pass, const batch_t *batch)
{
    embed(model, pass, batch);
    for (int layer = 0; layer < model->shape.layers; layer++)
        block_forward(model, pass, layer);
}

/* ---- what is saved for the backward pass ---- */

static void visit_norm(const transformer_t *model, int layer, const char *const names[3], const norm_t *norm)
{
    const tensor_t *tensors[3] = {&norm->x, &norm->out, &norm->stats};
    for (int i = 0; i < 3; i++)
        if (tensors[i]->data != NULL)
            model->saved(model->saved_context, layer, names[i], tensors[i]->bytes);
}

static void visit_saved(const transformer_t *model)
{
    static const char *const norms[2][3] = {{"norm1.x", "norm1.out", "norm1.stats"},
                                            {"norm2.x", "norm2.out", "norm2.stats"}};
    static const char *const last[3] = {"norm.x", "norm.out", "norm.stats"};
    const activations_t *all = model->kept;
    int L = model->shape.layers;
    for (int l = 0; l < L; l++) {
        const attention_kept_t *a = &all->attention[l];
        const mlp_kept_t *m = &all->mlp[l];
        const struct {
            const char *name;
            const tensor_t *tensor;
        } rest[] = {{"attention.qkv", &a->qkv},
                    {"attention.q", &a->q},
                    {"attention.k", &a->k},
                    {"attention.v", &a->v},
                    {"attention.lse", &a->lse},
                    {"attention.probs", &a->probs},
                    {"attention.dropped", &a->dropped},
                    {"attention.out", &a->out},
                    {"attention.qkv.u", &a->qkv_u},
                    {"attention.proj.u", &a->proj_u},
                    {"mlp.up.u", &m->up_u},
                    {"mlp.down.u", &m->down_u},
                    {"mlp.up", &m->up},
                    {"mlp.act", &m->act}};
        for (int i = 0; i < 2; i++)
            visit_norm(model, l, norms[i], &all->norms[2 * l + i]);
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
            if (rest[i].tensor->data != NULL)
                model->saved(model->saved_context, l, rest[i].name, rest[i].tensor->bytes);
    }
    visit_norm(model, L, last, &all->norms[2 * L]);
}

/* ---- backward ---- */

/* dx[N,C], the gradient of the stream after the block, becomes that of the stream before it. */
static void block_backward(transformer_t *model, const pass_t *pass, int layer, tensor_t *dx)
{
    range_begin_layer(layer);
    activations_t *kept = model->kept;
    norm_t *norm1 = &kept->norms[2 * layer], *norm2 = norm1 + 1;
    block_t w = values_of_block(model, layer), dw = gradients_of_block(model, layer);
    if (layer > 0)
        for_block(model, parameters_expect, layer - 1);

    range_begin("mlp");
    if (pass->lean)
        norm_again(pass, norm2, w.norm2_w, w.norm2_b);
    tensor_t dy = join_backward(pass, dw.down_b, dx, pass_dropout(pass, layer, SITE_MLP)); /* [N,C] */
    tensor_t dout =
        mlp_sublayer_backward(pass, &kept->mlp[layer], &norm2->out, dy.data ? &dy : dx, &w, &dw); /* [N,C] */
    tensor_free(pass->gpu, &dy);
    norm_backward(pass, norm2, dx, &dout, w.norm2_w, dw.norm2_w, dw.norm2_b, dw.proj_b);
    range_end();

    range_begin("attention");
    if (pass->lean)
        norm_again(pass, norm1, w.norm1_w, w.norm1_b);
    dy = join_backward(pass, dw.proj_b, dx, pass_dropout(pass, layer, SITE_PROJECTION));
    dout = attention_sublayer_backward(pass, layer, &kept->attention[layer], &norm1->out, dy.data ? &dy : dx,
                                       &w, &dw);
    tensor_free(pass->gpu, &dy);
    norm_backward(pass, norm1, dx, &dout, w.norm1_w, dw.norm1_w, dw.norm1_b,
                  layer > 0 ? gradients_of_block(model, layer - 1).down_b : NULL);
    for_block(model, parameters_done, layer);
    range_end();
    range_end();
}

static void backward(transformer_t *model, const pass_t *pass, const batch_t *batch, tensor_t *dout,
                     const micro_batch_t *micro)
{
    outer_t w = values_of_outer(model), dw = gradients_of_outer(model);
    if (!model->shape.tied && !pass->accumulate &&
        dw.wte != NULL) { /* classes that do not occur have no gradient */
        CUDA(cudaMemsetAsync(dw.wte, 0, (size_t)model->shape.vocab * (size_t)pass->C * sizeof(float),
                             pass->gpu->stream));
        launched();
    }
    tensor_t dx = head_backward(pass, last_norm(model), dout, &w, &dw,
                                gradients_of_block(model, model->shape.layers - 1).down_b); /* [N,C] */
    parameters_done(&model->parameters, 0);
    for (int layer = model->shape.layers - 1; layer >= 0; layer--) {
        block_backward(model, pass, layer, &dx);
        if (micro->last)
            for_block(model, parameters_sum, layer);
    }

    range_begin("embedding");
    if (dw.wte != NULL)
        CUDA(embedding_backward(pass->dtype, dw.wte, dw.wpe, dx.data, batch->index, pass->B, pass->T,
                                model->shape.context, pass->C, pass_dropout_embedding(pass), pass->accumulate,
                                pass->gpu->stream));
    tensor_free(pass->gpu, &dx);
    range_end();
    if (micro->last) {
        parameters_sum(&model->parameters, 0);
        parameters_summed(&model->parameters);
    }
}

/* ---- the three kinds of pass ---- */

static pass_t pass_of(const transformer_t *model, const batch_t *batch)
{
    const shape_t *s = &model->shape;
    return (pass_t){.gpu = model->gpu,
                    .layout = &model->layout,
                    .shape = s,
                    .dtype = model->dtype,
                    .B = batch->B,
                    .T = batch->T,
                    .N = batch->B * batch->T,
                    .C = s->width,
                    .H = s->heads,
                    .KV = s->kv_heads,
                    .D = s->width / s->heads,
                    .F = s->hidden,
                    .rope = model->rope.data,
                    .attention = model->attention};
}

uint64_t transformer_counter(const transformer_t *model, int B, int T, uint64_t number)
{
    return number * pass_counters(B, T, model->shape);
}

void transformer_train(transformer_t *model, const batch_t *batch, micro_batch_t micro)
{
    pass_t pass = pass_of(model, batch);
    pass.keep = 1;
    pass.lean = model->lean;
    pass.accumulate = micro.accumulate;
    pass.dropout = micro.dropout;
    pass.seed = micro.seed;
    if (micro.counter != NULL)
        pass.base = micro.counter;
    else
        pass.first = transformer_counter(model, batch->B, model->shape.context, micro.number);

    range_begin("forward");
    forward(model, &pass, batch);
    range_begin("head");
    outer_t w = values_of_outer(model), dw = gradients_of_outer(model);
    head_t head = {&w, &dw, batch->targets, micro.scale};
    tensor_t dout = head_loss(&pass, last_norm(model), head, micro.loss); /* [N,C] */
    range_end();
    range_end();
    if (model->saved != NULL)
        visit_saved(model);
    range_begin("backward");
    backward(model, &pass, batch, &dout, &micro);
    range_end();
}

void transformer_loss(transformer_t *model, const batch_t *batch, float *loss)
{
    pass_t pass = pass_of(model, batch);
    outer_t w = values_of_outer(model);
    forward(model, &pass, batch);
    head_t head = {&w, NULL, batch->targets, 1.0f};
    (void)head_loss(&pass, last_norm(model), head, loss); /* empty: nothing is kept */
    norm_free(&pass, last_norm(model));
    parameters_done(&model->parameters, 0);
}

tensor_t transformer_row_losses(transformer_t *model, const batch_t *batch)
{
    pass_t pass = pass_of(model, batch);
    outer_t w = values_of_outer(model);
    head_t head = {&w, NULL, batch->targets, 1.0f};
    tensor_t losses;
    forward(model, &pass, batch);
    (void)head_row_losses(&pass, last_norm(model), head, &losses); /* nothing is kept */
    norm_free(&pass, last_norm(model));
    parameters_done(&model->parameters, 0);
    return losses;
}

tensor_t transformer_next(transformer_t *model, const batch_t *batch, const struct kv_cache *cache)
{
    pass_t pass = pass_of(model, batch);
    pass.cache = cache;
    outer_t w = values_of_outer(model);
    forward(model, &pass, batch);
    tensor_t logits = head_next(&pass, last_norm(model), &w); /* [V] */
    norm_free(&pass, last_norm(model));
    parameters_done(&model->parameters, 0);
    return logits;
}
