/* staging.h: parameters between the device and files, a group at a time. Everything waits for the model's stream. */
#ifndef EBB_MODEL_FILES_STAGING_H
#define EBB_MODEL_FILES_STAGING_H

#include <stdint.h>

#include "model/layers/transformer.h"

/* Space for one group on the host. */
typedef struct staging {
    transformer_t *model; /* borrowed */
    float *values;        /* owned */
    uint16_t *narrow;     /* owned; NULL in an fp32 run */
    int fetched;          /* groups, by staging_fetch */
} staging_t;

/* The process ends where there is no host memory. */
void staging_open(staging_t *staging, transformer_t *model);
void staging_close(staging_t *staging);

void staging_copy(const staging_t *staging, void *to, const void *from, size_t bytes,
                  enum cudaMemcpyKind kind);
group_t *staging_group(const staging_t *staging, int group);

/* A weights_fetch_fn: what the passes compute with. */
void staging_fetch(void *staging, int group, float *values);
/* A weights_take_fn: what this rank keeps of them; and the same with masters. */
void staging_take(void *staging, int group, const float *values);
void staging_take_with_master(void *staging, int group, const float *values);

#endif
