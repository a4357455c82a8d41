#!/usr/bin/env bash
# completions.sh EBB: bash completes commands, flags and files; the other shells' scripts name every flag, and are read by those shells
# where they are installed.
set -euo pipefail
PATH=$(dirname "$1"):$PATH
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# completes <expected, a line each> <word>...: the last word is to be completed
completes() {
    local expected=$1 said
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _ebb || true # compgen's status: whether there is anything
    said=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
    [[ $said == "$expected" ]] || fail "$* <tab>: '$said' instead of '$expected'"
}

# shellcheck source=/dev/null
source <(ebb completion bash)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
touch "$folder/one.trace" "$folder/other"
completes plan ebb pl
completes --budget ebb run --budg
completes --launches ebb trace --l
completes doctor ebb help "do"
completes zsh ebb completion z
completes "$folder/one.trace" ebb trace "$folder/on"
completes "$folder/one.trace" ebb run --trace "$folder/on"
completes "$folder/one.trace" ebb run --trace = "$folder/on"
completes '' ebb plan --budget 4
completes '' ebb run --no-such

for shell in bash zsh fish; do
    ebb completion $shell >"$folder/$shell"
    ! command -v $shell >/dev/null || $shell -n "$folder/$shell" || fail "$shell cannot read its completions"
done
for command in run top doctor options trace plan check report estimate; do
    for flag in $(ebb $command --help | sed -n '/^Usage/,$s/^  \(-., \|    \)--\([a-z-]*\).*/\2/p'); do
        for pattern in "bash:--$flag\\b" "zsh:--${flag}[=[}]" "fish:-l $flag "; do
            grep -q -e "${pattern#*:}" "$folder/${pattern%%:*}" || fail "${pattern%%:*} does not know --$flag of 'ebb $command'"
        done
    done
done
exit $failed
