/* layout.h: what a model's parameters are: one table, made from the model's shape alone. Host only.
 *
 * Groups, initial values, weight decay, parameter counts, the dump, and the files that others read: all of them go by
 * this table, so that a tensor is described once.
 *
 *   group   parameters that one launch of the optimizer updates: group 0 has what belongs to no block (embeddings,
 *           the last norm, the head), group 1 + l has block l, and with adapters group 1 + L + l has those of block l, of L
 *           blocks. In a group lie first the matrices, which weight decay applies to, then the vectors.
 *   array   what kernels take as one operand: array_t. The same ones, at the same places, in every block.
 *   tensor  what a file of Hugging Face's names: one array or, where we keep several in one (q, k and v; gate and
 *           up), some of its rows. A line of the table.
 *
 * GPT-2 (Radford et al., 2019): LayerNorm with bias (eps 1e-5), learned positions, GELU by tanh, biases everywhere, the
 * head tied to the token embedding. Llama (Touvron et al., arXiv:2302.13971 and arXiv:2307.09288; grouped-query
 * attention: Ainslie et al., arXiv:2305.13245): RMSNorm, rotary positions, SwiGLU, no bias anywhere.
 * H heads of D = C/H channels each, KV of them with keys and values of their own; F channels inside the MLP.
 *
 * Adapters (LoRA: Hu et al., arXiv:2106.09685). All else is frozen; a matrix w[out,in] that has one computes x w^T + alpha / rank
 * (x a^T) b^T, with a[rank,in] and b[out,rank]. Names, and which matrices there are, as in Hugging Face's PEFT: where we keep
 * several of a file's matrices in one array, each has an adapter of its own, and one array has all their a, one all their b.
 *
 * Initial values. Biases 0, norm weights 1, matrices normal with deviation 0.02; of the two matrices that add to the
 * residual stream (proj_w, down_w) 0.02 / sqrt(2 layers). Element i of a matrix as we hold it, row by row, is normal
 * number i (rng.h) of the stream RNG_INIT + `stream`, times the deviation, rounded to fp32. Streams: the token embedding
 * has 0; the positions, or a head of its own, 1 (with both, the head has 1 + 2^31); block l's matrices follow in the
 * order of its tensors: GPT-2's from 2 + 4l, Llama's from 2 + 7l. An adapter's b is 0, its a uniform between +-1/sqrt(in): element
 * i is (2 u - 1) / sqrt(in) of the number u (rng_unit) at i of the stream RNG_ADAPTERS + that of its matrix.
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
    /* a block's group of adapters: of matrix m, ARRAY_LORA + 2m has [targets * rank,in], the next one each target's [out,rank] */
    ARRAY_LORA,
    ARRAY_COUNT = ARRAY_LORA + 8
} array_t;

/* Arrays that can have adapters, in the order of the arrays. */
typedef enum matrix { MATRIX_QKV, MATRIX_PROJ, MATRIX_UP, MATRIX_DOWN, MATRIX_COUNT } matrix_t;

/* What adapters there are; rank 0: none. */
typedef struct lora {
    int rank;
    double alpha;
    const char *
        targets; /* borrowed: names of matrices between commas, each the end of a module's name ("q_proj,attn.c_proj"); or
                            "all-linear"; NULL or empty: PEFT's own choice, "c_attn" or "q_proj,v_proj" */
} lora_t;

/* The adapters of an array: which of its rows each target has. */
typedef struct adapted {
    int in, count; /* of targets; 0: it has none */
    struct {
        int first, rows;
    } targets[3];
} adapted_t;

#define LAYOUT_NONE SIZE_MAX

typedef enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM } init_t;

typedef struct layout_tensor {
    char name
        [80]; /* Hugging Face's: "h.3.attn.c_attn.weight", "model.layers.3.self_attn.q_proj.weight"; an adapter's PEFT's:
                      "base_model.model.transformer.h.3.attn.c_attn.lora_A.weight" */
    int group;
    array_t array;
    size_t offset;   /* elements, from the group's first */
    int rows;        /* of a matrix as we hold it, [out,in]; 1 for a vector */
    int columns;     /* elements of a vector */
    bool vector;     /* one dimension in a file, not two */
    bool transposed; /* a file has it as [columns,rows]: GPT-2's Conv1D */
    bool decayed;
    init_t init;
    double deviation; /* INIT_NORMAL; INIT_UNIFORM: the largest */
    uint64_t stream;
} layout_tensor_t;

typedef struct layout_group {
    size_t count;   /* elements; even */
    size_t decayed; /* the first so many are matrices' */
    bool trained;   /* not frozen */
} layout_group_t;

typedef struct layout {
    shape_t shape;
    int group_count, tensor_count;
    layout_group_t *groups;     /* owns [group_count] */
    layout_tensor_t *tensors;   /* owns [tensor_count]: by group, then by offset; without gaps */
    size_t offset[ARRAY_COUNT]; /* of each array in its group; LAYOUT_NONE where the model has none */
    lora_t lora;
    adapted_t adapted[MATRIX_COUNT];
} layout_t;

/* No memory ends the program. The shape must be a valid one (options.c: check_shape), and so must the adapters' targets
 * (layout_bad_target). lora NULL: none. */
void layout_open(layout_t *layout, shape_t shape, const lora_t *lora);
void layout_close(layout_t *layout);

/* The first of the targets that no matrix of the family's blocks is, as long as *length; NULL: all are one. */
const char *layout_bad_target(family_t family, const char *targets, int *length);

/* The group of a block's adapters; -1: none. The first group, and the one after the last, of adapters (true), or of all else. */
int layout_adapters(const layout_t *layout, int layer);
int layout_first(const layout_t *layout, bool adapters);
int layout_end(const layout_t *layout, bool adapters);

/* Elements of all groups, or of those that are trained; of one tensor. */
size_t layout_parameters(const layout_t *layout);
size_t layout_trained(const layout_t *layout);
size_t layout_elements(const layout_tensor_t *tensor);

/* NULL if the model has no tensor of that name. */
const layout_tensor_t *layout_find(const layout_t *layout, const char *name);

/* Initial values of a group: values[groups[group].count]. */
void layout_initial(const layout_t *layout, int group, uint64_t seed, float *values);

#endif
