/* layout.h: structures that say themselves which of their words are meant.
 *
 * What the host has not filled in is learned from what it holds (leftover.h). That takes several launches, and cannot tell apart what
 * launches of a kernel have in common but by chance. Where most is left over it need not be learned, because the structure says it. All
 * these are PyTorch's, as its versions 2.4 to 2.11 have them (sources in aten/src/ATen):
 *   - CatArrayBatchedCopy of torch.cat: as many inputs as the grid is high (native/cuda/Shape.cu).
 *   - multi_tensor_apply_kernel of optimizers and clipping: as many tensors as its blocks name (native/cuda/MultiTensorApply.cuh).
 *   - TensorListAddresses of lpnorm_cleanup, clipping's, and of lpmax_cleanup: an address for each block
 *     (native/cuda/ForeachReduceOp.cu).
 *   - OffsetCalculator, alone or as the first member of an elementwise kernel's lambda: as many dimensions as it says, each with the
 *     numbers by which to divide by its size (cuda/detail/OffsetCalculator.cuh, IntegerDivider.cuh, native/cuda/CUDALoops.cuh).
 *   - ReduceOp of reduce_kernel, in which there are two of these, and one address or two of outputs (native/cuda/Reduce.cuh).
 *   - TensorInfo of indexing, dropout, sorting: as many dimensions as it says (cuda/detail/TensorInfo.cuh).
 * A kernel is known by its mangled name, a structure of its only if it has the size that follows from the name, and a launch's only if what
 * is in it agrees. So a version that has changed them is not known, rather than known wrongly. What an extension gives to PyTorch's templates
 * is not known where it could matter: a functor of its own may go by other words. (All 21,132 kernels of 2.11 were gone through.)
 *
 * Pure: neither driver nor buffers are asked.
 */
#ifndef EBB_LAYOUT_H
#define EBB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an aligned word of 8 bytes of a launch's arguments is. */
typedef enum {
    EBB_ROLE_UNKNOWN,
    EBB_ROLE_OPERAND, /* an address that the kernel goes by */
    EBB_ROLE_NUMBER,  /* no address, whatever it looks like */
    EBB_ROLE_UNUSED   /* not filled in */
} ebb_role_t;

enum { EBB_LAYOUT_STRUCTURES = 8, EBB_LAYOUT_ARRAYS = 10 };

typedef struct ebb_layout_parameter {
    uint32_t offset_bytes, size_bytes;
} ebb_layout_parameter_t;

/* Of which arrays a structure consists; all in bytes from the beginning of the arguments. */
typedef struct ebb_layout_structure {
    enum {
        EBB_CAT,
        EBB_MULTI_TENSOR,
        EBB_ADDRESSES,
        EBB_OFFSETS,
        EBB_LAMBDA,
        EBB_REDUCTION,
        EBB_TENSOR_INFO
    } kind;
    uint32_t begin, end;
    uint32_t
        count_at; /* what says how much is meant: for each block the number of its tensor, a byte; or the dimensions */
    uint32_t array_count;
    struct ebb_layout_array {
        uint32_t at, entries, entry_bytes;
        bool addresses;
        uint8_t
            by; /* 0: all entries are meant; else as many as the structure's first, second, or third count says */
    } array[EBB_LAYOUT_ARRAYS];
} ebb_layout_structure_t;

/* Of a kernel's arguments what is known. */
typedef struct ebb_layout {
    uint32_t count;
    ebb_layout_structure_t structure[EBB_LAYOUT_STRUCTURES];
} ebb_layout_t;

/* Of the kernel with this (mangled) name and these parameters. */
void ebb_layout_make(const char *name, const ebb_layout_parameter_t *parameter, uint32_t count,
                     ebb_layout_t *out);

/* role[bytes / 8] of ebb_role_t: of the words of a launch with these arguments; UNKNOWN what nothing is known of. */
void ebb_layout_roles(const ebb_layout_t *layout, const unsigned char *block, size_t bytes,
                      const unsigned grid[3], uint8_t *role);

#endif
