#!/usr/bin/env bash
# coverage.sh <cuda.h>: which functions of the driver API this device provides (entry_points.h), counted by their documented
# names, and a list of those that it does not: stubs that return CUDA_ERROR_NOT_SUPPORTED. Fails if entry_points.h names
# one that the toolkit's headers do not declare.
set -euo pipefail
header=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# cuMemAlloc_v2_ptsz -> cuMemAlloc
plain() {
    sed -E 's/_pt(ds|sz)$//; s/_v[0-9]$//' | sort -u
}

declared() {
    bash "$here/../../cmake/names.sh" driver "${CC:-cc}" "$(dirname "$header")" | sort -u
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
    local failed=0 unknown
    unknown=$(comm -23 <(provided) <(declared))
    [[ -z $unknown ]] || { echo "in entry_points.h, not in $header:" $unknown; failed=1; }
    echo "provided: $(provided | plain | wc -l) of $(declared | plain | wc -l) functions," \
        "$(provided | wc -l) of $(declared | wc -l) symbols"
    echo "not provided:" $(comm -13 <(provided | plain) <(declared | plain))
    return $failed
}

main
