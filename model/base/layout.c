#include "model/base/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/base/rng.h"

enum { MOST_TENSORS = 16 }; /* of one group */

#define STREAM_HEAD ((uint64_t)1 << 31) /* of a head beside learned positions */

/* ---- making the table ---- */

/* The place where the next tensor goes. */
typedef struct cursor {
    layout_t *layout;
    int group;
    size_t offset;
    uint64_t stream; /* of the next matrix */
} cursor_t;

/* A tensor's name: Hugging Face's pattern for a block takes its number. */
static void set_name(layout_tensor_t *tensor, const char *prefix, int group, const char *name)
{
    int length = group == 0
                     ? snprintf(tensor->name, sizeof tensor->name, "%s", name)
                     : snprintf(tensor->name, sizeof tensor->name, "%s.%d.%s", prefix, group - 1, name);
    if (length < 0 || (size_t)length >= sizeof tensor->name)
        fatal("the name of tensor %s of block %d is too long", name, group - 1);
}

/* Appends a tensor; it begins an array unless the one before it is of the same array. */
static layout_tensor_t *add(cursor_t *at, array_t array, const char *name, int rows, int columns)
{
    layout_t *layout = at->layout;
    const layout_tensor_t *before =
        layout->tensor_count > 0 ? &layout->tensors[layout->tensor_count - 1] : NULL;
    layout_tensor_t *tensor = &layout->tensors[layout->tensor_count++];
    set_name(tensor, layout->shape.family == FAMILY_GPT2 ? "h" : "model.layers", at->group, name);
    tensor->group = at->group;
    tensor->array = array;
    tensor->offset = at->offset;
    tensor->rows = rows;
    tensor->columns = columns;
    if (before == NULL || before->group != at->group || before->array != array)
        layout->offset[array] = at->offset;
    at->offset += layout_elements(tensor);
    return tensor;
}

static layout_tensor_t *add_matrix(cursor_t *at, array_t array, const char *name, int rows, int columns)
{
    const shape_t *s = &at->layout->shape;
    bool residual = array == ARRAY_PROJ_W || array == ARRAY_DOWN_W;
    layout_tensor_t *tensor = add(at, array, name, rows, columns);
    tensor->decayed = true;
    tensor->transposed = s->family == FAMILY_GPT2 && at->group > 0;
    tensor->init = INIT_NORMAL;
    tensor->deviation = residual ? 0.02 / sqrt(2.0 * s->layers) : 0.02;
    tensor->stream = at->stream++;
    return tensor;
}

static void add_vector(cursor_t *at, array_t array, const char *name, int count)
{
    layout_tensor_t *tensor = add(at, array, name, 1, count);
    tensor->vector = true;
    tensor->init =
        array == ARRAY_NORM_W || array == ARRAY_NORM1_W || array == ARRAY_NORM2_W ? INIT_ONE : INIT_ZERO;
}

static void add_outer(cursor_t *at)
{
    const shape_t *s = &at->layout->shape;
    bool gpt2 = s->family == FAMILY_GPT2;
    add_matrix(at, ARRAY_WTE, gpt2 ? "wte.weight" : "model.embed_tokens.weight", s->vocab, s->width);
    if (gpt2)
        add_matrix(at, ARRAY_WPE, "wpe.weight", s->context, s->width);
    if (!s->tied) {
        layout_tensor_t *head = add_matrix(at, ARRAY_HEAD, "lm_head.weight", s->vocab, s->width);
        head->stream = gpt2 ? 1 + STREAM_HEAD : 1;
    }
    at->layout->groups[0].decayed = at->offset;
    add_vector(at, ARRAY_NORM_W, gpt2 ? "ln_f.weight" : "model.norm.weight", s->width);
    if (gpt2)
        add_vector(at, ARRAY_NORM_B, "ln_f.bias", s->width);
}

static void add_gpt2_block(cursor_t *at)
{
    const shape_t *s = &at->layout->shape;
    int C = s->width, qkv = (s->heads + 2 * s->kv_heads) * (C / s->heads), F = s->hidden;
    at->stream = 2 + 4 * (uint64_t)(at->group - 1);
    add_matrix(at, ARRAY_QKV_W, "attn.c_attn.weight", qkv, C);
    add_matrix(at, ARRAY_PROJ_W, "attn.c_proj.weight", C, C);
    add_matrix(at, ARRAY_UP_W, "mlp.c_fc.weight", F, C);
    add_matrix(at, ARRAY_DOWN_W, "mlp.c_proj.weight", C, F);
    at->layout->groups[at->group].decayed = at->offset;
    add_vector(at, ARRAY_NORM1_W, "ln_1.weight", C);
    add_vector(at, ARRAY_NORM1_B, "ln_1.bias", C);
    add_vector(at, ARRAY_QKV_B, "attn.c_attn.bias", qkv);
    add_vector(at, ARRAY_PROJ_B, "attn.c_proj.bias", C);
    add_vector(at, ARRAY_NORM2_W, "ln_2.weight", C);
    add_vector(at, ARRAY_NORM2_B, "ln_2.bias", C);
    add_vector(at, ARRAY_UP_B, "mlp.c_fc.bias", F);
    add_vector(at, ARRAY_DOWN_B, "mlp.c_proj.bias", C);
}

