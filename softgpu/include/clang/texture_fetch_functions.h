/* Clang's CUDA wrapper includes this header, which CUDA 13 no longer has: softgpu-clang++ has this one found after the toolkit's. */
