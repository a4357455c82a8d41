/* copy.h: what copies of all shapes share (copy.c, copy/boxes.c, copy/batch.c). */
#ifndef SG_COPY_H
#define SG_COPY_H

#include "softgpu/driver/stream/streams.h"

/* What an address is to a copy. */
typedef enum sg_place {
    SG_PLACE_BAD,      /* a null pointer, or not accessible throughout */
    SG_PLACE_DEVICE,   /* the host cannot touch it */
    SG_PLACE_PINNED,   /* host memory that the device knows */
    SG_PLACE_BOTH,     /* managed memory, mapped host memory */
    SG_PLACE_PAGEABLE, /* other host memory */
} sg_place_t;

/* All of [at, at + bytes). */
sg_place_t sg_place_of(CUdeviceptr at, size_t bytes);
/* The same of host memory (hostmem.c): what is pinned in part, or by several registrations, is none that a copy may use. NVIDIA says
 * so of memory that is "both registered and not registered" (driver API, cuMemcpy*Async); of two registrations side by side it says
 * nothing, and those who register in pieces let no copy cross from one to the other (vLLM pull request 51081). */
sg_place_t sg_host_place_locked(const void *p, size_t bytes);

typedef enum sg_direction { SG_H2D, SG_D2H, SG_D2D, SG_ANY } sg_direction_t;
bool sg_direction_fits(sg_direction_t d, sg_place_t dst, sg_place_t src);
/* Whether the call returns only when the copy is done: `async` by its name; `staged`: the source is read during the
 * call. */
bool sg_copy_waits(sg_place_t dst, sg_place_t src, bool async, bool staged);
/* The synchronous form of a copy or memset that touches memory with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, or in a context
 * with CU_CTX_SYNC_MEMOPS, waits always. */
bool sg_copy_must_sync(CUdeviceptr dst, CUdeviceptr src);

/* A copy of rows within slices. Row r of slice s begins at s * slice + r * pitch. */
typedef struct sg_box {
    CUdeviceptr dst, src;
    size_t width, rows, slices;
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
} sg_box_t;
/* How many bytes of one end it touches, from the first to the last. */
size_t sg_box_span(const sg_box_t *b, size_t pitch, size_t slice);
sg_op_t *sg_box_op(const sg_box_t *b); /* NULL: out of memory */

#endif
