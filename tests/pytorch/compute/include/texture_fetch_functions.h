/* texture_fetch_functions.h: of CUDA 12, which Clang includes; CUDA 13 has none. */
