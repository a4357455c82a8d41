/* bytes.h: sizes as people read them: in the largest IEC unit (1 KiB is 2^10 bytes, 1 MiB 2^20, 1 GiB 2^30) of which there is at
 * least one. */
#ifndef EBB_MODEL_BYTES_H
#define EBB_MODEL_BYTES_H

#include <stddef.h>

typedef struct byte_unit {
    const char *name;
    double bytes;
} byte_unit_t;

byte_unit_t byte_unit(double bytes);

typedef char bytes_text_t[24];

/* Writes "74.0 MiB", or "512 bytes", and returns it. */
const char *bytes_text(bytes_text_t text, size_t bytes);

#endif
