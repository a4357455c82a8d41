/* flops.h: the arithmetic that a model asks for, whoever computes it and however often.
 *
 * Model FLOPs (Chowdhery et al., arXiv:2204.02311, appendix B; Kaplan et al., arXiv:2001.08361, section 2.1): a token takes
 * part in two operations, a multiplication and an addition, with each weight of each product, forward, and in twice as many
 * backward (the gradients of input and weight): 6 for each weight. Attention adds, in each of L layers, the products of
 * queries with keys and of probabilities with values, 4 C operations for each of T tokens forward, and twice as many
 * backward: 12 L C T. As in the paper, all T tokens count, though attention is causal; norms, activations, the softmax
 * and what is computed a second time (--save lean, flash) don't.
 *
 * With adapters a frozen weight has no gradient: 4 for each, and 6 for each of an adapter's.
 *
 * Weights of products: the blocks' matrices and the head, V x C, tied or not. Embedding and positions are looked up, not
 * multiplied.
 */
#ifndef EBB_MODEL_FLOPS_H
#define EBB_MODEL_FLOPS_H

#include <stdint.h>

#include "model/base/layout.h"

typedef struct flops {
    uint64_t weights;   /* that a token is multiplied with, */
    uint64_t adapters;  /* and of adapters; 0: all weights are trained */
    uint64_t products;  /* FLOPs of these products per token, forward and backward */
    uint64_t attention; /* of attention's own, at the full context */
} flops_t;

flops_t flops_of(const layout_t *layout);

/* Forward and backward, per token of a training step. */
uint64_t flops_per_token(const layout_t *layout);

#endif
