#!/usr/bin/env bash
# run.sh soft|ebb|gpu <build folder> [case...]: runs cases of the conformance suite (all, if none is named), each in a process of its own, and
# prints a line for each.
#
#   soft   on the software device: with real threads, then deterministically with several seeds (SEEDS="1 2 3")
#   ebb    on the software device, libebb.so preloaded: what a case sees of the driver stays as it is, but for what
#          under_ebb.txt lists; with graphs launched as one, and node by node
#   gpu    on the GPU, with NVIDIA's libraries wherever the loader finds them (GPU_ANYWAY=1: also if its cache lists no driver)
#
# Exit: 0 all passed, 1 some failed, 77 there was nothing to run on, or (a single case) it skipped.
set -uo pipefail

run_one() { # run_one <area>.<behaviour> [VARIABLE=value...]: prints the case's output if it fails or hangs
    local case=$1 output rc
    shift
    output=$(env "$@" timeout "$limit" "$programs/${case%%.*}" "${case#*.}" 2>&1)
    rc=$?
    # The software device, without the compiler that makes the case's kernels.
    ((rc == 0)) || [[ $output != *'kernel library was built without Clang'* ]] || rc=77
    ((rc == 0 || rc == 77)) || printf '%s\n' "$case ($*): exit $rc" "$output"
    ((rc != 77)) || printf '%s\n' "$case: $output"
    return $rc
}

# Where the CPU has no protection keys, softgpu cannot keep host code away from device memory.
can_run() {
    [[ $1 == fault.host_access* ]] && ! grep -qw ospke /proc/cpuinfo || return 0
    echo "$1: skipped: this CPU has no protection keys"
    return 77
}

devices_for() {
    case $1 in
    peer.*) echo 2 ;;
    nccl.*) echo 4 ;;
    *) echo 1 ;;
    esac
}

run_soft() {
    local case=$1 rc seed
    can_run "$case" || return
    export SOFTGPU_DEVICES
    SOFTGPU_DEVICES=$(devices_for "$case")
    run_one "$case" LD_LIBRARY_PATH="$build/softgpu/lib" SOFTGPU_SCHEDULER=threads || return $?
    for seed in ${SEEDS:-1 2 3}; do
        run_one "$case" LD_LIBRARY_PATH="$build/softgpu/lib" SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED="$seed" || return $?
    done
}

run_ebb() {
    local case=$1 rc
    local -a settings=(LD_LIBRARY_PATH="$build/softgpu/lib" LD_PRELOAD="$build/lib/libebb.so" EBB_LOG=quiet
        SOFTGPU_DEVICES="$(devices_for "$case")")
    [[ $case != ipc.* ]] || settings+=(EBB_IPC=1)
    can_run "$case" || return
    run_listed "$case" "${settings[@]}" || return
    [[ $case != graph.* ]] || run_listed "$case" "${settings[@]}" EBB_TRACE=/dev/null # whose nodes are launched one by one
}

# run_listed <area>.<behaviour> VARIABLE=value...: as under_ebb.txt has it.
run_listed() {
    local listed=$1
    [[ "$*" != *EBB_TRACE=* ]] || listed+=', node by node'
    if ! grep -q "^$listed  " "$here/under_ebb.txt"; then
        run_one "$@"
        return
    fi
    if run_one "$@" >/dev/null; then
        echo "$listed: passes, although under_ebb.txt lists it"
        return 1
    fi
    return 77
}

run_gpu() {
    run_one "$1" LD_LIBRARY_PATH="${GPU_LIBRARY_PATH:-}"
}

main() {
    local where=$1 failed=0 passed=0 skipped=0 limit=60 case rc
    [[ $where != gpu ]] || limit=15 # seconds: a case that hangs leaves the others their time
    build=$(cd "$2" && pwd)
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    shift 2
    programs=$build/conformance
    if [[ $where == gpu && -z ${GPU_ANYWAY:-} && $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p) != *'libcuda.so.1 '* ]]; then
        echo 'skipped: no NVIDIA driver here'
        return 77
    fi
    local -a wanted=("$@")
    ((${#wanted[@]} > 0)) || mapfile -t wanted <"$programs/cases"
    for case in "${wanted[@]}"; do
        run_"$where" "$case"
        rc=$?
        case $rc in
        0) passed=$((passed + 1)) result=passed ;;
        77) skipped=$((skipped + 1)) result=skipped ;;
        *) failed=$((failed + 1)) result=FAILED ;;
        esac
        printf '%-8s %s\n' "$result" "$case"
    done
    echo "$passed passed, $skipped skipped, $failed failed"
    ((failed == 0)) || return 1
    ((${#wanted[@]} > 1 || skipped == 0)) || return 77
}

main "$@"
