/* trainer_parts.h: what small trainers have in common: checked calls, options, a hash of what is on the device.
 * TRAINER: the program's name, for what it says when a call fails. */
#ifndef EBB_TESTS_TRAINER_PARTS_H
#define EBB_TESTS_TRAINER_PARTS_H

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t check_ = (call);                                                                         \
        if (check_) {                                                                                        \
            fprintf(stderr, TRAINER ": %s: %s\n", #call, cudaGetErrorName(check_));                          \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* FNV-1a; `hash`: of what came before. */
static inline uint64_t trainer_hash(const void *device, size_t bytes, uint64_t hash)
{
    unsigned char *host = malloc(bytes);
    CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ host[i]) * 0x100000001b3u;
    free(host);
    return hash;
}

/* "name=number" among the arguments. */
static inline int trainer_option(int argc, char **argv, const char *name, int fallback)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
            return atoi(argv[i] + length + 1);
    return fallback;
}

#endif
