#!/usr/bin/env bash
# tidy.sh [FILE...]: clang-tidy (Debian: clang-tidy) with the checks of .clang-tidy over alloc/, offload/, ckpt/ and cli/, or over these
# files. Exit code 1 if it finds anything. Some minutes; BUILD_FOLDER: a configured build folder (build).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
build=${BUILD_FOLDER:-build}
command -v clang-tidy >/dev/null || { echo 'tidy.sh: there is no clang-tidy (apt-get install clang-tidy)' >&2; exit 2; }
[[ -e $build/compile_commands.json ]] || { echo "tidy.sh: $build is not configured: bash tests/run.sh" >&2; exit 2; }
if (($# == 0)); then
    mapfile -t sources < <(find alloc offload ckpt cli -name '*.c' | sort)
    set -- "${sources[@]}"
fi

# Without what only gcc knows (hook/lookup.c).
mkdir -p "$build/tidy"
sed 's/ -fno-tree-loop-distribute-patterns//' "$build/compile_commands.json" >"$build/tidy/compile_commands.json"
# Each file for itself: of several it tells at the end.
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I{} clang-tidy -p "$build/tidy" --quiet --warnings-as-errors='*' {} 2>/dev/null
status=$?
((status == 0)) && echo "clang-tidy: nothing found in $# files"
((status == 0))
