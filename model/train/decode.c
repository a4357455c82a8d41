#include "model/train/decode.h"

#include "model/base/check.h"
#include "model/layers/pass.h"

void decode_open(decode_t *decode, transformer_t *model, batch_ring_t *ring, int room)
{
    const shape_t *s = &model->shape;
    size_t row = 2 * (size_t)s->kv_heads * (size_t)(s->width / s->heads);
    *decode = (decode_t){.model = model, .ring = ring, .cache = {.room = room}};
    decode->cache.rows =
        tensor_new_of(model->gpu, MEMORY_OTHER, model->dtype, (size_t)s->layers * (size_t)room * row);
}

void decode_close(decode_t *decode)
{
    tensor_free(decode->model->gpu, &decode->cache.rows);
    *decode = (decode_t){0};
}

/* Tokens that follow those in the cache. */
static void issue(decode_t *decode, const int *tokens, int count, float *logits, int classes)
{
    gpu_t *gpu = decode->model->gpu;
    batch_t batch =
        batch_upload(decode->ring, tokens, tokens, 1, count); /* no loss: the targets are any tokens */
    tensor_t next = transformer_next(decode->model, &batch, &decode->cache); /* [V] */
    decode->cache.count += count;
    CUDA(cudaMemcpyAsync(logits, next.data, (size_t)classes * sizeof *logits, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &next);
    batch_free(decode->ring, &batch);
}

void decode_start(decode_t *decode, const int *tokens, int count, float *logits, int classes)
{
    decode->cache.count = 0;
    issue(decode, tokens, count, logits, classes);
}

void decode_next(decode_t *decode, int token, float *logits, int classes)
{
    issue(decode, &token, 1, logits, classes);
}

/* ---- inside a pass ---- */

int pass_position(const pass_t *pass)
{
    return pass->cache != NULL ? pass->cache->count : 0;
}

/* Bytes of a token's keys and values. */
static size_t row_bytes(const pass_t *pass)
{
    return 2 * (size_t)pass->KV * (size_t)pass->D * dtype_bytes(pass->dtype);
}

/* The rows of a layer. */
static char *layer_rows(const pass_t *pass, int layer)
{
    const kv_cache_t *cache = pass->cache;
    return (char *)cache->rows.data + (size_t)layer * (size_t)cache->room * row_bytes(pass);
}

void cache_put(const pass_t *pass, int layer, const tensor_t *qkv)
{
    size_t bytes = row_bytes(pass), queries = (size_t)pass->H * (size_t)pass->D * dtype_bytes(pass->dtype);
    CUDA(cudaMemcpy2DAsync(layer_rows(pass, layer) + (size_t)pass->cache->count * bytes, bytes,
                           (const char *)qkv->data + queries, queries + bytes, bytes, (size_t)pass->T,
                           cudaMemcpyDeviceToDevice, pass->gpu->stream));
}

tensor_t cache_attention(const pass_t *pass, int layer, tensor_t *qkv)
{
    tensor_t out = pass_tensor(pass, pass->C); /* [1,H,D] */
    attention_shape_t shape = {1, 1, pass->H, pass->KV, pass->D};
    CUDA(attention_next(pass->dtype, out.data, qkv->data, layer_rows(pass, layer), pass->cache->count + 1,
                        shape, pass->gpu->stream));
    tensor_free(pass->gpu, qkv);
    return out;
}
