#!/usr/bin/env bash
# quickstart.sh [trainer options...]: from a bare Debian or Ubuntu machine to a trained model and a sample of its text.
#
# Installs what is missing, builds, and trains ebb-train's default model, a small GPT, on the King James Bible, or on your own
# text or token shards with --data FILES. On the GPU if there is one with a driver for CUDA 13, else on the software device (softgpu/).
# All options go to the trainer: `bash model/quickstart.sh --help` lists them.
#
# Ends with a shorter training of a larger model, by itself and in 40% of the memory under ebb, side by side, with a report of
# what becomes of its step (COMPARE=0: not).
#
# TRAIN_DEVICE=gpu|soft chooses the device, BUILD_FOLDER=FOLDER the build folder, CUDA_HOME=FOLDER the CUDA Toolkit.
#
# Exit codes are the trainer's (0 done, 1 failed, 2 bad arguments); 1 also if the set-up fails.
set -euo pipefail
# shellcheck source=model/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Looks through the arguments for what can be seen to be wrong before minutes are spent on the set-up; the trainer looks
# at them closely. Sets $data to the value of --data, or to nothing.
check_arguments() {
    data=''
    while (($# > 0)); do
        case $1 in
        --data=*) data=${1#--data=} ;;
        --data)
            (($# > 1)) || refuse '--data needs a value: the path of a text file, or of token shards'
            data=$2
            shift
            ;;
        --help | -h) ;;
        --*=*) ;;
        --resume) # its value may be missing
            if [[ ${2:---} != --* ]]; then
                shift
            fi
            ;;
        --*)
            (($# > 1)) || refuse "$1 needs a value, or is no option (bash model/quickstart.sh --help lists all)"
            shift
            ;;
        *) refuse "$1: options start with -- (bash model/quickstart.sh --help lists all)" ;;
        esac
        shift
    done
    if [[ $data == *[*?[]* ]] && compgen -G "$data" >/dev/null; then
        return 0 # token shards
    fi
    if [[ -n $data && (! -f $data || ! -r $data) ]]; then
        refuse "--data $data: no such file, or it cannot be read; give the path of a text file, or a quoted pattern of token shards"
    fi
}

# The default corpus: one verse a line, 4.4 MB.
make_corpus() {
    local corpus=$1 new=$1.new
    [[ ! -s $corpus ]] || return 0
    mkdir -p "$(dirname "$corpus")"
    bible -f gen1:1-rev22:21 >"$new" || fail "the program bible could not print the text" \
        'reinstall it (apt-get install --reinstall bible-kjv bible-kjv-text), or train on a text of yours: --data FILE'
    (($(wc -c <"$new") > 4000000)) || fail "the program bible printed only $(wc -c <"$new") bytes (see $new)" \
        'train on a text of yours: --data FILE'
    mv "$new" "$corpus"
}

main() {
    local data libraries
    check_arguments "$@"
    if [[ -n $data ]]; then
        setup_packages
    else
        setup_packages 'command bible|bible-kjv'
        data=$build/data/bible.txt
        make_corpus "$data"
    fi
    setup_device
    setup_toolkit
    targets=(ebb-train ebb ebb-cli softgpu)
    # shellcheck disable=SC2119 # the arguments are the trainer's
    setup_build

    if [[ $device == gpu ]]; then
        say "training on the GPU: $device_why"
        libraries=$(dirname "$(toolkit_library "$cuda" cudart)"):$(without_softgpu "${LD_LIBRARY_PATH:-}")
    else
        say "training on the software device: $device_why"
        libraries=$build/softgpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    export LD_LIBRARY_PATH=$libraries
    "$build/bin/ebb-train" --data "$data" --log "$build/quickstart.jsonl" "$@"
    if [[ ${COMPARE:-1} != 0 && " $* " != *' --help '* && -f $data ]]; then
        bash "$(dirname "${BASH_SOURCE[0]}")/compare_budget.sh" "$build" "$data"
    fi
}

main "$@"
