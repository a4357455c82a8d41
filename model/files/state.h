/* state.h: a file of named fields, each with a checksum: what a training needs to go on, beside the model itself.
 * Which fields there are, and in which order: checkpoint.h.
 *
 * The file, version 2, little-endian, everything on multiples of 8 bytes:
 *   8 bytes "ebbstate", uint32 version, uint32 zero
 *   then fields, one after the other, the last one named "end", with nothing in it and nothing after it:
 *     char name[40], filled up with zeros
 *     uint32 type: 1 uint64, 2 double, 3 float; uint32 zero
 *     uint64 count of elements
 *     uint64 checksum
 *     the elements, filled up with zeros to a multiple of 8 bytes
 * A checksum is taken over 8-byte words by rng_hash (rng.h): of the checksum before (for the first field: that of the
 * file's first 16 bytes, from 0 on), the 56 bytes of the field before its checksum, and its elements. So a field that is
 * changed, missing, doubled or in another place is found, and named.
 */
#ifndef EBB_MODEL_FILES_STATE_H
#define EBB_MODEL_FILES_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/base/fault.h"

#define STATE_VERSION 2

typedef struct state_file {
    const char *path; /* borrowed */
    FILE *file;       /* owned */
    uint64_t chain;   /* the last checksum */
} state_file_t;

/* ---- writing: fields in the order of the calls ---- */

bool state_create(state_file_t *state, const char *path, fault_t *fault);
bool state_put_counts(state_file_t *state, const char *name, const uint64_t *values, size_t count,
                      fault_t *fault);
bool state_put_count(state_file_t *state, const char *name, uint64_t value, fault_t *fault);
bool state_put_real(state_file_t *state, const char *name, double value, fault_t *fault);
bool state_put_floats(state_file_t *state, const char *name, const float *values, size_t count,
                      fault_t *fault);

/* Ends the file; it is on the disk when this returns (fsync). Closes it in any case. */
bool state_finish(state_file_t *state, fault_t *fault);

/* ---- reading: the same fields in the same order ---- */

bool state_open(state_file_t *state, const char *path, fault_t *fault);

/* False unless the next field has this name, type and count, and is whole. */
bool state_get_counts(state_file_t *state, const char *name, uint64_t *values, size_t count, fault_t *fault);
bool state_get_count(state_file_t *state, const char *name, uint64_t *value, fault_t *fault);
bool state_get_real(state_file_t *state, const char *name, double *value, fault_t *fault);
bool state_get_floats(state_file_t *state, const char *name, float *values, size_t count, fault_t *fault);

/* False unless all fields have been read. */
bool state_end(state_file_t *state, fault_t *fault);

/* After reading, or after writing that failed. */
void state_close(state_file_t *state);

/* The last checksum in a file that has been finished: another file's field may have it, to say that the two belong together. */
bool state_last(const char *path, uint64_t *checksum, fault_t *fault);

#endif
