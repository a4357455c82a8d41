/* layout.h: what a model's parameters are: one table, made from the model's shape alone. Host only.
 *
 * Groups, initial values, weight decay, parameter counts, the dump, and the files that others read: all of them go by
 * this table, so that a tensor is described once.
 *
 *   group   parameters that one launch of the optimizer updates: group 0 has what belongs to no block (embeddings,
 *           the last norm, the head), group 1 + l has block l. In a group lie first the matrices, which weight decay
 *           applies to, then the vectors.
 *   array   what kernels take as one operand: array_t. The same ones, at the same places, in every block.
 *   tensor  what a file of Hugging Face's names: one array or, where we keep several in one (q, k and v; gate and
 *           up), some of its rows. A line of the table.
 *
 * GPT-2 (Radford et al., 2019): LayerNorm with bias (eps 1e-5), learned positions, GELU by tanh, biases everywhere, the
 * head tied to the token embedding. Llama (Touvron et al., arXiv:2302.13971 and arXiv:2307.09288; grouped-query
 * attention: Ainslie et al., arXiv:2305.13245): RMSNorm, rotary positions, SwiGLU, no bias anywhere.
 * H heads of D = C/H channels each, KV of them with keys and values of their own; F channels inside the MLP.
 *
 * Initial values. Biases 0, norm weights 1, matrices normal with deviation 0.02; of the two matrices that add to the
 * residual stream (proj_w, down_w) 0.02 / sqrt(2 layers). Element i of a matrix as we hold it, row by row, is normal
 * number i (rng.h) of the stream RNG_INIT + `stream`, times the deviation, rounded to fp32. Streams: the token embedding
 * has 0; the positions, or a head of its own, 1 (with both, the head has 1 + 2^31); block l's matrices follow in the
 * order of its tensors: GPT-2's from 2 + 4l, Llama's from 2 + 7l.
 */
#ifndef EBB_MODEL_LAYOUT_H
#define EBB_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum family { FAMILY_GPT2, FAMILY_LLAMA } family_t;

/* The shape of a transformer. In the shape comments of the sources C = width, H = heads, KV = kv_heads, D = C/H,
 * F = hidden, T <= context, V = vocab. */
typedef struct shape {
    family_t family;
    int layers, width;
    int heads, kv_heads; /* H is a multiple of KV */
    int hidden;
    int context, vocab;
    bool tied;          /* the head is the token embedding's matrix */
    double norm_eps;    /* added to the variance, or mean square, of a row */
    double rope_theta;  /* rotary positions (rope.h): base, */
    double rope_factor; /* and by how much Llama 3.1 stretches the long waves; 1: not at all */
} shape_t;

typedef enum array {
    /* group 0 */
    ARRAY_WTE,    /* [V,C] token embedding */
    ARRAY_WPE,    /* [context,C] positions: GPT-2 */
    ARRAY_HEAD,   /* [V,C], unless tied */
    ARRAY_NORM_W, /* [C] of the last norm */
    ARRAY_NORM_B, /* [C], GPT-2 */
    /* a block's group */
    ARRAY_QKV_W,   /* [(H+2KV)D,C] queries, keys, values */
    ARRAY_PROJ_W,  /* [C,C] */
    ARRAY_UP_W,    /* GPT-2: [F,C]; Llama: [2F,C], gate and up */
    ARRAY_DOWN_W,  /* [C,F] */
    ARRAY_NORM1_W, /* [C] of the norm before attention */
    ARRAY_NORM1_B, /* [C], this and the rest GPT-2's but NORM2_W */
    ARRAY_QKV_B,   /* [(H+2KV)D] */
    ARRAY_PROJ_B,  /* [C] */
    ARRAY_NORM2_W, /* [C] of the norm before the MLP */
    ARRAY_NORM2_B, /* [C] */
    ARRAY_UP_B,    /* [F] */
    ARRAY_DOWN_B,  /* [C] */
    ARRAY_COUNT
} array_t;

#define LAYOUT_NONE SIZE_MAX

typedef enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL } init_t;

typedef struct layout_tensor {
    char name[56]; /* Hugging Face's: "h.3.attn.c_attn.weight", "model.layers.3.self_attn.q_proj.weight" */
    int group;
    array_t array;
    size_t offset;   /* elements, from the group's first */
    int rows;        /* of a matrix as we hold it, [out,in]; 1 for a vector */
    int columns;     /* elements of a vector */
    bool vector;     /* one dimension in a file, not two */
    bool transposed; /* a file has it as [columns,rows]: GPT-2's Conv1D */
    bool decayed;
    init_t init;
    double deviation; /* INIT_NORMAL */
    uint64_t stream;
} layout_tensor_t;

typedef struct layout_group {
    size_t count;   /* elements; even */
    size_t decayed; /* the first so many are matrices' */
} layout_group_t;

typedef struct layout {
    shape_t shape;
    int group_count, tensor_count;
    layout_group_t *groups;     /* owns [group_count] */
    layout_tensor_t *tensors;   /* owns [tensor_count]: by group, then by offset; without gaps */
    size_t offset[ARRAY_COUNT]; /* of each array in its group; LAYOUT_NONE where the model has none */
} layout_t;

/* No memory ends the program. The shape must be a valid one (options.c: check_shape). */
void layout_open(layout_t *layout, shape_t shape);
void layout_close(layout_t *layout);

/* Elements of all groups; of one tensor. */
size_t layout_parameters(const layout_t *layout);
size_t layout_elements(const layout_tensor_t *tensor);

/* NULL if the model has no tensor of that name. */
const layout_tensor_t *layout_find(const layout_t *layout, const char *name);

/* Initial values of a group: values[groups[group].count]. */
void layout_initial(const layout_t *layout, int group, uint64_t seed, float *values);

#endif
