/* rope.h: the angles of rotary positions (Su et al., arXiv:2104.09864), as the kernels read them. Host only.
 *
 * Pair d < D/2 of a head turns by position * w(d), w(d) = theta^(-2d/D). With a factor f other than 1, waves are stretched as
 * in Llama 3.1 (the rope_scaling "llama3" of its published configuration, low_freq_factor 1, high_freq_factor 4,
 * original_max_position_embeddings 8192): with n(d) = 8192 w(d) / 2 pi, the turns within 8192 positions, w(d) stays where
 * n > 4, becomes w(d) / f where n < 1, and (1 - s) w(d) / f + s w(d), s = (n - 1) / 3, between.
 */
#ifndef EBB_MODEL_ROPE_H
#define EBB_MODEL_ROPE_H

#include "model/base/layout.h"

/* Radians per position of pair d. */
double rope_frequency(const shape_t *shape, int d);

/* table[positions][2][D/2]: cosines, then sines, computed in double. */
void rope_table(const shape_t *shape, int positions, float *table);

#endif
