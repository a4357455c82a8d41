/* arena.c: a program whose tensors are slices of one buffer, as flat parameters and gradients are.
 *
 *   arena [steps=N]
 *
 * A step adds each of six slices of ten tiles (of 64 KiB) to the next one, sums the last one, and changes all of the
 * buffer by one pointer to its beginning. Prints the sum.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.cuh"

enum { SLICES = 7, FLOATS = 10 * 65536 / 4 };

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t error_ = (call);                                                                         \
        if (error_) {                                                                                        \
            fprintf(stderr, "arena: %s: %s\n", #call, cudaGetErrorName(error_));                             \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

int main(int argc, char **argv)
{
    int steps = argc > 1 && !strncmp(argv[1], "steps=", 6) ? atoi(argv[1] + 6) : 10;
    float *arena, *factor, *scratch, value = 0;
    CHECK(cudaMalloc((void **)&arena, SLICES * FLOATS * sizeof(float)));
    CHECK(cudaMalloc((void **)&factor, 16 * sizeof(float)));
    CHECK(cudaMemset(arena, 0, SLICES * FLOATS * sizeof(float)));
    for (int step = 0; step < steps; step++) {
        CHECK(cudaMallocAsync((void **)&scratch, FLOATS * sizeof(float), NULL));
        CHECK(cudaMemsetAsync(scratch, 0, FLOATS * sizeof(float), NULL));
        for (int i = 0; i + 1 < SLICES; i++)
            CHECK(arena_add(arena + (size_t)(i + 1) * FLOATS, arena + (size_t)i * FLOATS, FLOATS, NULL));
        CHECK(arena_add(scratch, arena, FLOATS, NULL));
        CHECK(arena_sum(factor, arena + (size_t)(SLICES - 1) * FLOATS, 64, NULL));
        CHECK(arena_scale(arena, factor, SLICES * FLOATS, NULL));
        CHECK(cudaFreeAsync(scratch, NULL));
    }
    CHECK(cudaMemcpy(&value, factor, sizeof value, cudaMemcpyDeviceToHost));
    printf("%a\n", (double)value);
    return 0;
}
