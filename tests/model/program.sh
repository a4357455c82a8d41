#!/usr/bin/env bash
# program.sh EBB_TRAIN [ptx...]: what the trainer is made of: libraries by the loader's path alone, nothing of ebb, and no
# atomics in its kernels, which would make sums depend on who comes first. Every launch in its sources is counted (launches.h).
set -euo pipefail
trainer=$1
shift
command -v readelf >/dev/null || { echo 'skipped: there is no readelf' && exit 77; }
dynamic=$(readelf -dW "$trainer")
fail() {
    printf 'FAILED: %s\n%s\n' "$1" "$dynamic"
    exit 1
}
for library in libcudart.so.13 libcublas.so.13 libcublasLt.so.13; do
    [[ $dynamic == *"(NEEDED)"*"[$library]"* ]] || fail "it does not need $library"
done
[[ $dynamic != *"(RPATH)"* ]] || fail 'RPATH, which LD_LIBRARY_PATH cannot override'
[[ $dynamic != *"[libcuda.so"* ]] || fail 'it needs the driver, which a runtime program must find at run time'
[[ $dynamic != *"[libebb"* ]] || fail 'it needs libebb'
symbols=$(readelf -sW "$trainer")
[[ $symbols == *" main"* ]] || fail 'readelf lists no symbols'
[[ $symbols != *" ebb_"* ]] || fail 'it has symbols of ebb'
(($# > 0)) || fail 'no PTX was given'
for ptx in "$@"; do
    grep -q '\.entry' "$ptx" || fail "$ptx has no kernels"
    if grep -nE '^\s*(@%?\S+ )?(atom|red)\.' "$ptx"; then
        fail "$ptx has atomics"
    fi
done
if grep -n '<<<' "${BASH_SOURCE[0]%/*}"/../../model/kernels/*.cu | grep -v '<<<counted('; then
    fail 'a launch whose grid is not counted(...)'
fi
echo 'ok'
