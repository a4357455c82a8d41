/* safetensors.h: Hugging Face's file of tensors, read and written piece by piece: at no time is more of it in memory
 * than its header and what the caller asks for.
 *
 * The file: the length of the header in bytes (8 bytes, little-endian); the header, a JSON object that has for each
 * tensor's name "dtype", "shape" and "data_offsets" ([first byte, byte after the last] of what follows the header), and
 * may have "__metadata__", texts by name; then the tensors' elements, little-endian, row by row. The header may end in
 * spaces; the writer pads it to a multiple of 8 bytes. Tensors neither overlap nor leave anything out.
 * (The format's own description: github.com/huggingface/safetensors, README, "Format".)
 *
 * Elements of F32, BF16 and F16 can be read, always as fp32; F32 and BF16 can be written. Other types may be in a file
 * that is read, but not be read themselves. Sizes are 64-bit.
 */
#ifndef EBB_MODEL_FILES_SAFETENSORS_H
#define EBB_MODEL_FILES_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "model/base/fault.h"

#define SAFETENSORS_DIMENSIONS 8

typedef enum element { ELEMENT_F32, ELEMENT_BF16, ELEMENT_F16, ELEMENT_OTHER } element_t;

typedef struct stored {
    char *name; /* owned */
    element_t element;
    int dimensions;
    uint64_t shape[SAFETENSORS_DIMENSIONS];
    uint64_t count;      /* elements */
    uint64_t begin, end; /* bytes, from the end of the header */
} stored_t;

typedef struct safetensors {
    char *path;        /* owned */
    int file;          /* owned descriptor */
    uint64_t data;     /* where the elements begin, in bytes */
    stored_t *tensors; /* owns [count]: by name */
    size_t count;
} safetensors_t;

/* Reads and checks the header. `flag` ("--init") begins messages. */
bool safetensors_open(safetensors_t *file, const char *flag, const char *path, fault_t *fault);
void safetensors_close(safetensors_t *file);

/* NULL if there is none of this name. */
const stored_t *safetensors_find(const safetensors_t *file, const char *name);

/* Elements first .. first+count-1, counted row by row. */
bool safetensors_read(const safetensors_t *file, const stored_t *tensor, uint64_t first, size_t count,
                      float *values, fault_t *fault);

/* ---- writing (safetensors_write.c) ---- */

typedef struct safetensors_writer {
    const char *path;        /* borrowed */
    int file;                /* owned descriptor */
    const stored_t *tensors; /* borrowed: what is to be written, in this order */
    size_t count, current;   /* current: the one that is being written */
    uint64_t written;        /* elements of it */
    unsigned char *buffer;   /* owned */
    size_t filled;
} safetensors_writer_t;

/* Creates the file with its header: tensors[count] with name, element, dimensions and shape set; count, begin and end
 * are filled in. `metadata` are key, text, key, text, ..., NULL. */
bool safetensors_create(safetensors_writer_t *writer, const char *path, stored_t *tensors, size_t count,
                        const char *const *metadata, fault_t *fault);

/* The next elements, in the order of the tensors. BF16 takes the nearest, of two the even one. */
bool safetensors_append(safetensors_writer_t *writer, const float *values, size_t count, fault_t *fault);

/* The file must be complete; it is on the disk when this returns (fsync). Frees the writer in any case. */
bool safetensors_finish(safetensors_writer_t *writer, fault_t *fault);

#endif
