#!/usr/bin/env bash
# coverage.sh <cuda.h>: which functions of the driver API this device provides (entry_points.h), counted by their documented
# names, and a list of those that it does not: stubs that return CUDA_ERROR_NOT_SUPPORTED. Fails if the toolkit's header
# declares a function that names.txt lacks, for which there would not even be a stub, or if entry_points.h names one that
# names.txt does not.
set -euo pipefail
header=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# cuMemAlloc_v2_ptsz -> cuMemAlloc
plain() {
    sed -E 's/_pt(ds|sz)$//; s/_v[0-9]$//' | sort -u
}

# What programs that are compiled against the header may call, as symbols of the library.
declared() {
    grep -oE 'CUDAAPI cu[A-Z][A-Za-z0-9_]*\(' "$header" | sed -E 's/CUDAAPI //; s/\(//' | sort -u
}

provided() {
    sed -nE 's/^(PLAIN|SYNC|ASYNC)\([A-Za-z0-9_]+, ([A-Za-z0-9_]+), [0-9]+\)/\1 \2/p' "$here/entry_points.h" |
        while read -r kind symbol; do
            echo "$symbol"
            [[ $kind != SYNC ]] || echo "${symbol}_ptds"
            [[ $kind != ASYNC ]] || echo "${symbol}_ptsz"
        done | sort -u
}

main() {
    local failed=0 lacking unknown all have
    lacking=$(comm -23 <(declared) <(sort -u "$here/names.txt"))
    [[ -z $lacking ]] || { echo "in $header, not in names.txt:" $lacking; failed=1; }
    unknown=$(comm -23 <(provided) <(sort -u "$here/names.txt"))
    [[ -z $unknown ]] || { echo "in entry_points.h, not in names.txt:" $unknown; failed=1; }
    all=$(plain <"$here/names.txt" | wc -l)
    have=$(provided | plain | wc -l)
    echo "provided: $have of $all functions, $(provided | wc -l) of $(wc -l <"$here/names.txt") symbols"
    echo "not provided:" $(comm -13 <(provided | plain) <(plain <"$here/names.txt"))
    return $failed
}

main