static void add_llama_block(cursor_t *at)
{
    const shape_t *s = &at->layout->shape;
    int C = s->width, D = C / s->heads, F = s->hidden;
    at->stream = 2 + 7 * (uint64_t)(at->group - 1);
    add_matrix(at, ARRAY_QKV_W, "self_attn.q_proj.weight", s->heads * D, C);
    add_matrix(at, ARRAY_QKV_W, "self_attn.k_proj.weight", s->kv_heads * D, C);
    add_matrix(at, ARRAY_QKV_W, "self_attn.v_proj.weight", s->kv_heads * D, C);
    add_matrix(at, ARRAY_PROJ_W, "self_attn.o_proj.weight", C, C);
    add_matrix(at, ARRAY_UP_W, "mlp.gate_proj.weight", F, C);
    add_matrix(at, ARRAY_UP_W, "mlp.up_proj.weight", F, C);
    add_matrix(at, ARRAY_DOWN_W, "mlp.down_proj.weight", C, F);
    at->layout->groups[at->group].decayed = at->offset;
    add_vector(at, ARRAY_NORM1_W, "input_layernorm.weight", C);
    add_vector(at, ARRAY_NORM2_W, "post_attention_layernorm.weight", C);
}

/* ---- adapters ---- */

/* Has the module that the tensor is the weight of a name within its block that ends in this one, of so many letters? All blocks have the
 * same adapters. */
static bool is_named(const layout_tensor_t *tensor, const char *name, size_t length)
{
    const char *module = strpbrk(tensor->name, "0123456789");
    module += strspn(module, "0123456789") + 1; /* behind the block's number */
    const size_t end = strlen(module) - strlen(".weight");
    return end >= length && strncmp(module + end - length, name, length) == 0 &&
           (end == length || module[end - length - 1] == '.');
}

static bool is_target(const lora_t *lora, family_t family, const layout_tensor_t *tensor)
{
    const char *names = lora->targets;
    if (names == NULL || names[0] == '\0')
        names = family == FAMILY_GPT2 ? "c_attn" : "q_proj,v_proj";
    if (strcmp(names, "all-linear") == 0)
        return true;
    for (size_t length; names[0] != '\0'; names += length + (names[length] == ',')) {
        length = strcspn(names, ",");
        if (is_named(tensor, names, length))
            return true;
    }
    return false;
}

static void add_adapter(cursor_t *at, array_t array, const layout_tensor_t *of, bool is_a)
{
    const int rank = at->layout->lora.rank, rows = is_a ? rank : of->rows,
              columns = is_a ? of->columns : rank;
    layout_tensor_t *tensor = add(at, array, "", rows, columns);
    const int length = snprintf(tensor->name, sizeof tensor->name, "base_model.model.%s%.*s.lora_%c.weight",
                                at->layout->shape.family == FAMILY_GPT2 ? "transformer." : "",
                                (int)(strlen(of->name) - strlen(".weight")), of->name, is_a ? 'A' : 'B');
    if (length < 0 || (size_t)length >= sizeof tensor->name)
        fatal("the name of the adapter of %s is too long", of->name);
    tensor->decayed = true;
    tensor->init = is_a ? INIT_UNIFORM : INIT_ZERO;
    tensor->deviation = 1 / sqrt((double)of->columns);
    tensor->stream = of->stream;
}

/* Block 0's tell which rows of its array each target has; other blocks' are the same. */
static void note_target(adapted_t *adapted, const layout_t *layout, const layout_tensor_t *of)
{
    adapted->in = of->columns;
    adapted->targets[adapted->count].first =
        (int)((of->offset - layout->offset[of->array]) / (size_t)of->columns);
    adapted->targets[adapted->count++].rows = of->rows;
}

static void add_adapters(cursor_t *at, int block)
{
    layout_t *layout = at->layout;
    const int tensors = layout->tensor_count;
    for (int m = 0; m < MATRIX_COUNT; m++)
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < tensors; i++) {
                const layout_tensor_t *of = &layout->tensors[i];
                if (of->group != block || of->array != ARRAY_QKV_W + (array_t)m ||
                    !is_target(&layout->lora, layout->shape.family, of))
                    continue;
                add_adapter(at, ARRAY_LORA + (array_t)(2 * m + b), of, b == 0);
                if (block == 1 && b == 0)
                    note_target(&layout->adapted[m], layout, of);
            }
    layout->groups[at->group].decayed = at->offset;
}

