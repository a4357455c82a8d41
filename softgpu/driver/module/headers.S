/* The headers that translated PTX includes, as texts (jit.c). The assembler looks for them in their folders. */
    .section .rodata
    .macro text symbol:req, file:req
    .globl \symbol
    .hidden \symbol
\symbol:
    .incbin "\file"
    .byte 0
    .endm
    text sg_jit_abi_h, softgpu/kernel_abi.h
    text sg_jit_warp_h, warp.h
    text sg_jit_warp_flow_h, warp_flow.h
    text sg_jit_warp_float_h, warp_float.h
    text sg_jit_warp_memory_h, warp_memory.h
    text sg_jit_warp_sync_h, warp_sync.h
    text sg_jit_warp_mbarrier_h, warp_mbarrier.h
    text sg_jit_warp_stack_h, warp_stack.h
    .section .note.GNU-stack, "", %progbits
