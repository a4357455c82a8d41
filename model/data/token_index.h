/* token_index.h: the token_index of kernels.h on the host: the rows of a batch, sorted by class.
 *
 * Always min(N, V) classes, so that every batch's launches look alike: classes that do not occur fill up, with
 * no rows.
 */
#ifndef EBB_MODEL_DATA_TOKEN_INDEX_H
#define EBB_MODEL_DATA_TOKEN_INDEX_H

typedef struct token_index_host {
    int *token; /* [min(N, V)] distinct classes */
    int *first; /* [min(N, V) + 1] */
    int *order; /* [N] */
} token_index_host_t;

/* workspace[V] ints. All arrays belong to the caller. Returns min(N, V). */
int token_index_build(token_index_host_t index, const int *tokens, int N, int V, int *workspace);

#endif