const char *layout_bad_target(family_t family, const char *targets, int *length)
{
    const char *bad = NULL;
    layout_t layout;
    layout_open(&layout,
                (shape_t){.family = family,
                          .layers = 1,
                          .width = 4,
                          .heads = 1,
                          .kv_heads = 1,
                          .hidden = 4,
                          .context = 1,
                          .vocab = 2},
                NULL);
    for (const char *name = targets; bad == NULL && name[0] != '\0';
         name += *length + (name[*length] == ',')) {
        bool found = false;
        *length = (int)strcspn(name, ",");
        for (int i = 0; i < layout.tensor_count; i++)
            found = found || (layout.tensors[i].group == 1 && layout.tensors[i].decayed &&
                              is_named(&layout.tensors[i], name, (size_t)*length));
        bad = found ? NULL : name;
    }
    layout_close(&layout);
    return strcmp(targets, "all-linear") == 0 ? NULL : bad;
}

int layout_adapters(const layout_t *layout, int layer)
{
    return layout->lora.rank > 0 ? 1 + layout->shape.layers + layer : -1;
}

int layout_first(const layout_t *layout, bool adapters)
{
    return adapters ? 1 + layout->shape.layers : 0;
}

int layout_end(const layout_t *layout, bool adapters)
{
    return adapters ? layout->group_count : 1 + layout->shape.layers;
}

void layout_open(layout_t *layout, shape_t shape, const lora_t *lora)
{
    *layout = (layout_t){.shape = shape, .group_count = 1 + shape.layers};
    if (lora != NULL && lora->rank > 0) {
        layout->lora = *lora;
        layout->group_count += shape.layers;
    }
    size_t groups = (size_t)layout->group_count;
    layout->groups = calloc(groups, sizeof *layout->groups);
    layout->tensors = calloc(groups * MOST_TENSORS, sizeof *layout->tensors);
    if (layout->groups == NULL || layout->tensors == NULL)
        fatal("no host memory for a model of %d layers", shape.layers);
    for (int array = 0; array < ARRAY_COUNT; array++)
        layout->offset[array] = LAYOUT_NONE;
    for (int group = 0; group < layout->group_count; group++) {
        cursor_t at = {.layout = layout, .group = group};
        if (group == 0)
            add_outer(&at);
        else if (group > shape.layers)
            add_adapters(&at, group - shape.layers);
        else if (shape.family == FAMILY_GPT2)
            add_gpt2_block(&at);
        else
            add_llama_block(&at);
        layout->groups[group].count = at.offset;
        layout->groups[group].trained = layout->lora.rank == 0 || group > shape.layers;
    }
}

void layout_close(layout_t *layout)
{
    free(layout->groups);
    free(layout->tensors);
    *layout = (layout_t){0};
}

/* ---- asking it ---- */

size_t layout_parameters(const layout_t *layout)
{
    size_t count = 0;
    for (int group = 0; group < layout->group_count; group++)
        count += layout->groups[group].count;
    return count;
}

size_t layout_trained(const layout_t *layout)
{
    size_t count = 0;
    for (int group = 0; group < layout->group_count; group++)
        count += layout->groups[group].trained ? layout->groups[group].count : 0;
    return count;
}

size_t layout_elements(const layout_tensor_t *tensor)
{
    return (size_t)tensor->rows * (size_t)tensor->columns;
}

const layout_tensor_t *layout_find(const layout_t *layout, const char *name)
{
    for (int i = 0; i < layout->tensor_count; i++)
        if (strcmp(layout->tensors[i].name, name) == 0)
            return &layout->tensors[i];
    return NULL;
}

static void fill_normal(float *values, size_t count, uint64_t key, double deviation)
{
    for (size_t i = 0; i < count; i += 2) { /* counts are even: the width is */
        double normals[2];
        rng_normal_pair(key, i / 2, normals);
        values[i] = (float)(deviation * normals[0]);
        values[i + 1] = (float)(deviation * normals[1]);
    }
}

static void fill_uniform(float *values, size_t count, uint64_t key, double largest)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(largest * (2 * rng_unit(rng_at(key, i)) - 1));
}

static void fill(float *values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

void layout_initial(const layout_t *layout, int group, uint64_t seed, float *values)
{
    for (int i = 0; i < layout->tensor_count; i++) {
        const layout_tensor_t *tensor = &layout->tensors[i];
        if (tensor->group != group)
            continue;
        float *to = values + tensor->offset;
        size_t count = layout_elements(tensor);
        if (tensor->init == INIT_NORMAL)
            fill_normal(to, count, rng_at(seed, RNG_INIT + tensor->stream), tensor->deviation);
        else if (tensor->init == INIT_UNIFORM)
            fill_uniform(to, count, rng_at(seed, RNG_ADAPTERS + tensor->stream), tensor->deviation);
        else
            fill(to, count, tensor->init == INIT_ONE ? 1.0f : 0.0f);
    }
}
