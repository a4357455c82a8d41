/* relaunch.h: an operation of the program as it was issued, and issuing it again.
 *
 * Learning (prove.h) repeats launches on copies, the drive (drive.h) replays them in its places, and a
 * recipe (recipe.h) wherever there is room. All keep the argument bytes of this very launch and exchange
 * pointers. With ebb_lock() held.
 */
#ifndef EBB_RELAUNCH_H
#define EBB_RELAUNCH_H

#include "alloc/ebb_alloc.h"

enum { EBB_RELAUNCH_PARAM_BYTES = 4096, EBB_RELAUNCH_POINTERS = EBB_RELAUNCH_PARAM_BYTES / 8 };

typedef struct ebb_issued {
    ebb_operation_kind_t kind;
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    unsigned char *params; /* [room] owned; [param_bytes] borrowed if room is 0 */
    size_t param_bytes, room;
    CUdeviceptr dst, src;
    size_t bytes;
    uint32_t value, width;
    CUlaunchAttribute *attribute; /* [attribute_count] owned if room is not 0, else borrowed */
    unsigned attribute_count;
    unsigned map_count;
    uint16_t map_at[EBB_TENSOR_MAPS]; /* tensor maps among its arguments */
} ebb_issued_t;

/* The operation itself, borrowed: valid as long as it is. */
ebb_issued_t ebb_issued_view(const ebb_operation_t *operation);
/* Keeps a copy in `issued`, which is zeroed or kept something before. False: no host memory. */
bool ebb_issued_keep(ebb_issued_t *issued, const ebb_operation_t *operation);
void ebb_issued_forget(ebb_issued_t *issued);

/* Whether a tensor map is at so many bytes of its arguments, and no word. */
bool ebb_issued_has_map(const ebb_issued_t *issued, uint32_t param_offset);

/* A pointer that leads elsewhere this time: where it stands (ebb_access_t.param_offset), and to what. */
typedef struct ebb_pointer {
    uint32_t param_offset;
    CUdeviceptr to;
} ebb_pointer_t;

/* Issues it again on `stream`. Kernels with at most EBB_RELAUNCH_PARAM_BYTES of arguments (else
 * CUDA_ERROR_INVALID_VALUE), copies within the device, memsets. */
ebb_status_t ebb_relaunch(ebb_device_t *dev, const ebb_issued_t *issued, ebb_stream_t *stream,
                          const ebb_pointer_t *pointer, unsigned count);

#endif
