#include "model/data/token_index.h"

#include <stddef.h>
#include <string.h>

int token_index_build(token_index_host_t index, const int *tokens, int N, int V, int *workspace)
{
    int *rows = workspace; /* of each class: how many, later where the next one goes */
    memset(rows, 0, (size_t)V * sizeof *rows);
    int occurring = 0;
    for (int n = 0; n < N; n++)
        occurring += rows[tokens[n]]++ == 0;

    int count = N < V ? N : V;
    int fill = count - occurring; /* classes without rows still to be listed */
    int k = 0, first = 0;
    for (int v = 0; v < V && k < count; v++) {
        if (rows[v] == 0 && fill-- <= 0)
            continue;
        index.token[k] = v;
        index.first[k++] = first;
        int next = first + rows[v];
        rows[v] = first;
        first = next;
    }
    index.first[count] = N;
    for (int n = 0; n < N; n++)
        index.order[rows[tokens[n]]++] = n;
    return count;
}
