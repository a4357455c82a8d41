#!/usr/bin/env bash
# coverage.sh <cuda.h>: which functions of the driver API this device provides (what its sources define), counted by their documented
# names, and a list of those that it does not: stubs that return CUDA_ERROR_NOT_SUPPORTED. Fails if a source defines one
# that neither the toolkit's headers declare nor Gate.cmake (SG_NEWER).
set -euo pipefail
header=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# cuMemAlloc_v2_ptsz -> cuMemAlloc
plain() {
    sed -E 's/_pt(ds|sz)$//; s/_v[0-9]$//' | sort -u
}

declared() {
    {
        bash "$here/../../cmake/names.sh" driver "${CC:-cc}" "$(dirname "$header")"
        sed -nE 's/^set\(SG_NEWER (.*)\)/\1/p' "$here/Gate.cmake" | tr ' ' '\n'
    } | sort -u
}

provided() {
    cat "$here"/../*.c "$here"/../*/*.c | tr '\n' ' ' | grep -oE '(SG_EXPORT CUresult|A?SYNC_CALL\(|EVENT_CALLS\((cu\w+,)?) *cu\w+' |
        while read -r definition; do
            grep -oE 'cu\w+' <<<"$definition"
            [[ $definition != SYNC* ]] || echo "${definition##*[( ]}_ptds"
            [[ $definition != ASYNC* ]] || echo "${definition##*[( ]}_ptsz"
        done | sort -u
}

main() {
    local failed=0 unknown
    unknown=$(comm -23 <(provided) <(declared))
    [[ -z $unknown ]] || { echo "defined, not in $header:" $unknown; failed=1; }
    echo "provided: $(provided | plain | wc -l) of $(declared | plain | wc -l) functions," \
        "$(provided | wc -l) of $(declared | wc -l) symbols"
    echo "not provided:" $(comm -13 <(provided | plain) <(declared | plain))
    return $failed
}

main
