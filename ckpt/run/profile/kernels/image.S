/* The module of hash.cu, as bytes for cuModuleLoadData; EBB_HASH_FATBIN is its path. */
    .section .rodata
    .globl ebb_hash_image
    .hidden ebb_hash_image
    .balign 16
ebb_hash_image:
    .incbin EBB_HASH_FATBIN
    .quad 0
    .section .note.GNU-stack, "", %progbits
