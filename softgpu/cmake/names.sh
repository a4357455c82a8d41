#!/usr/bin/env bash
# names.sh driver <compiler> <include folder>...    the functions of the driver's interface, by NVIDIA's headers
# names.sh library <libcudart.so>                   the functions that one of NVIDIA's libraries exports
# One name a line, sorted.
set -euo pipefail
export LC_ALL=C

# The headers rename functions: to their newest form, to the variant for the per-thread default stream, or not at all.
driver() {
    local compiler=$1 form flags=()
    shift
    for folder in "$@"; do
        flags+=(-I "$folder")
    done
    for form in EBB_NEWEST CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
        printf '#include <cuda.h>\n#include <cudaProfiler.h>\n' | "$compiler" -E -P "-D$form" "${flags[@]}" -x c - |
            tr -s ' \n' ' ' | grep -oE 'CUresult cu[A-Z][A-Za-z0-9_]*\([^;{]*;' | sed -E 's/CUresult (\w+).*/\1/'
    done | sort -u
}

library() {
    nm -D --defined-only "$1" | sed -nE 's/^[0-9a-f]+ [TW] ([A-Za-z0-9_]+).*/\1/p' | sort -u
}

"$@"
