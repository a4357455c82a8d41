/* warp_stack.h: memory that a function takes while it runs (alloca), of the lanes that are at the instruction: until it returns, or for those that
 * come to a stackrestore until then. It lies on the stack of the C function, as the function's other local memory does.
 *
 *   block    what one alloca has taken: `bytes` for each lane
 *   mark     how many allocas were before: what stacksave gives
 *
 * A block that no lane has any more is taken again by an alloca that it suffices for, so that loops do not take more and more. */
#ifndef SG_PTX_WARP_STACK_H
#define SG_PTX_WARP_STACK_H

typedef struct sg_block {
    struct sg_block *next;
    uint64_t bytes, mark;
    uint32_t lanes; /* that have it */
    char *at;
} sg_block_t;

typedef struct sg_stack {
    sg_block_t *blocks;
    uint64_t marks;
} sg_stack_t;

/* For each lane as much as the most that one asks for. */
SG_SLOW uint64_t sg_block_bytes(uint32_t mask, sg_v64 bytes, uint64_t align)
{
    const sg_l64 each = {bytes};
    uint64_t most = 1;
    SG_FOR_LANES(i, mask)
    {
        most = each.u[i] > most ? each.u[i] : most;
    }
    return (most + align - 1) & -align;
}

SG_SLOW sg_block_t *sg_block_unused(const sg_stack_t *stack, uint64_t bytes, uint64_t align)
{
    for (sg_block_t *b = stack->blocks; b; b = b->next)
        if (!b->lanes && b->bytes >= bytes && !((uintptr_t)b->at & (align - 1)))
            return b;
    return NULL;
}

/* In memory of sizeof(sg_block_t) + align + 32 * bytes. */
SG_SLOW sg_block_t *sg_block_add(sg_stack_t *stack, void *memory, uint64_t bytes, uint64_t align)
{
    sg_block_t *b = memory;
    b->bytes = bytes;
    b->at = (char *)(((uintptr_t)(b + 1) + align - 1) & -align);
    b->next = stack->blocks;
    return stack->blocks = b;
}

SG_SLOW sg_v64 sg_block_take(sg_stack_t *stack, sg_block_t *b, uint32_t mask)
{
    sg_l64 d;
    b->lanes = mask;
    b->mark = stack->marks++;
    for (uint32_t i = 0; i < SG_WARP; i++)
        d.u[i] = (uintptr_t)b->at + i * b->bytes;
    return d.v;
}

SG_SLOW void sg_stack_restore(sg_stack_t *stack, uint32_t mask, sg_v64 marks)
{
    const sg_l64 mark = {marks};
    for (sg_block_t *b = stack->blocks; b; b = b->next)
        SG_FOR_LANES(i, mask)
        {
            b->lanes &= ~((uint32_t)(b->mark >= mark.u[i]) << i);
        }
}

/* Each lane's own memory of so many bytes. */
#define SG_ALLOCA(mask, sizes, align)                                                                        \
    ({                                                                                                       \
        const uint64_t bytes_ = sg_block_bytes(mask, sizes, align);                                          \
        sg_block_t *block_ = sg_block_unused(&stack, bytes_, align);                                         \
        if (!block_)                                                                                         \
            block_ = sg_block_add(&stack, __builtin_alloca(sizeof(sg_block_t) + (align) + 32 * bytes_),      \
                                  bytes_, align);                                                            \
        sg_block_take(&stack, block_, mask);                                                                 \
    })

#endif
