#!/usr/bin/env bash
# setup_messages.sh: what the two commands say to a user without root whose machine lacks packages, or whose arguments are
# wrong. In stand-ins for PATH: links to all of its programs but those that shall be missing. Needs to be no root, or to be
# able to become nobody.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
failures=0

skip() {
    echo "skipped: $1"
    exit 77
}

as_user=()
if ((EUID == 0)); then
    command -v setpriv >/dev/null || skip 'this is root, and there is no setpriv to become somebody else with'
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${as_user[@]}" true 2>/dev/null || skip 'this is root, and it cannot become somebody else'
fi
"${as_user[@]}" test -r "$root/model/quickstart.sh" || skip "a user without root cannot read $root"

# A PATH with every program but these. pkg-config, if that is among them, stays, but says that CMocka is missing; apt-get,
# unless it is among them, says that it was called, which without root is a mistake.
path_without() {
    local bin program missing
    local -a folders
    bin=$(mktemp -d "$folder/bin.XXXXXX")
    IFS=: read -r -a folders <<<"$PATH"
    find "${folders[@]}" -maxdepth 1 -type f,l -exec ln -sf -t "$bin" {} + 2>/dev/null
    rm -f "$bin/sudo" "$bin/apt-get"
    printf '#!/bin/sh\necho apt-get was called\n' >"$bin/apt-get"
    chmod +x "$bin/apt-get"
    for missing in "$@"; do
        program=$(command -v "$missing")
        rm -f "$bin/$missing"
        if [[ $missing == pkg-config ]]; then
            printf '#!/bin/sh\ncase "$*" in *cmocka*) exit 1 ;; esac\nexec %s "$@"\n' "$program" >"$bin/pkg-config"
            chmod +x "$bin/pkg-config"
        fi
    done
    chmod 755 "$bin"
    echo "$bin"
}

# expect <case> <exit code> <path> <variables and command...> -- <line...>: stderr has these lines and no others; a line may
# be a pattern. stdout is empty.
expect() {
    local what=$1 code=$2 path=$3 got line
    local -a command=() lines=()
    shift 3
    while [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    shift
    mapfile -t lines < <(
        "${as_user[@]}" env -i PATH="$path" HOME=/nonexistent BUILD_FOLDER="$build" "${command[@]}" 2>&1 </dev/null
        echo "exit code $?"
    )
    set -- "$@" "exit code $code"
    for line in "${lines[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        if [[ $line != ${1:-} ]]; then
            got=$(printf '    %s\n' "${lines[@]}")
            printf 'FAILED: %s: instead of "%s" it says "%s":\n%s\n' "$what" "${1:-}" "$line" "$got"
            failures=$((failures + 1))
            return
        fi
        shift
    done
    if (($# > 0)); then
        printf 'FAILED: %s: "%s" is missing\n' "$what" "$1"
        failures=$((failures + 1))
        return
    fi
    echo "ok: $what"
}

build=$folder/build
mkdir -m 777 "$build"
quickstart=(bash "$root/model/quickstart.sh")
echo 'In the beginning' >"$folder/text"
chmod 644 "$folder/text"

poor=$(path_without cmake pkg-config)
get='sudo apt-get install --no-install-recommends cmake libcmocka-dev'
# A machine without a toolkit lacks pip perhaps, too.
for command in "${quickstart[*]} --data $folder/text" "bash $root/tests/run.sh -L unit"; do
    # shellcheck disable=SC2086 # words
    expect "packages are missing: ${command##*/}" 1 "$poor" $command -- \
        'ebb: missing packages, and installing them needs root: cmake libcmocka-dev*' \
        "     get them by:  $get*" '     then run the same command again'
done
strange=$(path_without cmake apt-get)
rm -f "$strange/apt-get"
expect 'neither Debian nor Ubuntu' 1 "$strange" "${quickstart[@]}" --data "$folder/text" -- \
    'ebb: missing here: cmake*' '     *neither Debian nor Ubuntu: install what corresponds' \
    '     to them with the package manager*'

rich=$(path_without)
build=/proc/ebb-build
expect 'a build folder that cannot be written' 1 "$rich" "${quickstart[@]}" --data "$folder/text" -- \
    'ebb: cannot write to /proc/ebb-build' '     *BUILD_FOLDER=FOLDER'

# Arguments are looked at before anything is installed or built.
build=$folder/untouched
expect 'a file that is not there' 2 "$poor" "${quickstart[@]}" --data /nowhere -- 'ebb: --data /nowhere: no such file*'
expect 'a folder as data' 2 "$poor" "${quickstart[@]}" "--data=$folder" -- "ebb: --data $folder: no such file*"
expect 'no value' 2 "$poor" "${quickstart[@]}" --data -- 'ebb: --data needs a value*'
expect 'no value of another option' 2 "$poor" "${quickstart[@]}" --steps -- 'ebb: --steps needs a value*'
expect 'no option' 2 "$poor" "${quickstart[@]}" banana -- 'ebb: banana: options start with --*'
expect 'sanitizers that do not exist' 2 "$poor" bash "$root/tests/run.sh" --sanitize memory -- "ebb: --sanitize 'memory': give*"
expect 'a device that does not exist' 2 "$rich" bash -c \
    "set -eu; source '$root/model/setup.sh'; TRAIN_DEVICE=tpu; setup_device" -- 'ebb: TRAIN_DEVICE=tpu: there are *'
if [[ -e $build ]]; then
    echo "FAILED: $build was made"
    failures=$((failures + 1))
fi
exit $((failures > 0))
